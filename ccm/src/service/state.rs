//! What the service controller knows and what it does next: no clock, no API server, no provider. The loop in
//! `run.rs` feeds it what was seen, carries out the jobs it gives and reports how they went.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Service};
use tokio::time::Instant;

use super::ServiceOptions;
use super::diff::needs_update;
use super::fan_out::FanOut;
use super::nodes::{NodeIds, node_ids, node_matters, stable_node_set};
use super::select::{Need, finalizer_for, has_finalizer, need, wants_lb};
use crate::backoff::Backoff;
use crate::metrics::QueueGauges;
use crate::provider::{LoadBalancer, ServiceKey};
use crate::queue::Queue;
use crate::store::{Change, Informer};

/// Retry of one Service: 5 s, 10 s, … 300 s (service-contract S-16).
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(5));
/// A load balancer that does not work after this time has a condition that says so. Most work within a second or two,
/// and then the condition is written once, together with the address.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The same failure of the same Service is told again no sooner.
const REPEAT_FAILURE: Duration = Duration::from_mins(5);

/// What to do for one Service now.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) key: ServiceKey,
    /// A Service of the same name that is gone: its load balancer goes first (service-contract S-09).
    pub(crate) predecessor: Option<Arc<Service>>,
    pub(crate) task: Task,
}

#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// Create or update the load balancer. `patient`: that it does not work yet need not be told.
    Ensure { service: Arc<Service>, nodes: Vec<Arc<Node>>, voice: Voice, patient: bool },
    /// Bring it to a changed node set.
    UpdateNodes { service: Arc<Service>, nodes: Vec<Arc<Node>> },
    /// Take it away and let the Service go. `made`: it was ours, whatever the provider says by now. `told`: an earlier attempt
    /// wrote `DeletedLoadBalancer`.
    Cleanup { service: Arc<Service>, made: bool, told: bool },
    /// The same, if the provider knows of a load balancer.
    Check { service: Arc<Service> },
    /// The Service is gone from the API server; only its predecessor's load balancer is to be taken away.
    Forget,
}

/// Which events an ensure writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    /// `EnsuringLoadBalancer` before, `EnsuredLoadBalancer` after.
    Speak,
    /// `EnsuringLoadBalancer` was written by an earlier attempt for the same wish; only `EnsuredLoadBalancer`.
    Finish,
    /// Nothing changed that we know of: none, unless the outcome differs from what the Service shows.
    Quiet,
}

/// How a job went.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) outcome: Result<Done, Failure>,
    /// `EnsuringLoadBalancer` was written; of a clean-up: `DeletedLoadBalancer`.
    pub(crate) said: bool,
    /// The failure is what the Service's condition says already.
    pub(crate) known: bool,
    /// The Service as the API server returned it after our last write.
    pub(crate) latest: Option<Service>,
}

/// A job that ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    Ensured,
    /// Ensured, but not working yet. `unsaid`: the condition does not tell that.
    Pending {
        unsaid: bool,
    },
    NodesUpdated,
    Removed,
}

/// A job that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
    pub(crate) retry: Retry,
}

/// Which event tells of a failure (service-contract S-20 e, f, i).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    Sync,
    Delete,
    UpdateNodes,
    /// Nobody needs to hear of it: what was tried is no longer wanted.
    Superseded,
}

/// When to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// After the Service's back-off.
    Backoff,
    /// After exactly this time; the back-off does not grow.
    After(Duration),
    /// At once, as a full ensure (service-contract S-22).
    Now,
}

/// How far the present wish of a Service got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// Ensured.
    Settled,
    /// Ensured, but not working yet. `said`: `EnsuringLoadBalancer` was written.
    Waiting { said: bool },
    /// The last attempt failed, or the first has not ended.
    Open { said: bool },
    /// The last attempt to take it away failed. `told`: `DeletedLoadBalancer` was written.
    Leaving { told: bool },
}

/// What is remembered of a Service that was handed to the provider.
#[derive(Debug)]
struct Entry {
    /// The Service as it was handed over last.
    service: Arc<Service>,
    /// The node set as it was handed over last.
    nodes: Arc<NodeIds>,
    round: Round,
    /// It was ours at some time; else only a finalizer says so.
    made: bool,
    /// Ensure again although nothing that is known here changed.
    forced: bool,
    /// Since when the present wish waits to work.
    waits_since: Option<Instant>,
    failure: Option<(String, Instant)>,
}

impl Entry {
    fn new(service: Arc<Service>, round: Round) -> Self {
        let nodes = Arc::default();
        Self { service, nodes, round, made: true, forced: false, waits_since: None, failure: None }
    }

    /// Whether `DeletedLoadBalancer` was written and not all was done after it.
    fn is_told_to_leave(&self) -> bool {
        self.round == Round::Leaving { told: true }
    }
}

/// What the state asks the provider; none of it waits.
pub(crate) trait Rules {
    /// [`LoadBalancer::serves_class`].
    fn serves_class(&self, class: Option<&str>) -> bool;

    /// [`LoadBalancer::concerned_after`].
    fn concerned_after(&self, old: &Service, new: &Service) -> Option<Duration>;

    /// [`LoadBalancer::depends_on_nodes`].
    fn depends_on_nodes(&self) -> bool;
}

/// The rules of a provider.
pub(crate) struct ProviderRules<'a, P>(pub(crate) &'a P);

impl<P: LoadBalancer> Rules for ProviderRules<'_, P> {
    fn serves_class(&self, class: Option<&str>) -> bool {
        self.0.serves_class(class)
    }

    fn concerned_after(&self, old: &Service, new: &Service) -> Option<Duration> {
        self.0.concerned_after(old, new)
    }

    fn depends_on_nodes(&self) -> bool {
        self.0.depends_on_nodes()
    }
}

/// The state of the service controller.
pub(crate) struct State<R> {
    options: ServiceOptions,
    rules: R,
    services: Informer<Service>,
    nodes: Informer<Node>,
    /// All Services were seen, and all Nodes.
    seen: (bool, bool),
    /// The stable node set, until a node changes.
    node_set: Option<Vec<Arc<Node>>>,
    /// What was its identity last.
    node_ids: Arc<NodeIds>,
    memory: BTreeMap<ServiceKey, Entry>,
    queue: Queue<ServiceKey>,
    fan_out: FanOut,
}

impl<R: Rules> State<R> {
    pub(crate) fn new(
        services: Informer<Service>,
        nodes: Informer<Node>,
        options: ServiceOptions,
        rules: R,
        gauges: QueueGauges,
    ) -> Self {
        Self {
            options,
            rules,
            services,
            nodes,
            seen: (false, false),
            node_set: None,
            node_ids: Arc::default(),
            memory: BTreeMap::new(),
            queue: Queue::new(BACKOFF, gauges),
            fan_out: FanOut::default(),
        }
    }

    /// Services changed.
    pub(crate) fn services_changed(&mut self, changes: &[Change<Service>], now: Instant) {
        for change in changes {
            self.service_changed(change, now);
        }
        self.seen.0 |= self.services.is_synced();
    }

    fn service_changed(&mut self, change: &Change<Service>, now: Instant) {
        match (&change.old, &change.new) {
            (old, Some(new)) => self.service_applied(old.as_deref(), new, now),
            (Some(gone), None) => self.queue.add_urgent(&ServiceKey::of(gone)),
            (None, None) => {}
        }
    }

    /// Queues what concerns us (service-contract S-03, S-04). Clean-ups come first: the address must go at once.
    fn service_applied(&mut self, old: Option<&Service>, new: &Arc<Service>, now: Instant) {
        let serves = |class: Option<&str>| self.rules.serves_class(class);
        let wants = |service: &Service| wants_lb(service, serves);
        let key = ServiceKey::of(new);
        let entry = self.memory.get_mut(&key).filter(|entry| entry.service.metadata.uid == new.metadata.uid);
        let known = entry.is_some();
        if let Some(entry) = entry {
            if !needs_update(&entry.service, new, wants) {
                // All that matters is as it was handed over: of thousands of Services one copy is enough.
                entry.service = Arc::clone(new);
            }
            // Back before its clean-up began. The API server took the status with the type (service-contract S-30).
            entry.forced |= old.is_some_and(|old| !wants(old)) && wants(new);
        }
        let need = need(new, known, serves, &self.options);
        if need == Need::Cleanup {
            self.queue.add_urgent(&key);
        } else if need == Need::Check && old.is_none() {
            self.queue.add(&key);
        } else if old.map_or_else(|| wants(new), |old| needs_update(old, new, wants)) {
            // A new wish starts with the shortest back-off.
            self.queue.forget(&key);
            self.queue.add(&key);
        } else if let Some(old) = old.filter(|_| wants(new))
            && let Some(delay) = self.rules.concerned_after(old, new)
        {
            self.force(&key);
            if delay.is_zero() { self.queue.add(&key) } else { self.queue.add_at(&key, now + delay) }
        }
    }

    /// Nodes changed: every load balancer may have another node set now (service-contract S-22).
    pub(crate) fn nodes_changed(&mut self, changes: &[Change<Node>], now: Instant) {
        let matters = changes.iter().any(|change| match (&change.old, &change.new) {
            (Some(old), Some(new)) => node_matters(old, new),
            (None, _) | (_, None) => true,
        });
        if !changes.is_empty() {
            self.node_set = None;
        }
        self.seen.1 |= self.nodes.is_synced();
        if matters && self.rules.depends_on_nodes() {
            self.fan_out.begin(self.memory.keys(), now);
            for key in self.memory.keys() {
                self.queue.add(key);
            }
        }
    }

    /// The provider has news of a Service.
    pub(crate) fn provider_change(&mut self, key: &ServiceKey) {
        self.force(key);
        self.queue.add(key);
    }

    fn force(&mut self, key: &ServiceKey) {
        if let Some(entry) = self.memory.get_mut(key) {
            entry.forced = true;
        }
    }

    /// How long the nodes' last changes took to reach every load balancer; told once.
    pub(crate) fn fan_out_took(&mut self) -> Option<Duration> {
        self.fan_out.take_result()
    }

    /// When a Service is due that is not due now; `room`: a worker is free for it.
    pub(crate) fn next_due(&self, room: bool) -> Option<Instant> {
        self.queue.next_due(room)
    }

    /// The next job, if there is one. Nothing is done before all Services and Nodes have been seen.
    pub(crate) fn next_job(&mut self, now: Instant) -> Option<Job> {
        if self.seen != (true, true) {
            return None;
        }
        while let Some(key) = self.queue.pop(now) {
            self.fan_out.begin_work(&key);
            if let Some(job) = self.job(&key, now) {
                return Some(job);
            }
            self.fan_out.end_work(&key, now);
            self.queue.forget(&key);
            self.queue.done(&key);
        }
        None
    }

    fn job(&mut self, key: &ServiceKey, now: Instant) -> Option<Job> {
        let service = self.services.get(&key.to_string());
        let known = self.memory.get(key);
        let predecessor = known
            .map(|entry| &entry.service)
            .filter(|old| service.as_ref().is_none_or(|new| new.metadata.uid != old.metadata.uid))
            .cloned();
        let same_known = known.is_some() && predecessor.is_none();
        let serves = |class: Option<&str>| self.rules.serves_class(class);
        let need = service
            .as_ref()
            .map_or(Need::Nothing, |service| need(service, same_known, serves, &self.options));
        let task = match (need, service) {
            (Need::LoadBalancer, Some(service)) => {
                self.ensure_task(key, service, predecessor.is_some(), now)?
            }
            (Need::Cleanup, Some(service)) => {
                let same = known.filter(|_| same_known);
                let (made, told) =
                    (same.is_some_and(|entry| entry.made), same.is_some_and(Entry::is_told_to_leave));
                let entry = Entry::new(Arc::clone(&service), Round::Open { said: false });
                // (A predecessor stays until its own is gone.)
                self.memory.entry(key.clone()).or_insert(Entry { made, ..entry });
                Task::Cleanup { service, made, told }
            }
            (Need::Check, Some(service)) => Task::Check { service },
            (Need::Nothing, _) | (_, None) => {
                predecessor.as_ref()?;
                Task::Forget
            }
        };
        Some(Job { key: key.clone(), predecessor, task })
    }

    /// The stable node set and its identity, which thousands of Services share.
    fn node_set(&mut self) -> (Vec<Arc<Node>>, Arc<NodeIds>) {
        if let Some(nodes) = &self.node_set {
            return (nodes.clone(), Arc::clone(&self.node_ids));
        }
        let nodes = stable_node_set(&self.nodes.list());
        self.node_ids = self.shared_ids(&nodes);
        self.node_set = Some(nodes.clone());
        (nodes, Arc::clone(&self.node_ids))
    }

    /// The identity of a node set, the same object for all who have the latest one.
    fn shared_ids(&self, nodes: &[Arc<Node>]) -> Arc<NodeIds> {
        let ids = node_ids(nodes);
        if ids == *self.node_ids { Arc::clone(&self.node_ids) } else { Arc::new(ids) }
    }

    fn ensure_task(
        &mut self,
        key: &ServiceKey,
        service: Arc<Service>,
        replaces: bool,
        now: Instant,
    ) -> Option<Task> {
        let (nodes, ids) = self.node_set();
        let serves = |class: Option<&str>| self.rules.serves_class(class);
        let wants = |service: &Service| wants_lb(service, serves);
        if replaces {
            // The memory stays with the predecessor until its load balancer is gone: a failure must find it again.
            return Some(Task::Ensure { service, nodes, voice: Voice::Speak, patient: true });
        }
        let Some(entry) = self.memory.get_mut(key) else {
            // First seen by this process. If another one has begun with it, say nothing unless something changes: a
            // restart of the controller is not news.
            let begun = has_finalizer(&service, finalizer_for(&service, &self.options));
            let voice = if begun { Voice::Quiet } else { Voice::Speak };
            let mut entry = Entry::new(Arc::clone(&service), Round::Open { said: false });
            entry.nodes = ids;
            self.memory.insert(key.clone(), entry);
            return Some(Task::Ensure { service, nodes, voice, patient: true });
        };
        let changed = needs_update(&entry.service, &service, wants);
        let voice = match (changed, entry.round) {
            (true, _) | (false, Round::Open { said: false } | Round::Leaving { .. }) => Voice::Speak,
            (false, Round::Waiting { said: true } | Round::Open { said: true }) => Voice::Finish,
            (false, Round::Settled | Round::Waiting { said: false }) => Voice::Quiet,
        };
        let moved = !Arc::ptr_eq(&entry.nodes, &ids) && entry.nodes != ids && self.rules.depends_on_nodes();
        let settled = entry.round == Round::Settled && !changed && !entry.forced;
        if settled && !moved {
            return None;
        }
        entry.service = Arc::clone(&service);
        entry.nodes = ids;
        entry.forced = false;
        if settled {
            return Some(Task::UpdateNodes { service, nodes });
        }
        if changed {
            entry.failure = None;
            entry.waits_since = None;
        }
        let patient = entry.waits_since.is_none_or(|since| now.saturating_duration_since(since) < PATIENCE);
        Some(Task::Ensure { service, nodes, voice, patient })
    }

    /// Takes in how a job went. Returns whether its failure is to be told (the same one is not told over and over).
    pub(crate) fn finish(&mut self, job: &Job, report: Report, now: Instant) -> bool {
        // The answer to our write may hold a change that the watch has not shown yet: it must not be missed.
        if let Some(change) = report.latest.and_then(|latest| self.services.learn(latest)) {
            self.service_changed(&change, now);
        }
        let kept = matches!(&report.outcome, Err(failure) if failure.kind == FailureKind::Delete);
        if job.predecessor.is_some() && !kept {
            self.replace(&job.key, &job.task);
        }
        let tell = match report.outcome {
            Ok(done) => {
                self.succeeded(&job.key, done, report.said, now);
                false
            }
            Err(failure) => {
                if let Task::Check { service } = &job.task
                    && failure.kind != FailureKind::Superseded
                {
                    // It is ours, and not all of it is gone: what is left may show that no more.
                    let entry = Entry::new(Arc::clone(service), Round::Open { said: false });
                    self.memory.insert(job.key.clone(), entry);
                }
                self.failed(job, &failure, report.said, report.known, now)
            }
        };
        self.queue.done(&job.key);
        self.fan_out.end_work(&job.key, now);
        tell
    }

    /// The predecessor's load balancer is gone: remember the Service that took its name, if it was handed over.
    fn replace(&mut self, key: &ServiceKey, task: &Task) {
        let predecessor = self.memory.remove(key);
        if let Task::Ensure { service, nodes, .. } = task {
            let mut entry = Entry::new(Arc::clone(service), Round::Open { said: false });
            entry.nodes = self.shared_ids(nodes);
            // What the provider told of this name meanwhile concerns the one that has it now.
            entry.forced = predecessor.is_some_and(|predecessor| predecessor.forced);
            self.memory.insert(key.clone(), entry);
        }
    }

    fn succeeded(&mut self, key: &ServiceKey, done: Done, said: bool, now: Instant) {
        self.queue.forget(key);
        if done == Done::Removed {
            self.memory.remove(key);
            return;
        }
        let Some(entry) = self.memory.get_mut(key) else { return };
        entry.failure = None;
        match done {
            Done::Ensured => {
                entry.round = Round::Settled;
                entry.waits_since = None;
            }
            Done::Pending { unsaid } => {
                entry.round = Round::Waiting { said };
                let since = *entry.waits_since.get_or_insert(now);
                if unsaid {
                    self.queue.add_at(key, since + PATIENCE);
                }
            }
            Done::NodesUpdated | Done::Removed => {}
        }
    }

    fn failed(&mut self, job: &Job, failure: &Failure, said: bool, known: bool, now: Instant) -> bool {
        let key = &job.key;
        match failure.retry {
            Retry::Backoff => {
                self.queue.retry(key, now);
            }
            Retry::After(delay) => self.queue.add_at(key, now + delay),
            Retry::Now => self.queue.add_at(key, now),
        }
        let Some(entry) = self.memory.get_mut(key) else { return true };
        entry.round = match job.task {
            Task::Cleanup { .. } | Task::Check { .. } => Round::Leaving { told: said },
            Task::Ensure { .. } | Task::UpdateNodes { .. } | Task::Forget => Round::Open { said },
        };
        entry.waits_since = None;
        let tell = match failure.kind {
            FailureKind::Superseded => return false,
            FailureKind::Sync | FailureKind::Delete | FailureKind::UpdateNodes => {
                // What the Service shows from before this process was told then.
                !known && is_news(entry.failure.as_ref(), &failure.message, now)
            }
        };
        if tell || entry.failure.is_none() {
            entry.failure = Some((failure.message.clone(), now));
        }
        tell
    }
}

/// Whether a failure is worth an event: another one than before, or the same after a while.
fn is_news(last: Option<&(String, Instant)>, message: &str, now: Instant) -> bool {
    last.is_none_or(|(told, at)| told != message || now.saturating_duration_since(*at) >= REPEAT_FAILURE)
}
