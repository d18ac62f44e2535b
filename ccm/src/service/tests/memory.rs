//! What is remembered of a Service between two jobs, and what is forgotten.

use std::time::Duration;

use serde_json::{Value, json};

use super::jobs::{ClasslessPolicy, Rig, event_policy, failure, key, node_names, served};
use crate::service::jobs::{EventPolicy, FailureKind, Job, JobFailure, JobReport, JobSuccess, Retry, Task};
use crate::testing::{lb, node, service, with};

fn cluster_ip() -> Value {
    with(lb("web"), &json!({ "spec": { "type": "ClusterIP" } }))
}

fn broken() -> JobFailure {
    failure(FailureKind::Sync, Retry::Backoff)
}

/// A node is added that carries no load balancers: all are looked at, and none has anything to do.
fn look_at_all(rig: &mut Rig, name: &str) {
    let label = "node.kubernetes.io/exclude-from-external-load-balancers";
    rig.change_node(with(node(name), &json!({ "metadata": { "labels": { label: "" } } })));
}

fn is_patient(job: &Job) -> bool {
    match &job.task {
        Task::Ensure { in_grace_period, .. } => *in_grace_period,
        other => panic!("not an ensure: {other:?}"),
    }
}

#[test]
fn what_was_done_is_not_done_again() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    rig.settle();
    look_at_all(&mut rig, "x1");
    assert!(rig.job().is_none(), "it was ensured with this node set");

    rig.add_node("n2");
    let job = rig.must_job();
    rig.finish(&job, Ok(JobSuccess::NodesUpdated));
    look_at_all(&mut rig, "x2");
    assert!(rig.job().is_none(), "it was brought to this node set");

    rig.jobs.provider_change(&key("web"));
    rig.settle();
    look_at_all(&mut rig, "x3");
    assert!(rig.job().is_none(), "the news of the provider were heeded");

    rig.apply(&with(lb("web"), &json!({ "metadata": { "annotations": { "a": "b" } } })));
    rig.settle();
    rig.jobs.provider_change(&key("web"));
    assert_eq!(event_policy(&rig.must_job()), EventPolicy::OnChange, "the change was told");
}

#[test]
fn a_successor_is_remembered_with_its_node_set() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    rig.settle();
    rig.apply(&with(lb("web"), &json!({ "metadata": { "uid": "second" } })));
    let job = rig.must_job();
    assert!(is_patient(&job), "its wait has just begun");
    rig.finish(&job, Ok(JobSuccess::Ensured));
    assert!(rig.job().is_none());
    look_at_all(&mut rig, "x1");
    assert!(rig.job().is_none());
    rig.add_node("n2");
    assert!(matches!(rig.must_job().task, Task::UpdateNodes { .. }), "it is known");
}

#[test]
fn a_success_ends_the_back_off_and_what_was_told() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    for wait in [5, 10] {
        let job = rig.must_job();
        assert_eq!(rig.finish(&job, Err(broken())), wait == 5, "told once");
        rig.pass(wait);
    }
    rig.settle();
    rig.jobs.provider_change(&key("web"));
    let job = rig.must_job();
    assert!(rig.finish(&job, Err(broken())), "another failure, though in the same words");
    assert_eq!(rig.jobs.next_due(true), Some(rig.now + Duration::from_secs(5)));
}

#[test]
fn nobody_is_told_that_what_was_tried_is_no_longer_wanted() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    let job = rig.must_job();
    assert!(!rig.finish(&job, Err(failure(FailureKind::Superseded, Retry::Backoff))));
}

#[test]
fn a_node_change_that_concerns_nobody_has_reached_all_when_they_were_looked_at() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    rig.settle();
    assert_eq!(rig.jobs.fan_out_took(), None);
    look_at_all(&mut rig, "x1");
    rig.pass(3);
    assert!(rig.job().is_none());
    assert_eq!(rig.jobs.fan_out_took(), Some(Duration::from_secs(3)));
}

#[test]
fn a_node_set_that_is_again_what_it_was_is_no_news() {
    let mut rig = Rig::new(&[lb("a"), lb("b")], &["n1"]);
    for _ in 0..2 {
        let job = rig.must_job();
        rig.finish(&job, Ok(JobSuccess::Ensured));
    }
    rig.add_node("n2");
    let job = rig.must_job();
    assert_eq!((job.key.name.as_str(), node_names(&job).len()), ("a", 2));
    look_at_all(&mut rig, "n2");
    assert!(rig.job().is_none(), "b never had another set");
    rig.finish(&job, Ok(JobSuccess::NodesUpdated));
    assert_eq!(node_names(&rig.must_job()), ["n1"], "a had");
}

#[test]
fn a_change_that_was_taken_back_is_no_reason_to_look_at_nodes_that_do_not_count() {
    let mut rig = Rig::with(ClasslessPolicy { depends_on_nodes: false }, &[lb("web")], &["n1"]);
    rig.settle();
    rig.add_node("n2");
    rig.apply(&with(lb("web"), &json!({ "metadata": { "annotations": { "a": "b" } } })));
    rig.apply(&lb("web"));
    assert!(rig.job().is_none());
}

// shows: ccm-contract S-14
#[test]
fn a_new_wish_that_fails_like_the_one_before_is_told_again() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    let job = rig.must_job();
    assert!(rig.finish(&job, Err(broken())));
    rig.apply(&with(lb("web"), &json!({ "metadata": { "annotations": { "a": "b" } } })));
    let job = rig.must_job();
    assert!(rig.finish(&job, Err(broken())));
}

// shows: ccm-contract S-18
#[test]
fn the_next_attempt_knows_what_the_one_before_wrote() {
    let versioned =
        |value: Value, version: &str| with(value, &json!({ "metadata": { "resourceVersion": version } }));
    let mut rig = Rig::new(&[versioned(lb("web"), "1")], &["n1"]);
    let job = rig.must_job();
    let latest = Some(service(versioned(served("web"), "2")));
    let report = JobReport { outcome: Err(broken()), event_written: true, already_reported: false, latest };
    rig.jobs.finish(&job, report, rig.now);
    rig.pass(5);
    match rig.must_job().task {
        Task::Ensure { service, .. } => assert!(service.metadata.finalizers.is_some()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_wait_is_as_patient_as_the_first() {
    for outcome in [Ok(JobSuccess::Ensured), Err(broken())] {
        let mut rig = Rig::new(&[lb("web")], &["n1"]);
        let job = rig.must_job();
        rig.finish(&job, Ok(JobSuccess::Pending { condition_unwritten: true }));
        rig.pass(10);
        rig.jobs.provider_change(&key("web"));
        let job = rig.must_job();
        rig.finish(&job, outcome);
        rig.pass(100);
        rig.jobs.provider_change(&key("web"));
        assert!(is_patient(&rig.must_job()));
    }
}

#[test]
fn a_load_balancer_goes_though_its_finalizer_went_before() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    rig.settle();
    rig.apply(&cluster_ip());
    assert!(matches!(rig.must_job().task, Task::Cleanup { was_ours: true, .. }));
}

#[test]
fn a_clean_up_is_tried_until_all_of_it_is_done_and_fails_once_for_the_user() {
    let mut rig = Rig::new(&[with(served("web"), &json!({ "spec": { "type": "ClusterIP" } }))], &["n1"]);
    let job = rig.must_job();
    assert!(matches!(job.task, Task::Cleanup { was_ours: false, .. }), "by its finalizer");
    // The finalizer is gone, the status could not be written.
    rig.apply(&cluster_ip());
    assert!(rig.finish(&job, Err(broken())));
    let job = rig.must_job();
    assert!(matches!(job.task, Task::Cleanup { was_ours: false, .. }), "by what is remembered");
    assert!(!rig.finish(&job, Err(broken())), "it was told");
    rig.pass(10);
    let job = rig.must_job();
    rig.finish(&job, Ok(JobSuccess::Removed));
    assert!(rig.job().is_none());
}

#[test]
fn a_successor_that_asks_for_nothing_is_left_alone() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    rig.settle();
    rig.apply(&with(cluster_ip(), &json!({ "metadata": { "uid": "second" } })));
    let job = rig.must_job();
    assert!(matches!(job.task, Task::Forget) && job.predecessor.is_some());
    rig.finish(&job, Ok(JobSuccess::Removed));
    assert!(rig.job().is_none());
}

#[test]
fn what_only_a_finalizer_told_of_is_taken_away_though_another_service_has_its_name_meanwhile() {
    let mut rig = Rig::new(&[with(served("web"), &json!({ "spec": { "type": "ClusterIP" } }))], &["n1"]);
    let job = rig.must_job();
    rig.finish(&job, Err(broken()));
    rig.apply(&with(cluster_ip(), &json!({ "metadata": { "uid": "second" } })));
    rig.pass(5);
    let job = rig.must_job();
    let first = job.predecessor.and_then(|service| service.metadata.uid.clone());
    assert!(matches!(job.task, Task::Forget), "{:?}", job.task);
    assert_eq!(first.as_deref(), Some("uid-web"));
}

// shows: ccm-contract S-09
#[test]
fn what_a_predecessor_had_is_taken_away_once_whatever_becomes_of_the_successors_clean_up() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    rig.settle();
    let second = json!({ "metadata": { "uid": "second" }, "spec": { "type": "ClusterIP" } });
    rig.apply(&with(served("web"), &second));
    let job = rig.must_job();
    assert!(matches!(job.task, Task::Cleanup { was_ours: false, .. }) && job.predecessor.is_some());
    rig.finish(&job, Err(broken()));
    rig.pass(5);
    let job = rig.must_job();
    assert!(matches!(job.task, Task::Cleanup { .. }) && job.predecessor.is_none());
}

#[test]
fn a_service_that_is_back_before_its_clean_up_began_is_ensured_for_the_status_it_lost_s_30() {
    let cluster_ip = with(lb("web"), &json!({ "spec": { "type": "ClusterIP" } }));
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    rig.settle();
    rig.apply(&cluster_ip);
    rig.apply(&lb("web"));
    assert_eq!(event_policy(&rig.must_job()), EventPolicy::OnChange);

    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    let job = rig.must_job();
    rig.apply(&cluster_ip);
    rig.apply(&lb("web"));
    rig.finish(&job, Ok(JobSuccess::Ensured));
    let job = rig.must_job();
    rig.finish(&job, Ok(JobSuccess::Ensured));
    assert!(rig.job().is_none());
}

#[test]
fn news_of_the_provider_while_a_predecessor_is_taken_away_concern_the_successor() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    rig.settle();
    rig.apply(&with(lb("web"), &json!({ "metadata": { "uid": "another" } })));
    let job = rig.must_job();
    assert!(job.predecessor.is_some());
    rig.jobs.provider_change(&key("web"));
    rig.finish(&job, Ok(JobSuccess::Ensured));
    let again = rig.must_job();
    assert!(matches!(again.task, Task::Ensure { .. }), "{again:?}");
    rig.finish(&again, Ok(JobSuccess::Ensured));
    assert!(rig.job().is_none(), "once is enough");
}

#[test]
fn a_change_that_concerns_the_provider_later_is_looked_at_then() {
    let mut rig = Rig::new(&[lb("web")], &["n1"]);
    rig.settle();
    rig.apply(&with(lb("web"), &json!({ "metadata": { "labels": { "after": "40" } } })));
    assert!(rig.job().is_none(), "not before");
    assert_eq!(rig.jobs.next_due(true), Some(rig.now + Duration::from_secs(40)));
    rig.pass(40);
    assert_eq!(event_policy(&rig.must_job()), EventPolicy::OnChange);
}
