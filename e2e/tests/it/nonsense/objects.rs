//! Objects of our own kinds as hands may make them: those that the API server refuses, and those that it lets through.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_e2e::Lab;

use super::{await_applied, await_ready, make_any};

fn owner() -> Value {
    json!({"namespace": "default", "name": "nobody", "uid": "0"})
}

/// Kind, name and body of objects that would keep every reader from reading their kind, or claim what cannot be.
fn unreadable() -> Vec<(&'static str, &'static str, Value)> {
    let vip = |address: &str| json!({"spec": {"address": address, "pool": "default", "owners": [owner()]}});
    let until = |until: &str| {
        let mut vip = vip("203.0.113.1");
        vip["spec"]["quarantine"] = json!({"reason": "Released", "until": until});
        vip
    };
    let mut reason = until("2030-01-01T00:00:00Z");
    reason["spec"]["quarantine"]["reason"] = "Forgotten".into();
    let mut ownerless = vip("203.0.113.1");
    ownerless["spec"]["owners"] = json!([]);
    let router = |field: &str, value: Value| {
        let mut router = json!({"spec": {
            "vrid": 7, "segment": "192.0.2.0/24", "advertisementIntervalMilliseconds": 1000, "nodes": [],
        }});
        router["spec"][field] = value;
        router
    };
    let node = |address: &str, priority: i64| json!([{"name": "n1", "priority": priority, "address": address, "interface": "eth0"}]);
    let network = |field: &str, value: Value| json!({"spec": {field: value}});
    let interface =
        |link_local: &str| json!([{"name": "eth0", "mac": "", "addresses": [], "linkLocal": link_local}]);
    let pool = |field: &str, value: Value| {
        let mut pool = json!({"spec": {"addresses": ["203.0.113.0/28"]}});
        pool["spec"][field] = value;
        pool
    };
    let announcement = |field: &str, value: Value| json!({"spec": {field: value}});
    let many: Vec<_> = (0..65).map(|n| format!("203.0.113.{n}")).collect();
    vec![
        ("VirtualIPPool", "many", pool("addresses", json!(many))),
        ("VirtualIPPool", "all", pool("addresses", json!(["::/0"]))),
        ("VirtualIPPool", "long", pool("addresses", json!(["x".repeat(1_000_000)]))),
        ("VirtualIPPool", "priority", pool("priority", json!(9_223_372_036_854_775_807_i64))),
        ("VirtualIPPool", "fraction", pool("priority", json!(1.5))),
        ("VirtualIPPool", "quarantine", pool("quarantineSeconds", json!(4_294_967_296_i64))),
        ("VirtualIPPool", "word", pool("quarantineSeconds", json!("60"))),
        ("VirtualIPPool", "exclude", pool("exclude", json!([null]))),
        ("VirtualIPPool", "namespaces", pool("namespaces", json!("default"))),
        ("Announcement", "priority", announcement("priority", json!(9_223_372_036_854_775_807_i64))),
        ("Announcement", "fraction", announcement("priority", json!(1.5))),
        ("Announcement", "word", announcement("interfaces", json!("eth0"))),
        ("Announcement", "null", announcement("excludeInterfaces", json!([null]))),
        ("Announcement", "empty", announcement("interfaces", json!([""]))),
        ("Announcement", "long", announcement("pools", json!(["x".repeat(1_000_000)]))),
        ("Announcement", "selector", announcement("nodeSelectors", json!([[]]))),
        (
            "Announcement",
            "weight",
            announcement("preferredNodes", json!([{"weight": 4_294_967_297_i64, "selector": {}}])),
        ),
        (
            "Announcement",
            "unselected",
            announcement("preferredNodes", json!([{"weight": 1, "selector": null}])),
        ),
        ("Announcement", "vrrp", announcement("vrrp", json!([]))),
        ("Announcement", "interval", announcement("vrrp", json!({"advertisementIntervalMilliseconds": -10}))),
        ("Announcement", "delay", announcement("vrrp", json!({"preemptDelaySeconds": 4_294_967_296_i64}))),
        ("Announcement", "transport", announcement("vrrp", json!({"transport": "Pigeon"}))),
        ("Announcement", "key", announcement("vrrp", json!({"authentication": {"keyId": 257}}))),
        ("Announcement", "checks", announcement("checks", json!([{}]))),
        (
            "Announcement",
            "check-host",
            announcement("checks", json!([{"tcpSocket": {"port": 22, "host": "garbage"}}])),
        ),
        ("Announcement", "check-link", announcement("checks", json!([{"link": {"interfaces": "eth0"}}]))),
        ("Announcement", "check-port", announcement("checks", json!([{"tcpSocket": {"port": 65_558}}]))),
        ("Announcement", "check-grpc", announcement("checks", json!([{"grpc": {"port": 80, "service": 7}}]))),
        ("Announcement", "conflict", announcement("addressConflict", json!("Flee"))),
        ("Announcement", "connections", announcement("connections", json!("Keep"))),
        ("Announcement", "vrids", announcement("vrrp", json!({"vridRange": {"first": 257, "last": 511}}))),
        ("VirtualIP", "garbage", vip("garbage")),
        ("VirtualIP", "203.0.113.2", vip("203.0.113.1")),
        ("VirtualIP", "2001-DB8--1", vip("2001:DB8::1")),
        ("VirtualIP", "203.0.113.1", ownerless),
        ("VirtualIP", "203.0.113.1", reason),
        ("VirtualIP", "203.0.113.1", until("tomorrow")),
        ("VirtualIP", "203.0.113.1", until("2030-01-01T00:00:00+99:99")),
        ("VirtualIP", "203.0.113.1", until("2030-01-01T00:00:00x5Z")),
        ("VirtualIP", "203.0.113.1", until("9999-12-31T23:59:59Z")),
        ("VirtualIP", "203.0.113.1", until("0000-01-01T00:00:00Z")),
        ("VirtualIP", "203.0.113.1", until("2030-01-01T00:00:00.1234567890123Z")),
        ("VirtualRouter", "vrid", router("vrid", json!(0))),
        ("VirtualRouter", "vrid", router("vrid", json!(256))),
        ("VirtualRouter", "interval", router("advertisementIntervalMilliseconds", json!(-10))),
        ("VirtualRouter", "delay", router("preemptDelaySeconds", json!(-1))),
        ("VirtualRouter", "transport", router("transport", json!("Pigeon"))),
        ("VirtualRouter", "key", router("authentication", json!({"keyId": 0}))),
        ("VirtualRouter", "key", router("authentication", json!({"keyId": 256}))),
        ("VirtualRouter", "conflict", router("addressConflict", json!("Flee"))),
        ("VirtualRouter", "connections", router("connections", json!("Keep"))),
        ("VirtualRouter", "checks", router("checks", json!([{"periodSeconds": 1}]))),
        ("VirtualRouter", "nodes", router("nodes", node("garbage", 100))),
        ("VirtualRouter", "nodes", router("nodes", node("192.0.2.11", 255))),
        ("NodeNetwork", "odd", network("interfaces", interface("192.0.2.11"))),
        ("NodeNetwork", "odd", network("interfaces", interface("fe80::1%eth0"))),
        (
            "NodeNetwork",
            "odd",
            network(
                "foreignRouters",
                json!([{
                    "interface": "eth0", "vrid": 300, "source": "192.0.2.1", "version": 3,
                }]),
            ),
        ),
        ("NodeNetwork", "odd", network("duplicates", json!([{"interface": "", "address": "x", "mac": ""}]))),
    ]
}

/// Checks that the API server keeps none of what nobody could read.
pub(super) async fn refused(lab: &Lab) -> anyhow::Result<()> {
    for (kind, name, body) in unreadable() {
        let shown: String = body.to_string().chars().take(300).collect();
        let error = make_any(lab, kind, name, &body).await.err();
        let error = error.with_context(|| format!("{kind} {name} was accepted: {shown}"))?.to_string();
        ensure!(error.contains("spec") || error.contains("named after"), "{kind} {name} {shown}: {error}");
    }
    Ok(())
}

/// Makes objects that make no sense, and that the API server cannot know to.
pub(super) async fn let_through(lab: &Lab) -> anyhow::Result<()> {
    let long = "long.".repeat(40) + "name";
    let ranges: Vec<_> = (0..64).map(|n| format!("2400:{n:x}::/32")).collect();
    let far = "2999-12-31T23:59:59.999999999+23:59";
    let vip = |address: &str, pool: &str, quarantine: Value| {
        json!({"spec": {
            "address": address, "pool": pool, "owners": [owner()], "virtualRouter": "no such router",
            "announcement": "no such Announcement", "quarantine": quarantine,
        }})
    };
    let objects = [
        ("VirtualIPPool", "huge", json!({"spec": {"addresses": ranges, "autoAssign": false}})),
        (
            "VirtualIPPool",
            "most-of-ipv4",
            json!({"spec": {"addresses": ["1.0.0.0-126.255.255.255"], "autoAssign": false}}),
        ),
        (
            "VirtualIPPool",
            "spans",
            json!({"spec": {"addresses": ["126.0.0.0-128.0.0.0"], "autoAssign": false}}),
        ),
        (
            "VirtualIPPool",
            "nobodys",
            json!({"spec": {"addresses": ["203.0.113.0/29"], "namespaces": ["no-such"]}}),
        ),
        (
            "VirtualIPPool",
            "nothing",
            json!({"spec": {"addresses": ["203.0.113.8"], "exclude": ["203.0.113.0/24"]}}),
        ),
        ("VirtualIPPool", "overlaps", json!({"spec": {"addresses": ["192.0.2.0/24"], "autoAssign": false}})),
        (
            "VirtualIPPool",
            &*long,
            json!({"spec": {"addresses": ["203.0.113.32/28"], "quarantineSeconds": 86_400, "autoAssign": false}}),
        ),
        // That which applies says nothing; what the others say would harm what is in order.
        ("Announcement", "applies", json!({"spec": {}})),
        (
            "Announcement",
            "comes-later",
            json!({"spec": {"priority": 1_000_000, "pools": ["default"], "vrrp": {
                "advertisementIntervalMilliseconds": 40_950, "preemptDelaySeconds": 3600, "transport": "Unicast",
                "authentication": {"keyId": 255}, "vridRange": {"first": 255, "last": 255},
            }}}),
        ),
        (
            "Announcement",
            "of-nobody",
            json!({"spec": {"priority": 0, "pools": ["default"], "namespaces": ["no-such"]}}),
        ),
        (
            "Announcement",
            "nowhere",
            json!({"spec": {
                "priority": 0, "pools": ["no-such", "no-such"], "serviceSelectors": [{}, {}],
                "nodeSelectors": [{"matchLabels": {"no": "such"}}], "interfaces": ["ünï☃", "*"], "excludeInterfaces": ["*"],
                "preferredNodes": [{"weight": 100, "selector": {}}, {"weight": 100, "selector": {}}],
            }}),
        ),
        ("VirtualIP", "0.0.0.0", vip("0.0.0.0", "", Value::Null)),
        ("VirtualIP", "x--1", vip("::1", "no such pool", Value::Null)),
        ("VirtualIP", "224.0.0.18", vip("224.0.0.18", "default", Value::Null)),
        ("VirtualIP", "192.0.2.11", vip("192.0.2.11", "default", Value::Null)),
        (
            "VirtualIP",
            "192.0.2.249",
            vip("192.0.2.249", "default", json!({"reason": "Released", "until": far})),
        ),
        (
            "VirtualIP",
            "192.0.2.248",
            vip("192.0.2.248", "x", json!({"reason": "AddressTaken", "until": "1000-01-01T00:00:00Z"})),
        ),
        (
            "VirtualRouter",
            "odd",
            json!({"spec": {"vrid": 9, "segment": "garbage", "advertisementIntervalMilliseconds": 10,
                "announcement": "no such Announcement", "transport": "Unicast", "authentication": {"keyId": 255}, "nodes": [
                {"name": "", "priority": 1, "address": "::", "interface": "../../etc"},
                {"name": "n1", "priority": 254, "address": "192.0.2.250", "interface": "eth0"},
                {"name": "n1", "priority": 254, "address": "192.0.2.250", "interface": "eth0"},
            ]}}),
        ),
        (
            "NodeNetwork",
            "no-such-node",
            json!({"spec": {
                "agentVersion": "\u{202e}",
                "interfaces": [
                    {"name": "eth0", "mac": "garbage", "addresses": ["garbage", "192.0.2.11/99", "0.0.0.0/0", "::/0"],
                        "linkLocal": "::"},
                    {"name": "", "mac": "", "addresses": ["192.0.2.12/24"]},
                ],
                "foreignRouters": [{"interface": "", "vrid": 0, "source": "0.0.0.0", "version": 255}],
                "duplicates": [{"interface": "eth0", "address": "192.0.2.200", "mac": "garbage"}],
            }}),
        ),
    ];
    for (kind, name, body) in objects {
        make_any(lab, kind, name, &body).await.with_context(|| format!("making {kind} {name}: {body}"))?;
    }
    Ok(())
}

/// Waits until the pools and Announcements among them say what is wrong with them.
pub(super) async fn told(lab: &Lab) -> anyhow::Result<()> {
    await_ready(lab, "default", "True Usable", &[]).await?;
    await_ready(lab, "spans", "False InvalidAddresses", &["126.0.0.0-128.0.0.0"]).await?;
    await_ready(lab, "overlaps", "False Overlap", &["default"]).await?;
    await_ready(lab, "nothing", "False NoAddresses", &[]).await?;
    await_applied(lab, "applies", "True AppliesToAll").await?;
    await_applied(lab, "nowhere", "False NoNode").await?;
    await_applied(lab, "comes-later", "False Overruled").await?;
    await_applied(lab, "of-nobody", "True NothingSelected").await
}
