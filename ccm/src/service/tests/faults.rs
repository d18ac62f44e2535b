//! Whatever an API server does to one call, or to many, and whenever the controller dies: in the end everything is as the
//! Services ask, no finalizer and no load balancer is left behind, and it cost few calls and few events.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::rig::{DELETED, FINALIZER, Rig, WEB, finalizers, ingress};
use crate::fake::{Call, Method};
use crate::testing::faults::{Disconnect, Fault, Random};
use crate::testing::succession::{at_every_write, with_successor};
use crate::testing::{lb, node};

const OTHER: &str = "services/default/other";
/// Calls that one fault costs at most: reads, writes, events and watches that are taken up again.
const CALLS_OF_A_FAULT: usize = 14;
/// Events that one fault costs at most.
const EVENTS_OF_A_FAULT: usize = 4;

/// A Service's life: made, served, with another node set, changed, deleted. Another one is there all the time.
async fn life(rig: &Rig) {
    rig.api.put(lb("web"));
    rig.until_served(WEB, "192.0.2.1").await;
    rig.api.put(node("n2"));
    let asked = |is: fn(&Call) -> bool| rig.provider.calls().iter().filter(|call| is(call)).count();
    let of_two: fn(&Call) -> bool = |call| match call {
        Call::Ensure(_, nodes) | Call::UpdateNodes(_, nodes) => nodes.len() == 2,
        _ => false,
    };
    rig.api.until("the node set of both", |_| asked(of_two) >= 2).await;
    let of_web: fn(&Call) -> bool = |call| matches!(call, Call::Ensure(name, _) if name == "web");
    let before = asked(of_web);
    rig.api.edit(WEB, &json!({ "spec": { "ports": [{ "name": "http", "port": 81, "protocol": "TCP" }] } }));
    rig.api.until("the change", |_| asked(of_web) > before).await;
    rig.api.delete(WEB);
    rig.api.until("the end", |api| api.get(WEB).is_none()).await;
    rig.until_served(OTHER, "192.0.2.1").await;
}

/// Lets what is under way end, and checks what is left.
async fn check(rig: &mut Rig, what: &str) {
    rig.idle().await;
    assert!(!rig.provider.has("uid-web"), "{what}: a load balancer of nobody");
    assert!(rig.provider.has("uid-other"), "{what}");
    assert_eq!(finalizers(&rig.api, OTHER), json!([FINALIZER]), "{what}");
    assert_eq!(ingress(&rig.api, OTHER).as_deref(), Some("192.0.2.1"), "{what}");
    assert_eq!(rig.provider.overlaps(), 0, "{what}");
    let before = rig.api.request_count();
    rig.idle().await;
    let idle = rig.api.request_count() - before;
    assert!(idle <= 6, "{what}: {idle} calls in ten idle minutes: {:?}", &rig.api.requests()[before..]);
    rig.api.take_writes();
    rig.restart().await;
    rig.idle().await;
    assert_eq!(rig.api.take_writes(), [], "{what}: a restart writes nothing");
}

/// How often it was told that a load balancer is deleted, of which there was one.
fn ends_told(rig: &Rig) -> usize {
    rig.api.events().iter().filter(|event| *event == DELETED).count()
}

fn rig() -> Rig {
    Rig::new([lb("other")])
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_any_call_may_be_anything() {
    let mut plain = rig();
    life(&plain).await;
    let (calls, events) = (plain.api.request_count(), plain.api.events().len());
    check(&mut plain, "no fault").await;
    for at in 0..calls {
        let all = Fault::of_call(&plain.api.requests()[at]);
        // Each call gets a quarter of them, and each of them happens to a quarter of the calls.
        for (_, (fault, executed)) in all.enumerate().filter(|(index, _)| (index + at) % 4 == 0) {
            let mut rig = rig();
            rig.api.fault_at(at, fault, executed);
            life(&rig).await;
            let what = format!("{fault:?} for call {at}, {} ({executed:?})", rig.api.requests()[at]);
            let cost = rig.api.request_count().saturating_sub(calls);
            assert!(cost <= CALLS_OF_A_FAULT, "{what}: {cost} calls more: {:#?}", rig.api.requests());
            let told = rig.api.events();
            assert!(told.len() <= events + EVENTS_OF_A_FAULT, "{what}: {told:#?}");
            assert!(ends_told(&rig) <= 1, "{what}: {told:#?}");
            check(&mut rig, &what).await;
        }
    }
}

/// `at`: the write at which the controller dies. Returns whether there was one.
async fn dies_at(at: usize, cut: Disconnect) -> bool {
    let what = format!("it dies at write {at} ({cut:?})");
    let mut rig = rig();
    rig.api.cut_at_write(rig.client, at, cut);
    let successor = || Rig::over(rig.api.clone(), Arc::clone(&rig.provider));
    let successor = with_successor(&rig.api, rig.client, life(&rig), successor).await;
    let was_cut = successor.is_some();
    if let Some(mut successor) = successor {
        successor.stop().await;
    }
    rig.restart().await;
    assert!(rig.api.events().len() <= 24, "{what}: {:#?}", rig.api.events());
    assert!(ends_told(&rig) <= 1, "{what}: {:#?}", rig.api.events());
    check(&mut rig, &what).await;
    was_cut
}

#[tokio::test(start_paused = true)]
async fn it_may_die_at_every_write() {
    for at in at_every_write(dies_at).await {
        assert!(at >= 5, "only {at} writes in the whole life");
    }
}

#[tokio::test(start_paused = true)]
async fn it_may_die_while_the_provider_works() {
    for millis in (100..4000).step_by(300) {
        let mut rig = rig();
        rig.provider.delay(Method::Ensure, Duration::from_secs(1));
        rig.api.put(lb("web"));
        tokio::time::sleep(Duration::from_millis(millis)).await;
        rig.restart().await;
        rig.provider.delay(Method::Ensure, Duration::ZERO);
        rig.until_served(WEB, "192.0.2.1").await;
        rig.api.delete(WEB);
        tokio::time::sleep(Duration::from_millis(millis % 7)).await;
        rig.restart().await;
        rig.api.until("the end", |api| api.get(WEB).is_none()).await;
        check(&mut rig, &format!("it dies after {millis} ms")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn faults_at_random_cost_time_only() {
    for seed in 0..25 {
        let what = format!("seed {seed}");
        let mut rig = rig();
        rig.api.set_random_faults(25, seed);
        let mut dice = Random::new(seed ^ 0x5555);
        let began = rig.api.request_count();
        for phase in 0..40 {
            let name = ["web", "s1", "s2", "s3"][usize::try_from(dice.below(4)).expect("small")];
            let key = format!("services/default/{name}");
            match (rig.api.get(&key).is_some(), dice.below(3)) {
                (false, _) => rig.api.put(lb(name)),
                (true, 0) => rig.api.delete(&key),
                // It vanishes, and is made anew under its name before anybody saw to it.
                (true, 1) => {
                    rig.api.edit(&key, &json!({ "metadata": { "finalizers": null } }));
                    if rig.api.get(&key).is_some() {
                        rig.api.delete(&key);
                    }
                    let anew = json!({ "metadata": { "uid": format!("uid-{name}-{phase}") } });
                    rig.api.put(crate::testing::with(lb(name), &anew));
                }
                (true, _) => rig
                    .api
                    .edit(&key, &json!({ "spec": { "ports": [{ "port": 80 + phase, "protocol": "TCP" }] } })),
            }
            tokio::time::sleep(Duration::from_secs(dice.below(20))).await;
        }
        let calls = rig.api.request_count() - began;
        assert!(calls <= 1000, "{what}: {calls} calls: {:?}", rig.api.requests());
        rig.api.set_random_faults(0, seed);
        for name in ["web", "s1", "s2", "s3"] {
            let key = format!("services/default/{name}");
            if rig.api.get(&key).is_some() {
                rig.api.delete(&key);
            }
            rig.api.until(&format!("{what}: the end of {name}"), |api| api.get(&key).is_none()).await;
        }
        rig.idle().await;
        assert_eq!(rig.provider.load_balancers(), ["uid-other"], "{what}: load balancers of nobody");
        check(&mut rig, &what).await;
    }
}
