//! The agent: makes this node announce its part of the cluster's virtual IPs, and keeps doing so while the API server is unavailable.
//!
//! | part | does | needs the API server |
//! |---|---|---|
//! | [`desired`] | objects → virtual routers of this node (pure) | |
//! | [`index`] | updates that incrementally: one virtual IP costs work for itself (pure) | |
//! | [`changes`], [`decide`] | queue of changed objects; their effect on the desired state | |
//! | [`cluster`] | checks that the state on disk is of this cluster | yes |
//! | [`hold`] | keeps announcing addresses whose objects were deleted by accident (pure) | |
//! | [`admission`], [`engine_updates`] | admits restricted virtual IPs once they are guarded (pure); updates the engine | |
//! | [`state`], [`state_writer`] | the last desired state on disk; it is in force before anything else is tried | no |
//! | [`watch`] | copies VirtualRouters and VirtualIPs | yes; while it is away the copies stay |
//! | [`engine_state`], [`activity`], [`duplicates`] | last reported state of the engine | no |
//! | [`keys`] | the keys that sign adverts, from the mounted Secret; a router whose key is not there is left to others | no |
//! | [`health`] | checks that this node can serve (kube-proxy, Announcements' checks); failures lower its priority | no |
//! | [`status`], [`report`] | report what this node is Active for | yes; retried with the state by then |
//! | [`network`], [`addresses`], [`publish`] | interfaces, addresses, foreign routers and hosts with our addresses → this node's NodeNetwork | yes; retried |
//! | [`replication`] | selects nodes that receive connections; holds this node back until it has them | no |
//! | [`settling`] | when the agent is ready: its virtual routers have found their Active | no |
//! | [`throttle`] | processes a burst of events in a few rounds | |
//!
//! None of the tasks can hold up the engine, which runs in threads of its own.

mod activity;
mod addresses;
mod admission;
mod backoff;
mod changes;
mod cluster;
mod decide;
mod desired;
mod duplicates;
pub(crate) mod engine_events;
mod engine_state;
mod engine_updates;
pub(crate) mod flaps;
mod health;
mod hold;
mod index;
pub(crate) mod keys;
pub(crate) mod metrics;
mod network;
mod node_events;
mod publish;
mod replication;
mod report;
mod service_proxy;
mod settling;
mod state;
mod state_writer;
mod status;
mod throttle;
mod watch;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::{Client, ResourceExt as _};
use prometheus::Registry;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_api::{NodeNetwork, VirtualIP, VirtualRouter};
use windlass_ccm::events::{EventSink, Recorder};
use windlass_ccm::files::POLL_INTERVAL;
use windlass_common::http::{Endpoints, Health};
use windlass_engine::{ConnectionForwarding, ConnectionReplication, Engine, Event, TransitionReason};

use self::changes::{ChangeQueue, Changed};
use self::cluster::{ClusterFile, Origin};
use self::decide::Decider;
use self::desired::{Desired, is_wanted};
use self::engine_events::Fault;
use self::engine_state::EngineState;
use self::engine_updates::EngineUpdates;
use self::health::HealthMonitor;
pub use self::health::proxy_mode;
use self::hold::Hold;
use self::index::Update;
use self::keys::KeyFolder;
pub use self::keys::SECRET as KEYS_SECRET;
pub use self::network::is_containers;
use self::node_events::NodeEvents;
use self::replication::way_back::WaysBack;
pub use self::service_proxy::{GuardMode, MasqueradeMark};
use self::state::StateFile;
use self::throttle::Throttle;
use self::watch::Shown;

/// Field manager of the agents' server-side apply, and source of their events.
const FIELD_MANAGER: &str = "windlass-agent";
/// Capacity of the queue of engine events; beyond it they are lost and the state is read afresh.
const EVENT_QUEUE: usize = 4096;
/// Interval at which lasting faults are checked for a repeated event on the Node.
const TELL_LASTING: Duration = Duration::from_secs(5);
/// Interval at which the replication of connections is checked, in both directions.
const LOOK_AT_REPLICATION: Duration = Duration::from_millis(250);
/// After a recomputation that took `t`, the next one waits at least `IDLE_FACTOR * t`, or the limit of [`Throttle`] if that is less.
const IDLE_FACTOR: u32 = 29;
/// Longest delay of the process's end by the last write of the state.
const STATE_LIMIT: Duration = Duration::from_millis(500);

/// Settings from the agent's command line.
pub struct Options {
    /// Name of this node.
    pub node_name: String,
    /// Folder of the state file.
    pub state_dir: PathBuf,
    /// Folder in which the Secret with the keys of adverts is mounted, if there is one.
    pub vrrp_keys_dir: PathBuf,
    /// Addresses on which to serve health and metrics.
    pub endpoints: Endpoints,
    /// True if the engine requests real-time scheduling.
    pub realtime: bool,
    /// Mode of the guard: nftables answers ping to virtual IPs and refuses packets that no Service takes.
    pub guard: GuardMode,
    /// Forwarding of established connections to the node that handed an address over; `None`: they are not forwarded.
    pub connection_forwarding: Option<ConnectionForwarding>,
    /// Replication of connections between nodes, where an Announcement enables it.
    pub connection_replication: ConnectionReplication,
    /// Address of kube-proxy's health check; `None`: it is not queried.
    pub kube_proxy: Option<SocketAddr>,
    /// Address at which kube-proxy reports its mode; `None`: it is not queried.
    pub kube_proxy_metrics: Option<SocketAddr>,
    /// kube-proxy's mark for packets that it masquerades, if the admin configured it.
    pub masquerade_mark: MasqueradeMark,
    /// Time for which this node keeps announcing addresses after most of their objects were deleted together; zero: not at all.
    pub deletion_hold: Duration,
}

/// Runs until `token` is cancelled; then resigns everything and returns. Adds its metrics to `registry` and serves that.
pub async fn run(
    client: Client,
    options: Options,
    registry: Registry,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let Options {
        node_name: node,
        state_dir,
        vrrp_keys_dir,
        endpoints,
        realtime,
        guard,
        connection_forwarding,
        connection_replication,
        kube_proxy,
        kube_proxy_metrics,
        masquerade_mark,
        deletion_hold,
    } = options;
    let file = StateFile::new(&state_dir, &node);
    let cluster_file = ClusterFile::of(&state_dir);
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
    let proxy = service_proxy::find(kube_proxy_metrics).await;
    let has_guard = guard.has_guard(proxy);
    options.guard = has_guard;
    options.connection_forwarding = connection_forwarding;
    options.connection_replication = has_guard.then_some(connection_replication);
    let engine = Arc::new(Engine::start(options).context("cannot start the VRRP engine")?);
    let engine_state = Arc::new(EngineState::default());
    // Set before anything is decided; from then on the publisher updates it.
    let machine = Engine::host_addresses().context("cannot list the interfaces")?;
    engine_state.set_answered(addresses::answered(&machine));

    // Apply the previous state first: it may be long until the API server answers.
    let (desired_sender, desired_receiver) = tokio::sync::watch::channel(None);
    let (monitor, mut failed) = HealthMonitor::new(kube_proxy, &state_dir, Instant::now());
    metrics::register(&registry, &engine, &engine_state, failed.clone())?;
    let known = failed.borrow_and_update().clone();
    let mut keys = KeyFolder::open(vrrp_keys_dir);
    let (known_keys, key_receiver) = tokio::sync::watch::channel(Arc::clone(keys.keys()));
    let mut engine_updates = EngineUpdates::new(
        Arc::clone(&engine),
        Arc::clone(&engine_state),
        guard.obstacle(has_guard, proxy),
        known,
        Arc::clone(keys.keys()),
    );
    engine_updates.set_passes_untranslated(!guard.refuses_untranslated(proxy), None);
    engine_updates.set_masquerade_mark(masquerade_mark.get(), None);
    if let Some(restored) = restore(&file) {
        tracing::info!(routers = restored.assignments.len(), "announcing the last known state");
        engine_updates.update(&restored, &Update::Whole);
        desired_sender.send_replace(Some(Arc::new(restored)));
    }

    tracing::info!(%node, version = env!("CARGO_PKG_VERSION"), "agent started");

    let mut tasks = JoinSet::new();
    let keep = |tasks: &mut JoinSet<()>, copy: BoxFuture<'static, ()>| {
        let token = token.clone();
        tasks.spawn(async move { token.run_until_cancelled(copy).await.unwrap_or(()) });
    };
    let write_failed = metrics::state_write_failed(&registry)?;
    let held_addresses = metrics::held_addresses(&registry)?;
    let writer = state_writer::run(file, desired_receiver.clone(), write_failed, token.clone());
    let mut writer = tokio::spawn(writer);
    let mut is_writing = true;
    let (events, writer_of_events) =
        EventSink::new(Recorder::new(client.clone(), FIELD_MANAGER), token.clone());
    keep(&mut tasks, Box::pin(writer_of_events));
    let mut node_events = NodeEvents::new(events, &node);
    let queue = Arc::new(ChangeQueue::default());
    let (routers, watch) = watch::follow(&client, &node, {
        let queue = Arc::clone(&queue);
        move |shown| queue.add(of_router(&shown))
    });
    keep(&mut tasks, watch);
    let (vips, watch) = watch::follow(&client, &node, {
        let queue = Arc::clone(&queue);
        move |shown| queue.add(of_vip(&shown))
    });
    keep(&mut tasks, watch);
    let reporter = Arc::new(report::Reporter {
        client: client.clone(),
        node: node.clone(),
        engine_state: Arc::clone(&engine_state),
        desired: desired_receiver,
        routers: routers.clone(),
        vips: vips.clone(),
        older_definitions: AtomicBool::new(false),
    });
    {
        let (reporter, token) = (Arc::clone(&reporter), token.clone());
        tasks.spawn(async move { reporter.run(token).await });
    }
    let (networks, watch) = watch::follow_own::<NodeNetwork>(&client, &node);
    keep(&mut tasks, watch);
    let publisher = publish::Publisher {
        client: client.clone(),
        node: node.clone(),
        engine_state: Arc::clone(&engine_state),
        routers: routers.clone(),
        vips: vips.clone(),
        networks,
        engine: Arc::clone(&engine),
        failed: failed.clone(),
        desired: reporter.desired.clone(),
        keys: key_receiver,
        changes: Arc::clone(&queue),
    };
    tasks.spawn(publisher.run(token.clone()));
    tasks.spawn(settling::run(Arc::clone(&engine), reporter.desired.clone(), ready, token.clone()));
    let watched = Arc::downgrade(&engine);
    let take_lateness =
        move || watched.upgrade().map_or(Duration::ZERO, |engine| engine.take_recent_lateness());
    let (found_proxy, mut proxy) = tokio::sync::watch::channel(proxy);
    proxy.mark_changed();
    metrics::service_proxy(&registry, proxy.clone())?;
    let (found_ways, ways_back) = tokio::sync::watch::channel(WaysBack::default());
    tasks.spawn(replication::way_back::ask::follow(reporter.desired.clone(), found_ways, token.clone()));
    let (found_mark, mut mark) = tokio::sync::watch::channel(masquerade_mark);
    let follow_proxy = service_proxy::follow(
        kube_proxy_metrics,
        reporter.desired.clone(),
        found_proxy,
        found_mark,
        token.clone(),
    );
    tasks.spawn(follow_proxy);
    let read_node = health::node_reader(client.clone(), node.clone());
    tasks.spawn(monitor.run(
        reporter.desired.clone(),
        take_lateness,
        proxy.clone(),
        read_node,
        token.clone(),
    ));
    tasks.spawn(endpoints.serve(client.clone(), registry, health, token.clone()));

    let mut decider = Decider {
        node: node.clone(),
        routers,
        vips,
        engine_state: Arc::clone(&engine_state),
        keys: Arc::clone(keys.keys()),
        index: None,
        hold: Hold::new(deletion_hold),
        news: None,
    };
    let (found_cluster, mut cluster) = oneshot::channel();
    keep(&mut tasks, Box::pin(cluster::ask(client.clone(), found_cluster)));
    let mut is_cluster_unknown = true;
    let mut look_at_keys = tokio::time::interval(POLL_INTERVAL);
    look_at_keys.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut tell_again = tokio::time::interval(TELL_LASTING);
    tell_again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut look_at_replication = tokio::time::interval(LOOK_AT_REPLICATION);
    look_at_replication.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut unguarded = None;
    let (mut throttle, mut is_stale) = (Throttle::new(IDLE_FACTOR), false);
    let mut activity_changed = false;
    let outcome = loop {
        tokio::select! {
            () = token.cancelled() => break Ok(()),
            // Otherwise status and state file would stay out of date, and nothing would show it.
            Some(Err(panicked)) = tasks.join_next() => break Err(panicked).context("a part of the agent failed"),
            ended = &mut writer, if is_writing => match ended {
                // The writer was asked to stop, as this loop is about to be.
                Ok(()) => is_writing = false,
                Err(panicked) => break Err(panicked).context("the writer of the state failed"),
            },
            Some(event) = incoming.recv() => {
                engine_state.record(&event, Instant::now(), Timestamp::now());
                match Fault::of(&event, &engine_events::AGENT) {
                    Some(fault) => node_events.fault(fault, Instant::now()),
                    None => engine_events::log(&event, &engine_events::AGENT),
                }
                if let Some(thread) = engine.stopped_by() {
                    break Err(anyhow!("the thread {thread} of the VRRP engine panicked, as the log says: this is a bug, report it"));
                }
                if matches!(event, Event::HelperAway { .. }) {
                    node_events.parts_missing(&engine.helpers(), Instant::now());
                }
                if lost.swap(false, Ordering::Relaxed) {
                    tracing::warn!("events of the VRRP engine were lost; reading its state afresh");
                    engine_state.resync(&engine.snapshot(), Timestamp::now());
                    engine_updates.refresh(desired_sender.borrow().as_deref());
                }
                if matches!(event, Event::GuardChanged) {
                    engine_updates.refresh(desired_sender.borrow().as_deref());
                }
                if let Event::StateChanged { key, reason: TransitionReason::InterfaceLost, .. } = &event {
                    engine_updates.note_lost(&key.interface, Instant::now());
                }
                // Of several queued changes the last is enough.
                activity_changed |= matches!(event, Event::StateChanged { .. });
                if activity_changed && incoming.is_empty() {
                    activity_changed = false;
                    engine_updates.follow_activity();
                }
            }
            () = due(engine_updates.next_delay_change()) => engine_updates.shorten_delays(),
            found = &mut cluster, if is_cluster_unknown => {
                is_cluster_unknown = false;
                if let Ok(uid) = found {
                    if cluster_file.origin(&uid) == Origin::Other {
                        tracing::warn!(%uid, "the state on disk is of another cluster (kube-system has another UID): it is set aside");
                        let empty = Desired::default();
                        engine_updates.update(&empty, &Update::Whole);
                        desired_sender.send_replace(Some(Arc::new(empty)));
                        decider.forget(Hold::new(deletion_hold));
                        queue.add(Changed::all());
                    }
                    let cluster_file = cluster_file.clone();
                    keep(&mut tasks, Box::pin(async move { cluster_file.store_later(&uid).await }));
                }
            }
            Ok(()) = failed.changed() => {
                let known = failed.borrow_and_update().clone();
                engine_updates.set_failed(known);
            }
            Ok(()) = proxy.changed() => {
                let proxy = *proxy.borrow_and_update();
                if has_guard && !guard.has_guard(proxy) {
                    break Err(anyhow!("IPVS serves Services on this node: the agent has to start anew without its guard"));
                }
                let obstacle = guard.obstacle(has_guard, proxy);
                unguarded = obstacle.clone().filter(|_| guard != GuardMode::Off);
                if let Some(obstacle) = &unguarded {
                    node_events.unguarded(obstacle, Instant::now());
                }
                let desired = desired_sender.borrow().clone();
                engine_updates.set_passes_untranslated(!guard.refuses_untranslated(proxy), desired.as_deref());
                engine_updates.set_guard_obstacle(obstacle, desired.as_deref());
            }
            Ok(()) = mark.changed() => {
                let mark = mark.borrow_and_update().get();
                engine_updates.set_masquerade_mark(mark, desired_sender.borrow().as_deref());
            }
            _ = tell_again.tick() => {
                if let Some(obstacle) = &unguarded {
                    node_events.unguarded(obstacle, Instant::now());
                }
                node_events.without_multicast(&engine_state.without_multicast(), Instant::now());
                node_events.parts_missing(&engine.helpers(), Instant::now());
            }
            _ = look_at_replication.tick() => {
                if engine_updates.replicates() {
                    let clocks = (Instant::now(), Timestamp::now());
                    engine_updates.follow_replication(*proxy.borrow(), &ways_back.borrow(), clocks);
                }
            }
            _ = look_at_keys.tick() => {
                let used = desired_sender.borrow().as_deref().map(Desired::key_ids).unwrap_or_default();
                if keys.refresh(&used) {
                    engine_updates.set_keys(Arc::clone(keys.keys()));
                    known_keys.send_replace(Arc::clone(keys.keys()));
                    decider.keys = Arc::clone(keys.keys());
                    queue.add(Changed::all());
                }
            }
            () = queue.changed(), if !is_stale => is_stale = true,
            () = due(decider.hold.due()), if !is_stale => is_stale = true,
            () = throttle.ready(), if is_stale => {
                is_stale = false;
                if !decider.is_complete() {
                    continue;
                }
                let mut looked_at = queue.take();
                let update = throttle.run(|| {
                    let mut update = None;
                    desired_sender.send_if_modified(|desired| {
                        update = decider.decide(&looked_at, desired, Instant::now());
                        if let (Some(update), Some(desired)) = (&update, desired) {
                            engine_updates.update(desired, update);
                        }
                        update.is_some()
                    });
                    update
                });
                if let Some(news) = decider.news.take() {
                    node_events.hold(news, deletion_hold);
                }
                held_addresses.set(i64::try_from(decider.hold.held()).unwrap_or(i64::MAX));
                if let Some(update) = update {
                    throttle.note_engine_update(engine_updates.addresses(), Instant::now());
                    looked_at.add(match update {
                        Update::Whole => Changed::all(),
                        Update::Part(_) => Changed::default(),
                    });
                }
                // Status may have to be written also where this node's part did not change.
                engine_state.to_report.add(looked_at.into_report());
            }
        }
    };

    token.cancel();
    let was_active = reporter.active_assignments();
    drop(engine_updates);
    while tasks.join_next().await.is_some() {}
    if let Some(engine) = Arc::into_inner(engine) {
        // Resigns first: the others need not wait for the rest of this.
        let _ = tokio::task::spawn_blocking(move || engine.shutdown()).await;
    }
    reporter.report_shutdown(&was_active).await;
    if !writer.is_finished() {
        let _ = tokio::time::timeout(STATE_LIMIT, writer).await;
    }
    tracing::info!(%node, "agent stopped");
    outcome
}

/// Waits until this instant; without one, forever.
async fn due(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Returns the changes to process after a change of virtual routers.
fn of_router(shown: &Shown<'_, VirtualRouter>) -> Changed {
    match shown {
        Shown::List => Changed::list(),
        Shown::Object(router) => Changed::router(router.name_any()),
        Shown::Gone(router) => {
            let name = router.name_any();
            Changed { vanished_routers: [name.clone()].into(), ..Changed::router(name) }
        }
    }
}

/// Returns the changes to process after a change of virtual IPs. The controller deletes none that is in service.
fn of_vip(shown: &Shown<'_, VirtualIP>) -> Changed {
    match shown {
        Shown::List => Changed::list(),
        Shown::Object(vip) => Changed::vip(vip.name_any()),
        Shown::Gone(vip) if is_wanted(vip) && vip.spec.virtual_router.is_some() => {
            let name = vip.name_any();
            Changed { vanished_vips: [name.clone()].into(), ..Changed::vip(name) }
        }
        Shown::Gone(vip) => {
            let name = vip.name_any();
            let released = if is_wanted(vip) { BTreeSet::new() } else { [name.clone()].into() };
            Changed { released_vips: released, ..Changed::vip(name) }
        }
    }
}

/// Loads the last state. An unusable file is logged and set aside; the agent then waits for the API server.
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
