//! Several edits at once, of objects and statuses of several Services: each Service has one record left, and keeps its address.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_ccm::testing::apiserver::RecordedWrite;
use windlass_ccm::testing::faults::Disconnect;

use super::lives::{annotated_port, ingress};
use super::memories::{meanwhile, owner, owners, vip_key};
use super::rig::{Rig, pool};
use super::scenarios::annotated;

fn shared(port: u16) -> Value {
    annotated_port(port, &json!({ "windlass.dev/sharing-key": "k" }))
}

fn set_owners(rig: &Rig, address: &str, names: &[&str]) {
    let owners: Vec<Value> = names.iter().map(|name| owner(rig, name)).collect();
    rig.api.edit(&vip_key(address), &json!({ "spec": { "owners": owners } }));
}

fn one_pool() -> Vec<Value> {
    vec![pool("p", &["192.0.2.16/29"], &json!({}))]
}

#[tokio::test(start_paused = true)]
async fn a_hand_that_adds_an_owner_to_one_address_does_not_cost_it_another() {
    for edited_first in ["a", "shares"] {
        let mut rig = Rig::new(&one_pool());
        rig.create("a", &json!({}));
        rig.create("b", &json!({}));
        rig.create("shares", &shared(81));
        meanwhile(&mut rig, false, |rig| {
            for name in ["a", "shares"] {
                let second = if name == edited_first { 1 } else { 2 };
                let time = format!("2026-01-03T00:00:{second:02}Z");
                let edited = json!([{ "manager": "kubectl", "time": time }]);
                rig.edit(name, &json!({ "metadata": { "managedFields": edited } }));
            }
            set_owners(rig, "192.0.2.17", &["b", "a"]);
            set_owners(rig, "192.0.2.16", &["a", "shares"]);
            // Its new self has only its object to be known by.
            rig.edit("b", &json!({ "metadata": { "finalizers": null } }));
            rig.delete("b");
            rig.create("b", &json!({}));
        })
        .await;
        for (name, address) in [("a", "192.0.2.16"), ("b", "192.0.2.17"), ("shares", "192.0.2.18")] {
            let what = format!("{name}, {edited_first} edited first\n{}", rig.objects());
            assert_eq!(rig.shown(name), [address], "{what}");
            assert_eq!(owners(&rig, address), [name], "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hand_that_puts_another_in_the_owners_place_costs_nobody_its_address() {
    for cut in [None, Some(Disconnect::Before), Some(Disconnect::After)] {
        for at in 1..6 {
            let mut rig = Rig::new(&one_pool());
            rig.create("a", &shared(80));
            rig.create("b", &shared(81));
            rig.create("other", &json!({}));
            let first = rig.controller();
            rig.settle().await;
            if let Some(cut) = cut {
                rig.cut(&first, at, cut);
            }
            set_owners(&rig, "192.0.2.16", &["other"]);
            rig.until_cut_or_settled(first.number).await;
            first.kill().await;
            let second = rig.controller();
            rig.settle().await;
            let what = format!("{cut:?} at write {at}\n{}", rig.objects());
            for (name, address) in [("a", "192.0.2.16"), ("b", "192.0.2.16"), ("other", "192.0.2.17")] {
                assert_eq!(rig.shown(name), [address], "{what}");
            }
            assert_eq!(owners(&rig, "192.0.2.16"), ["a", "b"], "{what}");
            second.kill().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_hand_or_another_release_put_into_quarantine_under_another_name_stays_with_those_who_have_it()
{
    let mut rig = Rig::new(&one_pool());
    rig.create("a", &shared(80));
    rig.create("b", &shared(81));
    rig.create("other", &json!({}));
    meanwhile(&mut rig, false, |rig| {
        set_owners(rig, "192.0.2.16", &["other"]);
        let quarantine = json!({ "reason": "Released", "until": "2026-01-02T01:00:00Z" });
        let spec = json!({ "quarantine": quarantine, "virtualRouter": null });
        rig.api.edit(&vip_key("192.0.2.16"), &json!({ "spec": spec }));
    })
    .await;
    for (name, address) in [("a", "192.0.2.16"), ("b", "192.0.2.16"), ("other", "192.0.2.17")] {
        assert_eq!(rig.shown(name), [address], "{}", rig.objects());
    }
    let both: BTreeSet<String> = owners(&rig, "192.0.2.16").into_iter().collect();
    assert_eq!(both, ["a".to_owned(), "b".to_owned()].into());
}

#[tokio::test(start_paused = true)]
async fn a_service_whose_object_is_deleted_does_not_move_to_one_that_a_hand_gives_it() {
    for controller_runs in [true, false] {
        let mut rig = Rig::new(&one_pool());
        rig.create("a", &json!({}));
        rig.create("b", &json!({}));
        meanwhile(&mut rig, controller_runs, |rig| {
            rig.api.delete(&vip_key("192.0.2.16"));
            set_owners(rig, "192.0.2.17", &["a"]);
            rig.edit("b", &json!({ "spec": { "type": "ClusterIP", "externalTrafficPolicy": null }, "status": { "loadBalancer": null } }));
        })
        .await;
        assert_eq!(rig.shown("a"), ["192.0.2.16"], "controller runs: {controller_runs}\n{}", rig.objects());
        assert_eq!(owners(&rig, "192.0.2.16"), ["a"], "controller runs: {controller_runs}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sharer_whose_status_is_forged_does_not_lose_its_address_to_one_that_changed() {
    let mut rig = Rig::new(&one_pool());
    rig.create("a", &shared(80));
    rig.create("changes", &shared(81));
    meanwhile(&mut rig, false, |rig| {
        rig.edit("a", &ingress(&json!([{ "ip": "192.0.2.20", "ipMode": "VIP" }])));
        let port = json!({ "name": "p", "port": 80, "protocol": "TCP", "nodePort": 30080 });
        let edited = json!([{ "manager": "kubectl", "time": "2026-01-03T00:00:00Z" }]);
        rig.edit("changes", &json!({ "metadata": { "managedFields": edited }, "spec": { "ports": [port] } }));
    })
    .await;
    assert_eq!(rig.shown("a"), ["192.0.2.16"], "{}", rig.objects());
    assert_eq!(rig.shown("changes"), ["192.0.2.17"]);
}

#[tokio::test(start_paused = true)]
async fn the_pool_that_a_service_was_given_its_address_by_is_remembered_until_it_is_an_owner_again() {
    let mut rig = Rig::new(&[pool("pa", &["192.0.2.16/29"], &json!({}))]);
    rig.create("named", &annotated(&json!({ "windlass.dev/pool": "pa" })));
    let first = rig.controller();
    rig.settle().await;
    rig.create("plain", &json!({}));
    rig.api.put(pool("pb", &["192.0.2.16/30"], &json!({})));
    rig.api.edit("virtualippools//pa", &json!({ "spec": { "addresses": ["192.0.2.20/30"] } }));
    rig.settle().await;
    first.kill().await;
    set_owners(&rig, "192.0.2.16", &["plain"]);
    let second = rig.controller();
    rig.settle_keeping_writes().await;
    let forgets =
        |write: &&RecordedWrite| write.body.pointer("/spec/formerPools").is_some_and(Value::is_null);
    let writes = rig.api.writes();
    assert_eq!(
        writes.iter().find(forgets).map(|write| &write.body),
        None,
        "it may be killed after any write"
    );
    assert_eq!(rig.shown("named"), ["192.0.2.16"]);
    second.kill().await;
}

#[tokio::test(start_paused = true)]
async fn the_pool_that_a_service_names_is_remembered_by_its_condition_while_no_node_announces_its_address() {
    for reason in ["AgentStopped", "Unguarded"] {
        let mut rig = Rig::new(&[pool("pa", &["192.0.2.16/29"], &json!({}))]);
        rig.create("named", &annotated(&json!({ "windlass.dev/pool": "pa" })));
        let first = rig.controller();
        rig.settle().await;
        rig.stop_agent();
        rig.announced("192.0.2.16", "False", reason, "n1 does not announce it");
        rig.settle().await;
        // Once more while it is silent: what is remembered is written again.
        rig.api.put(pool("pb", &["192.0.2.16/30"], &json!({})));
        rig.api.edit("virtualippools//pa", &json!({ "spec": { "addresses": ["192.0.2.20/30"] } }));
        rig.settle().await;
        first.kill().await;
        rig.api.edit(&vip_key("192.0.2.16"), &json!({ "spec": { "pool": "pc", "formerPools": null } }));
        let second = rig.controller();
        rig.settle().await;
        rig.announced("192.0.2.16", "True", "Active", "n1 announces it");
        rig.start_agent();
        rig.settle().await;
        assert_eq!(rig.shown("named"), ["192.0.2.16"], "{reason}\n{}", rig.objects());
        second.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_another_service_has_outside_all_pools_is_no_strangers_entry() {
    for controller_runs in [true, false] {
        let mut rig = Rig::new(&one_pool());
        rig.create("a", &json!({}));
        rig.create("b", &json!({}));
        let first = rig.controller();
        rig.settle().await;
        rig.api.edit("virtualippools//p", &json!({ "spec": { "addresses": ["192.0.2.17/32"] } }));
        rig.settle().await;
        first.kill().await;
        let forged =
            json!([{ "ip": "192.0.2.17", "ipMode": "VIP" }, { "ip": "192.0.2.16" }, { "ip": "203.0.113.1" }]);
        meanwhile(&mut rig, controller_runs, |rig| rig.edit("b", &ingress(&forged))).await;
        assert_eq!(rig.shown("a"), ["192.0.2.16"], "controller runs: {controller_runs}");
        assert_eq!(rig.shown("b"), ["192.0.2.17", "203.0.113.1"], "controller runs: {controller_runs}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_forged_status_moves_nobody_whose_address_no_node_announces_for_a_while() {
    for controller_runs in [true, false] {
        let mut rig = Rig::new(&one_pool());
        rig.create("a", &json!({}));
        let first = rig.controller();
        rig.settle().await;
        first.kill().await;
        rig.stop_agent();
        rig.announced("192.0.2.16", "False", "AgentStopped", "the agent of n1 was stopped");
        meanwhile(&mut rig, controller_runs, |rig| {
            rig.edit("a", &ingress(&json!([{ "ip": "192.0.2.17", "ipMode": "VIP" }])));
            rig.api.edit("virtualippools//p", &json!({ "spec": { "addresses": ["192.0.2.16/28"] } }));
        })
        .await;
        assert_eq!(rig.shown("a"), ["192.0.2.16"], "controller runs: {controller_runs}\n{}", rig.objects());
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_of_a_family_that_a_service_does_not_ask_for_is_not_its_own() {
    for controller_runs in [true, false] {
        let mut rig = Rig::new(&[pool("p", &["192.0.2.16/29", "2001:db8::10/125"], &json!({}))]);
        rig.create("a", &json!({}));
        let forged = json!([{ "ip": "2001:db8::15", "ipMode": "VIP" }]);
        meanwhile(&mut rig, controller_runs, |rig| rig.edit("a", &ingress(&forged))).await;
        let what = format!("controller runs: {controller_runs}");
        assert_eq!(rig.shown("a"), ["192.0.2.16"], "{what}");
        let pool = rig.api.get("virtualippools//p").expect("a pool");
        assert_eq!(pool["status"]["ipv6"]["assigned"], 0, "{what}");
        rig.check_that_a_restart_writes_nothing(&what).await;
    }
}
