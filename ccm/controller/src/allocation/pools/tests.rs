use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_ipam::Labels;

use super::*;

mod review;
mod status;

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-02-01T00:00:00Z";

fn pool(name: &str, created: &str, addresses: &[&str]) -> Arc<VirtualIPPool> {
    pool_with(name, created, addresses, &json!({}))
}

fn pool_with(name: &str, created: &str, addresses: &[&str], fields: &Value) -> Arc<VirtualIPPool> {
    let mut pool = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIPPool",
        "metadata": { "name": name, "creationTimestamp": created, "generation": 3 },
        "spec": fields,
    });
    pool["spec"]["addresses"] = json!(addresses);
    Arc::new(serde_json::from_value(pool).expect("a pool"))
}

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

fn subject(namespace: &str, labels: &[(&str, &str)]) -> Requester {
    let labels: Labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Requester { namespace: namespace.into(), labels, namespace_labels: BTreeMap::new() }
}
