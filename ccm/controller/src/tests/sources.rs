//! Who may send to a Service, from its annotation or field to the objects that the agents read.

use serde_json::{Value, json};
use windlass_ccm::service::ANNOTATION_SOURCE_RANGES;

use super::rig::{Rig, pool, text};
use super::scenarios::{annotated, dual};

fn annotation(ranges: &str) -> Value {
    annotated(&json!({ ANNOTATION_SOURCE_RANGES: ranges }))
}

/// Ports and ranges of the object of an address, as `80: 10.0.0.0/8; 81:`.
fn sources(rig: &Rig, address: &str) -> String {
    let vips = rig.api.list("virtualips");
    let vip = vips.iter().find(|vip| vip["spec"]["address"] == address).expect("an object");
    let said = |one: &Value| {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let ports =
            list(&one["ports"]).iter().map(|port| port["port"].to_string()).collect::<Vec<_>>().join(",");
        let allowed = list(&one["allowed"]).iter().map(text).collect::<Vec<_>>().join(",");
        format!("{ports}: {allowed}")
    };
    let all = vip["spec"]["sources"].as_array().cloned().unwrap_or_default();
    all.iter().map(said).collect::<Vec<_>>().join("; ")
}

fn one_pool() -> Rig {
    Rig::new(&[pool("p", &["192.0.2.16/30", "2001:db8::8/125"], &json!({}))])
}

#[tokio::test(start_paused = true)]
async fn the_claim_says_at_once_who_may_send_and_every_edit_keeps_the_address() {
    let mut rig = one_pool();
    let controller = rig.controller();
    rig.api.take_writes();
    rig.create("web", &annotation("10.0.0.0/8"));
    rig.settle_keeping_writes().await;
    // Not one write more than without: what is said is said in the claim.
    let vips: Vec<_> =
        rig.writes().into_iter().filter(|write| write.path.starts_with("virtualips/")).collect();
    let claims =
        vips.iter().filter(|write| write.path == "virtualips//192.0.2.16" || write.path == "virtualips/");
    assert!(claims.count() >= 1, "{vips:?}");
    assert_eq!(sources(&rig, "192.0.2.16"), "80: 10.0.0.0/8");
    let edits = [
        (annotation("10.0.0.0/8, 192.0.2.0/24"), "80: 10.0.0.0/8,192.0.2.0/24", "True Allocated"),
        // A malformed one closes, and says so.
        (annotation("10.0.0.0/8,"), "80: ", "False InvalidRequest"),
        (annotation("192.0.2.0/24"), "80: 192.0.2.0/24", "True Allocated"),
        (
            json!({ "spec": { "loadBalancerSourceRanges": ["10.1.0.0/16"] } }),
            "80: 10.1.0.0/16",
            "True Allocated",
        ),
        (json!({ "spec": { "loadBalancerSourceRanges": null } }), "80: 192.0.2.0/24", "True Allocated"),
        (json!({ "metadata": { "annotations": { ANNOTATION_SOURCE_RANGES: null } } }), "", "True Allocated"),
    ];
    for (edit, expected, reason) in edits {
        rig.edit("web", &edit);
        rig.settle_keeping_writes().await;
        assert_eq!(sources(&rig, "192.0.2.16"), expected, "{edit}");
        assert_eq!(
            (rig.shown("web"), rig.reason("web")),
            (vec!["192.0.2.16".to_owned()], reason.to_owned()),
            "{edit}"
        );
    }
    let vip = &rig.api.list("virtualips")[0];
    assert!(
        vip["spec"].get("sources").is_none_or(Value::is_null),
        "no bytes where nothing is restricted: {vip}"
    );
    controller.kill().await;
    rig.check_that_a_restart_writes_nothing("open again").await;
}

#[tokio::test(start_paused = true)]
async fn a_malformed_annotation_of_a_new_service_gets_no_address() {
    let mut rig = one_pool();
    let controller = rig.controller();
    rig.create("web", &annotation("10.0.0.1"));
    rig.settle_keeping_writes().await;
    assert_eq!((rig.shown("web"), rig.reason("web").as_str()), (vec![], "False InvalidRequest"));
    rig.edit("web", &annotation("10.0.0.1/32"));
    rig.settle().await;
    assert_eq!(sources(&rig, "192.0.2.16"), "80: 10.0.0.1/32");
    controller.kill().await;
    rig.check_that_a_restart_writes_nothing("restricted").await;
}

#[tokio::test(start_paused = true)]
async fn a_field_of_one_family_closes_the_address_of_the_other() {
    let mut rig = one_pool();
    let controller = rig.controller();
    let mut web = dual("RequireDualStack");
    web["spec"]["loadBalancerSourceRanges"] = json!(["10.0.0.0/8"]);
    rig.create("web", &web);
    rig.settle().await;
    let shown = rig.shown("web");
    let said: Vec<String> = shown.iter().map(|address| sources(&rig, address)).collect();
    assert_eq!(said, ["80: 10.0.0.0/8", "80: "], "{shown:?}");
    controller.kill().await;
}

#[tokio::test(start_paused = true)]
async fn services_that_share_an_address_each_restrict_their_own_ports() {
    let mut rig = one_pool();
    let controller = rig.controller();
    let shared = |port: u16, ranges: &str| {
        json!({
            "metadata": { "annotations": { "windlass.dev/sharing-key": "k", ANNOTATION_SOURCE_RANGES: ranges } },
            "spec": { "ports": [{ "name": "p", "port": port, "protocol": "TCP", "nodePort": 30000 + u32::from(port) }] },
        })
    };
    rig.create("a", &shared(80, "10.0.0.0/8"));
    rig.create("b", &shared(81, "192.0.2.0/24"));
    rig.create("c", &shared(82, ""));
    rig.settle().await;
    assert_eq!((rig.shown("a"), rig.shown("b"), rig.shown("c")).0, rig.shown("b"));
    assert_eq!(sources(&rig, "192.0.2.16"), "80: 10.0.0.0/8; 81: 192.0.2.0/24");
    rig.edit("b", &annotation("nonsense"));
    rig.settle_keeping_writes().await;
    assert_eq!(sources(&rig, "192.0.2.16"), "80: 10.0.0.0/8; 81: ");
    rig.delete("b");
    rig.settle().await;
    assert_eq!(sources(&rig, "192.0.2.16"), "80: 10.0.0.0/8");
    controller.kill().await;
}

/// Sixteen ports, open to so many ranges, which no two Services have in common.
fn wide(service: u32, ranges: u32) -> Value {
    let ports: Vec<Value> =
        (80..96).map(|port| json!({ "name": format!("p{port}"), "port": port })).collect();
    let ranges: Vec<String> = (0..ranges)
        .map(|n| format!("{}/32", std::net::Ipv4Addr::from(0x0a00_0000 + service * 0x1_0000 + n * 2)))
        .collect();
    json!({
        "metadata": { "annotations": { ANNOTATION_SOURCE_RANGES: ranges.join(",") } },
        "spec": { "ports": ports },
    })
}

// shows: threats T-03
/// Each node has all of them in memory and in its kernel.
#[tokio::test(start_paused = true)]
async fn ranges_beyond_what_nodes_keep_are_refused_to_the_service_that_names_them_and_to_no_other() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.16/28"], &json!({}))]);
    let controller = rig.controller();
    for service in 0..8 {
        rig.create(&format!("wide-{service}"), &wide(service, 1000));
    }
    rig.settle().await;
    for service in 0..8 {
        assert_eq!(rig.reason(&format!("wide-{service}")), "True Allocated");
    }
    rig.create("late", &wide(8, 1000));
    rig.create("too-wide", &wide(9, 1025));
    rig.create("small", &wide(10, 10));
    rig.settle_keeping_writes().await;
    assert_eq!((rig.shown("late"), rig.reason("late").as_str()), (vec![], "False InvalidRequest"));
    assert!(rig.message("late").contains("the nodes keep"), "{}", rig.message("late"));
    assert_eq!((rig.shown("too-wide"), rig.reason("too-wide").as_str()), (vec![], "False InvalidRequest"));
    assert_eq!(rig.reason("small"), "True Allocated");
    // What was accepted stays as it is: an edit that grows beyond closes that Service alone.
    rig.edit("small", &wide(10, 1000));
    rig.settle_keeping_writes().await;
    let small = rig.shown("small");
    assert_eq!(small.len(), 1, "an address never changes by itself");
    assert_eq!(rig.reason("small"), "False InvalidRequest");
    assert!(sources(&rig, &small[0]).ends_with(": "), "nobody is let in");
    for service in 0..8 {
        assert_eq!(rig.reason(&format!("wide-{service}")), "True Allocated");
        assert!(!sources(&rig, &rig.shown(&format!("wide-{service}"))[0]).ends_with(": "));
    }
    // Somebody makes room.
    for name in ["wide-0", "wide-1"] {
        rig.edit(name, &wide(0, 1));
    }
    rig.settle_keeping_writes().await;
    for name in ["late", "small"] {
        assert_eq!(rig.reason(name), "True Allocated", "{name}");
    }
    assert!(!sources(&rig, &small[0]).ends_with(": "));
    controller.kill().await;
    rig.check_that_a_restart_writes_nothing("at the limit").await;
}

// shows: threats T-03
#[tokio::test(start_paused = true)]
async fn a_service_with_more_ports_than_nodes_keep_is_told_and_harms_nobody() {
    let mut rig = one_pool();
    let controller = rig.controller();
    let ports: Vec<Value> =
        (1..=4097).map(|port| json!({ "name": format!("p{port}"), "port": port })).collect();
    rig.create("many", &json!({ "spec": { "ports": ports } }));
    rig.create("web", &json!({}));
    rig.settle_keeping_writes().await;
    assert_eq!((rig.shown("many"), rig.reason("many").as_str()), (vec![], "False InvalidRequest"));
    assert!(
        rig.message("many").contains("4097") && rig.message("many").contains("4096"),
        "{}",
        rig.message("many")
    );
    assert_eq!(rig.reason("web"), "True Allocated");
    controller.kill().await;
}
