//! Numbers are those of the scenario catalogue, service-contract §4.3 and §4.5.

mod addresses;
mod controller;
mod faults;
mod initialize;
pub(super) mod rig;
mod sync;

use k8s_openapi::api::core::v1::NodeAddress;
use serde_json::{Value, json};

use super::decide::{NodeChange, decide};
use crate::provider::InstanceMetadata;
use crate::testing::{node, node_object, with};

/// Types and addresses.
type List<'a> = &'a [(&'a str, &'a str)];

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

fn fresh(name: &str) -> Value {
    let change = json!({
        "spec": {
            "providerID": null,
            "taints": [
                { "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" },
                { "key": UNINITIALIZED, "value": "true", "effect": "NoSchedule" }
            ]
        },
        "status": { "addresses": [{ "type": "Hostname", "address": name }] }
    });
    with(node(name), &change)
}

fn node_ip(ips: &str) -> Value {
    json!({ "metadata": { "annotations": { "alpha.kubernetes.io/provided-node-ip": ips } } })
}

fn addresses(list: &[(&str, &str)]) -> Vec<NodeAddress> {
    list.iter()
        .map(|(kind, address)| NodeAddress { type_: (*kind).to_owned(), address: (*address).to_owned() })
        .collect()
}

fn shown(list: &[NodeAddress]) -> Vec<(&str, &str)> {
    list.iter().map(|entry| (entry.type_.as_str(), entry.address.as_str())).collect()
}

fn machine(list: &[(&str, &str)]) -> InstanceMetadata {
    InstanceMetadata {
        provider_id: "fake://12345".to_owned(),
        addresses: addresses(list),
        ..InstanceMetadata::default()
    }
}

fn decided(node: Value, machine: &InstanceMetadata) -> NodeChange {
    decide(&node_object(node), Some(machine)).expect("a decision").unwrap_or_default()
}
