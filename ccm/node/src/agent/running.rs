//! The agent while it runs: one task owns its state and handles what the others find.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use jiff::Timestamp;
use prometheus::IntGauge;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Interval;
use tokio_util::sync::CancellationToken;
use windlass_ccm::files::POLL_INTERVAL;
use windlass_engine::{Engine, Event, TransitionReason};

use super::changes::{ChangeQueue, Changed};
use super::cluster::{ClusterFile, Origin};
use super::decide::Decider;
use super::desired::Desired;
use super::engine_state::EngineState;
use super::engine_updates::EngineUpdates;
use super::health::FailedChecks;
use super::hold::Hold;
use super::index::Update;
use super::node_events::NodeEvents;
use super::replication::way_back::WaysBack;
use super::report::Reporter;
use super::service_proxy::{GuardMode, MasqueradeMark, ServiceProxy};
use super::tasks::Tasks;
use super::throttle::Throttle;
use crate::keys::{KeyFolder, Keys};
use crate::parts::{Faults, Parts};
use crate::{engine_events, every, helper_metrics, started_engine};

/// Interval at which lasting faults are checked for a repeated event on the Node.
const TELL_LASTING: Duration = Duration::from_secs(5);
/// Interval at which the replication of connections is checked, in both directions.
const LOOK_AT_REPLICATION: Duration = Duration::from_millis(250);

/// Occasion for the agent to act.
pub(super) enum Input {
    /// The engine reported an event. `is_last`: no other is queued.
    Engine { event: Event, is_last: bool },
    /// Delays of virtual routers may be shortened.
    ShorterDelays,
    /// The UID of the API server's cluster was found.
    Cluster(String),
    /// The failed checks of this node changed.
    Failed(FailedChecks),
    /// Another program handles the packets of Services.
    Proxy(ServiceProxy),
    /// kube-proxy's mark for packets that it masquerades changed.
    Mark(MasqueradeMark),
    /// A part of the agent panicked, or lasting faults are to be reported again.
    Lasting,
    /// The replication of connections is to be checked.
    Replication,
    /// The folder of keys is to be read.
    Keys,
    /// Objects of the cluster changed, or the hold on deleted ones ends.
    Objects,
}

/// Sources of [`Input`].
pub(super) struct Inputs {
    pub(super) events: mpsc::Receiver<Event>,
    /// `None` once the UID was received, or if there will be none.
    pub(super) cluster: Option<oneshot::Receiver<String>>,
    pub(super) failed: watch::Receiver<FailedChecks>,
    pub(super) proxy: watch::Receiver<ServiceProxy>,
    pub(super) mark: watch::Receiver<MasqueradeMark>,
    /// Changes with each panic of a part.
    pub(super) faults: watch::Receiver<Faults>,
    pub(super) timers: Timers,
    /// True if objects changed that were not processed yet.
    pub(super) is_stale: bool,
}

/// Timers of what is checked at intervals.
pub(super) struct Timers {
    keys: Interval,
    lasting: Interval,
    replication: Interval,
}

impl Timers {
    /// Starts them.
    pub(super) fn start() -> Self {
        let (keys, lasting) = (every(POLL_INTERVAL), every(TELL_LASTING));
        Self { keys, lasting, replication: every(LOOK_AT_REPLICATION) }
    }
}

impl Inputs {
    /// Waits for the next occasion to act. Cancel safe.
    pub(super) async fn next(&mut self, agent: &Agent) -> Input {
        loop {
            tokio::select! {
                Some(event) = self.events.recv() => {
                    return Input::Engine { event, is_last: self.events.is_empty() };
                }
                () = due(agent.engine_updates.next_delay_change()) => return Input::ShorterDelays,
                found = received(&mut self.cluster) => {
                    self.cluster = None;
                    if let Ok(uid) = found {
                        return Input::Cluster(uid);
                    }
                }
                Ok(()) = self.failed.changed() => return Input::Failed(self.failed.borrow_and_update().clone()),
                Ok(()) = self.proxy.changed() => return Input::Proxy(*self.proxy.borrow_and_update()),
                Ok(()) = self.mark.changed() => return Input::Mark(*self.mark.borrow_and_update()),
                Ok(()) = self.faults.changed() => {
                    self.faults.mark_unchanged();
                    return Input::Lasting;
                }
                _ = self.timers.lasting.tick() => return Input::Lasting,
                _ = self.timers.replication.tick() => return Input::Replication,
                _ = self.timers.keys.tick() => return Input::Keys,
                () = agent.queue.changed(), if !self.is_stale => self.is_stale = true,
                () = due(agent.decider.hold.due()), if !self.is_stale => self.is_stale = true,
                () = agent.throttle.ready(), if self.is_stale => {
                    self.is_stale = false;
                    return Input::Objects;
                }
            }
        }
    }
}

/// State of the agent.
pub(super) struct Agent {
    pub(super) node: String,
    pub(super) engine: Arc<Engine>,
    pub(super) engine_state: Arc<EngineState>,
    /// True if the queue of the engine's events was full.
    pub(super) lost: Arc<AtomicBool>,
    /// True if states changed that the engine's updates do not follow yet.
    pub(super) activity_changed: bool,
    /// True if a panic may have interrupted a change of the desired state or its way to the engine.
    pub(super) is_interrupted: bool,
    pub(super) engine_updates: EngineUpdates,
    pub(super) guard: Guard,
    pub(super) ways_back: watch::Receiver<WaysBack>,
    pub(super) desired: watch::Sender<Option<Arc<Desired>>>,
    pub(super) decider: Decider,
    pub(super) queue: Arc<ChangeQueue>,
    pub(super) throttle: Throttle,
    pub(super) cluster_file: ClusterFile,
    pub(super) deletion_hold: Duration,
    pub(super) held_addresses: IntGauge,
    pub(super) keys: KeyFolder,
    pub(super) known_keys: watch::Sender<Arc<Keys>>,
    pub(super) node_events: NodeEvents,
    pub(super) reporter: Arc<Reporter>,
    pub(super) parts: Arc<Parts>,
}

/// The guard of this node, and the program beside which it works.
pub(super) struct Guard {
    pub(super) mode: GuardMode,
    /// True if the engine has one.
    pub(super) is_installed: bool,
    pub(super) proxy: ServiceProxy,
    /// Reason why it refuses nothing although it is wanted.
    pub(super) obstacle: Option<String>,
}

impl Agent {
    /// Handles inputs until `token` is cancelled. Fails if the agent has to end.
    pub(super) async fn run(
        &mut self,
        inputs: &mut Inputs,
        tasks: &mut Tasks,
        token: &CancellationToken,
    ) -> anyhow::Result<()> {
        loop {
            let input = tokio::select! {
                () = token.cancelled() => return Ok(()),
                input = inputs.next(self) => input,
            };
            self.handle(input, tasks)?;
        }
    }

    /// Continues after a panic, which may have interrupted any step: reads the engine's state, repeats its last orders, which changes nothing
    /// that it has, and decides anew from all objects.
    pub(super) fn recover(&mut self) {
        self.report_parts();
        self.engine_state.resync(&self.engine.snapshot(), Timestamp::now());
        self.engine_updates.repeat();
        self.is_interrupted = true;
        self.decider.forget_index();
        // As after a list: deletions may have been lost with the panic.
        self.queue.add(Changed::list());
        // If the decision panics again and again, all else is handled before it each time.
        self.throttle.rest(Instant::now());
    }

    /// Handles an occasion to act. Fails if the agent has to end.
    pub(super) fn handle(&mut self, input: Input, tasks: &mut Tasks) -> anyhow::Result<()> {
        match input {
            Input::Engine { event, is_last } => self.on_engine_event(&event, is_last)?,
            Input::ShorterDelays => self.engine_updates.shorten_delays(),
            Input::Cluster(uid) => self.on_cluster(uid, tasks),
            Input::Failed(failed) => self.engine_updates.set_failed(failed),
            Input::Proxy(proxy) => self.on_proxy(proxy)?,
            Input::Mark(mark) => {
                self.engine_updates.set_masquerade_mark(mark.get(), self.desired.borrow().as_deref());
            }
            Input::Lasting => self.report_lasting(),
            Input::Replication => self.follow_replication(),
            Input::Keys => self.read_keys(),
            Input::Objects => self.decide(),
        }
        Ok(())
    }

    fn on_engine_event(&mut self, event: &Event, is_last: bool) -> anyhow::Result<()> {
        let now = Instant::now();
        self.engine_state.record(event, now, Timestamp::now());
        if let Some(fault) = engine_events::log(event, &engine_events::AGENT) {
            self.node_events.fault(fault, now);
        }
        started_engine::check(&self.engine)?;
        if matches!(event, Event::HelperAway { .. }) {
            self.report_parts();
        }
        if self.lost.swap(false, Ordering::Relaxed) {
            tracing::warn!("events of the VRRP engine were lost; reading its state afresh");
            self.engine_state.resync(&self.engine.snapshot(), Timestamp::now());
            self.engine_updates.refresh(self.desired.borrow().as_deref());
        }
        if matches!(event, Event::GuardChanged) {
            self.engine_updates.refresh(self.desired.borrow().as_deref());
        }
        if let Event::StateChanged { key, reason: TransitionReason::InterfaceLost, .. } = event {
            self.engine_updates.note_lost(&key.interface, now);
        }
        // Of several queued changes the last is enough.
        self.activity_changed |= matches!(event, Event::StateChanged { .. });
        if self.activity_changed && is_last {
            self.activity_changed = false;
            self.engine_updates.follow_activity();
        }
        Ok(())
    }

    /// Sets the state aside if it is of another cluster than the one with this UID, which is stored.
    fn on_cluster(&mut self, uid: String, tasks: &mut Tasks) {
        if self.cluster_file.origin(&uid) == Origin::Other {
            tracing::warn!(%uid, "the state on disk is of another cluster (kube-system has another UID): it is set aside");
            let empty = Desired::default();
            self.engine_updates.update(&empty, &Update::Whole);
            self.desired.send_replace(Some(Arc::new(empty)));
            self.decider.forget(Hold::new(self.deletion_hold));
            self.queue.add(Changed::all());
        }
        let file = self.cluster_file.clone();
        let store = async move || file.store_later(&uid).await;
        tasks.spawn_until_cancelled(tasks.kept("agent-cluster-file", store));
    }

    fn on_proxy(&mut self, proxy: ServiceProxy) -> anyhow::Result<()> {
        let Guard { mode, is_installed, .. } = self.guard;
        if is_installed && !mode.has_guard(proxy) {
            bail!("IPVS serves Services on this node: the agent has to restart without its guard");
        }
        let obstacle = mode.obstacle(is_installed, proxy);
        self.guard.proxy = proxy;
        self.guard.obstacle = obstacle.clone().filter(|_| mode != GuardMode::Off);
        self.report_unguarded();
        let desired = self.desired.borrow().clone();
        self.engine_updates.set_passes_untranslated(!mode.refuses_untranslated(proxy), desired.as_deref());
        self.engine_updates.set_guard_obstacle(obstacle, desired.as_deref());
        Ok(())
    }

    fn report_unguarded(&mut self) {
        if let Some(obstacle) = &self.guard.obstacle {
            self.node_events.unguarded(obstacle, Instant::now());
        }
    }

    fn report_lasting(&mut self) {
        self.report_unguarded();
        self.node_events.without_multicast(&self.engine_state.without_multicast(), Instant::now());
        self.report_parts();
    }

    fn report_parts(&mut self) {
        self.node_events.parts_missing(&helper_metrics::status(&self.engine, &self.parts), Instant::now());
    }

    fn follow_replication(&mut self) {
        if self.engine_updates.replicates() {
            let clocks = (Instant::now(), Timestamp::now());
            self.engine_updates.follow_replication(self.guard.proxy, &self.ways_back.borrow(), clocks);
        }
    }

    fn read_keys(&mut self) {
        let used = self.desired.borrow().as_deref().map(Desired::key_ids).unwrap_or_default();
        if self.keys.refresh(&used) {
            let keys = self.keys.keys();
            self.engine_updates.set_keys(Arc::clone(keys));
            self.known_keys.send_replace(Arc::clone(keys));
            self.decider.keys = Arc::clone(keys);
            self.queue.add(Changed::all());
        }
    }

    /// Decides anew what this node announces, and updates the engine.
    fn decide(&mut self) {
        if !self.decider.is_complete() {
            return;
        }
        let mut looked_at = self.queue.take();
        let Self { throttle, desired, decider, engine_updates, .. } = self;
        let update = throttle.run(|| {
            let mut update = None;
            desired.send_if_modified(|desired| {
                update = decider.decide(&looked_at, desired, Instant::now());
                if let (Some(update), Some(desired)) = (&update, desired) {
                    engine_updates.update(desired, update);
                }
                update.is_some()
            });
            update
        });
        if std::mem::take(&mut self.is_interrupted)
            && let Some(desired) = self.desired.borrow().as_deref()
        {
            self.engine_updates.update(desired, &Update::Whole);
        }
        if let Some(news) = self.decider.news.take() {
            self.node_events.hold(news, self.deletion_hold);
        }
        self.held_addresses.set(i64::try_from(self.decider.hold.held()).unwrap_or(i64::MAX));
        if let Some(update) = update {
            self.throttle.note_engine_update(self.engine_updates.addresses(), Instant::now());
            looked_at.add(match update {
                Update::Whole => Changed::all(),
                Update::Part(_) => Changed::default(),
            });
        }
        // Status may have to be written also where this node's part did not change.
        self.engine_state.to_report.add(looked_at.into_report());
    }

    /// Ends the other tasks, which were told to, resigns everything, and reports that.
    pub(super) async fn stop(self, tasks: Tasks) {
        let Self { node, engine, engine_updates, reporter, .. } = self;
        let was_active = reporter.active_assignments();
        drop(engine_updates);
        let writer = tasks.join().await;
        // First: the other nodes need not wait for the rest of this.
        started_engine::shut_down(engine).await;
        reporter.report_shutdown(&was_active).await;
        writer.join().await;
        tracing::info!(%node, "agent stopped");
    }
}

/// Waits until this instant; without one, forever.
async fn due(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits for the value of a channel; without one, forever.
async fn received<T>(channel: &mut Option<oneshot::Receiver<T>>) -> Result<T, oneshot::error::RecvError> {
    match channel {
        Some(channel) => channel.await,
        None => std::future::pending().await,
    }
}
