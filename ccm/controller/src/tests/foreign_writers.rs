//! Other writers of what is Windlass' own: a controller that writes the same status, an admin who keeps an address back.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use windlass_ccm::testing::apiserver::ApiServer;

use super::rig::{Rig, key, pool};

fn sharing(port: u16) -> Value {
    json!({
        "metadata": { "annotations": { "windlass.dev/sharing-key": "k" } },
        "spec": { "ports": [{ "name": "p", "port": port, "protocol": "TCP", "nodePort": 30000 + u32::from(port) }] },
    })
}

/// Another controller that wants its own address in the status of Service `a`, and writes it whenever it is not there.
async fn rival(api: ApiServer) {
    loop {
        let shown = api.get(&key("a")).map(|service| service["status"]["loadBalancer"]["ingress"].clone());
        if shown.is_some_and(|shown| shown != json!([{ "ip": "203.0.113.9" }])) {
            api.edit(
                &key("a"),
                &json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "203.0.113.9" }] } } }),
            );
        }
        tokio::select! {
            () = api.changed() => {}
            () = sleep(Duration::from_secs(7)) => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_writes_the_same_status_is_answered_calmly_and_told_of() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.16/29"], &json!({ "quarantineSeconds": 0 }))]);
    let controller = rig.controller();
    rig.create("a", &json!({}));
    rig.create("b", &json!({}));
    rig.settle().await;
    let address = rig.shown("a");
    rig.api.take_writes();
    let rival = tokio::spawn(rival(rig.api.clone()));
    sleep(Duration::from_hours(1)).await;
    let writes = rig.writes();
    assert!((5..25).contains(&writes.len()), "{} writes in an hour: {writes:#?}", writes.len());
    let told = rig.api.list("events").into_iter().filter(|event| event["reason"] == "StatusContested");
    let told: Vec<Value> = told.collect();
    assert!((1..=2).contains(&told.len()), "{told:#?}");
    assert_eq!((&told[0]["type"], &told[0]["involvedObject"]["name"]), (&json!("Warning"), &json!("a")));
    rival.abort();
    sleep(Duration::from_mins(6)).await;
    assert_eq!(rig.shown("a")[..1], address, "without the other its own address is shown again");
    assert_eq!(rig.shown("b").len(), 1);
    controller.kill().await;
}

#[tokio::test(start_paused = true)]
async fn what_another_load_balancer_gave_a_service_is_given_to_nobody_else_until_it_is_free() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.16/31"], &json!({ "quarantineSeconds": 0 }))]);
    let of_another = json!({
        "spec": { "loadBalancerClass": "example.com/other" },
        "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.16" }] } },
    });
    rig.create("foreign", &of_another);
    let controller = rig.controller();
    rig.create("a", &json!({}));
    rig.create("b", &json!({ "metadata": { "annotations": { "windlass.dev/addresses": "192.0.2.16" } } }));
    rig.settle().await;
    assert_eq!((rig.shown("a"), rig.shown("b")), (vec!["192.0.2.17".to_owned()], vec![]));
    assert_eq!(rig.reason("b"), "False AddressInUse");
    let condition = rig.message("b");
    let said = "address 192.0.2.16 is in use by Service ns/foreign, which another load balancer serves: ask for another address, or \
                have Windlass serve that Service";
    assert_eq!(condition, said);
    let pools = rig.api.list("virtualippools");
    let ready = pools[0]["status"]["conditions"].as_array().expect("conditions").clone();
    let left_out = "ForeignService: addresses that other load balancers serve left out: 192.0.2.16 of Service ns/foreign";
    assert!(
        ready.iter().any(|one| one["type"] == "Ready"
            && format!("{}: {}", one["reason"].as_str().unwrap(), one["message"].as_str().unwrap())
                == left_out),
        "{ready:#?}"
    );
    rig.delete("foreign");
    rig.settle().await;
    assert_eq!(rig.shown("b"), ["192.0.2.16"]);
    controller.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_shared_address_that_is_kept_back_by_hand_comes_back_to_all_who_had_it() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.16/29"], &json!({ "quarantineSeconds": 2 }))]);
    let controller = rig.controller();
    for (name, port) in [("a", 80), ("b", 81), ("c", 82)] {
        rig.create(name, &sharing(port));
    }
    rig.settle().await;
    let before = ["a", "b", "c"].map(|name| rig.shown(name));
    assert!(before.iter().all(|shown| shown == &before[0]), "{before:?}");
    let claim = format!("virtualips//{}", before[0][0]);
    let quarantine = |reason: &str| json!({ "spec": { "quarantine": { "reason": reason, "until": "2026-01-02T01:00:00Z" } } });
    rig.api.edit(&claim, &quarantine("Released"));
    rig.settle().await;
    assert_eq!(["a", "b", "c"].map(|name| rig.shown(name)), before, "{}", rig.objects());
    rig.check(&[("a", 1), ("b", 1), ("c", 1)].into(), "released by hand");

    // What another host has, as the admin says, is left by all of them, together.
    rig.api.edit(&claim, &quarantine("AddressTaken"));
    sleep(Duration::from_mins(1)).await;
    let after = ["a", "b", "c"].map(|name| rig.shown(name));
    assert!(after[0] != before[0] && after.iter().all(|shown| shown == &after[0]), "{after:?}");
    controller.kill().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_back_by_hand_while_no_controller_runs_is_nobody_elses_when_one_starts() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.16/32"], &json!({ "quarantineSeconds": 2 }))]);
    let controller = rig.controller();
    rig.create("older", &json!({ "spec": { "type": "ClusterIP", "externalTrafficPolicy": null } }));
    rig.create("a", &json!({}));
    rig.settle().await;
    rig.edit("older", &json!({ "spec": { "type": "LoadBalancer", "externalTrafficPolicy": "Cluster" } }));
    rig.settle().await;
    assert_eq!((rig.shown("a").len(), rig.shown("older").len()), (1, 0));
    controller.kill().await;
    for until in ["2026-01-01T00:00:00Z", "2030-01-01T00:00:00Z"] {
        let quarantine = json!({ "spec": { "quarantine": { "reason": "Released", "until": until } } });
        rig.api.edit("virtualips//192.0.2.16", &quarantine);
        let controller = rig.controller();
        rig.settle().await;
        rig.check(&[("a", 1), ("older", 0)].into(), until);
        controller.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_deleted_by_hand_is_made_again_also_for_a_service_that_asks_for_what_cannot_be_had() {
    for (case, broken) in [
        ("malformed", json!({ "windlass.dev/address-count": "many" })),
        ("no such pool", json!({ "windlass.dev/pool": "absent" })),
    ] {
        let mut rig = Rig::new(&[pool("p", &["192.0.2.16/29"], &json!({ "quarantineSeconds": 0 }))]);
        let controller = rig.controller();
        rig.create("a", &json!({}));
        rig.settle().await;
        let before = rig.shown("a");
        rig.edit("a", &json!({ "metadata": { "annotations": broken } }));
        rig.settle().await;
        let claim = format!("virtualips//{}", before[0]);
        rig.api.delete(&claim);
        rig.settle().await;
        rig.check(&[("a", 1)].into(), case);
        controller.kill().await;
        rig.api.delete(&claim);
        let controller = rig.controller();
        rig.create("b", &json!({}));
        rig.settle().await;
        rig.check(&[("a", 1), ("b", 1)].into(), case);
        assert_eq!(rig.shown("a"), before, "{case}");
        controller.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_for_nonsense_is_removed_and_holds_up_nobody() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.16/29"], &json!({ "quarantineSeconds": 0 }))]);
    for (number, (namespace, name)) in
        [("No Namespace", "-"), ("../../..", "a"), ("ns", "a/../b"), ("ns", "ghost")].into_iter().enumerate()
    {
        let address = format!("192.0.2.{}", 18 + number);
        rig.api.put(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIP",
            "metadata": { "name": address, "uid": format!("uid-{number}") },
            "spec": { "address": address, "pool": "../..",
                      "owners": [{ "namespace": namespace, "name": name, "uid": "?" }] },
        }));
    }
    let controller = rig.controller();
    rig.create("a", &json!({}));
    sleep(Duration::from_secs(20)).await;
    rig.check(&[("a", 1)].into(), "nonsense");
    controller.kill().await;
}
