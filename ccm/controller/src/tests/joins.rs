//! A node that joins is given its share, through the whole controller: by the clock alone, once it is settled.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::rig::{Rig, custom, pool, text};

fn join(rig: &Rig, number: u8, now: Timestamp) {
    let name = format!("n{number}");
    rig.api.put(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "uid": format!("uid-{name}"), "creationTimestamp": now },
        "spec": { "providerID": format!("windlass://{name}") },
        "status": { "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": now }] },
    }));
    let interface = json!({
        "name": "eth0", "mac": "02:00:00:00:00:09", "linkLocal": format!("fe80::{number}"),
        "addresses": [format!("192.0.2.{}/24", 240 + number)],
    });
    rig.api.put(custom("NodeNetwork", &name, &json!({ "interfaces": [interface] })));
}

fn preferred(router: &Value) -> String {
    let nodes = router["spec"]["nodes"].as_array().cloned().unwrap_or_default();
    text(&nodes.iter().max_by_key(|node| node["priority"].as_u64()).expect("a node")["name"])
}

/// The preferred nodes become Active, as their agents report.
fn elect(rig: &Rig, now: Timestamp) {
    for router in rig.api.list("virtualrouters") {
        let node = preferred(&router);
        if router.pointer("/status/activeNode").is_none_or(|active| text(active) != node) {
            let key = format!("virtualrouters//{}", text(&router["metadata"]["name"]));
            rig.api.edit(
                &key,
                &json!({ "status": { "activeNode": node, "activeSince": now, "transitions": 1 } }),
            );
        }
    }
}

/// The agents have heard of the virtual routers as they are, and tell so.
fn hear(rig: &Rig) {
    let known = rig.api.list("virtualrouters").into_iter().map(|router| {
        let metadata = &router["metadata"];
        json!({ "name": metadata["name"], "generation": metadata["generation"].as_i64().unwrap_or_default() })
    });
    let known: Vec<Value> = known.collect();
    for network in rig.api.list("nodenetworks") {
        let key = format!("nodenetworks//{}", text(&network["metadata"]["name"]));
        rig.api.edit(&key, &json!({ "spec": { "knownRouters": known } }));
    }
}

fn is_joining(router: &Value) -> bool {
    let nodes = router["spec"]["nodes"].as_array().cloned().unwrap_or_default();
    nodes.iter().any(|node| node["joining"] == true)
}

fn routers_of(rig: &Rig, node: &str) -> usize {
    rig.api.list("virtualrouters").iter().filter(|router| preferred(router) == node).count()
}

// shows: field-reports F-34; placement P-04
#[tokio::test(start_paused = true)]
async fn a_node_that_joins_is_preferred_for_some_addresses_when_it_has_been_ready_for_five_minutes() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.16/28"], &json!({}))]);
    let long_ago: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    for number in 1..=3 {
        join(&rig, number, long_ago);
    }
    for number in 0..12 {
        rig.create(&format!("s{number}"), &json!({}));
    }
    let controller = rig.controller();
    rig.settle().await;
    elect(&rig, rig.now());
    sleep(Duration::from_mins(1)).await;
    join(&rig, 4, rig.now());
    sleep(Duration::from_secs(295)).await;
    assert_eq!(routers_of(&rig, "n4"), 0, "it may not stay");
    assert!(
        rig.api.list("virtualrouters").iter().all(is_joining),
        "nobody has told that it knows the new node"
    );
    hear(&rig);
    sleep(Duration::from_secs(1)).await;
    assert!(!rig.api.list("virtualrouters").iter().any(is_joining));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(routers_of(&rig, "n4"), 1);
    elect(&rig, rig.now());
    rig.settle().await;
    assert_eq!(routers_of(&rig, "n4"), 1, "it has its share");
    controller.kill().await;
    rig.check_that_a_restart_writes_nothing("after a node has joined").await;
}
