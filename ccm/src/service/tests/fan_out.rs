//! Which load balancers hear of a change of the nodes, and with which nodes.

use crate::watch::Event;
use serde_json::{Value, json};

use super::jobs::{Rig, node_names};
use crate::service::jobs::{JobSuccess, Task};
use crate::testing::{lb, node, node_object, with};

/// Services of each kind: `L` a load balancer, `N` one by node ports, `C` one of the cluster alone.
fn services(kinds: &str) -> Vec<Value> {
    let one = |(index, kind)| {
        let type_ = match kind {
            'L' => "LoadBalancer",
            'N' => "NodePort",
            _ => "ClusterIP",
        };
        with(lb(&format!("{kind}{index}")), &json!({ "spec": { "type": type_ } }))
    };
    kinds.chars().enumerate().map(one).collect()
}

/// Ensures everything there is to ensure, then returns who was updated to which nodes after `change`.
fn updates(mut rig: Rig, change: impl FnOnce(&mut Rig)) -> Vec<(String, String)> {
    while let Some(job) = rig.job() {
        assert!(matches!(job.task, Task::Ensure { .. }), "only load balancers have work");
        rig.finish(&job, Ok(JobSuccess::Ensured));
    }
    change(&mut rig);
    let mut updated = Vec::new();
    while let Some(job) = rig.job() {
        assert!(matches!(job.task, Task::UpdateNodes { .. }), "{:?}", job.task);
        updated.push((job.key.name.clone(), node_names(&job).join(" ")));
        rig.finish(&job, Ok(JobSuccess::NodesUpdated));
    }
    updated
}

// shows: ccm-contract 9 to 13, 15, S-22
#[test]
fn every_load_balancer_and_no_other_service_hears_of_new_nodes_9_to_15() {
    for (kinds, told) in [
        ("", vec![]),
        ("CN", vec![]),
        ("L", vec!["L0"]),
        ("LLL", vec!["L0", "L1", "L2"]),
        ("LCNL", vec!["L0", "L3"]),
    ] {
        let heard = updates(Rig::new(&services(kinds), &["n1"]), |rig| {
            rig.add_node("n2");
            rig.add_node("n3");
        });
        let expected: Vec<_> = told.iter().map(|name| ((*name).to_owned(), "n1 n2 n3".to_owned())).collect();
        assert_eq!(heard, expected, "{kinds}");
    }
}

// shows: ccm-contract 16 to 28
#[test]
fn these_changes_of_a_node_reach_the_load_balancers_and_these_do_not_16_to_28() {
    let ready = |status| json!({ "status": { "conditions": [{ "type": "Ready", "status": status }] } });
    let taint = |key| json!({ "spec": { "taints": [{ "key": key, "effect": "NoSchedule" }] } });
    let excluded = json!({ "metadata": { "labels": { "node.kubernetes.io/exclude-from-external-load-balancers": "" } } });
    let going = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let provider = json!({ "spec": { "providerID": "example://n2" } });
    for (what, change, nodes) in [
        ("16: the same", json!({}), None),
        ("19: not ready", ready("False"), None),
        ("21: ready again", ready("True"), None),
        ("22: excluded", excluded, Some("n1")),
        ("25: another taint", taint("example.com/other"), None),
        ("31: another provider ID", provider, Some("n1 n2")),
        ("20, 24: noticed with the next change that counts", taint("ToBeDeletedByClusterAutoscaler"), None),
        ("24", going, None),
    ] {
        // Both policies: the node set does not depend on it.
        let local = json!({ "spec": { "externalTrafficPolicy": "Local" } });
        let both = [lb("cluster"), with(lb("local"), &local)];
        let heard = updates(Rig::new(&both, &["n1", "n2"]), |rig| rig.change_node(with(node("n2"), &change)));
        let names: Vec<_> = heard.iter().map(|(name, _)| name.as_str()).collect();
        let sets: Vec<_> = heard.iter().map(|(_, nodes)| nodes.as_str()).collect();
        match nodes {
            None => assert!(heard.is_empty(), "{what}: {heard:?}"),
            Some(nodes) => {
                assert_eq!(names, ["cluster", "local"], "{what}");
                assert_eq!(sets, [nodes, nodes], "{what}");
            }
        }
    }
}

// shows: ccm-contract 20, 24
#[test]
fn a_node_that_is_about_to_go_is_left_out_of_the_next_set_20_24() {
    for change in [
        json!({ "spec": { "taints": [{ "key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule" }] } }),
        json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
    ] {
        let heard = updates(Rig::new(&[lb("web")], &["n1", "n2"]), |rig| {
            rig.change_node(with(node("n2"), &change));
            rig.add_node("n3");
        });
        assert_eq!(heard, [("web".to_owned(), "n1 n3".to_owned())], "{change}");
    }
}

// shows: ccm-contract 23, 26 to 28
#[test]
fn nodes_that_come_and_go_are_told_with_the_set_as_it_is_23_26_to_28() {
    let heard = updates(Rig::new(&[lb("web")], &["n1", "n2"]), |rig| {
        rig.node_event(Event::Delete(node_object(node("n1"))));
    });
    assert_eq!(heard, [("web".to_owned(), "n2".to_owned())], "23");
    for (at_first, added, all) in
        [(vec![], "n1", "n1"), (vec!["n1"], "n2", "n1 n2"), (vec!["n1", "n2", "n3"], "n4", "n1 n2 n3 n4")]
    {
        let heard = updates(Rig::new(&[lb("web")], &at_first), |rig| rig.add_node(added));
        assert_eq!(heard, [("web".to_owned(), all.to_owned())], "26 to 28");
    }
}
