//! What a Service has is remembered twice, by the object and by the Service's status: whatever a hand does to one of them,
//! with a controller that runs or none, its address stays.

use serde_json::{Value, json};
use windlass_ccm::testing::apiserver::RecordedWrite;

use super::lives::{annotated_port, ingress};
use super::rig::{Rig, pool, text};
use super::scenarios::{annotated, dual};

pub(super) fn vip_key(address: &str) -> String {
    format!("virtualips//{}", address.replace(':', "-"))
}

pub(super) fn owner(rig: &Rig, name: &str) -> Value {
    let uid = rig.api.get(&super::rig::key(name)).expect("a Service")["metadata"]["uid"].clone();
    json!({ "namespace": "ns", "name": name, "uid": uid })
}

/// Names of the owners of an address, in order.
pub(super) fn owners(rig: &Rig, address: &str) -> Vec<String> {
    let vip = rig.api.get(&vip_key(address)).unwrap_or_default();
    let owners = vip["spec"]["owners"].as_array().cloned().unwrap_or_default();
    owners.iter().map(|owner| text(&owner["name"])).collect()
}

/// Does it while the controller runs, or while none does, and waits until all is quiet.
pub(super) async fn meanwhile(rig: &mut Rig, controller_runs: bool, act: impl FnOnce(&mut Rig)) {
    let first = rig.controller();
    rig.settle().await;
    if controller_runs {
        act(rig);
        rig.settle().await;
        first.kill().await;
    } else {
        first.kill().await;
        act(rig);
    }
    let second = rig.controller();
    rig.settle().await;
    second.kill().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_a_hand_adds_is_taken_out_again_wherever_it_stands() {
    for controller_runs in [true, false] {
        for first in [true, false] {
            for shares in [true, false] {
                let mut rig = Rig::new(&[pool("p", &["192.0.2.16/31"], &json!({}))]);
                let key = if shares { "k" } else { "" };
                rig.create("a", &annotated_port(80, &json!({ "windlass.dev/sharing-key": key })));
                rig.create("b", &json!({}));
                let mut had = (String::new(), String::new());
                let what =
                    format!("controller runs: {controller_runs}, in front: {first}, with a key: {shares}");
                meanwhile(&mut rig, controller_runs, |rig| {
                    had = (rig.shown("a").concat(), rig.shown("b").concat());
                    let mut both = vec![owner(rig, "a"), owner(rig, "b")];
                    if first {
                        both.reverse();
                    }
                    rig.api.edit(&vip_key(&had.0), &json!({ "spec": { "owners": both } }));
                })
                .await;
                assert_eq!((rig.shown("a").concat(), rig.shown("b").concat()), had, "{what}");
                assert_eq!(
                    (owners(&rig, &had.0), owners(&rig, &had.1)),
                    (vec!["a".into()], vec!["b".into()]),
                    "{what}"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_a_hand_takes_out_is_put_back() {
    for controller_runs in [true, false] {
        for waits in [true, false] {
            // The one that the hand puts in has an address of its own, or waits for one.
            let range = if waits { "192.0.2.16/32" } else { "192.0.2.16/30" };
            let mut rig = Rig::new(&[pool("p", &[range], &json!({}))]);
            rig.create("a", &json!({}));
            rig.create("b", &json!({}));
            let mut had = [Vec::new(), Vec::new()];
            meanwhile(&mut rig, controller_runs, |rig| {
                had = ["a", "b"].map(|name| rig.shown(name));
                rig.api.edit(&vip_key(&had[0][0]), &json!({ "spec": { "owners": [owner(rig, "b")] } }));
            })
            .await;
            let what = format!("controller runs: {controller_runs}, the other waits: {waits}");
            assert_eq!(["a", "b"].map(|name| rig.shown(name)), had, "{what}\n{}", rig.objects());
            assert_eq!(owners(&rig, &had[0][0]), ["a"], "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_sharers_one_that_a_hand_takes_out_is_put_back_and_the_others_stay() {
    for controller_runs in [true, false] {
        let mut rig = Rig::new(&[pool("p", &["192.0.2.16/30"], &json!({}))]);
        for (name, port) in [("a", 80), ("b", 81), ("c", 82)] {
            rig.create(name, &annotated_port(port, &json!({ "windlass.dev/sharing-key": "k" })));
        }
        meanwhile(&mut rig, controller_runs, |rig| {
            let two = [owner(rig, "c"), owner(rig, "b")];
            rig.api.edit(&vip_key("192.0.2.16"), &json!({ "spec": { "owners": two } }));
        })
        .await;
        for name in ["a", "b", "c"] {
            assert_eq!(rig.shown(name), ["192.0.2.16"], "{name}, controller runs: {controller_runs}");
        }
        assert_eq!(owners(&rig, "192.0.2.16").len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_in_no_pool_is_kept_when_its_object_is_deleted_too() {
    for controller_runs in [true, false] {
        let mut rig = Rig::new(&[pool("p", &["192.0.2.16/30", "2001:db8::10/126"], &json!({}))]);
        rig.create("a", &dual("RequireDualStack"));
        let mut had = Vec::new();
        meanwhile(&mut rig, controller_runs, |rig| {
            had = rig.shown("a");
            rig.api.edit(
                "virtualippools//p",
                &json!({ "spec": { "addresses": ["192.0.2.24/30", "2001:db8::20/126"] } }),
            );
            for address in &had {
                rig.api.delete(&vip_key(address));
            }
        })
        .await;
        assert_eq!(rig.shown("a"), had, "controller runs: {controller_runs}");
        assert_eq!(rig.reason("a"), "True AddressOutsidePools");
    }
}

#[tokio::test(start_paused = true)]
async fn a_forged_status_moves_nobody_whether_a_controller_runs_or_not() {
    for controller_runs in [true, false] {
        for forged in
            [json!([]), json!([{ "ip": "192.0.2.18", "ipMode": "VIP" }]), json!([{ "ip": "203.0.113.7" }])]
        {
            let mut rig = Rig::new(&[pool("p", &["192.0.2.16/30"], &json!({}))]);
            rig.create("a", &json!({}));
            meanwhile(&mut rig, controller_runs, |rig| rig.edit("a", &ingress(&forged))).await;
            assert_eq!(
                rig.shown("a").first().map(String::as_str),
                Some("192.0.2.16"),
                "{forged}, {controller_runs}"
            );
        }
    }
}

// shows: allocation 79
#[tokio::test(start_paused = true)]
async fn what_a_predecessor_wrote_into_statuses_is_theirs_when_a_pool_has_it() {
    // Both before there was any pool, and however long before the pool is made.
    for (millis, controller_runs) in [(0, true), (1, true), (700, true), (14_000, true), (0, false)] {
        let mut rig = Rig::new(&[]);
        rig.create("older", &json!({}));
        for (name, port) in [("a", 80), ("b", 81)] {
            rig.create(name, &annotated_port(port, &json!({ "windlass.dev/sharing-key": "k" })));
        }
        rig.create("c", &json!({}));
        let first = rig.controller();
        rig.settle().await;
        let first = if controller_runs {
            Some(first)
        } else {
            first.kill().await;
            None
        };
        for (name, address) in [("a", "192.0.2.17"), ("b", "192.0.2.17"), ("c", "192.0.2.16")] {
            rig.edit(name, &ingress(&json!([{ "ip": address, "ipMode": "VIP" }])));
        }
        tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
        rig.api.put(pool("p", &["192.0.2.16/30"], &json!({})));
        let controller = match first {
            Some(first) => first,
            None => rig.controller(),
        };
        rig.settle().await;
        let shown = ["a", "b", "c"].map(|name| rig.shown(name).concat());
        let what = format!("{millis} ms before, controller runs: {controller_runs}");
        assert_eq!(shown, ["192.0.2.17", "192.0.2.17", "192.0.2.16"], "{what}");
        assert_eq!(rig.shown("older").len(), 1, "{what}");
        controller.kill().await;
        rig.check_that_a_restart_writes_nothing(&what).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_made_anew_by_force_while_no_controller_runs_has_its_address_again() {
    for (case, shape) in [
        ("one address", json!({})),
        ("both families", dual("RequireDualStack")),
        ("named pool", annotated(&json!({ "windlass.dev/pool": "p" }))),
        ("two", annotated(&json!({ "windlass.dev/address-count": "2" }))),
    ] {
        for controller_runs in [true, false] {
            let mut rig = Rig::new(&[pool("p", &["192.0.2.16/29", "2001:db8::10/125"], &json!({}))]);
            rig.create("before", &shape);
            rig.create("a", &shape);
            let mut had = Vec::new();
            meanwhile(&mut rig, controller_runs, |rig| {
                had = rig.shown("a");
                // One that waits or comes at the same time is not faster.
                rig.create("stranger", &json!({}));
                rig.edit("a", &json!({ "metadata": { "finalizers": null } }));
                rig.delete("a");
                rig.create("a", &shape);
            })
            .await;
            assert_eq!(rig.shown("a"), had, "{case}, controller runs: {controller_runs}\n{}", rig.objects());
            for address in &had {
                assert_eq!(owners(&rig, address), ["a"], "{case}: its former self is gone");
            }
        }
    }
}

// shows: allocation 20
#[tokio::test(start_paused = true)]
async fn who_was_edited_last_leaves_a_shared_address_also_when_no_controller_ran() {
    let edited = |second: u8, ports: Value| {
        let time = format!("2026-01-03T00:00:{second:02}Z");
        json!({ "metadata": { "managedFields": [{ "manager": "kubectl", "time": time }] }, "spec": { "ports": ports } })
    };
    let port = |number: u16| json!({ "name": format!("p{number}"), "port": number, "protocol": "TCP", "nodePort": 30000 + u32::from(number) });
    for (changes, stays) in [("a", "b"), ("b", "a")] {
        let mut rig = Rig::new(&[pool("p", &["192.0.2.16/30"], &json!({}))]);
        for (name, number) in [("a", 80), ("b", 81)] {
            rig.create(name, &annotated_port(number, &json!({ "windlass.dev/sharing-key": "k" })));
        }
        meanwhile(&mut rig, false, |rig| {
            // An edit of the one that stays, too, before.
            let own = if stays == "a" { 80 } else { 81 };
            rig.edit(stays, &edited(1, json!([port(own)])));
            rig.edit(changes, &edited(2, json!([port(80), port(81)])));
        })
        .await;
        assert_eq!(rig.shown(stays), ["192.0.2.16"], "{changes} changes\n{}", rig.objects());
        assert_eq!(rig.shown(changes), ["192.0.2.17"], "{changes} changes");
    }
}

// shows: allocation 20
#[tokio::test(start_paused = true)]
async fn a_service_that_loses_a_shared_address_is_told_why() {
    for (range, ends) in [("192.0.2.16/32", ""), ("192.0.2.16/31", "192.0.2.17")] {
        let mut rig = Rig::new(&[pool("p", &[range], &json!({}))]);
        for (name, number) in [("a", 80), ("b", 81)] {
            rig.create(name, &annotated_port(number, &json!({ "windlass.dev/sharing-key": "k" })));
        }
        let controller = rig.controller();
        rig.settle().await;
        rig.edit("a", &json!({ "metadata": { "annotations": { "windlass.dev/sharing-key": null } } }));
        rig.settle_keeping_writes().await;
        assert_eq!((rig.shown("a").concat(), rig.shown("b").concat()), (ends.into(), "192.0.2.16".into()));
        let why = "192.0.2.16 stays with Service ns/b and is left by this one, which changed: this Service has no sharing key";
        let writes = rig.api.writes();
        let told = writes.iter().filter_map(RecordedWrite::event).any(|event| event.contains(why));
        assert!(told, "{range}: {writes:#?}");
        controller.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_foreign_entry_of_a_status_goes_when_a_pool_has_its_address() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.16/30"], &json!({}))]);
    rig.create("a", &json!({}));
    let controller = rig.controller();
    rig.settle().await;
    let both = json!([{ "ip": "192.0.2.16", "ipMode": "VIP" }, { "ip": "192.0.2.33", "ipMode": "VIP" }]);
    rig.edit("a", &ingress(&both));
    rig.settle().await;
    assert_eq!(rig.shown("a"), ["192.0.2.16", "192.0.2.33"], "it is another controller's");
    rig.api.put(pool("q", &["192.0.2.32/30"], &json!({})));
    rig.settle().await;
    assert_eq!(rig.shown("a"), ["192.0.2.16"], "it is ours to give, and not this one's");
    controller.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_service_whose_status_is_emptied_or_whose_claim_is_harmed_keeps_its_address() {
    for (case, broken) in [
        ("malformed", json!({ "windlass.dev/address-count": "many" })),
        ("no such pool", json!({ "windlass.dev/pool": "absent" })),
        ("an address in no pool", json!({ "windlass.dev/addresses": "203.0.113.1" })),
    ] {
        for controller_runs in [true, false] {
            for harm in ["status", "quarantine", "deleted", "owner"] {
                let mut rig = Rig::new(&[pool("p", &["192.0.2.16/30"], &json!({}))]);
                rig.create("a", &json!({}));
                rig.create("b", &json!({}));
                let first = rig.controller();
                rig.settle().await;
                rig.edit("a", &annotated(&broken));
                rig.settle().await;
                first.kill().await;
                meanwhile(&mut rig, controller_runs, |rig| match harm {
                    "status" => rig.edit("a", &ingress(&json!([]))),
                    "deleted" => rig.api.delete(&vip_key("192.0.2.16")),
                    "owner" => {
                        let owners = [owner(rig, "b")];
                        rig.api.edit(&vip_key("192.0.2.16"), &json!({ "spec": { "owners": owners } }));
                    }
                    _ => {
                        let quarantine = json!({ "reason": "Released", "until": "2026-01-02T01:00:00Z" });
                        rig.api
                            .edit(&vip_key("192.0.2.16"), &json!({ "spec": { "quarantine": quarantine } }));
                    }
                })
                .await;
                let what = format!("{case}, {harm}, controller runs: {controller_runs}");
                assert_eq!(rig.shown("a"), ["192.0.2.16"], "{what}\n{}", rig.objects());
                assert_eq!(owners(&rig, "192.0.2.16"), ["a"], "{what}");
                assert_eq!(rig.shown("b"), ["192.0.2.17"], "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_service_does_not_show_what_is_anothers() {
    for broken in [json!({ "windlass.dev/address-count": "many" }), json!({ "windlass.dev/pool": "absent" })]
    {
        for controller_runs in [true, false] {
            let mut rig = Rig::new(&[pool("p", &["192.0.2.16/30"], &json!({}))]);
            rig.create("a", &json!({}));
            rig.create("refused", &annotated(&broken));
            let first = rig.controller();
            rig.settle().await;
            first.kill().await;
            let forged = json!([{ "ip": "192.0.2.16", "ipMode": "VIP" }]);
            meanwhile(&mut rig, controller_runs, |rig| rig.edit("refused", &ingress(&forged))).await;
            let shown = ["a", "refused"].map(|name| rig.shown(name).concat());
            assert_eq!(shown, ["192.0.2.16", ""], "{broken}, controller runs: {controller_runs}");
        }
    }
}
