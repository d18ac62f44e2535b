use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Service};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::provider::ServiceKey;
use crate::service::ServiceOptions;
use crate::service::jobs::{
    EventPolicy, FailureKind, Job, JobFailure, JobQueue, JobReport, JobSuccess, PENDING_GRACE_PERIOD,
    ProviderPolicy, Retry, Task,
};
use crate::store::Informer;
use crate::testing::{lb, node, node_object, service, with};
use crate::watch::Event;

/// A provider of classless Services that looks at their labels, one of which tells when.
pub(super) struct ClasslessPolicy {
    pub(super) depends_on_nodes: bool,
}

impl ProviderPolicy for ClasslessPolicy {
    fn serves_class(&self, class: Option<&str>) -> bool {
        class.is_none()
    }

    fn requeue_after(&self, old: &Service, new: &Service) -> Option<Duration> {
        let after = |service: &Service| service.metadata.labels.as_ref()?.get("after")?.parse().ok();
        (old.metadata.labels != new.metadata.labels).then(|| Duration::from_secs(after(new).unwrap_or(0)))
    }

    fn depends_on_nodes(&self) -> bool {
        self.depends_on_nodes
    }
}

pub(super) struct Rig {
    pub(super) jobs: JobQueue<ClasslessPolicy>,
    services: Informer<Service>,
    nodes: Informer<Node>,
    pub(super) now: Instant,
}

impl Rig {
    pub(super) fn new(services: &[Value], nodes: &[&str]) -> Self {
        Self::with(ClasslessPolicy { depends_on_nodes: true }, services, nodes)
    }

    pub(super) fn with(rules: ClasslessPolicy, services: &[Value], nodes: &[&str]) -> Self {
        let mut rig = Self::unsynced(rules);
        rig.service_event(Event::Init);
        for value in services {
            rig.service_event(Event::InitApply(service(value.clone())));
        }
        rig.service_event(Event::InitDone);
        rig.node_event(Event::Init);
        for name in nodes {
            rig.node_event(Event::InitApply(node_object(node(name))));
        }
        rig.node_event(Event::InitDone);
        rig
    }

    pub(super) fn unsynced(rules: ClasslessPolicy) -> Self {
        let gauges = Metrics::unregistered("lease").queues.of("service");
        let (services, nodes) = (Informer::default(), Informer::default());
        let options = ServiceOptions::default();
        let jobs = JobQueue::new(services.clone(), nodes.clone(), options, rules, gauges);
        Self { jobs, services, nodes, now: Instant::now() }
    }

    pub(super) fn service_event(&mut self, event: Event<Service>) {
        self.jobs.services_changed(&self.services.handle(event), self.now);
    }

    pub(super) fn node_event(&mut self, event: Event<Node>) {
        self.jobs.nodes_changed(&self.nodes.handle(event), self.now);
    }

    pub(super) fn job(&mut self) -> Option<Job> {
        self.jobs.next_job(self.now)
    }

    pub(super) fn must_job(&mut self) -> Job {
        self.job().expect("a job")
    }

    pub(super) fn apply(&mut self, value: &Value) {
        self.service_event(Event::Apply(service(value.clone())));
    }

    pub(super) fn add_node(&mut self, name: &str) {
        self.change_node(node(name));
    }

    pub(super) fn change_node(&mut self, node: Value) {
        self.node_event(Event::Apply(node_object(node)));
    }

    pub(super) fn finish(&mut self, job: &Job, outcome: Result<JobSuccess, JobFailure>) -> bool {
        let event_written = matches!(
            &job.task,
            Task::Ensure { event_policy: EventPolicy::All | EventPolicy::EnsuredOnly, .. }
        );
        let event_written = event_written && !matches!(outcome, Ok(JobSuccess::Ensured));
        self.jobs.finish(
            job,
            JobReport { outcome, event_written, already_reported: false, latest: None },
            self.now,
        )
    }

    /// Does the next job and expects no other.
    pub(super) fn settle(&mut self) {
        let job = self.must_job();
        assert!(!self.finish(&job, Ok(JobSuccess::Ensured)), "there is no failure to tell");
        assert!(self.job().is_none());
    }

    pub(super) fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

pub(super) fn failure(kind: FailureKind, retry: Retry) -> JobFailure {
    JobFailure { kind, message: "no".to_owned(), retry }
}

pub(super) fn served(name: &str) -> Value {
    with(
        lb(name),
        &json!({
            "metadata": { "finalizers": ["service.kubernetes.io/load-balancer-cleanup"] },
            "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1", "ipMode": "VIP" }] } }
        }),
    )
}

pub(super) fn event_policy(job: &Job) -> EventPolicy {
    match &job.task {
        Task::Ensure { event_policy, .. } => *event_policy,
        other => panic!("not an ensure: {other:?}"),
    }
}

pub(super) fn node_names(job: &Job) -> Vec<String> {
    match &job.task {
        Task::Ensure { nodes, .. } | Task::UpdateNodes { nodes, .. } => {
            nodes.iter().filter_map(|node| node.metadata.name.clone()).collect()
        }
        other => panic!("no nodes: {other:?}"),
    }
}

pub(super) fn key(name: &str) -> ServiceKey {
    ServiceKey { namespace: "default".to_owned(), name: name.to_owned() }
}

#[test]
fn nothing_is_done_before_all_services_and_nodes_are_known() {
    let mut rig = Rig::new(&[], &[]);
    rig.service_event(Event::Apply(service(lb("web"))));
    assert!(rig.job().is_some());

    let mut rig = Rig::unsynced(ClasslessPolicy { depends_on_nodes: true });
    rig.service_event(Event::Init);
    rig.service_event(Event::InitApply(service(lb("web"))));
    rig.service_event(Event::InitDone);
    assert!(rig.job().is_none(), "the nodes are not known yet");

    let mut rig = Rig::unsynced(ClasslessPolicy { depends_on_nodes: true });
    rig.node_event(Event::Init);
    rig.node_event(Event::InitDone);
    rig.service_event(Event::Apply(service(lb("web"))));
    assert!(rig.job().is_none(), "not all Services are known yet");
}

#[test]
fn a_new_service_is_announced_and_a_served_one_is_not() {
    let mut rig = Rig::new(&[lb("a"), served("b")], &["n1"]);
    let voices: Vec<_> = [rig.must_job(), rig.must_job()].iter().map(event_policy).collect();
    assert_eq!(voices, [EventPolicy::All, EventPolicy::OnChange]);
}

#[test]
fn voice_follows_the_wish_not_the_attempt() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    let job = rig.must_job();
    assert_eq!(event_policy(&job), EventPolicy::All);
    rig.finish(&job, Ok(JobSuccess::Pending { condition_unwritten: false }));
    rig.jobs.provider_change(&key("web"));
    let job = rig.must_job();
    assert_eq!(event_policy(&job), EventPolicy::EnsuredOnly, "the same wish, pending");
    rig.finish(&job, Err(failure(FailureKind::Sync, Retry::Backoff)));
    rig.jobs.provider_change(&key("web"));
    let job = rig.must_job();
    assert_eq!(event_policy(&job), EventPolicy::EnsuredOnly, "the same wish, failed");
    rig.finish(&job, Ok(JobSuccess::Ensured));
    rig.jobs.provider_change(&key("web"));
    let job = rig.must_job();
    assert_eq!(event_policy(&job), EventPolicy::OnChange, "nothing is asked that is not had");
    rig.finish(&job, Ok(JobSuccess::Ensured));
    rig.apply(&with(lb("web"), &json!({ "metadata": { "annotations": { "a": "b" } } })));
    assert_eq!(event_policy(&rig.must_job()), EventPolicy::All, "a new wish");
}

#[test]
fn a_served_service_that_waits_after_a_restart_stays_silent() {
    let mut rig = Rig::new(&[served("web")], &["n1"]);
    let job = rig.must_job();
    rig.finish(&job, Ok(JobSuccess::Pending { condition_unwritten: false }));
    rig.jobs.provider_change(&key("web"));
    assert_eq!(event_policy(&rig.must_job()), EventPolicy::OnChange);
}

// shows: ccm-contract 138 to 140, S-16
#[test]
fn retries_138_to_140() {
    for (outcome, due) in [
        (Ok(JobSuccess::Ensured), None),
        (Ok(JobSuccess::Pending { condition_unwritten: false }), None),
        (Err(failure(FailureKind::Sync, Retry::Backoff)), Some(5)),
        (Err(failure(FailureKind::Sync, Retry::After(Duration::from_secs(42)))), Some(42)),
        (Err(failure(FailureKind::UpdateNodes, Retry::Now)), Some(0)),
    ] {
        let mut rig = Rig::new(&[lb("web")], &["n1"]);
        let job = rig.must_job();
        rig.finish(&job, outcome.clone());
        let due = due.map(|seconds| rig.now + Duration::from_secs(seconds));
        assert_eq!(rig.jobs.next_due(true), due, "{outcome:?}");
    }
}

#[test]
fn back_off_grows_per_service_and_a_new_wish_starts_over() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    for seconds in [5, 10, 20] {
        let job = rig.must_job();
        rig.finish(&job, Err(failure(FailureKind::Sync, Retry::Backoff)));
        assert_eq!(rig.jobs.next_due(true), Some(rig.now + Duration::from_secs(seconds)));
        rig.pass(seconds);
    }
    rig.apply(&with(lb("web"), &json!({ "spec": { "loadBalancerIP": "192.0.2.7" } })));
    let job = rig.must_job();
    rig.finish(&job, Err(failure(FailureKind::Sync, Retry::Backoff)));
    assert_eq!(rig.jobs.next_due(true), Some(rig.now + Duration::from_secs(5)));
}

#[test]
fn the_same_failure_is_told_once_in_five_minutes_another_at_once() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    let mut told = Vec::new();
    let rounds = [
        (0, "full"),
        (5, "full"),
        (10, "full"),
        (10, "broken"),
        (100, "broken"),
        (100, "broken"),
        (100, "broken"),
    ];
    for (wait, message) in rounds {
        rig.pass(wait);
        rig.jobs.provider_change(&key("web"));
        let job = rig.must_job();
        let failure =
            JobFailure { message: message.to_owned(), ..failure(FailureKind::Sync, Retry::Backoff) };
        told.push(rig.finish(&job, Err(failure)));
    }
    assert_eq!(told, [true, false, false, true, false, false, true]);
}

// shows: ccm-contract 35, S-03, S-04
#[test]
fn a_change_during_a_sync_is_followed_by_another_sync() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    let job = rig.must_job();
    rig.apply(&with(lb("web"), &json!({ "spec": { "loadBalancerIP": "192.0.2.7" } })));
    assert!(rig.job().is_none(), "never twice at a time");
    rig.finish(&job, Ok(JobSuccess::Ensured));
    let job = rig.must_job();
    assert_eq!(event_policy(&job), EventPolicy::All);
}

#[test]
fn a_change_first_seen_in_the_answer_to_our_own_write_is_not_lost() {
    let versioned = |version: &str, change: &Value| {
        with(with(lb("web"), change), &json!({ "metadata": { "resourceVersion": version } }))
    };
    let mut rig = Rig::new(&[versioned("1", &json!({}))], &["n1"]);
    let job = rig.must_job();
    // The user's change got version 2, our status patch version 3; the watch shows both later.
    let change = json!({ "spec": { "loadBalancerIP": "192.0.2.7" } });
    let latest = Some(service(versioned("3", &change)));
    rig.jobs.finish(
        &job,
        JobReport { outcome: Ok(JobSuccess::Ensured), event_written: false, already_reported: false, latest },
        rig.now,
    );
    rig.apply(&versioned("2", &change));
    rig.apply(&versioned("3", &change));
    let job = rig.must_job();
    assert_eq!(event_policy(&job), EventPolicy::All);
    rig.finish(&job, Ok(JobSuccess::Ensured));
    assert!(rig.job().is_none(), "and it is done once");
}

#[test]
fn provider_news_during_a_sync_is_not_lost() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    let job = rig.must_job();
    rig.jobs.provider_change(&key("web"));
    rig.finish(&job, Ok(JobSuccess::Pending { condition_unwritten: false }));
    assert!(matches!(rig.must_job().task, Task::Ensure { .. }));
}

#[test]
fn news_of_an_unknown_service_is_ignored() {
    let mut rig = Rig::new(&[], &["n1"]);
    rig.jobs.provider_change(&key("nobody"));
    assert!(rig.job().is_none());
}

#[test]
fn a_node_change_takes_until_the_last_load_balancer_has_it_s_50() {
    let mut rig = Rig::new(&[lb("a"), lb("b")], &["n1"]);
    for _ in 0..2 {
        let job = rig.must_job();
        rig.finish(&job, Ok(JobSuccess::Ensured));
    }
    rig.add_node("n2");
    for _ in 0..2 {
        let job = rig.must_job();
        assert_eq!(rig.jobs.fan_out_took(), None);
        rig.pass(2);
        rig.finish(&job, Ok(JobSuccess::NodesUpdated));
    }
    assert_eq!(rig.jobs.fan_out_took(), Some(Duration::from_secs(4)));
}

#[test]
fn node_changes_cost_nothing_where_load_balancers_do_not_depend_on_nodes() {
    let mut rig = Rig::with(ClasslessPolicy { depends_on_nodes: false }, &[lb("a"), lb("b")], &["n1"]);
    for _ in 0..2 {
        let job = rig.must_job();
        rig.finish(&job, Ok(JobSuccess::Ensured));
    }
    rig.add_node("n2");
    rig.node_event(Event::Delete(node_object(node("n1"))));
    assert!(rig.job().is_none());
    assert_eq!(rig.jobs.fan_out_took(), None, "nothing to time");
    rig.apply(&with(lb("a"), &json!({ "spec": { "loadBalancerIP": "192.0.2.7" } })));
    assert_eq!(node_names(&rig.must_job()), ["n2"], "who has other work gets the set as it is");
}

// shows: ccm-contract 18
#[test]
fn a_failed_node_update_comes_back_as_a_full_ensure_18() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    rig.settle();
    rig.add_node("n2");
    let job = rig.must_job();
    assert!(rig.finish(&job, Err(failure(FailureKind::UpdateNodes, Retry::Now))));
    let job = rig.must_job();
    assert!(matches!(job.task, Task::Ensure { .. }));
    rig.finish(&job, Ok(JobSuccess::Ensured));
    rig.add_node("n2");
    assert!(rig.job().is_none(), "no further update with the same nodes");
}

// shows: ccm-contract 47, S-27
#[test]
fn an_older_node_set_never_follows_a_newer_one_47() {
    let mut rig = Rig::new(&[lb("a"), lb("b")], &["n1"]);
    let (first, second) = (rig.must_job(), rig.must_job());
    rig.finish(&first, Ok(JobSuccess::Ensured));
    rig.finish(&second, Ok(JobSuccess::Ensured));
    rig.add_node("n2");
    let slow = rig.must_job();
    assert_eq!(slow.key.name, "a");
    rig.add_node("n3");
    rig.apply(&with(lb("b"), &json!({ "spec": { "loadBalancerIP": "192.0.2.7" } })));
    let ensured = rig.must_job();
    assert_eq!(node_names(&ensured), ["n1", "n2", "n3"]);
    rig.finish(&ensured, Ok(JobSuccess::Ensured));
    rig.finish(&slow, Ok(JobSuccess::NodesUpdated));
    let last = rig.must_job();
    assert_eq!((last.key.name.as_str(), node_names(&last).len()), ("a", 3));
    rig.finish(&last, Ok(JobSuccess::NodesUpdated));
    assert!(rig.job().is_none());
}

// shows: ccm-contract 39, 41, 42, S-09
#[test]
fn a_service_gone_without_finalizer_is_taken_away_from_memory_39_41_42() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    rig.settle();
    rig.service_event(Event::Delete(service(lb("web"))));
    let job = rig.must_job();
    assert!(matches!(job.task, Task::Forget) && job.predecessor.is_some());
    rig.finish(&job, Err(failure(FailureKind::Delete, Retry::Backoff)));
    rig.pass(5);
    let job = rig.must_job();
    assert!(job.predecessor.is_some(), "41: still remembered");
    rig.finish(&job, Ok(JobSuccess::Removed));
    rig.service_event(Event::Delete(service(lb("web"))));
    assert!(rig.job().is_none(), "40, 42");
}

// shows: ccm-contract S-09
#[test]
fn a_service_of_the_same_name_gets_its_own_after_the_old_one_is_gone() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    rig.settle();
    rig.apply(&with(lb("web"), &json!({ "metadata": { "uid": "second" } })));
    let job = rig.must_job();
    assert_eq!(job.predecessor.as_ref().and_then(|old| old.metadata.uid.as_deref()), Some("uid-web"));
    assert_eq!(event_policy(&job), EventPolicy::All);
    rig.finish(&job, Err(failure(FailureKind::Delete, Retry::Backoff)));
    rig.pass(5);
    let job = rig.must_job();
    assert!(job.predecessor.is_some(), "the old one is not forgotten");
    rig.finish(&job, Err(failure(FailureKind::Sync, Retry::Backoff)));
    rig.pass(10);
    let job = rig.must_job();
    assert!(job.predecessor.is_none(), "the old one went, only the new one is left to do");
    rig.finish(&job, Ok(JobSuccess::Ensured));
    assert!(rig.job().is_none());
}

#[test]
fn clean_ups_go_before_everything_else() {
    let names: Vec<String> = (0..20).map(|n| format!("web-{n:02}")).collect();
    let services: Vec<_> = names.iter().map(|name| lb(name)).collect();
    let mut rig = Rig::new(&services, &["n1"]);
    rig.apply(&with(served("web-19"), &json!({ "spec": { "type": "ClusterIP" } })));
    let job = rig.must_job();
    assert_eq!(job.key.name, "web-19");
    assert!(matches!(job.task, Task::Cleanup { .. }));
}

#[test]
fn a_cleaned_up_service_leaves_nothing_to_do() {
    let gone = with(served("web"), &json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
    let mut rig = Rig::new(&[gone], &["n1"]);
    let job = rig.must_job();
    rig.finish(&job, Err(failure(FailureKind::Sync, Retry::Backoff)));
    rig.pass(5);
    let job = rig.must_job();
    assert!(matches!(job.task, Task::Cleanup { .. }));
    rig.finish(&job, Ok(JobSuccess::Removed));
    rig.service_event(Event::Delete(service(lb("web"))));
    assert!(rig.job().is_none());
    assert_eq!(rig.jobs.next_due(true), None);
}

#[test]
fn news_of_a_service_that_our_answer_showed_gone_make_no_second_clean_up() {
    let version =
        json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "7" } });
    let going = with(served("web"), &version);
    let mut rig = Rig::new(std::slice::from_ref(&going), &["n1"]);
    let job = rig.must_job();
    rig.jobs.provider_change(&key("web"));
    // The answer carries the version of what it removed; the watch has not shown the end yet.
    let latest = Some(service(with(going.clone(), &json!({ "metadata": { "finalizers": null } }))));
    let report =
        JobReport { outcome: Ok(JobSuccess::Removed), event_written: true, already_reported: false, latest };
    rig.jobs.finish(&job, report, rig.now);
    assert!(rig.job().is_none());
    rig.apply(&going);
    assert!(rig.job().is_none(), "the watch lags behind");
    rig.service_event(Event::Delete(service(going)));
    assert!(rig.job().is_none());
}

// shows: ccm-contract S-08
#[test]
fn a_deleted_service_with_another_finalizer_only_is_left_alone_s_08() {
    let change = json!({ "metadata": {
        "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/hold"]
    } });
    let mut rig = Rig::new(&[with(lb("web"), &change)], &["n1"]);
    assert!(rig.job().is_none());
}

#[test]
fn a_long_wait_comes_again_once_to_be_told() {
    let in_grace_period = |job: &Job| match &job.task {
        Task::Ensure { in_grace_period, .. } => *in_grace_period,
        other => panic!("not an ensure: {other:?}"),
    };
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    let began = rig.now;
    let job = rig.must_job();
    assert!(in_grace_period(&job));
    rig.finish(&job, Ok(JobSuccess::Pending { condition_unwritten: true }));
    assert_eq!(rig.jobs.next_due(true), Some(began + PENDING_GRACE_PERIOD));
    rig.pass(10);
    rig.jobs.provider_change(&key("web"));
    let job = rig.must_job();
    assert!(in_grace_period(&job), "news of the provider do not make the wait longer or shorter");
    rig.finish(&job, Ok(JobSuccess::Pending { condition_unwritten: true }));
    assert_eq!(rig.jobs.next_due(true), Some(began + PENDING_GRACE_PERIOD));
    rig.now = began + PENDING_GRACE_PERIOD;
    let job = rig.must_job();
    assert!(!in_grace_period(&job));
    rig.finish(&job, Ok(JobSuccess::Pending { condition_unwritten: false }));
    assert_eq!(rig.jobs.next_due(true), None, "nothing polls");
    rig.apply(&with(lb("web"), &json!({ "spec": { "loadBalancerIP": "192.0.2.7" } })));
    assert!(in_grace_period(&rig.must_job()), "a new wish waits anew");
}

#[test]
fn a_wait_that_ended_leaves_nothing_to_do() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    let job = rig.must_job();
    rig.finish(&job, Ok(JobSuccess::Pending { condition_unwritten: true }));
    rig.jobs.provider_change(&key("web"));
    rig.settle();
    rig.now += PENDING_GRACE_PERIOD;
    assert!(rig.job().is_none());
    assert_eq!(rig.jobs.next_due(true), None);
}

#[test]
fn of_a_service_that_changed_in_nothing_that_matters_one_copy_is_kept() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    let job = rig.must_job();
    rig.finish(&job, Ok(JobSuccess::Ensured));
    rig.apply(&with(lb("web"), &json!({"metadata": {"resourceVersion": "99", "finalizers": ["x/y"]}})));
    assert!(rig.job().is_none());
    let Task::Ensure { service, .. } = job.task else { unreachable!("a Service is ensured first") };
    assert_eq!(Arc::strong_count(&service), 1, "the copy that was handed over is still kept");
}

#[test]
fn a_change_that_concerns_the_provider_alone_is_followed_by_an_ensure_without_a_word() {
    let labelled = with(lb("web"), &json!({ "metadata": { "labels": { "app": "web" } } }));
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    rig.settle();
    rig.apply(&with(lb("web"), &json!({ "metadata": { "generateName": "w" } })));
    assert!(rig.job().is_none());
    rig.apply(&labelled);
    assert_eq!(event_policy(&rig.must_job()), EventPolicy::OnChange);

    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    let job = rig.must_job();
    rig.finish(&job, Err(failure(FailureKind::Sync, Retry::Backoff)));
    rig.apply(&labelled);
    assert_eq!(event_policy(&rig.must_job()), EventPolicy::EnsuredOnly, "not after the back-off");

    let mut rig = Rig::new(&[with(lb("c"), &json!({ "spec": { "type": "ClusterIP" } }))], &["n1"]);
    rig.apply(&with(labelled, &json!({ "metadata": { "name": "c" }, "spec": { "type": "ClusterIP" } })));
    assert!(rig.job().is_none(), "it asks for nothing");
}
