//! What becomes of the address of a Service in the course of its life. Numbers at the end of names are those of
//! `docs/dev/allocation.md`.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::rig::{Rig, key, pool, text};
use super::scenarios::{annotated, dual};

fn one_pool() -> Vec<Value> {
    vec![pool("p", &["192.0.2.16/29"], &json!({ "quarantineSeconds": 0 }))]
}

fn one_address() -> Vec<Value> {
    vec![pool("p", &["192.0.2.7/32"], &json!({ "quarantineSeconds": 0 }))]
}

pub(super) fn ingress(entries: &Value) -> Value {
    json!({ "status": { "loadBalancer": { "ingress": entries } } })
}

/// All of the status that tells where a Service can be reached: addresses and host names.
fn entries(rig: &Rig, name: &str) -> Vec<String> {
    let service = rig.api.get(&key(name)).expect("a Service");
    let all = service["status"]["loadBalancer"]["ingress"].as_array().cloned().unwrap_or_default();
    all.iter().map(|entry| text(&entry["ip"]) + &text(&entry["hostname"])).collect()
}

/// A TCP Service with one port and these annotations.
pub(super) fn annotated_port(port: u16, annotations: &Value) -> Value {
    json!({
        "metadata": { "annotations": annotations },
        "spec": { "ports": [{ "name": "p", "port": port, "protocol": "TCP", "nodePort": 30000 + u32::from(port) }] },
    })
}

/// A TCP Service of the sharing key `k`.
fn shared(port: u16, policy: &str, app: &str) -> Value {
    json!({
        "metadata": { "annotations": { "windlass.dev/sharing-key": "k" } },
        "spec": { "externalTrafficPolicy": policy, "selector": { "app": app },
                  "ports": [{ "name": "p", "port": port, "protocol": "TCP", "nodePort": 30000 + u32::from(port) }] },
    })
}

// shows: allocation 25
#[tokio::test(start_paused = true)]
async fn of_two_that_share_the_one_that_changes_loses_the_address_while_their_traffic_does_not_fit_25() {
    let mut rig = Rig::new(&one_address());
    let controller = rig.controller();
    rig.create("a", &shared(80, "Cluster", "x"));
    rig.create("b", &shared(81, "Cluster", "x"));
    rig.settle().await;
    rig.check(&[("a", 1), ("b", 1)].into(), "both are Cluster");
    let change = |name: &str, policy: &str, app: &str| {
        rig.edit(name, &json!({ "spec": { "externalTrafficPolicy": policy, "selector": { "app": app } } }));
    };
    // (who changes, its policy, its selector, who has no address then)
    for (name, policy, app, loses) in [
        ("b", "Local", "x", Some("b")),
        ("a", "Local", "x", None),
        ("a", "Local", "y", Some("a")),
        ("b", "Local", "y", None),
        ("a", "Cluster", "y", Some("a")),
        ("b", "Cluster", "y", None),
    ] {
        change(name, policy, app);
        rig.settle().await;
        let what = format!("{name} is {policy} with selector {app}");
        let has = |name: &str| usize::from(loses != Some(name));
        rig.check(&[("a", has("a")), ("b", has("b"))].into(), &what);
        for one in ["a", "b"] {
            let reason = if has(one) == 1 { "True Allocated" } else { "False NoFreeAddress" };
            assert_eq!(rig.reason(one), reason, "{what}");
        }
    }
    controller.kill().await;
}

// shows: allocation 48
#[tokio::test(start_paused = true)]
async fn a_family_that_is_required_and_cannot_be_had_takes_no_address_away_48() {
    let mut rig = Rig::new(&one_pool());
    let controller = rig.controller();
    rig.create("a", &dual("PreferDualStack"));
    for (policy, reason) in [
        ("PreferDualStack", "True FamilyMissing"),
        ("RequireDualStack", "False NoFreeAddress"),
        ("PreferDualStack", "True FamilyMissing"),
    ] {
        rig.edit("a", &json!({ "spec": { "ipFamilyPolicy": policy } }));
        rig.settle().await;
        rig.check(&[("a", 1)].into(), policy);
        assert_eq!((rig.shown("a"), rig.reason("a")), (vec!["192.0.2.16".to_owned()], reason.to_owned()));
    }
    controller.kill().await;
}

// shows: allocation 53 to 55, 62
#[tokio::test(start_paused = true)]
async fn what_a_status_shows_in_another_family_or_by_others_is_replaced_or_stays_53_54_55_62() {
    for (case, shows, expected) in [
        ("53: another family, of a pool", json!([{ "ip": "2001:db8::9" }]), vec!["192.0.2.16"]),
        (
            "54: a host name and an address of others",
            json!([{ "hostname": "lb.example" }, { "ip": "198.51.100.9" }]),
            vec!["192.0.2.16", "lb.example", "198.51.100.9"],
        ),
        (
            "55: three addresses of a pool: the first that fits stays",
            json!([{ "ip": "192.0.2.19" }, { "ip": "192.0.2.18" }, { "ip": "2001:db8::9" }]),
            vec!["192.0.2.19"],
        ),
        ("62: in no pool", json!([{ "ip": "198.51.100.9" }]), vec!["192.0.2.16", "198.51.100.9"]),
    ] {
        let pools = pool("p", &["192.0.2.16/29", "2001:db8::8/125"], &json!({}));
        let mut rig = Rig::new(&[pools]);
        rig.create("a", &ingress(&shows));
        let controller = rig.controller();
        rig.settle().await;
        assert_eq!(entries(&rig, "a"), expected, "{case}");
        assert_eq!(rig.api.list("virtualips").len(), 1, "{case}: {}", rig.objects());
        controller.kill().await;
        rig.check_that_a_restart_writes_nothing(case).await;
    }
}

// shows: allocation 56
#[tokio::test(start_paused = true)]
async fn services_that_ask_for_no_load_balancer_are_left_alone_56() {
    let mut rig = Rig::new(&one_pool());
    for kind in ["ClusterIP", "NodePort"] {
        rig.create(&kind.to_lowercase(), &json!({ "spec": { "type": kind } }));
    }
    rig.create("named", &json!({ "spec": { "type": "ExternalName", "externalName": "lb.example" } }));
    rig.create("headless", &json!({ "spec": { "type": "ClusterIP", "clusterIPs": ["None"] } }));
    rig.create("foreign", &json!({ "spec": { "loadBalancerClass": "example.com/other" } }));
    let controller = rig.controller();
    rig.settle().await;
    let touched: Vec<_> =
        rig.api.writes().into_iter().filter(|write| write.path.starts_with("services/")).collect();
    assert_eq!(touched, []);
    assert!(rig.api.list("virtualips").is_empty());
    controller.kill().await;
}

// shows: allocation 56, 57
#[tokio::test(start_paused = true)]
async fn who_waits_gets_the_address_when_its_holder_is_deleted_or_becomes_another_type_56_57() {
    for kind in ["", "ClusterIP", "NodePort"] {
        let mut rig = Rig::new(&one_address());
        let controller = rig.controller();
        rig.create("a", &json!({}));
        rig.create("b", &json!({}));
        rig.settle().await;
        rig.check(&[("a", 1), ("b", 0)].into(), "one address");
        assert_eq!(rig.reason("b"), "False NoFreeAddress");
        if kind.is_empty() {
            rig.delete("a");
            rig.settle().await;
            rig.check(&[("b", 1)].into(), "deleted");
        } else {
            rig.edit("a", &json!({ "spec": { "type": kind }, "status": { "loadBalancer": null } }));
            rig.settle().await;
            rig.check(&[("a", 0), ("b", 1)].into(), kind);
            let left = rig.api.get(&key("a")).expect("a Service");
            assert!(left["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty), "{kind}: {left}");
            assert_eq!(rig.reason("a"), "", "{kind}: it says nothing of addresses any more");
        }
        controller.kill().await;
    }
}

// shows: allocation 58
#[tokio::test(start_paused = true)]
async fn a_service_that_never_had_an_address_goes_without_moving_anybody_58() {
    let mut rig = Rig::new(&one_address());
    let controller = rig.controller();
    for name in ["a", "b", "c"] {
        rig.create(name, &json!({}));
    }
    rig.settle().await;
    rig.api.take_writes();
    rig.delete("b");
    rig.settle_keeping_writes().await;
    let others: Vec<_> =
        rig.writes().into_iter().filter(|write| !write.path.starts_with("services/ns/b")).collect();
    assert_eq!(others, []);
    rig.check(&[("a", 1), ("c", 0)].into(), "the one that waited is gone");
    controller.kill().await;
}

// shows: allocation 60
#[tokio::test(start_paused = true)]
async fn who_asks_for_what_cannot_be_had_keeps_what_it_has_and_says_so_38_60() {
    for (asked, reason) in [
        (json!({ "windlass.dev/addresses": "198.51.100.1" }), "False InvalidRequest"),
        (json!({ "windlass.dev/pool": "none" }), "False NoSuchPool"),
        (json!({ "windlass.dev/addresses": "nonsense" }), "False InvalidRequest"),
        (json!({ "windlass.dev/address-count": "many" }), "False InvalidRequest"),
    ] {
        let mut rig = Rig::new(&one_pool());
        let controller = rig.controller();
        rig.create("a", &json!({}));
        rig.settle().await;
        rig.edit("a", &annotated(&asked));
        rig.settle().await;
        rig.check(&[("a", 1)].into(), &asked.to_string());
        assert_eq!(
            (rig.shown("a").concat(), rig.reason("a")),
            ("192.0.2.16".into(), reason.into()),
            "{asked}"
        );
        let nothing: serde_json::Map<_, _> =
            asked.as_object().into_iter().flatten().map(|(name, _)| (name.clone(), Value::Null)).collect();
        rig.edit("a", &annotated(&Value::Object(nothing)));
        rig.settle().await;
        assert_eq!(rig.reason("a"), "True Allocated", "{asked}");
        controller.kill().await;
        rig.check_that_a_restart_writes_nothing(&asked.to_string()).await;
    }
}

// shows: allocation 61
#[tokio::test(start_paused = true)]
async fn who_names_another_pool_gets_an_address_of_it_61() {
    let mut rig = Rig::new(&[
        pool("p", &["192.0.2.16/30"], &json!({})),
        pool("q", &["192.0.2.24/30"], &json!({ "autoAssign": false })),
    ]);
    let controller = rig.controller();
    rig.create("a", &annotated(&json!({ "windlass.dev/pool": "p" })));
    rig.settle().await;
    assert_eq!(rig.shown("a"), ["192.0.2.16"]);
    rig.edit("a", &annotated(&json!({ "windlass.dev/pool": "q" })));
    rig.settle().await;
    rig.check(&[("a", 1)].into(), "moved");
    assert_eq!(rig.shown("a"), ["192.0.2.24"]);
    controller.kill().await;
}

// shows: allocation 63
#[tokio::test(start_paused = true)]
async fn a_service_without_cluster_ip_is_served_63() {
    let mut rig = Rig::new(&one_pool());
    let controller = rig.controller();
    rig.create("a", &json!({ "spec": { "clusterIPs": [], "ipFamilies": [] } }));
    rig.settle().await;
    rig.check(&[("a", 1)].into(), "no cluster IP");
    controller.kill().await;
}

// shows: allocation 66
#[tokio::test(start_paused = true)]
async fn ports_of_several_protocols_have_one_address_66() {
    let mut rig = Rig::new(&one_pool());
    let controller = rig.controller();
    let port = |name: &str, protocol: &str, node: u16| json!({ "name": name, "port": 53, "protocol": protocol, "nodePort": node });
    let ports = [port("t", "TCP", 30053), port("u", "UDP", 30053), port("s", "SCTP", 30054)];
    rig.create("a", &json!({ "spec": { "ports": ports } }));
    rig.settle().await;
    rig.check(&[("a", 1)].into(), "three protocols");
    controller.kill().await;
}

// shows: allocation 74
#[tokio::test(start_paused = true)]
async fn a_service_made_anew_has_no_address_of_a_pool_that_is_gone_74() {
    let mut rig = Rig::new(&one_pool());
    let controller = rig.controller();
    rig.create("a", &json!({}));
    rig.settle().await;
    rig.api.delete("virtualippools//p");
    rig.settle().await;
    rig.check(&[("a", 1)].into(), "it keeps its address while it lives");
    assert_eq!(rig.reason("a"), "True AddressOutsidePools");
    rig.delete("a");
    rig.settle().await;
    rig.create("a", &json!({}));
    rig.settle().await;
    rig.check(&[("a", 0)].into(), "made anew");
    controller.kill().await;
}

/// Waits until it is so.
async fn until(what: &str, is: impl Fn() -> bool) {
    let wait = async {
        while !is() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(20), wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

// shows: allocation 113; field-reports F-03
#[tokio::test(start_paused = true)]
async fn a_service_that_comes_back_within_the_quarantine_has_its_address_again_113() {
    for goes_by in ["type", "deletion"] {
        let mut rig = Rig::new(&[pool("p", &["192.0.2.16/29"], &json!({}))]);
        let controller = rig.controller();
        for name in ["first", "a"] {
            rig.create(name, &json!({}));
            rig.settle().await;
        }
        rig.delete("first");
        rig.settle().await;
        rig.check(&[("a", 1)].into(), "192.0.2.16 is free");
        match goes_by {
            "type" => {
                rig.edit(
                    "a",
                    &json!({ "spec": { "type": "ClusterIP" }, "status": { "loadBalancer": null } }),
                );
            }
            _ => rig.delete("a"),
        }
        let rests = || {
            let claim = rig.api.get("virtualips//192.0.2.17").expect("it rests for a minute");
            claim["spec"]["quarantine"].is_object()
        };
        until("it is kept back", || rests() && (goes_by == "type" || !rig.exists("a"))).await;
        rig.create("stranger", &json!({}));
        until("the stranger is served", || !rig.shown("stranger").is_empty()).await;
        match goes_by {
            "type" => rig.edit("a", &json!({ "spec": { "type": "LoadBalancer" } })),
            _ => rig.create("a", &json!({})),
        }
        rig.settle().await;
        rig.check(&[("a", 1), ("stranger", 1)].into(), goes_by);
        let shown = ["a", "stranger"].map(|name| rig.shown(name).concat());
        assert_eq!(shown, ["192.0.2.17", "192.0.2.16"], "{goes_by}");
        controller.kill().await;
        rig.check_that_a_restart_writes_nothing(goes_by).await;
    }
}

// shows: allocation 113
#[tokio::test(start_paused = true)]
async fn a_service_made_anew_by_force_that_waits_gets_what_its_former_self_lets_go_of_113() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.7/32"], &json!({}))]);
    let controller = rig.controller();
    for name in ["a", "older"] {
        rig.create(name, &json!({}));
        rig.settle().await;
    }
    rig.check(&[("a", 1), ("older", 0)].into(), "one address");
    rig.edit("a", &json!({ "metadata": { "finalizers": null } }));
    rig.delete("a");
    rig.create("a", &json!({}));
    rig.settle().await;
    rig.check(&[("a", 1), ("older", 0)].into(), "made anew");
    controller.kill().await;
    rig.check_that_a_restart_writes_nothing("made anew").await;
}

// shows: allocation 114
#[tokio::test(start_paused = true)]
async fn what_others_write_into_a_status_is_neither_removed_nor_fought_over_114() {
    let mut rig = Rig::new(&one_pool());
    let controller = rig.controller();
    rig.create("a", &json!({}));
    rig.settle().await;
    let ports = json!([{ "port": 80, "protocol": "TCP" }]);
    for (case, added) in [
        ("a host name", json!([{ "ip": "192.0.2.16", "ipMode": "VIP" }, { "hostname": "lb.example" }])),
        (
            "ports of our own entry",
            json!([{ "ip": "192.0.2.16", "ipMode": "VIP", "ports": ports }, { "hostname": "lb.example" }]),
        ),
    ] {
        rig.edit("a", &ingress(&added));
        rig.settle().await;
        assert_eq!(entries(&rig, "a"), ["192.0.2.16", "lb.example"], "{case}");
        // The other one writes it again and again: each time is answered at most once.
        for _ in 0..5 {
            rig.api.take_writes();
            rig.edit("a", &ingress(&added));
            rig.settle_keeping_writes().await;
            assert!(rig.writes().len() <= 1, "{case}: {:#?}", rig.writes());
        }
    }
    controller.kill().await;
}
