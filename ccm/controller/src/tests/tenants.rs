//! What somebody who may create Services in one namespace can do to others: nothing.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::rig::{Rig, key, pool, text};

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

// shows: threats T-02
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
    let expected = "ForeignExternalIPs=True: refused, though kube-proxy takes traffic to them within the cluster: 1 of them \
                    on a port of an address' owner, where kube-proxy decides which of both gets that traffic: \
                    192.0.2.1 by Service evil/same on its owner's port TCP 80, 192.0.2.1 by Service evil/all, ";
    assert!(shown[0].starts_with("Ready=True"), "{shown:?}");
    assert!(shown.iter().any(|said| said.starts_with(expected) && said.contains("and 36 more")), "{shown:?}");

    // Who takes a port of the victim later is told as well.
    rig.edit(
        "evil/all",
        &json!({ "spec": { "ports": [{ "name": "p", "port": 80, "protocol": "TCP", "targetPort": 8080 }] } }),
    );
    rig.settle().await;
    let victims = told(&rig, "ForeignExternalIP");
    let retold = victims.iter().any(|(whom, said)| {
        whom == "ns/bystander" && said.contains("Service evil/all lists") && said.contains("port TCP 80 too")
    });
    assert!(retold, "{victims:?}");

    rig.delete("evil/all");
    rig.edit("evil/same", &json!({ "spec": { "externalIPs": null } }));
    rig.settle().await;
    let shown = conditions(&rig, "p");
    assert!(!shown.iter().any(|said| said.starts_with("ForeignExternalIPs")), "{shown:?}");
    controller.kill().await;
}

/// A Service that is no load balancer any more.
fn plain() -> Value {
    // The API server takes the status out with the type.
    let spec = json!({ "type": "ClusterIP", "externalTrafficPolicy": null });
    json!({ "spec": spec, "status": { "loadBalancer": null } })
}

/// The message of our condition on a Service.
fn message(rig: &Rig, name: &str) -> String {
    let service = rig.api.get(&key(name)).unwrap_or_default();
    let conditions = service.pointer("/status/conditions").and_then(Value::as_array).cloned();
    let all = conditions.unwrap_or_default();
    let ours = all.iter().find(|one| one["type"] == windlass_api::CONDITION_ADDRESS_ALLOCATED);
    ours.map(|one| text(&one["message"])).unwrap_or_default()
}

// shows: threats T-05
#[tokio::test(start_paused = true)]
async fn a_namespace_at_its_limit_waits_until_it_frees_an_address_and_others_notice_nothing() {
    let limits = json!({ "maxPerNamespace": 2, "quarantineSeconds": 3600, "allowExternalIPs": true });
    let mut rig = Rig::new(&[pool("p", &["192.0.2.1-192.0.2.8"], &limits)]);
    let controller = rig.controller();
    rig.create("bystander", &json!({}));
    for name in ["evil/a", "evil/b", "evil/c"] {
        rig.create(name, &json!({}));
        rig.settle().await;
    }
    let external: Vec<String> = (1..=8).map(|end| format!("192.0.2.{end}")).collect();
    rig.create("evil/d", &lists(&external, 80));
    rig.settle().await;
    assert_eq!([rig.shown("evil/a").len(), rig.shown("evil/b").len(), rig.shown("evil/c").len()], [1, 1, 0]);
    assert_eq!(rig.reason("evil/c"), "False LimitReached");
    let said = "pool \"p\" gives the Services of a namespace 2 of a family at most, and those of this one \
                have 2, including quarantined ones: free one that counts, or have the pool's limit raised";
    assert!(message(&rig, "evil/c").contains(said), "{}", message(&rig, "evil/c"));
    let refused = told(&rig, "ExternalIPRefused");
    assert!(refused.iter().any(|(whom, said)| whom == "evil/d" && said.contains("2 of a family at most")));
    rig.create("other/next", &json!({}));
    rig.settle().await;
    assert_eq!((rig.shown("bystander").len(), rig.shown("other/next").len()), (1, 1));

    // What is kept back counts; when it is over, the one that waits is served.
    rig.delete("evil/a");
    rig.settle_keeping_writes().await;
    assert_eq!(rig.shown("evil/c"), Vec::<String>::new());
    for _ in 0..6 {
        rig.settle_keeping_writes().await;
    }
    assert_eq!(rig.shown("evil/c").len(), 1, "{}", rig.objects());
    controller.kill().await;
}

// shows: threats T-06
#[tokio::test(start_paused = true)]
async fn churn_fills_no_pool_and_what_a_service_that_exists_let_go_of_is_left_to_it() {
    let long = json!({ "quarantineSeconds": 86_400 });
    let mut rig = Rig::new(&[pool("p", &["192.0.2.1-192.0.2.4"], &long)]);
    let controller = rig.controller();
    rig.create("keeper", &json!({}));
    rig.settle_keeping_writes().await;
    rig.edit("keeper", &plain());
    rig.settle_keeping_writes().await;
    for round in 0..3 {
        for name in 0..3 {
            rig.create(&format!("evil/s{round}{name}"), &json!({}));
        }
        rig.settle_keeping_writes().await;
        for name in 0..3 {
            rig.delete(&format!("evil/s{round}{name}"));
        }
        rig.settle_keeping_writes().await;
    }
    let counts = rig.api.get("virtualippools//p").unwrap_or_default()["status"]["ipv4"].clone();
    assert_eq!(counts, json!({ "total": 4, "assigned": 0, "available": 0, "quarantined": 4 }));
    rig.create("bystander", &json!({}));
    rig.settle_keeping_writes().await;
    assert_eq!(rig.shown("bystander").len(), 1, "{}", rig.objects());
    // A controller that starts knows who is gone, too.
    controller.kill().await;
    let controller = rig.controller();
    for name in ["other/a", "other/b", "other/c"] {
        rig.create(name, &json!({}));
        rig.settle_keeping_writes().await;
    }
    assert_eq!(
        [rig.shown("other/a").len(), rig.shown("other/b").len(), rig.shown("other/c").len()],
        [1, 1, 0]
    );
    assert_eq!(rig.reason("other/c"), "False NoFreeAddress");
    // The last address is its own as long as it exists, and the waiting one's as soon as it is gone.
    rig.delete("keeper");
    rig.settle_keeping_writes().await;
    assert_eq!(rig.shown("other/c"), ["192.0.2.1"]);
    controller.kill().await;
}

// shows: threats T-07
#[tokio::test(start_paused = true)]
async fn who_has_a_full_pool_of_its_own_waits_if_the_pool_says_so_and_takes_nothing_from_others() {
    let own = json!({ "namespaces": ["team"], "whenFull": "Wait", "quarantineSeconds": 0 });
    let mut rig =
        Rig::new(&[pool("all", &["192.0.2.1-192.0.2.8"], &json!({})), pool("own", &["192.0.2.33"], &own)]);
    let controller = rig.controller();
    rig.create("team/a", &json!({}));
    rig.settle().await;
    rig.create("team/b", &json!({}));
    rig.create("team/c", &json!({ "metadata": { "annotations": { "windlass.dev/pool": "all" } } }));
    rig.create("bystander", &json!({}));
    rig.settle().await;
    assert_eq!((rig.shown("team/a"), rig.shown("team/b")), (vec!["192.0.2.33".to_owned()], vec![]));
    assert_eq!((rig.shown("team/c"), rig.reason("team/c").as_str()), (vec![], "False PoolNotAllowed"));
    assert!(
        message(&rig, "team/b")
            .contains("pool \"all\" is not for Services that have a pool of their own (only own)")
    );
    assert_eq!(rig.shown("bystander"), ["192.0.2.1"]);
    rig.delete("team/a");
    rig.settle().await;
    assert_eq!(rig.shown("team/b"), ["192.0.2.33"], "it waited");
    // As soon as the admin says otherwise.
    rig.create("team/d", &json!({}));
    rig.settle().await;
    rig.api.edit("virtualippools//own", &json!({ "spec": { "whenFull": "UseOthers" } }));
    rig.settle().await;
    assert_eq!((rig.shown("team/c").len(), rig.shown("team/d").len()), (1, 1));
    controller.kill().await;
}

// shows: threats T-08
#[tokio::test(start_paused = true)]
async fn an_address_stays_with_the_namespace_that_freed_it_as_long_as_the_pool_says() {
    let days = json!({ "namespaceQuarantineSeconds": 259_200 });
    let mut rig = Rig::new(&[pool("p", &["192.0.2.1-192.0.2.8"], &days)]);
    let controller = rig.controller();
    let named = json!({ "metadata": { "annotations": { "windlass.dev/addresses": "192.0.2.1" } } });
    rig.create("shop/web", &json!({}));
    rig.settle_keeping_writes().await;
    rig.create("evil/web", &named);
    rig.settle_keeping_writes().await;
    rig.delete("shop/web");
    rig.settle_keeping_writes().await;
    assert_eq!((rig.shown("evil/web"), rig.reason("evil/web").as_str()), (vec![], "False AddressInUse"));
    let said = message(&rig, "evil/web");
    assert!(
        said.contains("cannot be given before 2026-01-05T")
            && said.contains("Service shop/web released it, and its pool keeps it for namespace \"shop\""),
        "{said}"
    );
    rig.create("shop/other", &named);
    rig.settle_keeping_writes().await;
    assert_eq!(rig.shown("shop/other"), ["192.0.2.1"]);
    controller.kill().await;
}
