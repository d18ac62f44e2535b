//! Starts the agent: the engine with the last known state, then everything else.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kube::Client;
use prometheus::Registry;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use windlass_api::{NodeNetwork, VirtualIP, VirtualRouter};
use windlass_ccm::events::{EventSink, Recorder};
use windlass_ccm::store::Informer;
use windlass_common::http::Health;
use windlass_engine::Engine;

use super::changes::{ChangeQueue, Changed};
use super::cluster::{self, ClusterFile};
use super::decide::Decider;
use super::desired::Desired;
use super::engine_state::EngineState;
use super::engine_updates::EngineUpdates;
use super::health::{self, FailedChecks, HealthMonitor};
use super::hold::Hold;
use super::index::Update;
use super::node_events::NodeEvents;
use super::options::Options;
use super::publish::FIELD_MANAGER;
use super::publish::Publisher;
use super::replication::way_back::{WaysBack, ask};
use super::report::Reporter;
use super::running::{Agent, Guard, Inputs, Timers};
use super::service_proxy::{self, MasqueradeMark, ServiceProxy};
use super::state::StateFile;
use super::tasks::Tasks;
use super::throttle::Throttle;
use super::watch::{follow, follow_own};
use super::{addresses, metrics, settling, state_writer};
use crate::keys::{KeyFolder, Keys};
use crate::parts::Parts;
use crate::started_engine::StartedEngine;

/// After a recomputation that took `t`, the next one waits at least `IDLE_FACTOR * t`, or the limit of [`Throttle`] if that is less.
const IDLE_FACTOR: u32 = 29;

/// An agent that was started.
pub(super) struct Started {
    pub(super) agent: Agent,
    pub(super) inputs: Inputs,
    pub(super) tasks: Tasks,
}

/// Starts the engine, with a guard if the service proxy allows it.
async fn start_engine(options: &Options) -> anyhow::Result<(StartedEngine, Guard)> {
    let proxy = service_proxy::find(options.kube_proxy_metrics).await;
    let is_installed = options.guard.has_guard(proxy);
    let started = StartedEngine::new(|of_engine| {
        of_engine.realtime = options.realtime;
        of_engine.guard = is_installed;
        of_engine.connection_forwarding = options.connection_forwarding;
        of_engine.connection_replication = is_installed.then_some(options.connection_replication);
    })?;
    Ok((started, Guard { mode: options.guard, is_installed, proxy, obstacle: None }))
}

/// Common inputs of the agent's tasks.
struct Common {
    client: Client,
    node: String,
    engine: Arc<Engine>,
    engine_state: Arc<EngineState>,
    desired: watch::Receiver<Option<Arc<Desired>>>,
    /// Changes of the copies.
    queue: Arc<ChangeQueue>,
    /// Copies of the cluster's objects.
    routers: Informer<VirtualRouter>,
    vips: Informer<VirtualIP>,
    token: CancellationToken,
}

impl Common {
    /// Reports what this node is Active for.
    fn report(&self, tasks: &mut Tasks) -> Arc<Reporter> {
        let reporter = Arc::new(Reporter {
            client: self.client.clone(),
            node: self.node.clone(),
            engine_state: Arc::clone(&self.engine_state),
            desired: self.desired.clone(),
            routers: self.routers.clone(),
            vips: self.vips.clone(),
            older_definitions: AtomicBool::new(false),
        });
        let (running, token) = (Arc::clone(&reporter), self.token.clone());
        tasks.spawn(tasks.kept("agent-report", async move || running.run(&token).await));
        reporter
    }

    /// Keeps this node's `NodeNetwork` up to date.
    fn publish(
        &self,
        failed: watch::Receiver<FailedChecks>,
        keys: watch::Receiver<Arc<Keys>>,
        proxy: watch::Receiver<ServiceProxy>,
        forwards: bool,
        tasks: &mut Tasks,
    ) {
        let (networks, mut watch) = follow_own::<NodeNetwork>(&self.client, &self.node);
        let watch = async move || watch.run().await;
        tasks.spawn_until_cancelled(tasks.kept("agent-watch-nodenetwork", watch));
        let publisher = Publisher {
            client: self.client.clone(),
            node: self.node.clone(),
            engine_state: Arc::clone(&self.engine_state),
            routers: self.routers.clone(),
            vips: self.vips.clone(),
            networks,
            engine: Arc::clone(&self.engine),
            failed,
            desired: self.desired.clone(),
            keys,
            proxy,
            forwards,
            changes: Arc::clone(&self.queue),
        };
        let token = self.token.clone();
        tasks.spawn(tasks.kept("agent-publish", async move || publisher.run(&token).await));
    }

    /// Follows the service proxy and its mark.
    fn follow_proxy(
        &self,
        options: &Options,
        proxy: ServiceProxy,
        tasks: &mut Tasks,
    ) -> (watch::Receiver<ServiceProxy>, watch::Receiver<MasqueradeMark>) {
        let (found_proxy, mut proxy) = watch::channel(proxy);
        proxy.mark_changed();
        let (found_mark, mark) = watch::channel(options.masquerade_mark);
        let (kube_proxy, desired, token) =
            (options.kube_proxy_metrics, self.desired.clone(), self.token.clone());
        let follow = async move || {
            service_proxy::follow(kube_proxy, &desired, &found_proxy, &found_mark, &token).await;
        };
        tasks.spawn(tasks.kept("agent-service-proxy", follow));
        (proxy, mark)
    }

    /// Runs the checks of this node.
    fn check(&self, monitor: HealthMonitor, proxy: watch::Receiver<ServiceProxy>, tasks: &mut Tasks) {
        let watched = Arc::downgrade(&self.engine);
        let take_lateness =
            move || watched.upgrade().map_or(Duration::ZERO, |engine| engine.take_recent_lateness());
        let read_node = health::node_reader(self.client.clone(), self.node.clone());
        monitor.start(&self.desired, take_lateness, proxy, read_node, &self.token, tasks);
    }

    /// Follows the ways back of backends' answers.
    fn follow_ways_back(&self, tasks: &mut Tasks) -> watch::Receiver<WaysBack> {
        let (found, ways_back) = watch::channel(WaysBack::default());
        let (mut desired, token) = (self.desired.clone(), self.token.clone());
        let follow = async move || ask::follow(&mut desired, &found, &token).await;
        tasks.spawn(tasks.kept("agent-ways-back", follow));
        ways_back
    }

    /// Asks for the UID of the cluster.
    fn ask_for_cluster(&self, tasks: &mut Tasks) -> oneshot::Receiver<String> {
        let (found, cluster) = oneshot::channel();
        let (client, mut found) = (self.client.clone(), Some(found));
        let ask = async move || {
            if let Some(uid) = cluster::ask(&client).await
                && let Some(found) = found.take()
            {
                drop(found.send(uid));
            }
        };
        tasks.spawn_until_cancelled(tasks.kept("agent-cluster", ask));
        cluster
    }
}

/// Keeps copies of the cluster's objects, and queues their changes.
fn follow_objects(
    client: &Client,
    node: &str,
    queue: &Arc<ChangeQueue>,
    tasks: &mut Tasks,
) -> (Informer<VirtualRouter>, Informer<VirtualIP>) {
    let changed = Arc::clone(queue);
    let (routers, mut watch) = follow(client, node, move |shown| changed.add(Changed::of_router(&shown)));
    let watch = async move || watch.run().await;
    tasks.spawn_until_cancelled(tasks.kept("agent-watch-virtualrouters", watch));
    let changed = Arc::clone(queue);
    let (vips, mut watch) = follow(client, node, move |shown| changed.add(Changed::of_vip(&shown)));
    let watch = async move || watch.run().await;
    tasks.spawn_until_cancelled(tasks.kept("agent-watch-virtualips", watch));
    (routers, vips)
}

/// The engine with the last known state, which is in force before anything else is tried.
struct Restored {
    started: StartedEngine,
    guard: Guard,
    engine_state: Arc<EngineState>,
    engine_updates: EngineUpdates,
    file: StateFile,
    desired: watch::Sender<Option<Arc<Desired>>>,
    /// Its receiver, which has not seen the restored state.
    unseen: watch::Receiver<Option<Arc<Desired>>>,
    monitor: HealthMonitor,
    failed: watch::Receiver<FailedChecks>,
    keys: KeyFolder,
}

impl Restored {
    async fn new(options: &Options, registry: &Registry, parts: &Arc<Parts>) -> anyhow::Result<Self> {
        let file = StateFile::new(&options.state_dir, &options.node_name);
        let (started, guard) = start_engine(options).await?;
        let engine_state = Arc::new(EngineState::default());
        // Set before anything is decided; from then on the publisher updates it.
        let machine = Engine::host_addresses().context("cannot list the interfaces")?;
        engine_state.set_answered(addresses::answered(&machine));
        let (monitor, mut failed) =
            HealthMonitor::new(options.kube_proxy, &options.state_dir, Instant::now());
        metrics::register(registry, &started.engine, &engine_state, failed.clone(), Arc::clone(parts))?;
        let keys = KeyFolder::open(options.vrrp_keys_dir.clone());
        let mut engine_updates = EngineUpdates::new(
            Arc::clone(&started.engine),
            Arc::clone(&engine_state),
            guard.mode.obstacle(guard.is_installed, guard.proxy),
            failed.borrow_and_update().clone(),
            Arc::clone(keys.keys()),
        );
        engine_updates.set_passes_untranslated(!guard.mode.refuses_untranslated(guard.proxy), None);
        engine_updates.set_masquerade_mark(options.masquerade_mark.get(), None);
        engine_updates.refresh(None);
        let (desired, unseen) = watch::channel(None);
        if let Some(restored) = restore(&file) {
            tracing::info!(routers = restored.assignments.len(), "announcing the last known state");
            engine_updates.update(&restored, &Update::Whole);
            desired.send_replace(Some(Arc::new(restored)));
        }
        Ok(Self {
            started,
            guard,
            engine_state,
            engine_updates,
            file,
            desired,
            unseen,
            monitor,
            failed,
            keys,
        })
    }
}

/// Starts the agent. Adds its metrics to `registry` and serves that.
pub(super) async fn start(
    client: Client,
    options: Options,
    registry: Registry,
    token: CancellationToken,
) -> anyhow::Result<Started> {
    let node = options.node_name.clone();
    let parts = Arc::new(Parts::new());
    let (health, ready) = Health::starting("no state was read from disk or from the API server yet");
    // It may be long until the API server answers.
    let restored = Restored::new(&options, &registry, &parts).await?;
    let Restored { file, engine_state, guard, unseen, failed, keys, .. } = restored;
    let StartedEngine { engine, events: engine_events, lost } = restored.started;
    tracing::info!(%node, version = env!("CARGO_PKG_VERSION"), "agent started");

    let write_failed = metrics::state_write_failed(&registry)?;
    let mut tasks = Tasks::new(Arc::clone(&parts), token.clone());
    let (mut changes, stop) = (unseen.clone(), token.clone());
    let write = async move || state_writer::run(&file, &mut changes, &write_failed, &stop).await;
    tasks.spawn_writer(tasks.kept("agent-state", write));
    let (events, mut queue) = EventSink::with_writer(Recorder::new(client.clone(), FIELD_MANAGER));
    tasks.spawn_until_cancelled(tasks.kept("agent-events", async move || queue.run().await));
    let queue = Arc::new(ChangeQueue::default());
    let (routers, vips) = follow_objects(&client, &node, &queue, &mut tasks);
    let common =
        Common { client, node, engine, engine_state, desired: unseen.clone(), queue, routers, vips, token };
    let reporter = common.report(&mut tasks);
    let (known_keys, published_keys) = watch::channel(Arc::clone(keys.keys()));
    let (of_engine, stop) = (Arc::clone(&common.engine), common.token.clone());
    let settle = async move || settling::run(&of_engine, &unseen, &ready, &stop).await;
    tasks.spawn(tasks.kept("agent-settling", settle));
    let (proxy, mark) = common.follow_proxy(&options, guard.proxy, &mut tasks);
    metrics::service_proxy(&registry, proxy.clone())?;
    let forwards = options.connection_forwarding.is_some();
    common.publish(failed.clone(), published_keys, proxy.clone(), forwards, &mut tasks);
    let ways_back = common.follow_ways_back(&mut tasks);
    common.check(restored.monitor, proxy.clone(), &mut tasks);
    let cluster = Some(common.ask_for_cluster(&mut tasks));
    let held_addresses = metrics::held_addresses(&registry)?;
    let Common { client, node, engine, engine_state, queue, routers, vips, token, .. } = common;
    let endpoints = options.endpoints;
    let serve = async move || endpoints.serve(&client, &registry, &health, &token).await;
    tasks.spawn(tasks.kept("agent-endpoints", serve));

    let timers = Timers::start();
    let faults = parts.faults();
    let inputs =
        Inputs { events: engine_events, cluster, failed, proxy, mark, faults, timers, is_stale: false };
    let hold = Hold::new(options.deletion_hold);
    let agent = Agent {
        decider: Decider::new(&node, routers, vips, &engine_state, &keys, hold),
        node_events: NodeEvents::new(events, &node),
        node,
        engine,
        engine_state,
        lost,
        activity_changed: false,
        is_interrupted: false,
        engine_updates: restored.engine_updates,
        guard,
        ways_back,
        desired: restored.desired,
        queue,
        throttle: Throttle::new(IDLE_FACTOR),
        cluster_file: ClusterFile::of(&options.state_dir),
        deletion_hold: options.deletion_hold,
        held_addresses,
        keys,
        known_keys,
        reporter,
        parts,
    };
    Ok(Started { agent, inputs, tasks })
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
