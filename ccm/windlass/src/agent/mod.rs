//! The agent: makes this node announce what the cluster wants it to, and goes on doing so when the cluster is silent.
//!
//! | part | does | needs the API server |
//! |---|---|---|
//! | [`desired`] | objects → virtual routers of this node (pure) | |
//! | [`index`] | keeps that true by what changed: one virtual IP costs work for itself (pure) | |
//! | [`news`], [`decide`] | which objects changed; what that makes of the desired state | |
//! | [`admission`], [`orders`] | which virtual IPs may be announced, those whose clients are kept apart (pure); what the engine is told | |
//! | [`state`], [`keep`] | the last desired state on disk; it is in force before anything else is tried | no |
//! | [`watch`] | copies VirtualRouters and VirtualIPs | yes; while it is away the copies stay |
//! | [`board`], [`standing`], [`duplicates`] | what the engine last said | no |
//! | [`status`], [`report`] | tells the cluster what this node is Active for | yes; retried with what is true by then |
//! | [`network`], [`addresses`], [`publish`] | interfaces, addresses, foreign routers and stations with our addresses → this node's NodeNetwork | yes; retried |
//! | [`pace`] | lets a burst of news be looked at in few looks | |
//!
//! None of the tasks can hold up the engine, which runs in threads of its own.

mod addresses;
mod admission;
mod backoff;
mod board;
mod decide;
mod desired;
mod duplicates;
mod index;
mod keep;
mod metrics;
mod network;
mod news;
mod orders;
mod pace;
mod publish;
mod report;
mod standing;
mod state;
mod status;
mod watch;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use kube::Client;
use prometheus::Registry;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_api::{NodeNetwork, VirtualIP, VirtualRouter};
use windlass_engine::{Engine, Event};

use self::board::Board;
use self::decide::Decider;
use self::desired::Desired;
use self::index::Update;
use self::news::{Looks, News};
use self::orders::Orders;
use self::pace::Pace;
use self::state::StateFile;
use crate::http::{self, Health};

/// Field manager of what the agents write with server-side apply.
const FIELD_MANAGER: &str = "windlass-agent";
/// Events of the engine that wait to be noted; beyond it they are lost and the state is read afresh.
const EVENT_QUEUE: usize = 4096;
/// How many times as long as it took to find what this node is to do it is not looked for again.
const RESTS: u32 = 29;
/// How long the last write of the state may hold up the end of the process.
const STATE_LIMIT: Duration = Duration::from_millis(500);

/// What the agent is told on its command line.
pub(crate) struct Options {
    /// Name of this node.
    pub(crate) node_name: String,
    /// Folder of the state file.
    pub(crate) state_dir: PathBuf,
    /// Where to serve health and metrics.
    pub(crate) http_address: SocketAddr,
    /// Whether the engine asks for real-time scheduling.
    pub(crate) realtime: bool,
    /// Whether nftables answers ping to virtual IPs and refuses what no Service takes.
    pub(crate) guard: bool,
}

/// Runs until `token` is cancelled; then resigns everything and returns. Adds its metrics to `registry` and serves that.
pub(crate) async fn run(
    client: Client,
    options: Options,
    registry: Registry,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let Options { node_name: node, state_dir, http_address, realtime, guard } = options;
    let file = StateFile::open(&state_dir, &node)?;
    let server = http::Server::bind(http_address).await?;
    let (health, ready) = Health::starting("no state was read from disk or from the API server yet");

    let (events, mut incoming) = mpsc::channel::<Event>(EVENT_QUEUE);
    let lost = Arc::new(AtomicBool::new(false));
    let on_event = {
        let lost = Arc::clone(&lost);
        move |event| {
            if events.try_send(event).is_err() {
                lost.store(true, Ordering::Relaxed);
            }
        }
    };
    let mut options = windlass_engine::Options::new(on_event);
    options.realtime = realtime;
    options.guard = guard;
    let engine = Arc::new(Engine::start(options).context("cannot start the VRRP engine")?);
    let board = Arc::new(Board::default());
    // Before anything is decided; from then on the publisher looks.
    let machine = Engine::host_addresses().context("cannot list the interfaces")?;
    board.set_answered(addresses::answered(&machine));
    metrics::register(&registry, &engine, &board)?;

    // First of all what was in force before: it may be long until the API server answers.
    let (desired_sender, desired_receiver) = tokio::sync::watch::channel(None);
    let mut orders = Orders::new(Arc::clone(&engine), Arc::clone(&board), guard);
    if let Some(restored) = restore(&file) {
        tracing::info!(routers = restored.assignments.len(), "announcing the last known state");
        orders.give(&restored, &Update::Whole);
        desired_sender.send_replace(Some(Arc::new(restored)));
        ready.send_if_modified(become_ready);
    }

    tracing::info!(%node, version = env!("CARGO_PKG_VERSION"), "agent started");

    let mut tasks = tokio::task::JoinSet::new();
    let keeper = tokio::spawn(keep::keep(file, desired_receiver.clone(), token.clone()));
    let changed = Arc::new(News::default());
    let tell = |one: fn(String) -> Looks| {
        let changed = Arc::clone(&changed);
        move |name: Option<String>| changed.tell(name.map_or_else(Looks::all, one))
    };
    let routers = watch::follow::<VirtualRouter>(&client, &node, tell(Looks::router));
    let vips = watch::follow::<VirtualIP>(&client, &node, tell(Looks::vip));
    let reporter = Arc::new(report::Reporter {
        client: client.clone(),
        node: node.clone(),
        board: Arc::clone(&board),
        desired: desired_receiver,
        routers: routers.clone(),
        vips: vips.clone(),
    });
    {
        let (reporter, token) = (Arc::clone(&reporter), token.clone());
        tasks.spawn(async move { reporter.run(token).await });
    }
    let networks = watch::follow_own::<NodeNetwork>(&client, &node);
    let publisher = publish::Publisher {
        client,
        node: node.clone(),
        board: Arc::clone(&board),
        routers: routers.clone(),
        vips: vips.clone(),
        networks,
        engine: Arc::clone(&engine),
        changed: Arc::clone(&changed),
    };
    tasks.spawn(publisher.run(token.clone()));
    let mut serving = tokio::spawn(server.serve(registry, health, token.clone()));

    let mut decider = Decider { node: node.clone(), routers, vips, board: Arc::clone(&board), index: None };
    let (mut pace, mut is_stale) = (Pace::new(RESTS), false);
    let outcome = loop {
        tokio::select! {
            () = token.cancelled() => break Ok(()),
            ended = &mut serving => break ended.context("the HTTP server failed").flatten(),
            Some(event) = incoming.recv() => {
                board.record(&event, Instant::now(), Timestamp::now());
                board::log(&event);
                if lost.swap(false, Ordering::Relaxed) {
                    tracing::warn!("events of the VRRP engine were lost; reading its state afresh");
                    board.resync(&engine.snapshot(), Timestamp::now());
                    orders.look(desired_sender.borrow().as_deref());
                }
                if matches!(event, Event::GuardChanged) {
                    orders.look(desired_sender.borrow().as_deref());
                }
            }
            () = changed.told(), if !is_stale => is_stale = true,
            () = pace.rest(), if is_stale => {
                is_stale = false;
                if !decider.is_complete() {
                    continue;
                }
                let mut looks = changed.take();
                let update = pace.take(|| {
                    let mut update = None;
                    desired_sender.send_if_modified(|desired| {
                        update = decider.decide(&looks, desired);
                        if let (Some(update), Some(desired)) = (&update, desired) {
                            orders.give(desired, update);
                        }
                        update.is_some()
                    });
                    update
                });
                if let Some(update) = update {
                    pace.ordered(orders.addresses(), Instant::now());
                    looks.add(match update {
                        Update::Whole => Looks::all(),
                        Update::Part(_) => Looks::default(),
                    });
                }
                if desired_sender.borrow().is_some() {
                    ready.send_if_modified(become_ready);
                }
                // Status may have to be written also where this node's part did not change.
                board.changed.tell(looks);
            }
        }
    };

    token.cancel();
    let parting = reporter.parting();
    drop(orders);
    while tasks.join_next().await.is_some() {}
    if let Some(engine) = Arc::into_inner(engine) {
        // Resigns first: the others need not wait for the rest of this.
        let _ = tokio::task::spawn_blocking(move || engine.shutdown()).await;
    }
    reporter.say_last_words(&parting).await;
    let _ = tokio::time::timeout(STATE_LIMIT, keeper).await;
    tracing::info!(%node, "agent stopped");
    outcome
}

/// The last state, unless it cannot be used: then it is put aside and said, and the API server is waited for.
fn restore(file: &StateFile) -> Option<Desired> {
    let path = file.path();
    match file.load() {
        Ok(state) => state,
        Err(reason) => {
            match file.set_aside() {
                Ok(aside) => tracing::error!(path = %path.display(), %reason, aside = %aside.display(),
                    "the last known state is not used; nothing is announced until the API server answers"),
                Err(error) => tracing::error!(path = %path.display(), %reason, %error,
                    "the last known state is not used and could not be put aside; nothing is announced until the \
                     API server answers"),
            }
            None
        }
    }
}

fn become_ready(health: &mut Result<(), String>) -> bool {
    std::mem::replace(health, Ok(())).is_err()
}
