//! What somebody who may create Services in one namespace can do to others: nothing.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::rig::{Rig, pool, text};

/// A Service that lists external IPs and is no load balancer.
fn lists(addresses: &[String], port: u16) -> Value {
    json!({ "spec": {
        "type": "ClusterIP", "externalIPs": addresses, "externalTrafficPolicy": null,
        "ports": [{ "name": "p", "port": port, "protocol": "TCP", "targetPort": 8080 }],
    } })
}

/// Events with this reason: of whom, and what.
fn told(rig: &Rig, reason: &str) -> BTreeSet<(String, String)> {
    let events = rig.api.list("events").into_iter().filter(|event| event["reason"] == reason);
    let of = |event: &Value| {
        let object = &event["regarding"];
        let object = if object.is_null() { &event["involvedObject"] } else { object };
        format!("{}/{}", text(&object["namespace"]), text(&object["name"]))
    };
    events.map(|event| (of(&event), text(&event["message"]) + &text(&event["note"]))).collect()
}

/// Conditions of a pool, as `type=status: message`.
fn conditions(rig: &Rig, pool: &str) -> Vec<String> {
    let pool = rig.api.get(&format!("virtualippools//{pool}")).unwrap_or_default();
    let conditions = pool.pointer("/status/conditions").and_then(Value::as_array).cloned();
    let said =
        |one: &Value| format!("{}={}: {}", text(&one["type"]), text(&one["status"]), text(&one["message"]));
    conditions.unwrap_or_default().iter().map(said).collect()
}

#[tokio::test(start_paused = true)]
async fn external_ips_that_a_pool_does_not_allow_reserve_nothing_and_are_told_to_all_whom_they_concern() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.1-192.0.2.40"], &json!({}))]);
    let controller = rig.controller();
    rig.create("bystander", &json!({}));
    rig.settle().await;
    assert_eq!(rig.shown("bystander"), ["192.0.2.1"]);
    let everything: Vec<String> = (1..=40).map(|end| format!("192.0.2.{end}")).collect();
    rig.create("evil/all", &lists(&everything, 8443));
    rig.create("evil/same", &lists(&everything[..1], 80));
    rig.settle().await;
    let status = rig.api.get("virtualippools//p").unwrap_or_default();
    assert_eq!(
        status["status"]["ipv4"],
        json!({ "total": 40, "assigned": 1, "available": 39, "quarantined": 0 })
    );
    rig.create("other/next", &json!({}));
    rig.settle().await;
    assert_eq!(rig.shown("other/next"), ["192.0.2.2"]);
    assert_eq!(rig.shown("bystander"), ["192.0.2.1"]);

    let refused = told(&rig, "ExternalIPRefused");
    let some = "192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4, 192.0.2.5";
    let why = "pool \"p\" does not allow external IPs: set spec.allowExternalIPs there";
    let first = ("evil/all".to_owned(), format!("external IPs {some} and 35 more are not announced: {why}"));
    assert!(refused.contains(&first), "{refused:?}");
    let victims = told(&rig, "ForeignExternalIP");
    let says = |of: &str, what: &str| victims.iter().any(|(whom, said)| whom == of && said.contains(what));
    assert!(says("ns/bystander", "Service evil/all lists this Service's address 192.0.2.1"), "{victims:?}");
    assert!(says("ns/bystander", "evil/same") && says("ns/bystander", "port TCP 80 too"), "{victims:?}");
    assert!(says("other/next", "evil/all"), "{victims:?}");
    let shown = conditions(&rig, "p");
    let expected = "ForeignExternalIPs=True: refused, though kube-proxy takes traffic to them within the cluster: \
                    192.0.2.1 by Service evil/all, 192.0.2.1 by Service evil/same, ";
    assert!(shown[0].starts_with("Ready=True"), "{shown:?}");
    assert!(shown.iter().any(|said| said.starts_with(expected) && said.contains("and 36 more")), "{shown:?}");

    rig.delete("evil/all");
    rig.edit("evil/same", &json!({ "spec": { "externalIPs": null } }));
    rig.settle().await;
    let shown = conditions(&rig, "p");
    assert!(!shown.iter().any(|said| said.starts_with("ForeignExternalIPs")), "{shown:?}");
    controller.kill().await;
}
