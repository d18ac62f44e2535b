//! Numbers are those of the scenario catalogue, service-contract §4.4.

mod faults;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::decide::{NodeAction, next_action, taints_patch, with_shutdown};
use super::{LifecycleOptions, NodeLifecycleController, TAINT_SHUTDOWN};
use crate::fake::{Call, FakeProvider, Method};
use crate::metrics::Metrics;
use crate::provider::ProviderError;
use crate::store::with_informers;
use crate::testing::apiserver::ApiServer;
use crate::testing::{node, node_object, with};

const N1: &str = "nodes//n1";
const DELETING: &str = "Normal DeletingNode Deleting node n1 because it does not exist in the cloud provider";

/// A node whose condition `Ready` has this status; `None`: it has no such condition.
fn node_that_is(name: &str, ready: Option<&str>) -> Value {
    let conditions: Vec<_> =
        ready.iter().map(|status| json!({ "type": "Ready", "status": status })).collect();
    with(node(name), &json!({ "status": { "conditions": conditions } }))
}

fn not_ready(name: &str) -> Value {
    node_that_is(name, Some("False"))
}

fn tainted(taints: &[(&str, &str)]) -> Value {
    let taints: Vec<_> = taints.iter().map(|(key, effect)| json!({ "key": key, "effect": effect })).collect();
    json!({ "spec": { "taints": taints } })
}

fn away() -> ProviderError {
    ProviderError::Transient("inventory does not answer".to_owned())
}

struct Rig {
    api: ApiServer,
    provider: Arc<FakeProvider>,
    token: CancellationToken,
}

impl Rig {
    fn new(nodes: impl IntoIterator<Item = Value>) -> Self {
        let rig =
            Self { api: ApiServer::default(), provider: Arc::default(), token: CancellationToken::new() };
        for node in nodes {
            rig.api.put(node);
        }
        rig
    }

    fn start(self) -> Self {
        let (client, provider) = (self.api.client(), Arc::clone(&self.provider));
        let metrics = Metrics::unregistered("lease");
        let (options, token) = (LifecycleOptions::default(), self.token.clone());
        tokio::spawn(with_informers(client.clone(), |informers| {
            NodeLifecycleController::new(client, informers, provider, options, metrics).run(token)
        }));
        self
    }

    /// Some periods pass.
    async fn pass(&self) {
        tokio::time::sleep(Duration::from_secs(21)).await;
    }

    fn has_taint(&self, name: &str) -> bool {
        let node = self.api.get(&format!("nodes//{name}")).unwrap_or_default();
        node["spec"]["taints"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["key"] == TAINT_SHUTDOWN))
    }

    fn writes_to_nodes(&self) -> usize {
        self.api.writes().iter().filter(|write| write.path.starts_with("nodes/")).count()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Deleted,
    Tainted,
    Kept,
}

/// Keys and effects.
type Taints<'a> = &'a [(&'a str, &'a str)];

/// Yes, no, or an error.
type Answer = Option<bool>;

// shows: ccm-contract 209 to 218, 220 to 223, L-03 to L-05
#[tokio::test(start_paused = true)]
async fn what_becomes_of_a_node_209_to_223() {
    let (no, unknown, ready) = (Some("False"), Some("Unknown"), Some("True"));
    let (yes, not, error): (Answer, Answer, Answer) = (Some(true), Some(false), None);
    let rows: [(&str, Option<&str>, Answer, Answer, End); 17] = [
        ("209 not ready and gone", no, not, not, End::Deleted),
        ("210 not ready, the provider fails", no, error, not, End::Kept),
        ("211 not ready, there", no, yes, not, End::Kept),
        ("212 unknown and gone", unknown, not, not, End::Deleted),
        ("213 unknown, there", unknown, yes, not, End::Kept),
        ("214 ready, whatever the provider says", ready, not, not, End::Kept),
        ("215 shut down", no, yes, yes, End::Tainted),
        ("218 the provider fails, shut down", no, error, yes, End::Kept),
        ("220 gone is asked before shut down", no, not, error, End::Deleted),
        ("221 gone, not shut down", no, not, not, End::Deleted),
        ("222 ready and shut down", ready, yes, yes, End::Kept),
        ("223 unknown, shut down and gone", unknown, not, yes, End::Deleted),
        ("L-03 no condition, gone", None, not, not, End::Deleted),
        ("L-03 no condition, there", None, yes, not, End::Kept),
        ("L-04 shut down cannot be told", no, yes, error, End::Kept),
        ("L-06 unknown and shut down", unknown, yes, yes, End::Tainted),
        ("ready, both fail", ready, error, error, End::Kept),
    ];
    // 216, 217: the same without a provider ID.
    for provider_id in [json!("fake://n1"), Value::Null] {
        for (what, status, exists, shutdown, end) in rows {
            let change = json!({ "spec": { "providerID": provider_id } });
            let rig = Rig::new([with(node_that_is("n1", status), &change)]);
            rig.provider.set_exists("n1", exists.unwrap_or(true));
            rig.provider.set_shutdown("n1", shutdown.unwrap_or(false));
            rig.provider.fail_on(Method::Exists, "n1", exists.is_none().then(away));
            rig.provider.fail_on(Method::Shutdown, "n1", shutdown.is_none().then(away));
            let rig = rig.start();
            rig.pass().await;
            let found = match rig.api.get(N1) {
                None => End::Deleted,
                Some(_) if rig.has_taint("n1") => End::Tainted,
                Some(_) => End::Kept,
            };
            assert_eq!(found, end, "{what}");
            let told: Vec<_> = rig.api.events();
            let expected: &[&str] = if end == End::Deleted { &[DELETING] } else { &[] };
            assert_eq!(told, expected, "{what}");
            assert_eq!(rig.writes_to_nodes(), usize::from(end != End::Kept), "{what}: no write is repeated");
            let asked = rig.provider.calls();
            assert_eq!(asked.is_empty(), status == ready, "{what}: {asked:?}");
            if exists != Some(true) {
                assert!(!asked.iter().any(|call| call.method() == Method::Shutdown), "{what}: {asked:?}");
            }
            rig.token.cancel();
        }
    }
}

#[test]
fn a_node_that_is_being_deleted_is_left_alone() {
    let going = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    assert_eq!(next_action(&node_object(with(not_ready("n1"), &going))), NodeAction::Nothing);
}

// shows: ccm-contract 219, L-03
#[tokio::test(start_paused = true)]
async fn not_found_as_an_error_deletes_nothing_219() {
    let rig = Rig::new([not_ready("n1")]);
    rig.provider.fail_on(Method::Exists, "n1", Some(ProviderError::NotFound("no such machine".to_owned())));
    let rig = rig.start();
    rig.pass().await;
    assert!(rig.api.get(N1).is_some() && rig.writes_to_nodes() == 0);
}

// shows: ccm-contract L-03 to L-05
#[tokio::test(start_paused = true)]
async fn events_name_the_node_completely() {
    let rig = Rig::new([not_ready("n1")]);
    rig.provider.set_exists("n1", false);
    let rig = rig.start();
    rig.api.until("the event", |api| !api.events().is_empty()).await;
    let writes = rig.api.writes();
    let event = writes.iter().find(|write| write.event().is_some()).expect("an event");
    let object = &event.body["involvedObject"];
    assert_eq!(
        (&object["apiVersion"], &object["kind"], &object["name"], &object["uid"]),
        (&json!("v1"), &json!("Node"), &json!("n1"), &json!("uid-n1"))
    );
    assert_eq!(event.body["source"]["component"], "cloud-node-lifecycle-controller");
}

// shows: ccm-contract L-01
#[tokio::test(start_paused = true)]
async fn nodes_are_looked_at_each_period_and_ready_ones_cost_no_call_l_01() {
    let rig = Rig::new([not_ready("n1"), node("n2")]);
    let began = Instant::now();
    let rig = rig.start();
    tokio::time::sleep(Duration::from_secs(18)).await;
    let asked: Vec<_> = rig
        .provider
        .timed_calls()
        .into_iter()
        .filter(|(_, call)| *call == Call::Exists("n1".to_owned()))
        .map(|(at, _)| (at - began).as_secs())
        .collect();
    assert_eq!(asked, [5, 10, 15], "after the list, every five seconds");
    assert!(rig.provider.calls().iter().all(|call| call.subject() == "n1"));
    assert_eq!(rig.api.writes(), []);
}

// shows: ccm-contract L-02
#[tokio::test(start_paused = true)]
async fn a_node_that_is_ready_again_loses_the_shutdown_taint_and_no_other_l_02() {
    let taints = tainted(&[(TAINT_SHUTDOWN, "NoSchedule"), ("example.com/mine", "NoExecute")]);
    let rig = Rig::new([with(node("n1"), &taints)]).start();
    rig.api.until("the taint to go", |_| !rig.has_taint("n1")).await;
    let node = rig.api.get(N1).expect("the node");
    assert_eq!(node["spec"]["taints"], json!([{ "key": "example.com/mine", "effect": "NoExecute" }]));
    rig.pass().await;
    assert_eq!(rig.writes_to_nodes(), 1);
    assert_eq!(rig.provider.calls(), []);
    assert_eq!(rig.api.events(), [] as [String; 0]);
}

// shows: ccm-contract L-01
#[tokio::test(start_paused = true)]
async fn a_machine_that_does_not_answer_holds_up_no_other() {
    let rig = Rig::new([not_ready("n1"), not_ready("n2"), not_ready("n3")]);
    rig.provider.delay_on(Method::Exists, "n1", Duration::MAX);
    rig.provider.delay_on(Method::Shutdown, "n2", Duration::MAX);
    rig.provider.set_exists("n1", false);
    rig.provider.set_exists("n3", false);
    let began = Instant::now();
    let rig = rig.start();
    rig.api.until("n3 to go", |api| api.get("nodes//n3").is_none()).await;
    assert!(began.elapsed() <= Duration::from_secs(6), "{:?}", began.elapsed());
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(rig.api.get(N1).is_some(), "no answer is no no");
    assert_eq!(rig.provider.overlaps(), 0);
    // The machine answers at last.
    rig.provider.delay_on(Method::Exists, "n1", Duration::ZERO);
    rig.api.until("n1 to go", |api| api.get(N1).is_none()).await;
}

// shows: ccm-contract L-03
#[tokio::test(start_paused = true)]
async fn a_node_that_changed_since_it_was_judged_is_judged_again() {
    let rig = Rig::new([not_ready("n1")]);
    rig.provider.set_exists("n1", false);
    rig.provider.delay(Method::Exists, Duration::from_secs(2));
    let rig = rig.start();
    rig.api.until("the question", |_| !rig.provider.calls().is_empty()).await;
    // It becomes ready while the provider thinks.
    rig.api.edit(N1, &json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } }));
    rig.pass().await;
    assert!(rig.api.get(N1).is_some());
    assert_eq!(rig.api.events(), [] as [String; 0], "nothing is told of a deletion that was none");
    let deletes: Vec<_> = rig.api.writes().into_iter().filter(|write| write.verb == "delete").collect();
    assert_eq!(deletes.len(), 1, "it was tried with what was known");
    assert_eq!(deletes[0].body["preconditions"]["uid"], "uid-n1");
}

// shows: ccm-contract L-03
#[tokio::test(start_paused = true)]
async fn a_node_that_was_made_again_is_another() {
    let rig = Rig::new([not_ready("n1")]);
    rig.provider.set_exists("n1", false);
    rig.provider.delay(Method::Exists, Duration::from_secs(2));
    let rig = rig.start();
    rig.api.until("the question", |_| !rig.provider.calls().is_empty()).await;
    rig.api.delete(N1);
    rig.api.put(with(not_ready("n1"), &json!({ "metadata": { "uid": "another" } })));
    rig.provider.set_exists("n1", true);
    tokio::time::sleep(Duration::from_secs(3)).await;
    rig.pass().await;
    assert_eq!(rig.api.get(N1).expect("the node")["metadata"]["uid"], "another");
    assert_eq!(rig.api.events(), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_refused_is_told_and_tried_again_with_pauses() {
    let rig = Rig::new([not_ready("n1")]);
    rig.provider.set_exists("n1", false);
    for _ in 0..4 {
        rig.api.fail("delete", N1, 403);
    }
    let began = Instant::now();
    let rig = rig.start();
    rig.api.until("the node to go", |api| api.get(N1).is_none()).await;
    assert!(began.elapsed() >= Duration::from_secs(5 + 5 + 10 + 20 + 40), "{:?}", began.elapsed());
    rig.pass().await;
    let failed = "Warning DeletingNodeFailed Failed deleting node n1: fault 403";
    assert_eq!(
        rig.api.events(),
        [DELETING, failed],
        "what repeats itself is counted on the event that is there"
    );
}

#[tokio::test(start_paused = true)]
async fn the_provider_decides_when_it_is_asked_again() {
    let rig = Rig::new([not_ready("n1")]);
    let after = Duration::from_secs(42);
    rig.provider.fail_next(Method::Exists, [ProviderError::RetryAfter { after, reason: "busy".to_owned() }]);
    let rig = rig.start();
    rig.api.until("the second question", |_| rig.provider.calls().len() > 1).await;
    let calls = rig.provider.timed_calls();
    assert_eq!((calls[1].0 - calls[0].0).as_secs(), 42);
}

#[tokio::test(start_paused = true)]
async fn a_node_on_its_way_out_is_left_alone() {
    let going = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    let rig = Rig::new([with(not_ready("n1"), &going)]);
    rig.provider.set_exists("n1", false);
    let rig = rig.start();
    rig.api.until("the deletion", |api| api.events() == [DELETING]).await;
    rig.provider.take_calls();
    rig.pass().await;
    assert!(rig.api.get(N1).is_some(), "somebody holds it");
    assert_eq!(rig.provider.calls(), []);
    assert_eq!(rig.writes_to_nodes(), 1);
}

// shows: ccm-contract N-14
#[tokio::test(start_paused = true)]
async fn a_taint_of_somebody_else_in_between_is_not_lost_n_14() {
    let rig = Rig::new([not_ready("n1")]);
    rig.provider.set_shutdown("n1", true);
    rig.provider.delay(Method::Shutdown, Duration::from_secs(2));
    let rig = rig.start();
    let asked = |_: &ApiServer| rig.provider.calls().contains(&Call::Shutdown("n1".to_owned()));
    rig.api.until("the question", asked).await;
    rig.api.edit(N1, &tainted(&[("example.com/theirs", "NoSchedule")]));
    rig.api.until("our taint", |_| rig.has_taint("n1")).await;
    let node = rig.api.get(N1).expect("the node");
    let keys: Vec<_> =
        node["spec"]["taints"].as_array().expect("taints").iter().map(|one| &one["key"]).collect();
    assert_eq!(keys, ["example.com/theirs", TAINT_SHUTDOWN]);
}

// shows: ccm-contract 249 to 258
#[test]
fn key_and_effect_tell_the_taint_249_to_258() {
    let rows: [(&str, Taints<'_>, Option<usize>); 5] = [
        ("249, 253, 257 present", &[(TAINT_SHUTDOWN, "NoSchedule"), ("a", "NoSchedule")], Some(1)),
        ("250, 252, 255 another key", &[("a", "NoSchedule")], None),
        ("251, 256 another effect", &[(TAINT_SHUTDOWN, "NoExecute")], None),
        ("254, 258 no taints", &[], None),
        ("twice", &[(TAINT_SHUTDOWN, "NoSchedule"), (TAINT_SHUTDOWN, "NoSchedule")], Some(0)),
    ];
    for (what, taints, stay) in rows {
        let ready = node_object(with(node("n1"), &tainted(taints)));
        let expected = stay.map_or(NodeAction::Nothing, |count| {
            let all: Vec<Taint> = ready.spec.clone().and_then(|spec| spec.taints).unwrap_or_default();
            NodeAction::RemoveTaint(all[all.len() - count..].to_vec())
        });
        assert_eq!(next_action(&ready), expected, "{what}");
        assert_eq!(with_shutdown(&ready).is_none(), stay.is_some(), "{what}");
    }
}

#[test]
fn the_shutdown_taint_has_no_value_and_is_written_to_the_node_that_was_read() {
    let node = node_object(with(node("n1"), &json!({ "metadata": { "resourceVersion": "7" } })));
    let patch = taints_patch(&node, &with_shutdown(&node).expect("a taint"));
    let taint = json!({ "key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule" });
    assert_eq!(patch, json!({ "metadata": { "resourceVersion": "7" }, "spec": { "taints": [taint] } }));
}
