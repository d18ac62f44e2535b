use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

fn vip(node: &Value, announced: &str, uid: &str) -> Arc<VirtualIP> {
    let condition = json!({ "type": "Announced", "status": announced, "reason": "Active", "message": "",
                            "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let vip = json!({
        "metadata": { "name": "192.0.2.10", "uid": uid },
        "spec": {
            "address": "192.0.2.10", "pool": "p", "virtualRouter": "r",
            "owners": [{ "namespace": "default", "name": "web", "uid": "u" }],
        },
        "status": { "activeNode": node, "conditions": [condition] },
    });
    Arc::new(serde_json::from_value(vip).unwrap())
}

#[test]
fn an_address_that_goes_from_one_node_to_another_is_told_and_nothing_else() {
    let at = |node: &str| Some(vip(&json!(node), "True", "1"));
    let rows = [
        ("it moves", at("n1"), at("n2"), true),
        ("it stays", at("n1"), at("n1"), false),
        ("it is new", None, at("n1"), false),
        ("it goes", at("n1"), None, false),
        ("nobody has it any more", at("n1"), Some(vip(&Value::Null, "False", "1")), false),
        ("nobody had it", Some(vip(&Value::Null, "False", "1")), at("n2"), false),
        ("it was made anew", at("n1"), Some(vip(&json!("n2"), "True", "2")), false),
    ];
    for (what, old, new, expected) in rows {
        let change = Change { old, new };
        assert_eq!(
            nodes(&change).map(|(_, from, to)| (from, to)),
            expected.then_some(("n1", "n2")),
            "{what}"
        );
    }
}

fn router(priorities: &[(&str, u8)]) -> VirtualRouter {
    let nodes: Vec<Value> = priorities
        .iter()
        .map(|(name, priority)| json!({ "name": name, "priority": priority, "address": "192.0.2.1", "interface": "eth0" }))
        .collect();
    let router = json!({
        "metadata": { "name": "r" },
        "spec": { "vrid": 1, "segment": "192.0.2.0/24", "advertisementIntervalMilliseconds": 100, "nodes": nodes },
    });
    serde_json::from_value(router).unwrap()
}

#[test]
fn the_reason_is_what_the_cluster_knows_of_the_node_that_had_it() {
    let node = |labels: Value| -> Node {
        serde_json::from_value(json!({ "metadata": { "name": "n1", "labels": labels } })).unwrap()
    };
    let (well, excluded) =
        (node(json!({})), node(json!({ "node.kubernetes.io/exclude-from-external-load-balancers": "" })));
    let network = |failed: Value| -> NodeNetwork {
        serde_json::from_value(json!({ "metadata": { "name": "n1" }, "spec": { "failedChecks": failed } }))
            .unwrap()
    };
    let failing = network(json!(["kube-proxy: no answer for 15 s"]));
    let of_a_service = network(json!(["the health check on node port 30000: 503"]));
    let good = router(&[("n1", 254), ("n2", 238)]);
    let rows = [
        (None, Some(&good), None, "Node n1 is gone"),
        (Some(&excluded), Some(&good), None, "node n1 is excluded"),
        (
            Some(&well),
            Some(&good),
            Some(&failing),
            "a check fails on node n1: kube-proxy: no answer for 15 s",
        ),
        (Some(&well), Some(&good), Some(&of_a_service), "node n1 stopped sending adverts"),
        (Some(&well), Some(&router(&[("n1", 60), ("n2", 254)])), None, "node n1 is drained"),
        (Some(&well), Some(&router(&[("n1", 30), ("n2", 254)])), None, "node n1 has no ready pod"),
        (Some(&well), Some(&router(&[("n2", 254), ("n1", 238)])), None, "node n2 has precedence"),
        (Some(&well), Some(&router(&[("n2", 254)])), None, "node n1 is no longer a candidate"),
        (Some(&well), Some(&good), None, "node n1 stopped sending adverts"),
    ];
    for (node, router, network, expected) in rows {
        let told = message("192.0.2.10".parse().unwrap(), "n1", "n2", Known { router, node, network });
        let beginning = format!("192.0.2.10 is announced by node n2, before by node n1: {expected}");
        assert!(told.starts_with(&beginning), "{told}");
    }
}

#[test]
fn of_very_many_a_part_is_told() {
    let mut changes = NodeChanges::default();
    for index in 0..2 * MOST {
        changes.add(NodeChange { owners: Vec::new(), message: index.to_string() });
    }
    assert_eq!(changes.take().len(), MOST);
    assert_eq!(changes.take(), []);
}
