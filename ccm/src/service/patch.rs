//! The writes to a Service, all strategic-merge patches of `services/status` without a resourceVersion
//! (service-contract S-19), but with the UID: what was meant for one Service is not written to another one that took its
//! name.

use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service};
use serde_json::{Value, json};

/// `ipMode` of an address that kube-proxy handles on the node.
const IP_MODE_VIP: &str = "VIP";

/// Adds a finalizer; `None` if it is there.
pub(crate) fn add_finalizer(service: &Service, finalizer: &str) -> Option<Value> {
    let present: Vec<&str> = finalizers(service).collect();
    if present.contains(&finalizer) {
        return None;
    }
    let order: Vec<&str> = present.into_iter().chain([finalizer]).collect();
    Some(json!({ "metadata": { "$setElementOrder/finalizers": order, "finalizers": [finalizer] } }))
}

/// Removes finalizers; `None` if none of them is there. Those of others stay, also ones added since `service` was read. The UID does not
/// guard the deletion after the last finalizer of a Service that is going: after a patch, the API server deletes by name, so of two
/// controllers without an election the later may delete a Service that was made under the name since.
pub(crate) fn remove_finalizers(service: &Service, gone: &[&str]) -> Option<Value> {
    let (leaving, staying): (Vec<&str>, Vec<&str>) =
        finalizers(service).partition(|finalizer| gone.contains(finalizer));
    if leaving.is_empty() {
        return None;
    }
    let mut metadata = json!({ "$deleteFromPrimitiveList/finalizers": leaving });
    if !staying.is_empty() {
        metadata["$setElementOrder/finalizers"] = json!(staying);
    }
    Some(json!({ "metadata": metadata }))
}

/// Returns the patch of the load balancer status; `None` if the Service has the same already (service-contract S-15).
pub(crate) fn set_status(service: &Service, status: &LoadBalancerStatus) -> Option<Value> {
    let none = LoadBalancerStatus::default();
    let current = service.status.as_ref().and_then(|status| status.load_balancer.as_ref()).unwrap_or(&none);
    if same_status(current, status) {
        return None;
    }
    let wanted = ingress(status);
    let wanted = if wanted.is_empty() { Value::Null } else { json!(wanted) };
    Some(json!({ "status": { "loadBalancer": { "ingress": wanted } } }))
}

/// Returns the Service's status without the entries that `ours` selects.
pub(crate) fn without(service: &Service, ours: impl Fn(&LoadBalancerIngress) -> bool) -> LoadBalancerStatus {
    let foreign = shown(service).iter().filter(|entry| !ours(entry));
    LoadBalancerStatus { ingress: Some(foreign.cloned().collect()) }
}

/// Returns true if the Service's status has any ingress entry.
pub(crate) fn shows_any(service: &Service) -> bool {
    !shown(service).is_empty()
}

fn shown(service: &Service) -> &[LoadBalancerIngress] {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    status.map_or(&[][..], ingress)
}

/// The patch, which the API server refuses with 422 if another Service has taken the name of this one: a UID is immutable.
pub(crate) fn only_to(service: &Service, mut patch: Value) -> Value {
    if let Some(uid) = &service.metadata.uid {
        patch["metadata"]["uid"] = json!(uid);
    }
    patch
}

/// Two patches of the status in one, if there is any.
pub(crate) fn both(one: Option<Value>, other: Option<Value>) -> Option<Value> {
    let (Some(mut one), Some(other)) = (one.clone(), other.clone()) else { return one.or(other) };
    if let (Some(Value::Object(status)), Value::Object(more)) =
        (one.get_mut("status"), other["status"].clone())
    {
        status.extend(more);
    }
    Some(one)
}

/// Returns true if two statuses are equal: address, host name, mode and ports of every entry, in order. A missing mode is not `VIP`
/// (service-contract S-15).
pub(crate) fn same_status(one: &LoadBalancerStatus, other: &LoadBalancerStatus) -> bool {
    fn plain(entry: &LoadBalancerIngress) -> (&str, &str, Option<&str>, &[impl PartialEq]) {
        (
            entry.ip.as_deref().unwrap_or_default(),
            entry.hostname.as_deref().unwrap_or_default(),
            entry.ip_mode.as_deref(),
            entry.ports.as_deref().unwrap_or_default(),
        )
    }
    ingress(one).iter().map(plain).eq(ingress(other).iter().map(plain))
}

/// Writes out what the API server would add, so that it is not taken for a change the next time: an address without a
/// mode has mode `VIP` (service-contract S-31).
pub(crate) fn with_defaults(mut status: LoadBalancerStatus) -> LoadBalancerStatus {
    for entry in status.ingress.iter_mut().flatten() {
        if entry.ip.is_some() && entry.ip_mode.is_none() {
            entry.ip_mode = Some(IP_MODE_VIP.to_owned());
        }
    }
    status
}

fn ingress(status: &LoadBalancerStatus) -> &[LoadBalancerIngress] {
    status.ingress.as_deref().unwrap_or_default()
}

fn finalizers(service: &Service) -> impl Iterator<Item = &str> {
    service.metadata.finalizers.iter().flatten().map(String::as_str)
}
