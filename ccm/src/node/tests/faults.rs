//! Whatever an API server does to one call, or to many, whatever the provider says, and whenever the controller dies: in the
//! end every node has its addresses and no taint, and it cost few calls and few events.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::rig::Rig;
use super::{UNINITIALIZED, fresh, machine};
use crate::fake::{FakeProvider, Method};
use crate::metrics::Metrics;
use crate::node::{NodeController, NodeOptions};
use crate::provider::ProviderError;
use crate::store::with_informers;
use crate::testing::apiserver::ApiServer;
use crate::testing::faults::{Disconnect, Fault, Random};
use crate::testing::succession::at_every_write;
use crate::testing::with;

const N1: &str = "nodes//n1";
const SYNCED: &str = "Normal Synced Node synced successfully";
/// Nodes that the life of [`life`] has: the other one, and n1 twice.
const NODES: usize = 3;
/// Calls that one fault costs at most: reads, writes, events and watches that are taken up again.
const CALLS_OF_A_FAULT: usize = 10;
/// How much longer the life takes at most by one fault: a call that is never answered, or a watch.
const TIME_OF_A_FAULT: Duration = Duration::from_mins(1);

fn start(client: Client, provider: Arc<FakeProvider>, token: CancellationToken) -> JoinHandle<()> {
    let metrics = Metrics::unregistered("lease");
    tokio::spawn(async move {
        let run = |informers| {
            NodeController::new(client.clone(), informers, provider, NodeOptions::default(), metrics)
                .run(token)
        };
        with_informers(client.clone(), run).await.expect("watches");
    })
}

/// Node `other` waits to be initialized, and the controller runs.
fn rig() -> Rig {
    let api = ApiServer::default();
    api.put(fresh("other"));
    let provider = Arc::<FakeProvider>::default();
    provider.set_metadata("other", machine(&[("InternalIP", "192.0.2.20")]));
    provider.set_metadata("n1", machine(&[("InternalIP", "192.0.2.11")]));
    Rig::over(api, provider, start)
}

impl Rig {
    async fn until_in_order(&self, name: &str, ip: &str) {
        self.api.until(&format!("{name} in order"), |api| is_in_order(api, name, ip)).await;
    }

    fn count(&self, event: &str) -> usize {
        self.api.events().iter().filter(|last_failures| *last_failures == event).count()
    }
}

/// Whether the node has its address, a provider ID, and no taint but kubelet's. Panics if it lost the taint too early.
fn is_in_order(api: &ApiServer, name: &str, ip: &str) -> bool {
    let Some(node) = api.get(&format!("nodes//{name}")) else { return false };
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    if taints.iter().any(|taint| taint["key"] == UNINITIALIZED) {
        return false;
    }
    assert_eq!(taints.len(), 1, "kubelet's taint stays: {node}");
    assert_eq!(node["spec"]["providerID"], "fake://12345", "{node}");
    let internal = |entry: &Value| entry["type"] == "InternalIP";
    let shown = node["status"]["addresses"].as_array().cloned().unwrap_or_default();
    assert!(shown.iter().any(internal), "addresses first, the taint last: {node}");
    shown.iter().any(|entry| internal(entry) && entry["address"] == ip)
}

/// A node's life: it comes, its machine gets another address, it is made again under its name, it goes. Node `other` is
/// there all the time.
async fn life(rig: &Rig) {
    rig.api.put(fresh("n1"));
    rig.until_in_order("n1", "192.0.2.11").await;
    rig.until_in_order("other", "192.0.2.20").await;
    rig.provider.set_metadata("n1", machine(&[("InternalIP", "192.0.2.12")]));
    rig.api.edit(N1, &json!({ "metadata": { "labels": { "moved": "yes" } } }));
    rig.until_in_order("n1", "192.0.2.12").await;
    // Long enough for an answer that never comes.
    tokio::time::sleep(Duration::from_mins(1)).await;
    rig.api.delete(N1);
    rig.api.put(with(fresh("n1"), &json!({ "metadata": { "uid": "another" } })));
    rig.until_in_order("n1", "192.0.2.12").await;
    // Long enough for an answer that never comes.
    tokio::time::sleep(Duration::from_mins(1)).await;
    rig.api.delete(N1);
    rig.until_in_order("other", "192.0.2.20").await;
}

/// Lets what is under way end, and checks what is left.
async fn check(rig: &mut Rig, what: &str) {
    rig.idle().await;
    assert!(is_in_order(&rig.api, "other", "192.0.2.20"), "{what}");
    assert_eq!(rig.api.get(N1), None, "{what}");
    assert_eq!(rig.provider.overlaps(), 0, "{what}");
    rig.rests(what).await;
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_any_call_may_be_anything() {
    let mut plain = rig();
    let began = Instant::now();
    life(&plain).await;
    let (calls, time) = (plain.api.requests(), began.elapsed());
    check(&mut plain, "no fault").await;
    assert!(calls.len() >= 10, "{calls:#?}");
    for (at, call) in calls.iter().enumerate() {
        for (fault, executed) in Fault::of_call(call) {
            let mut rig = rig();
            rig.api.fault_at(at, fault, executed);
            let began = Instant::now();
            life(&rig).await;
            let what = format!("{fault:?} for call {at}, {} ({executed:?})", rig.api.requests()[at]);
            assert!(began.elapsed() <= time + TIME_OF_A_FAULT, "{what}: {:?}", began.elapsed());
            let cost = rig.api.request_count().saturating_sub(calls.len());
            assert!(cost <= CALLS_OF_A_FAULT, "{what}: {cost} calls more: {:#?}", rig.api.requests());
            check_told(&rig, call, &what).await;
            check(&mut rig, &what).await;
        }
    }
}

/// Each node is told once to be initialized, also if the answer to the write was lost, and one failure once.
async fn check_told(rig: &Rig, call: &str, what: &str) {
    rig.idle().await;
    let last_failures = rig.api.events();
    let synced = last_failures.iter().filter(|event| *event == SYNCED).count();
    // Only an event whose own write went wrong may lack.
    let least = if call.starts_with("POST") { NODES - 1 } else { NODES };
    assert!((least..=NODES).contains(&synced), "{what}: {last_failures:#?}");
    assert!(last_failures.len() <= synced + 1, "{what}: {last_failures:#?}");
}

/// `at`: the write at which the controller dies. Returns whether there was one.
async fn dies_at(at: usize, cut: Disconnect) -> bool {
    let what = format!("it dies at write {at} ({cut:?})");
    let mut rig = rig();
    rig.api.cut_at_write(rig.client, at, cut);
    let was_cut = rig.survives_cut_off(life(&rig)).await;
    rig.restart().await;
    assert!(rig.count(SYNCED) >= NODES - usize::from(was_cut), "{what}: {:#?}", rig.api.events());
    assert!(rig.api.events().len() <= NODES + 1, "{what}: {:#?}", rig.api.events());
    check(&mut rig, &what).await;
    was_cut
}

#[tokio::test(start_paused = true)]
async fn it_may_die_at_every_write() {
    for at in at_every_write(dies_at).await {
        assert!(at >= 7, "only {at} writes in the whole life");
    }
}

// shows: ccm-contract N-03
#[tokio::test(start_paused = true)]
async fn whatever_the_provider_says_of_one_node_the_others_are_initialized() {
    let (reason, words) = ("Odd", || "as the test orders".to_owned());
    let errors = [
        ProviderError::NotFound(words()),
        ProviderError::ImplementedElsewhere(words()),
        ProviderError::RetryAfter { after: Duration::ZERO, reason: words() },
        ProviderError::RetryAfter { after: Duration::MAX, reason: words() },
        ProviderError::RetryAfter { after: Duration::from_secs(2), reason: words() },
        ProviderError::Rejected { reason, message: words() },
        ProviderError::Blocked { reason, message: words() },
        ProviderError::Transient(words()),
    ];
    for error in errors.into_iter().map(Some).chain([None]) {
        let what = error.as_ref().map_or_else(|| "no answer".to_owned(), |error| format!("{error:?}"));
        let mut rig = rig();
        if error.is_none() {
            rig.provider.delay_on(Method::Metadata, "bad", Duration::MAX);
        }
        rig.provider.fail_on(Method::Metadata, "bad", error);
        rig.api.put(fresh("bad"));
        rig.until_in_order("other", "192.0.2.20").await;
        rig.idle().await;
        let began = Instant::now();
        life(&rig).await;
        assert!(began.elapsed() <= TIME_OF_A_FAULT * 5, "{what}: {:?}", began.elapsed());
        let last_failures = rig.api.events();
        let failures =
            last_failures.iter().filter(|event| event.starts_with("Warning SyncNodeFailed")).count();
        assert_eq!(failures, 1, "{what}: {last_failures:#?}");
        let (asked, calls) = (rig.provider.calls().len(), rig.api.request_count());
        rig.idle().await;
        let (asked, calls) = (rig.provider.calls().len() - asked, rig.api.request_count() - calls);
        assert!(asked <= 6010, "{what}: the provider is asked {asked} times in ten minutes");
        assert!(calls <= 4, "{what}: {calls} calls in ten idle minutes");
        rig.api.delete("nodes//bad");
        check(&mut rig, &what).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_wrong_with_a_node_is_told_again_of_one_made_anew_under_its_name() {
    let rig = rig();
    let away = ProviderError::Transient("the inventory is away".to_owned());
    let failed =
        "Warning SyncNodeFailed Error syncing node: failed to get instance metadata: the inventory is away";
    rig.provider.fail_on(Method::Metadata, "bad", Some(away));
    for (round, slow) in [(1, 0), (2, 0), (3, 40), (4, 0)] {
        // In the third round the Node vanishes while the provider thinks of it.
        rig.provider.delay_on(Method::Metadata, "bad", Duration::from_secs(slow / 2));
        rig.provider.take_calls();
        rig.api.put(with(fresh("bad"), &json!({ "metadata": { "uid": format!("uid-{round}") } })));
        let asked = |_: &ApiServer| rig.provider.calls().iter().any(|call| call.subject() == "bad");
        rig.api.until("the question", asked).await;
        if slow == 0 {
            let last_failures = |api: &ApiServer| {
                let writes = api.writes();
                let of_this = writes
                    .iter()
                    .filter(|write| write.body["involvedObject"]["uid"] == format!("uid-{round}"));
                of_this
                    .filter_map(crate::testing::apiserver::RecordedWrite::event)
                    .any(|event| event == failed)
            };
            rig.api.until("the event", last_failures).await;
        }
        rig.api.delete("nodes//bad");
        tokio::time::sleep(Duration::from_secs(slow)).await;
    }
    assert_eq!(rig.count(failed), 3, "and not of one that is gone: {:#?}", rig.api.events());
}

#[tokio::test(start_paused = true)]
async fn faults_at_random_cost_time_only() {
    for seed in 0..20 {
        let what = format!("seed {seed}");
        let mut rig = rig();
        let names = ["n1", "s1", "s2"];
        for name in names {
            rig.provider.set_metadata(name, machine(&[("InternalIP", "192.0.2.11")]));
        }
        rig.api.set_random_faults(25, seed);
        let mut dice = Random::new(seed ^ 0x5555);
        for round in 0..40 {
            let name = names[usize::try_from(dice.below(3)).expect("small")];
            let key = format!("nodes//{name}");
            let anew = json!({ "metadata": { "uid": format!("uid-{name}-{round}") } });
            match (rig.api.get(&key).is_some(), dice.below(3)) {
                (false, _) => rig.api.put(with(fresh(name), &anew)),
                (true, 0) => rig.api.delete(&key),
                (true, 1) => {
                    rig.api.delete(&key);
                    rig.api.put(with(fresh(name), &anew));
                }
                (true, _) => {
                    let taint = json!({ "key": UNINITIALIZED, "effect": "NoSchedule" });
                    let kubelets = json!({ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" });
                    rig.api.edit(&key, &json!({ "spec": { "taints": [kubelets, taint] } }));
                }
            }
            tokio::time::sleep(Duration::from_secs(dice.below(20))).await;
        }
        let calls = rig.api.request_count();
        assert!(calls <= 700, "{what}: {calls} calls: {:?}", rig.api.requests());
        rig.api.set_random_faults(0, seed);
        for name in names {
            let key = format!("nodes//{name}");
            if rig.api.get(&key).is_some() {
                rig.until_in_order(name, "192.0.2.11").await;
                rig.api.delete(&key);
            }
        }
        check(&mut rig, &what).await;
    }
}
