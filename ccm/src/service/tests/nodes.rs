use std::sync::Arc;

use serde_json::{Value, json};

use crate::service::nodes::{
    LABEL_EXCLUDE, is_stable, limited_names, node_ids, node_matters, stable_node_set,
};
use crate::testing::{node, node_object, with};

fn label(value: &str) -> Value {
    json!({ "metadata": { "labels": { LABEL_EXCLUDE: value } } })
}

fn taint(key: &str) -> Value {
    json!({ "spec": { "taints": [{ "key": key, "effect": "NoSchedule" }] } })
}

fn provider(id: &str) -> Value {
    json!({ "spec": { "providerID": id } })
}

fn ready(status: &str) -> Value {
    json!({ "status": { "conditions": [{ "type": "Ready", "status": status }] } })
}

fn deleted() -> Value {
    json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } })
}

fn to_be_deleted() -> Value {
    taint("ToBeDeletedByClusterAutoscaler")
}

fn changed(changes: &[Value]) -> k8s_openapi::api::core::v1::Node {
    node_object(changes.iter().fold(node("n1"), with))
}

// shows: allocation 95; ccm-contract 82 to 86, S-24, S-25
#[test]
fn stable_node_set_19_to_25_and_82_to_86() {
    let rows: [(&str, &[Value], bool); 16] = [
        ("a plain node", &[], true),
        ("79 no provider ID", &[json!({ "spec": { "providerID": null } })], true),
        ("19, 80 not ready", &[ready("False")], true),
        ("20, 86 about to be removed", &[to_be_deleted()], false),
        ("22, 82 exclusion label, empty", &[label("")], false),
        ("83 label false", &[label("false")], true),
        ("label False", &[label("False")], true),
        ("label FALSE", &[label("FALSE")], true),
        ("label 0", &[label("0")], true),
        ("label f", &[label("f")], true),
        ("84 label true", &[label("true")], false),
        ("label 1", &[label("1")], false),
        ("85 label foo", &[label("foo")], false),
        ("label fAlse, which Go does not parse", &[label("fAlse")], false),
        ("24 being deleted", &[deleted()], false),
        ("25 another taint", &[taint("example.com/a")], true),
    ];
    for (what, changes, expected) in rows {
        assert_eq!(is_stable(&changed(changes)), expected, "{what}");
    }
}

// shows: ccm-contract 87 to 89
#[test]
fn the_set_keeps_those_that_qualify_in_order_87_to_89() {
    let nodes: Vec<_> = [("a", json!({})), ("b", label("true")), ("c", ready("False"))]
        .into_iter()
        .map(|(name, change)| Arc::new(node_object(with(node(name), &change))))
        .collect();
    let names: Vec<_> =
        stable_node_set(&nodes).iter().filter_map(|node| node.metadata.name.clone()).collect();
    assert_eq!(names, ["a", "c"]);
    assert!(stable_node_set(&nodes[1..2]).is_empty());
    assert_eq!(stable_node_set(&nodes[..1]).len(), 1);
}

// shows: ccm-contract 90 to 137, S-21
#[test]
fn which_node_changes_matter_90_to_137() {
    let off = json!({});
    let none = json!({ "spec": { "providerID": null } });
    let rows: Vec<(&str, Vec<Value>, Vec<Value>, bool)> = vec![
        ("90 none", vec![], vec![], false),
        ("91 excluded", vec![], vec![label("")], true),
        ("92 included again", vec![label("")], vec![], true),
        ("93 still excluded", vec![label("")], vec![label("true")], false),
        ("94 other taint", vec![], vec![taint("a/b")], false),
        ("95 other taint gone", vec![taint("a/b")], vec![], false),
        ("96 other label", vec![], vec![json!({ "metadata": { "labels": { "a": "b" } } })], false),
        ("97 other label gone", vec![json!({ "metadata": { "labels": { "a": "b" } } })], vec![], false),
        ("98-105 readiness", vec![ready("False")], vec![ready("True")], false),
        ("98-105 readiness lost", vec![ready("True")], vec![off.clone()], false),
        ("106 being deleted", vec![], vec![deleted()], false),
        ("107 provider ID set", vec![none.clone()], vec![], true),
        ("109 provider ID cleared", vec![], vec![none.clone()], true),
        ("110 provider ID changed", vec![], vec![provider("fake://other")], true),
        ("111 tainted, excluded", vec![to_be_deleted()], vec![to_be_deleted(), label("")], true),
        ("112 tainted, included", vec![to_be_deleted(), label("")], vec![to_be_deleted()], true),
        ("115 tainted, provider ID", vec![to_be_deleted()], vec![to_be_deleted(), provider("x")], true),
        ("116 tainted, ready", vec![to_be_deleted()], vec![to_be_deleted(), ready("False")], false),
        ("118 excluded, taint", vec![label("")], vec![label(""), to_be_deleted()], false),
        ("120 excluded, ready", vec![label("")], vec![label(""), ready("False")], false),
        ("124 excluded, provider ID", vec![label("")], vec![label(""), provider("x")], true),
        ("125 not ready, taint", vec![ready("False")], vec![ready("False"), to_be_deleted()], false),
        ("127 not ready, excluded", vec![ready("False")], vec![ready("False"), label("")], true),
        ("131 not ready, provider ID", vec![ready("False")], vec![ready("False"), provider("x")], true),
        ("132 no provider ID, excluded", vec![none.clone()], vec![none.clone(), label("")], true),
        ("134 no provider ID, ready", vec![none.clone()], vec![none.clone(), ready("False")], false),
        ("137 no provider ID, taint", vec![none.clone()], vec![none, to_be_deleted()], false),
        ("the ToBeDeleted taint itself (S-21)", vec![], vec![to_be_deleted()], false),
    ];
    for (what, old, new, expected) in rows {
        assert_eq!(node_matters(&changed(&old), &changed(&new)), expected, "{what}");
    }
}

// shows: ccm-contract 31 to 33
#[test]
fn sets_differ_by_name_and_provider_id_31_to_33() {
    let ids = |nodes: &[(&str, Option<&str>)]| {
        let nodes: Vec<_> = nodes
            .iter()
            .map(|(name, id)| {
                Arc::new(node_object(with(node(name), &json!({ "spec": { "providerID": id } }))))
            })
            .collect();
        node_ids(&nodes)
    };
    let base = ids(&[("a", Some("1")), ("b", None)]);
    assert_eq!(base, ids(&[("b", None), ("a", Some("1"))]), "32");
    assert_ne!(base, ids(&[("a", Some("2")), ("b", None)]), "31");
    assert_ne!(base, ids(&[("a", Some("1")), ("c", None)]), "33");
}

#[test]
fn node_names_in_messages_are_sorted_and_limited_to_20() {
    let nodes: Vec<_> = (0..23).rev().map(|n| Arc::new(node_object(node(&format!("n{n:02}"))))).collect();
    assert_eq!(limited_names(&nodes[21..]), "[n00 n01]");
    let text = limited_names(&nodes);
    assert!(text.starts_with("[n00 n01 n02 "), "{text}");
    assert!(text.ends_with(" n19 <3 more>]"), "{text}");
    assert_eq!(limited_names(&[]), "[]");
}
