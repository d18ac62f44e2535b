//! What becomes of a node's addresses when something is said of its Node object, through the whole controller.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use windlass_ccm::service::LABEL_EXCLUDE;

use super::rig::{Rig, Running, custom, pool, text};

/// A cluster whose two nodes have addresses each, of pool `p`, for which there is this Announcement.
async fn cluster(announcement: &Value) -> (Rig, Running) {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.16/28"], &json!({}))]);
    rig.api.put(custom("Announcement", "a", announcement));
    for number in 0..6 {
        rig.create(&format!("s{number}"), &json!({}));
    }
    let controller = rig.controller();
    rig.settle().await;
    assert_eq!(preferred(&rig), set(["n1", "n2"]));
    (rig, controller)
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

/// The nodes that are preferred for some address.
fn preferred(rig: &Rig) -> BTreeSet<String> {
    let first = |router: &Value| {
        let nodes = router["spec"]["nodes"].as_array().cloned().unwrap_or_default();
        text(&nodes.iter().max_by_key(|node| node["priority"].as_u64()).expect("a node")["name"])
    };
    rig.api.list("virtualrouters").iter().map(first).collect()
}

// shows: field-reports F-19; placement P-07, P-08
#[tokio::test(start_paused = true)]
async fn the_addresses_of_a_cordoned_node_move_if_their_announcement_says_so_and_come_back() {
    let yields = json!({ "unschedulableNodes": "Yield" });
    for (announcement, while_cordoned) in [(yields, set(["n2"])), (json!({}), set(["n1", "n2"]))] {
        let (rig, controller) = cluster(&announcement).await;
        rig.api.edit("nodes//n1", &json!({ "spec": { "unschedulable": true } }));
        rig.settle().await;
        assert_eq!(preferred(&rig), while_cordoned, "{announcement}");
        rig.api.edit("nodes//n1", &json!({ "spec": { "unschedulable": null } }));
        rig.settle().await;
        assert_eq!(preferred(&rig), set(["n1", "n2"]), "{announcement}");
        controller.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_announcement_says_of_cordoned_nodes_may_change_while_one_is_cordoned() {
    let (rig, controller) = cluster(&json!({})).await;
    rig.api.edit("nodes//n1", &json!({ "spec": { "unschedulable": true } }));
    rig.settle().await;
    for (policy, expected) in [("Yield", set(["n2"])), ("Serve", set(["n1", "n2"]))] {
        rig.api.edit("announcements//a", &json!({ "spec": { "unschedulableNodes": policy } }));
        rig.settle().await;
        assert_eq!(preferred(&rig), expected, "{policy}");
    }
    controller.kill().await;
}

/// The nodes of each virtual router, in their order and with their priorities, by its name.
fn lists(rig: &Rig) -> Vec<(String, Value)> {
    let routers = rig.api.list("virtualrouters");
    routers.into_iter().map(|one| (text(&one["metadata"]["name"]), one["spec"]["nodes"].clone())).collect()
}

fn tainted(key: &str, effect: &str) -> Value {
    json!({ "spec": { "taints": [{ "key": key, "effect": effect }] } })
}

// shows: field-reports F-19; placement P-06
#[tokio::test(start_paused = true)]
async fn a_node_that_is_excluded_or_about_to_be_removed_gives_its_addresses_away_and_gets_them_back() {
    let label = |value: Value| json!({ "metadata": { "labels": { LABEL_EXCLUDE: value } } });
    let rows = [
        (label(json!("")), label(Value::Null)),
        (tainted("ToBeDeletedByClusterAutoscaler", "NoSchedule"), json!({ "spec": { "taints": null } })),
    ];
    let (rig, controller) = cluster(&json!({})).await;
    let before = lists(&rig);
    for (said, unsaid) in rows {
        rig.api.edit("nodes//n1", &said);
        rig.settle().await;
        assert_eq!(preferred(&rig), set(["n2"]), "{said}");
        rig.api.edit("nodes//n1", &unsaid);
        rig.settle().await;
        assert_eq!(lists(&rig), before, "{said}");
    }
    controller.kill().await;
}

// shows: field-reports F-08; placement P-09, P-11, P-12
/// Whether it serves, the nodes see: if it is dead, another one has its addresses long before anybody says so.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_ready_shut_down_or_out_of_service_keeps_its_place_in_every_list() {
    let ready = |status: &str| json!({ "status": { "conditions": [{ "type": "Ready", "status": status }] } });
    let rows = [
        ready("False"),
        ready("Unknown"),
        tainted("node.kubernetes.io/not-ready", "NoExecute"),
        tainted("node.kubernetes.io/unreachable", "NoExecute"),
        tainted("node.cloudprovider.kubernetes.io/shutdown", "NoSchedule"),
        tainted("node.kubernetes.io/out-of-service", "NoExecute"),
        json!({ "spec": { "taints": null } }),
        ready("True"),
    ];
    let (rig, controller) = cluster(&json!({})).await;
    let before = lists(&rig);
    for said in rows {
        rig.api.edit("nodes//n1", &said);
        rig.settle().await;
        assert_eq!(lists(&rig), before, "{said}");
    }
    controller.kill().await;
}
