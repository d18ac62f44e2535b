//! The Services to work on, what was handed to the provider, and the next job: no clock, no API server, no provider. The loop in
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
use super::select::{Operation, finalizer_for, has_finalizer, operation, wants_lb};
use crate::backoff::Backoff;
use crate::metrics::QueueGauges;
use crate::provider::{LoadBalancer, ServiceKey};
use crate::queue::WorkQueue;
use crate::store::{Change, Informer};

/// Retry of one Service: 5 s, 10 s, … 300 s (service-contract S-16).
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(5));
/// Time after which a load balancer that does not work has a condition that reports it. Most work within a second or two, and then the
/// condition is written once, together with the address.
pub(crate) const PENDING_GRACE_PERIOD: Duration = Duration::from_secs(30);
/// The same failure of the same Service is reported again no sooner.
const REPEAT_FAILURE: Duration = Duration::from_mins(5);

/// Next work for one Service.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) key: ServiceKey,
    /// A Service of the same name that is gone: its load balancer goes first (service-contract S-09).
    pub(crate) predecessor: Option<Arc<Service>>,
    pub(crate) task: Task,
}

#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// Create or update the load balancer. `in_grace_period`: its condition need not report yet that it does not work.
    Ensure { service: Arc<Service>, nodes: Vec<Arc<Node>>, event_policy: EventPolicy, in_grace_period: bool },
    /// Bring it to a changed node set.
    UpdateNodes { service: Arc<Service>, nodes: Vec<Arc<Node>> },
    /// Remove it and the finalizer. `was_ours`: it was ours, whatever the provider answers by now. `event_written`: an earlier attempt
    /// wrote `DeletedLoadBalancer`.
    Cleanup { service: Arc<Service>, was_ours: bool, event_written: bool },
    /// The same, if the provider knows of a load balancer.
    Check { service: Arc<Service> },
    /// The Service is gone from the API server; only its predecessor's load balancer is to be removed.
    Forget,
}

/// Events that an ensure writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventPolicy {
    /// `EnsuringLoadBalancer` before, `EnsuredLoadBalancer` after.
    All,
    /// `EnsuringLoadBalancer` was written by an earlier attempt for the same spec; only `EnsuredLoadBalancer`.
    EnsuredOnly,
    /// Nothing changed that we know of: none, unless the outcome differs from what the Service shows.
    OnChange,
}

/// Report of a finished job.
#[derive(Debug)]
pub(crate) struct JobReport {
    pub(crate) outcome: Result<JobSuccess, JobFailure>,
    /// `EnsuringLoadBalancer` was written; of a clean-up: `DeletedLoadBalancer`.
    pub(crate) event_written: bool,
    /// The failure is in the Service's condition already.
    pub(crate) already_reported: bool,
    /// The Service as the API server returned it after our last write.
    pub(crate) latest: Option<Service>,
}

/// A job that ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobSuccess {
    Ensured,
    /// Ensured, but not working yet. `condition_unwritten`: the condition does not report that yet.
    Pending {
        condition_unwritten: bool,
    },
    NodesUpdated,
    Removed,
}

/// A job that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobFailure {
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
    pub(crate) retry: Retry,
}

/// Event that reports a failure (service-contract S-20 e, f, i).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    Sync,
    Delete,
    UpdateNodes,
    /// Not reported: what was tried is no longer wanted.
    Superseded,
}

/// Time of the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// After the Service's back-off.
    Backoff,
    /// After exactly this time; the back-off does not grow.
    After(Duration),
    /// At once, as a full ensure (service-contract S-22).
    Now,
}

/// Progress of the work on the present spec of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SyncPhase {
    /// Ensured.
    Ensured,
    /// Ensured, but not working yet. `event_written`: `EnsuringLoadBalancer` was written.
    Pending { event_written: bool },
    /// The last attempt failed, or the first has not ended.
    Unfinished { event_written: bool },
    /// The last attempt to remove it failed. `event_written`: `DeletedLoadBalancer` was written.
    CleaningUp { event_written: bool },
}

/// Record of a Service that was handed to the provider.
#[derive(Debug)]
struct Entry {
    /// The Service as it was handed over last.
    service: Arc<Service>,
    /// The node set as it was handed over last.
    nodes: Arc<NodeIds>,
    phase: SyncPhase,
    /// It was ours at some time; else only a finalizer suggests that.
    was_ours: bool,
    /// Ensure again although nothing that is known here changed.
    forced: bool,
    /// Time since which the load balancer of the present spec is pending.
    pending_since: Option<Instant>,
    failure: Option<(String, Instant)>,
}

impl Entry {
    fn new(service: Arc<Service>, phase: SyncPhase) -> Self {
        let nodes = Arc::default();
        Self { service, nodes, phase, was_ours: true, forced: false, pending_since: None, failure: None }
    }

    /// Returns true if `DeletedLoadBalancer` was written and later steps are still to be done.
    fn deleted_event_written(&self) -> bool {
        self.phase == SyncPhase::CleaningUp { event_written: true }
    }
}

/// The provider's answers that the queue needs; none of them waits.
pub(crate) trait ProviderPolicy {
    /// [`LoadBalancer::serves_class`].
    fn serves_class(&self, class: Option<&str>) -> bool;

    /// [`LoadBalancer::requeue_after`].
    fn requeue_after(&self, old: &Service, new: &Service) -> Option<Duration>;

    /// [`LoadBalancer::depends_on_nodes`].
    fn depends_on_nodes(&self) -> bool;
}

/// The policy of a provider.
pub(crate) struct PolicyOf<'a, P>(pub(crate) &'a P);

impl<P: LoadBalancer> ProviderPolicy for PolicyOf<'_, P> {
    fn serves_class(&self, class: Option<&str>) -> bool {
        self.0.serves_class(class)
    }

    fn requeue_after(&self, old: &Service, new: &Service) -> Option<Duration> {
        self.0.requeue_after(old, new)
    }

    fn depends_on_nodes(&self) -> bool {
        self.0.depends_on_nodes()
    }
}

/// Decides which job is next, from what the watches show and how earlier jobs ended.
pub(crate) struct JobQueue<R> {
    options: ServiceOptions,
    policy: R,
    services: Informer<Service>,
    nodes: Informer<Node>,
    /// All Services were seen, and all Nodes.
    seen: (bool, bool),
    /// The stable node set, until a node changes.
    node_set: Option<Vec<Arc<Node>>>,
    /// Identity of the last node set.
    node_ids: Arc<NodeIds>,
    memory: BTreeMap<ServiceKey, Entry>,
    queue: WorkQueue<ServiceKey>,
    fan_out: FanOut,
}

impl<R: ProviderPolicy> JobQueue<R> {
    pub(crate) fn new(
        services: Informer<Service>,
        nodes: Informer<Node>,
        options: ServiceOptions,
        policy: R,
        gauges: QueueGauges,
    ) -> Self {
        Self {
            options,
            policy,
            services,
            nodes,
            seen: (false, false),
            node_set: None,
            node_ids: Arc::default(),
            memory: BTreeMap::new(),
            queue: WorkQueue::new(BACKOFF, gauges),
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

    /// Queues what concerns us (service-contract S-03, S-04). Clean-ups come first: the address must be withdrawn immediately.
    fn service_applied(&mut self, old: Option<&Service>, new: &Arc<Service>, now: Instant) {
        let serves = |class: Option<&str>| self.policy.serves_class(class);
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
        let operation = operation(new, known, serves, &self.options);
        if operation == Operation::Cleanup {
            self.queue.add_urgent(&key);
        } else if operation == Operation::Check && old.is_none() {
            self.queue.add(&key);
        } else if old.map_or_else(|| wants(new), |old| needs_update(old, new, wants)) {
            // A new spec starts with the shortest back-off.
            self.queue.forget(&key);
            self.queue.add(&key);
        } else if let Some(old) = old.filter(|_| wants(new))
            && let Some(delay) = self.policy.requeue_after(old, new)
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
        if matters && self.policy.depends_on_nodes() {
            self.fan_out.begin(self.memory.keys(), now);
            for key in self.memory.keys() {
                self.queue.add(key);
            }
        }
    }

    /// The provider names a Service to ensure again.
    pub(crate) fn provider_change(&mut self, key: &ServiceKey) {
        self.force(key);
        self.queue.add(key);
    }

    fn force(&mut self, key: &ServiceKey) {
        if let Some(entry) = self.memory.get_mut(key) {
            entry.forced = true;
        }
    }

    /// Returns the time that the nodes' last changes took to reach every load balancer, once.
    pub(crate) fn fan_out_took(&mut self) -> Option<Duration> {
        self.fan_out.take_result()
    }

    /// Returns the time at which the next delayed Service is due; `room`: a worker is free for it.
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
        let serves = |class: Option<&str>| self.policy.serves_class(class);
        let operation = service
            .as_ref()
            .map_or(Operation::Nothing, |service| operation(service, same_known, serves, &self.options));
        let task = match (operation, service) {
            (Operation::Ensure, Some(service)) => {
                self.ensure_task(key, service, predecessor.is_some(), now)?
            }
            (Operation::Cleanup, Some(service)) => {
                let same = known.filter(|_| same_known);
                let (was_ours, event_written) = (
                    same.is_some_and(|entry| entry.was_ours),
                    same.is_some_and(Entry::deleted_event_written),
                );
                let entry = Entry::new(Arc::clone(&service), SyncPhase::Unfinished { event_written: false });
                // (A predecessor stays until its own is gone.)
                self.memory.entry(key.clone()).or_insert(Entry { was_ours, ..entry });
                Task::Cleanup { service, was_ours, event_written }
            }
            (Operation::Check, Some(service)) => Task::Check { service },
            (Operation::Nothing, _) | (_, None) => {
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

    /// Returns the identity of a node set, the same object for all entries that have the latest one.
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
        let serves = |class: Option<&str>| self.policy.serves_class(class);
        let wants = |service: &Service| wants_lb(service, serves);
        if replaces {
            // The memory stays with the predecessor until its load balancer is gone: a failure must find it again.
            return Some(Task::Ensure {
                service,
                nodes,
                event_policy: EventPolicy::All,
                in_grace_period: true,
            });
        }
        let Some(entry) = self.memory.get_mut(key) else {
            // First seen by this process. If another one has begun with it, write no event unless something changes: a restart of the
            // controller is no event.
            let begun = has_finalizer(&service, finalizer_for(&service, &self.options));
            let event_policy = if begun { EventPolicy::OnChange } else { EventPolicy::All };
            let mut entry = Entry::new(Arc::clone(&service), SyncPhase::Unfinished { event_written: false });
            entry.nodes = ids;
            self.memory.insert(key.clone(), entry);
            return Some(Task::Ensure { service, nodes, event_policy, in_grace_period: true });
        };
        let changed = needs_update(&entry.service, &service, wants);
        let event_policy = match (changed, entry.phase) {
            (true, _)
            | (false, SyncPhase::Unfinished { event_written: false } | SyncPhase::CleaningUp { .. }) => {
                EventPolicy::All
            }
            (
                false,
                SyncPhase::Pending { event_written: true } | SyncPhase::Unfinished { event_written: true },
            ) => EventPolicy::EnsuredOnly,
            (false, SyncPhase::Ensured | SyncPhase::Pending { event_written: false }) => {
                EventPolicy::OnChange
            }
        };
        let moved = !Arc::ptr_eq(&entry.nodes, &ids) && entry.nodes != ids && self.policy.depends_on_nodes();
        let settled = entry.phase == SyncPhase::Ensured && !changed && !entry.forced;
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
            entry.pending_since = None;
        }
        let in_grace_period = entry
            .pending_since
            .is_none_or(|since| now.saturating_duration_since(since) < PENDING_GRACE_PERIOD);
        Some(Task::Ensure { service, nodes, event_policy, in_grace_period })
    }

    /// Records the result of a job. Returns true if its failure is to be reported (the same one is not reported over and over).
    pub(crate) fn finish(&mut self, job: &Job, report: JobReport, now: Instant) -> bool {
        // The answer to our write may hold a change that the watch has not shown yet: it must not be missed.
        if let Some(change) = report.latest.and_then(|latest| self.services.learn(latest)) {
            self.service_changed(&change, now);
        }
        let kept = matches!(&report.outcome, Err(failure) if failure.kind == FailureKind::Delete);
        if job.predecessor.is_some() && !kept {
            self.replace(&job.key, &job.task);
        }
        let should_report = match report.outcome {
            Ok(done) => {
                self.succeeded(&job.key, done, report.event_written, now);
                false
            }
            Err(failure) => {
                if let Task::Check { service } = &job.task
                    && failure.kind != FailureKind::Superseded
                {
                    // It is ours, and not all of it is gone: what is left may show that no more.
                    let entry =
                        Entry::new(Arc::clone(service), SyncPhase::Unfinished { event_written: false });
                    self.memory.insert(job.key.clone(), entry);
                }
                self.failed(job, &failure, report.event_written, report.already_reported, now)
            }
        };
        self.queue.done(&job.key);
        self.fan_out.end_work(&job.key, now);
        should_report
    }

    /// Records the Service that took the name of the removed predecessor, if it was handed over.
    fn replace(&mut self, key: &ServiceKey, task: &Task) {
        let predecessor = self.memory.remove(key);
        if let Task::Ensure { service, nodes, .. } = task {
            let mut entry = Entry::new(Arc::clone(service), SyncPhase::Unfinished { event_written: false });
            entry.nodes = self.shared_ids(nodes);
            // If the provider named this key meanwhile, it meant the Service that has the name now.
            entry.forced = predecessor.is_some_and(|predecessor| predecessor.forced);
            self.memory.insert(key.clone(), entry);
        }
    }

    fn succeeded(&mut self, key: &ServiceKey, done: JobSuccess, event_written: bool, now: Instant) {
        self.queue.forget(key);
        if done == JobSuccess::Removed {
            self.memory.remove(key);
            return;
        }
        let Some(entry) = self.memory.get_mut(key) else { return };
        entry.failure = None;
        match done {
            JobSuccess::Ensured => {
                entry.phase = SyncPhase::Ensured;
                entry.pending_since = None;
            }
            JobSuccess::Pending { condition_unwritten } => {
                entry.phase = SyncPhase::Pending { event_written };
                let since = *entry.pending_since.get_or_insert(now);
                if condition_unwritten {
                    self.queue.add_at(key, since + PENDING_GRACE_PERIOD);
                }
            }
            JobSuccess::NodesUpdated | JobSuccess::Removed => {}
        }
    }

    fn failed(
        &mut self,
        job: &Job,
        failure: &JobFailure,
        event_written: bool,
        already_reported: bool,
        now: Instant,
    ) -> bool {
        let key = &job.key;
        match failure.retry {
            Retry::Backoff => {
                self.queue.retry(key, now);
            }
            Retry::After(delay) => self.queue.add_at(key, now + delay),
            Retry::Now => self.queue.add_at(key, now),
        }
        let Some(entry) = self.memory.get_mut(key) else { return true };
        entry.phase = match job.task {
            Task::Cleanup { .. } | Task::Check { .. } => SyncPhase::CleaningUp { event_written },
            Task::Ensure { .. } | Task::UpdateNodes { .. } | Task::Forget => {
                SyncPhase::Unfinished { event_written }
            }
        };
        entry.pending_since = None;
        let should_report = match failure.kind {
            FailureKind::Superseded => return false,
            FailureKind::Sync | FailureKind::Delete | FailureKind::UpdateNodes => {
                // What the Service shows from before this process was reported then.
                !already_reported && is_new_failure(entry.failure.as_ref(), &failure.message, now)
            }
        };
        if should_report || entry.failure.is_none() {
            entry.failure = Some((failure.message.clone(), now));
        }
        should_report
    }
}

/// Returns true if a failure needs an event: it differs from the last one, or is the same after [`REPEAT_FAILURE`].
fn is_new_failure(last: Option<&(String, Instant)>, message: &str, now: Instant) -> bool {
    last.is_none_or(|(reported, at)| {
        reported != message || now.saturating_duration_since(*at) >= REPEAT_FAILURE
    })
}
