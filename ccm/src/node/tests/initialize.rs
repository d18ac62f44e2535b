use serde_json::json;

use super::{UNINITIALIZED, addresses, decided, fresh, machine, node_ip};
use crate::node::decide::{decide, initialize_patch, node_matters};
use crate::provider::InstanceMetadata;
use crate::testing::{node, node_object, with};

// shows: ccm-contract 167, 171, 172, 179, 182, 183, 187, 199, 201 to 204, N-06
#[test]
fn an_uninitialized_node_gets_everything_167_172() {
    let mut metadata =
        machine(&[("Hostname", "a.example"), ("InternalIP", "192.0.2.11"), ("ExternalIP", "203.0.113.1")]);
    metadata.instance_type = "box".to_owned();
    metadata.zone = "rack-1".to_owned();
    metadata.region = "site-1".to_owned();
    let change = decided(fresh("n1"), &metadata);
    assert_eq!(change.addresses, Some(metadata.addresses.clone()), "167: the provider's host name wins");
    let initialize = change.initialize.expect("initialization");
    assert_eq!(initialize.provider_id.as_deref(), Some("fake://12345"));
    let taints: Vec<_> = initialize.taints.iter().map(|taint| taint.key.as_str()).collect();
    assert_eq!(taints, ["node.kubernetes.io/not-ready"], "172: only ours goes");
    let labels: Vec<_> =
        initialize.labels.iter().map(|(label, value)| (label.as_str(), value.as_str())).collect();
    assert_eq!(
        labels,
        [
            ("node.kubernetes.io/instance-type", "box"),
            ("topology.kubernetes.io/region", "site-1"),
            ("topology.kubernetes.io/zone", "rack-1")
        ],
        "171"
    );
}

// shows: ccm-contract 169, 177, 180, 187, 199, 201 to 204, N-04
#[test]
fn an_existing_provider_id_is_kept_169_177() {
    let node = with(fresh("n1"), &json!({ "spec": { "providerID": "metal3://x" } }));
    let initialize = decided(node, &machine(&[])).initialize.expect("initialization");
    assert_eq!(initialize.provider_id, None);
}

// shows: ccm-contract 187, N-04
#[test]
fn without_any_provider_id_the_taint_stays_187() {
    let nameless = InstanceMetadata::default();
    let error = decide(&node_object(fresh("n1")), Some(&nameless)).expect_err("no provider ID").to_string();
    assert_eq!(error, "cloud provider does not set node provider ID for node n1");
    let node = with(fresh("n1"), &json!({ "spec": { "providerID": "metal3://x" } }));
    assert!(decided(node, &nameless).initialize.is_some(), "204: the node has one");
}

// shows: ccm-contract 170, 181
#[test]
fn an_initialized_node_is_not_initialized_again_170() {
    let change = decided(node("n1"), &machine(&[("InternalIP", "192.0.2.11")]));
    assert_eq!(change.initialize, None);
    assert!(change.addresses.is_some(), "but its addresses are looked after (N-10)");
}

// shows: ccm-contract 185, 186, N-07
#[test]
fn additional_labels_are_added_and_change_nothing_185_186() {
    let mut metadata = machine(&[]);
    let labels = [
        ("topology.k8s.cp/zone-id", "a"),
        ("example.com/rack", "1"),
        ("plain", "yes"),
        ("present", "new"),
        ("app.k8snio/bar", "x"),
        ("k8snio/bar", "x"),
        ("notkubernetes.io/bar", "x"),
        ("kubernetes.io/arch", "no"),
        ("k8s.io/x", "no"),
        ("node.kubernetes.io/x", "no"),
        ("a.b.k8s.io/x", "no"),
    ];
    metadata.additional_labels =
        labels.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect();
    let has = json!({ "metadata": { "labels": { "present": "old" } } });
    let initialize = decided(with(fresh("n1"), &has), &metadata).initialize.expect("initialization");
    let added: Vec<_> = initialize.labels.keys().map(String::as_str).collect();
    let expected = [
        "app.k8snio/bar",
        "example.com/rack",
        "k8snio/bar",
        "notkubernetes.io/bar",
        "plain",
        "topology.k8s.cp/zone-id",
    ];
    assert_eq!(added, expected);
    assert_eq!(decided(node("n1"), &metadata).initialize, None, "only at initialization");
}

// shows: ccm-contract 173
#[test]
fn somebody_elses_node_is_left_alone_173() {
    assert_eq!(decide(&node_object(fresh("n1")), None), Ok(None));
}

// shows: ccm-contract N-06
#[test]
fn labels_that_are_right_are_not_written_and_kubelets_are_replaced() {
    let mut metadata = machine(&[]);
    metadata.zone = "rack-1".to_owned();
    metadata.region = "site-1".to_owned();
    let labels = json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": "rack-1", "topology.kubernetes.io/region": "x" } } });
    let initialize = decided(with(fresh("n1"), &labels), &metadata).initialize.expect("initialization");
    assert_eq!(
        initialize.labels.into_iter().collect::<Vec<_>>(),
        [("topology.kubernetes.io/region".to_owned(), "site-1".to_owned())]
    );
}

// shows: ccm-contract N-08, N-14
#[test]
fn the_taint_is_removed_only_from_the_node_that_was_read() {
    let node = with(fresh("n1"), &json!({ "metadata": { "resourceVersion": "7" } }));
    let change = decided(node.clone(), &machine(&[])).initialize.expect("initialization");
    assert_eq!(
        initialize_patch(&node_object(node), &change),
        json!({
            "metadata": { "resourceVersion": "7" },
            "spec": {
                "providerID": "fake://12345",
                "taints": [{ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" }]
            }
        })
    );
}

// shows: ccm-contract K-01
#[test]
fn the_key_tells_the_uninitialized_taint_whatever_its_effect() {
    for effect in ["NoSchedule", "NoExecute", "PreferNoSchedule"] {
        let taints = json!({ "spec": { "taints": [{ "key": UNINITIALIZED, "effect": effect }] } });
        let initialize = decided(with(node("n1"), &taints), &machine(&[])).initialize;
        assert_eq!(initialize.expect(effect).taints, []);
    }
}

// shows: allocation 95
#[test]
fn heartbeats_are_no_reason_to_look_again() {
    let beat = json!({ "metadata": { "resourceVersion": "9" }, "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    assert!(!node_matters(&node_object(node("n1")), &node_object(with(node("n1"), &beat))));
    let rows = [
        ("annotation", node_ip("192.0.2.11")),
        ("taint", json!({ "spec": { "taints": [{ "key": UNINITIALIZED, "effect": "NoSchedule" }] } })),
        ("label", json!({ "metadata": { "labels": { "a": "b" } } })),
        ("another node of the name", json!({ "metadata": { "uid": "another" } })),
        ("addresses", json!({ "status": { "addresses": addresses(&[("Hostname", "n1")]) } })),
    ];
    for (what, change) in rows {
        assert!(node_matters(&node_object(node("n1")), &node_object(with(node("n1"), &change))), "{what}");
    }
}
