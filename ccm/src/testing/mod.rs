//! Shared parts of the tests: objects, an API server in memory, and waiting on conditions.

mod admission;
pub mod apiserver;
mod fault_responses;
pub mod faults;
mod patches;
mod responses;
mod reviews;
pub mod succession;

use k8s_openapi::api::core::v1::{Node, Service};
use serde_json::{Value, json};

/// A Service of type LoadBalancer in namespace `default`, with UID `uid-<name>` and one TCP port.
pub fn lb(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": "default", "uid": format!("uid-{name}") },
        "spec": {
            "type": "LoadBalancer", "externalTrafficPolicy": "Cluster", "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ports": [{ "name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 30080 }]
        },
        "status": { "loadBalancer": {} }
    })
}

/// A ready node with a provider ID.
pub fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "uid": format!("uid-{name}") },
        "spec": { "providerID": format!("fake://{name}") },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] }
    })
}

/// `base` with `changes` merged in (RFC 7396: `null` removes).
pub fn with(mut base: Value, changes: &Value) -> Value {
    patches::merge(&mut base, changes);
    base
}

/// A Service from its JSON.
pub fn service(value: Value) -> Service {
    serde_json::from_value(value).expect("a Service")
}

/// A Node from its JSON.
pub fn node_object(value: Value) -> Node {
    serde_json::from_value(value).expect("a Node")
}
