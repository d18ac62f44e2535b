//! The agent: makes this node announce what the cluster wants it to, and goes on doing so when the cluster is silent.
//!
//! | part | does | needs the API server |
//! |---|---|---|
//! | [`desired`] | objects → virtual routers of this node (pure) | |
//! | [`admission`] | which virtual IPs may be announced: those whose clients are kept apart (pure) | |
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
mod desired;
mod duplicates;
mod keep;
mod metrics;
mod network;
mod pace;
mod publish;
mod report;
mod standing;
mod state;
mod status;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use kube::Client;
use kube::runtime::reflector::Store;
use prometheus::Registry;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use windlass_api::{NodeNetwork, VirtualIP, VirtualRouter};
use windlass_engine::{Engine, Event, Restrictions, RouterKey};

use self::admission::{admitted, restrictions};
use self::board::Board;
use self::desired::{Assignment, Desired, Problem, desired};
use self::pace::Pace;
use self::state::StateFile;
use crate::http::{self, Health};

/// Field manager of what the agents write with server-side apply.
const FIELD_MANAGER: &str = "windlass-agent";
/// Events of the engine that wait to be noted; beyond it they are lost and the state is read afresh.
const EVENT_QUEUE: usize = 4096;
/// How many times as long as it took to find what this node is to do it is not looked for again. The engine has more to do
/// with each change than this.
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
    let machine = Engine::machine().context("cannot list the interfaces")?;
    board.set_answered(addresses::answered(&machine));
    metrics::register(&registry, &engine, &board)?;

    // First of all what was in force before: it may be long until the API server answers.
    let (desired_sender, desired_receiver) = tokio::sync::watch::channel(None);
    let mut orders = Orders::new(Arc::clone(&engine), Arc::clone(&board), guard);
    let mut current = restore(&file);
    if let Some(restored) = &current {
        tracing::info!(routers = restored.assignments.len(), "announcing the last known state");
        orders.give(restored);
        desired_sender.send_replace(Some(Arc::new(restored.clone())));
        ready.send_if_modified(become_ready);
    }

    tracing::info!(%node, version = env!("CARGO_PKG_VERSION"), "agent started");

    let mut tasks = tokio::task::JoinSet::new();
    let keeper = tokio::spawn(keep::keep(file, desired_receiver.clone(), token.clone()));
    let changed = Arc::new(Notify::new());
    let routers = watch::follow::<VirtualRouter>(&client, &node, &changed);
    let vips = watch::follow::<VirtualIP>(&client, &node, &changed);
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
                    orders.look(current.as_ref());
                }
                if matches!(event, Event::GuardChanged) {
                    orders.look(current.as_ref());
                }
            }
            () = changed.notified(), if !is_stale => is_stale = true,
            () = pace.rest(), if is_stale => {
                is_stale = false;
                // The truth is what is known once both lists are complete; half of it would withdraw addresses.
                if !(is_complete(&routers) && is_complete(&vips)) {
                    continue;
                }
                pace.take(|| {
                    let new = desired(&node, &routers.state(), &vips.state(), &board.answered());
                    if current.as_ref() != Some(&new) {
                        complain(current.as_ref().map_or(&[], |old| &old.problems), &new.problems);
                        orders.give(&new);
                        desired_sender.send_replace(Some(Arc::new(new.clone())));
                        current = Some(new);
                        ready.send_if_modified(become_ready);
                    }
                });
                // Status may have to be written also where this node's part did not change.
                board.changed.notify_one();
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

/// What the engine was told, and what it may be told.
struct Orders {
    engine: Arc<Engine>,
    board: Arc<Board>,
    /// Whether the engine has a guard.
    guard: bool,
    wanted: Arc<Restrictions>,
    given: Vec<Assignment>,
}

impl Orders {
    fn new(engine: Arc<Engine>, board: Arc<Board>, guard: bool) -> Self {
        Self { engine, board, guard, wanted: Arc::default(), given: Vec::new() }
    }

    /// Another state is desired. Who may use what first: no address is announced before that is in force.
    fn give(&mut self, desired: &Desired) {
        let wanted = restrictions(&desired.restricted);
        if *self.wanted != wanted {
            self.wanted = Arc::new(wanted);
            self.engine.restrict(Arc::clone(&self.wanted));
        }
        self.look(Some(desired));
    }

    /// What is in force may have changed.
    fn look(&mut self, desired: Option<&Desired>) {
        let mut status = (*self.engine.guard_status()).clone();
        if !self.guard {
            status.error = Some("its agent runs with --guard=false".to_owned());
        }
        self.board.set_unguarded(status.error.as_deref());
        let Some(desired) = desired else { return };
        let announced = self.given.iter().flat_map(|one| &one.addresses).copied().collect();
        let new = admitted(desired, &self.wanted, &status, &announced);
        if self.given != new {
            self.board.restrict(&addresses(&new));
            self.engine.apply(configs(&new));
            self.given = new;
        }
    }
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

fn configs(assignments: &[Assignment]) -> Vec<windlass_engine::RouterConfig> {
    // `desired` and the state file let only valid ones through.
    assignments.iter().filter_map(|assignment| assignment.config().ok()).collect()
}

/// The virtual IPs of each virtual router.
fn addresses(assignments: &[Assignment]) -> BTreeMap<RouterKey, &BTreeSet<IpAddr>> {
    assignments.iter().filter_map(|one| Some((one.key().ok()?, &one.addresses))).collect()
}

fn is_complete<K>(store: &Store<K>) -> bool
where
    K: kube::Resource<DynamicType = ()> + Clone + 'static,
{
    futures::FutureExt::now_or_never(store.wait_until_ready()).is_some_and(|ready| ready.is_ok())
}

/// Says once what is new among the problems.
fn complain(old: &[Problem], new: &[Problem]) {
    for problem in new.iter().filter(|problem| old.binary_search(problem).is_err()) {
        tracing::warn!(object = %problem.object, reason = %problem.reason, "left out");
    }
}
