//! Whatever an API server does to one call, or to many, whatever the provider says, and whenever the controller dies: Nodes
//! whose machine is gone go, no other one does, and it cost few calls and few events.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{DELETING, N1, not_ready};
use crate::fake::{FakeProvider, Method};
use crate::metrics::Metrics;
use crate::node::lifecycle::{LifecycleOptions, NodeLifecycleController, TAINT_SHUTDOWN};
use crate::node::tests::rig::Rig;
use crate::provider::ProviderError;
use crate::store::with_informers;
use crate::testing::apiserver::ApiServer;
use crate::testing::faults::{Disconnect, Executed, Fault, Random};
use crate::testing::succession::at_every_write;
use crate::testing::with;

const OTHER: &str = "nodes//other";
/// Deletions in [`life`].
const DELETIONS: usize = 2;
/// Calls that one fault costs at most.
const CALLS_OF_A_FAULT: usize = 10;
/// How much longer the life takes at most by one fault: a call that is never answered, a pause, a Node that the watch still
/// shows.
const TIME_OF_A_FAULT: Duration = Duration::from_mins(2);

fn start(client: Client, provider: Arc<FakeProvider>, token: CancellationToken) -> JoinHandle<()> {
    let metrics = Metrics::unregistered("lease");
    let options = LifecycleOptions::default();
    tokio::spawn(async move {
        let run = |informers| {
            NodeLifecycleController::new(client.clone(), informers, provider, options, metrics).run(token)
        };
        with_informers(client.clone(), run).await.expect("watches");
    })
}

/// Node `other` is not ready, its machine is there, and the controller runs.
fn rig() -> Rig {
    let api = ApiServer::default();
    api.put(not_ready("other"));
    Rig::over(api, Arc::default(), start)
}

impl Rig {
    async fn until_tainted(&self, key: &str, is: bool) {
        self.until("the taint", |api| is_tainted(api, key) == is).await;
    }

    async fn until_gone(&self, key: &str) {
        self.until(&format!("the end of {key}"), |api| api.get(key).is_none()).await;
    }

    /// As [`ApiServer::until`], with fewer looks: much time passes here.
    async fn until(&self, what: &str, condition: impl Fn(&ApiServer) -> bool) {
        let limit = Instant::now() + Duration::from_mins(20);
        while !condition(&self.api) {
            assert!(Instant::now() < limit, "waited in vain for: {what}: {:#?}", self.api.writes());
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
}

fn is_tainted(api: &ApiServer, key: &str) -> bool {
    let node = api.get(key).unwrap_or_default();
    node["spec"]["taints"].as_array().is_some_and(|all| all.iter().any(|one| one["key"] == TAINT_SHUTDOWN))
}

fn ready(status: &str) -> Value {
    json!({ "status": { "conditions": [{ "type": "Ready", "status": status }] } })
}

/// A node's life: its machine is off, is on again, is gone; one made anew under its name stays for a while, until its
/// machine is gone as well. Node `other` is not ready all the time.
async fn life(rig: &Rig) {
    rig.api.put(not_ready("n1"));
    rig.provider.set_shutdown("n1", true);
    rig.until_tainted(N1, true).await;
    rig.provider.set_shutdown("n1", false);
    rig.api.edit(N1, &ready("True"));
    rig.until_tainted(N1, false).await;
    rig.provider.set_exists("n1", false);
    rig.api.edit(N1, &ready("Unknown"));
    rig.until_gone(N1).await;
    // Long enough for whatever is still under way about the old one.
    tokio::time::sleep(Duration::from_mins(2)).await;
    rig.provider.set_exists("n1", true);
    rig.api.put(with(not_ready("n1"), &json!({ "metadata": { "uid": "another" } })));
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(rig.api.get(N1).expect("a Node made anew stays")["metadata"]["uid"], "another");
    rig.provider.set_exists("n1", false);
    rig.until_gone(N1).await;
}

/// Lets what is under way end, and checks what is left.
async fn check(rig: &mut Rig, what: &str) {
    rig.idle().await;
    assert!(rig.api.get(OTHER).is_some(), "{what}");
    assert!(!is_tainted(&rig.api, OTHER), "{what}");
    assert_eq!(rig.api.get(N1), None, "{what}");
    rig.rests(what).await;
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_any_call_may_be_anything() {
    let mut plain = rig();
    let began = Instant::now();
    life(&plain).await;
    let (calls, time) = (plain.api.requests(), began.elapsed());
    assert_eq!(plain.api.events(), [DELETING; DELETIONS]);
    check(&mut plain, "no fault").await;
    assert!(calls.len() >= 7, "{calls:#?}");
    for (at, call) in calls.iter().enumerate() {
        // Each call gets an eighth of them, and each of them happens to an eighth of the calls.
        for (_, (fault, executed)) in
            Fault::of_call(call).enumerate().filter(|(index, _)| (index + at) % 8 == 0)
        {
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
            assert_eq!(rig.provider.overlaps(), 0, "{what}");
        }
    }
}

/// Each deletion is told, and one that was refused besides.
async fn check_told(rig: &Rig, call: &str, what: &str) {
    rig.idle().await;
    let told = rig.api.events();
    let deletions = told.iter().filter(|event| *event == DELETING).count();
    // Only an event whose own write went wrong may lack.
    let least = if call.starts_with("POST") { DELETIONS - 1 } else { DELETIONS };
    assert!(deletions >= least, "{what}: {told:#?}");
    assert!(told.len() <= DELETIONS + 2, "{what}: {told:#?}");
}

/// `at`: the write at which the controller dies. Returns whether there was one.
async fn dies_at(at: usize, cut: Disconnect) -> bool {
    let what = format!("it dies at write {at} ({cut:?})");
    let mut rig = rig();
    rig.api.cut_at_write(rig.client, at, cut);
    let was_cut = rig.survives_cut_off(life(&rig)).await;
    rig.restart().await;
    assert!(rig.api.events().len() <= DELETIONS, "{what}: {:#?}", rig.api.events());
    check(&mut rig, &what).await;
    was_cut
}

#[tokio::test(start_paused = true)]
async fn it_may_die_at_every_write() {
    for at in at_every_write(dies_at).await {
        assert_eq!(at, 4, "a taint, no taint, two deletions");
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_the_provider_says_of_one_machine_its_node_stays_and_the_others_are_seen_to() {
    let (reason, words) = ("Odd", || "as the test orders".to_owned());
    let errors = [
        ProviderError::NotFound(words()),
        ProviderError::ImplementedElsewhere(words()),
        ProviderError::RetryAfter { after: Duration::from_secs(2), reason: words() },
        ProviderError::RetryAfter { after: Duration::MAX, reason: words() },
        ProviderError::Rejected { reason, message: words() },
        ProviderError::Blocked { reason, message: words() },
        ProviderError::Transient(words()),
    ];
    for error in errors.into_iter().map(Some).chain([None]) {
        for method in [Method::Exists, Method::Shutdown] {
            let what = format!("{method:?}: {error:?}");
            let mut rig = rig();
            if error.is_none() {
                rig.provider.delay_on(method, "bad", Duration::MAX);
            }
            rig.provider.fail_on(method, "bad", error.clone());
            rig.provider.set_exists("bad", method == Method::Shutdown);
            rig.provider.set_shutdown("bad", true);
            rig.api.put(not_ready("bad"));
            let began = Instant::now();
            life(&rig).await;
            assert!(began.elapsed() <= Duration::from_mins(6), "{what}: {:?}", began.elapsed());
            assert!(rig.api.get("nodes//bad").is_some() && !is_tainted(&rig.api, "nodes//bad"), "{what}");
            let (asked, calls) = (rig.provider.calls().len(), rig.api.request_count());
            rig.idle().await;
            let (asked, calls) = (rig.provider.calls().len() - asked, rig.api.request_count() - calls);
            assert!(asked <= 6300, "{what}: the provider is asked {asked} times in ten minutes");
            assert!(calls <= 5, "{what}: {calls} calls in ten idle minutes");
            rig.api.delete("nodes//bad");
            check(&mut rig, &what).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_under_way_about_a_node_that_is_gone_keeps_nobody_from_one_made_anew() {
    // Its deletion, or its taint, is never answered; meanwhile somebody else deletes the Node.
    for exists in [false, true] {
        let rig = rig();
        rig.provider.delay_on(Method::Exists, "n1", Duration::from_secs(2));
        rig.provider.set_exists("n1", exists);
        rig.provider.set_shutdown("n1", true);
        rig.api.put(not_ready("n1"));
        let asked = |_: &ApiServer| rig.provider.calls().iter().any(|call| call.subject() == "n1");
        rig.api.until("the question", asked).await;
        rig.api.fault_at(0, Fault::Silence, Executed::No);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(rig.api.requests().last().map(|call| call.ends_with("nodes//n1")), Some(true));
        rig.api.delete(N1);
        tokio::time::sleep(Duration::from_mins(1)).await;
        rig.provider.set_exists("n1", true);
        rig.api.put(with(not_ready("n1"), &json!({ "metadata": { "uid": "another" } })));
        rig.until_tainted(N1, true).await;
    }
}

#[tokio::test(start_paused = true)]
async fn faults_at_random_cost_time_only() {
    for seed in 0..20 {
        let what = format!("seed {seed}");
        let mut rig = rig();
        rig.api.set_random_faults(25, seed);
        let mut dice = Random::new(seed ^ 0x5555);
        let names = ["n1", "s1", "s2"];
        for round in 0..40 {
            let name = names[usize::try_from(dice.below(3)).expect("small")];
            let key = format!("nodes//{name}");
            match (rig.api.get(&key).is_some(), dice.below(4)) {
                (false, _) => {
                    rig.provider.set_exists(name, true);
                    let uid = format!("uid-{name}-{round}");
                    rig.api.put(with(not_ready(name), &json!({ "metadata": { "uid": uid } })));
                }
                (true, 0) => rig.provider.set_exists(name, false),
                (true, 1) => rig.provider.set_shutdown(name, dice.below(2) == 0),
                (true, 2) => rig.api.delete(&key),
                (true, _) => rig.api.edit(&key, &ready(["True", "False"][usize::from(dice.below(2) == 0)])),
            }
            tokio::time::sleep(Duration::from_secs(dice.below(20))).await;
        }
        let calls = rig.api.request_count();
        assert!(calls <= 500, "{what}: {calls} calls: {:?}", rig.api.requests());
        rig.api.set_random_faults(0, seed);
        for name in names {
            let key = format!("nodes//{name}");
            rig.provider.set_exists(name, false);
            if rig.api.get(&key).is_some() {
                rig.api.edit(&key, &ready("False"));
            }
            rig.until_gone(&key).await;
        }
        check(&mut rig, &what).await;
    }
}
