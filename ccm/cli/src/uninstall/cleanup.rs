//! Remains of Windlass on a Service, and the patch that removes them. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};
use windlass_api::{CONDITION_ADDRESS_ALLOCATED, LOAD_BALANCER_CLASS, ServiceRef, VirtualIP};
use windlass_ccm::service::ServiceOptions;
use windlass_controller::CLASS_FINALIZER;

#[cfg(test)]
mod tests;

/// Addresses that were assigned, and their owners.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// `None`: unknown, as the `VirtualIP`s are gone.
    addresses: Option<BTreeSet<IpAddr>>,
    owners: BTreeSet<ServiceRef>,
}

impl Given {
    /// Collects them from these objects; `None`: there are none, as their definition is gone.
    pub(crate) fn of(vips: Option<&[VirtualIP]>) -> Self {
        let in_use = vips.into_iter().flatten().filter(|vip| vip.spec.quarantine.is_none());
        Self {
            addresses: vips.map(|vips| vips.iter().map(|vip| vip.spec.address).collect()),
            owners: in_use.flat_map(|vip| vip.spec.owners.iter().cloned()).collect(),
        }
    }

    fn was_given(&self, ip: Option<&str>) -> bool {
        let Some(ip) = ip.and_then(|ip| ip.parse().ok()) else { return false };
        self.addresses.as_ref().is_none_or(|addresses| addresses.contains(&ip))
    }
}

/// Remains that are removed from a Service.
#[derive(Debug, PartialEq)]
pub(crate) struct Cleanup {
    /// In words.
    pub(crate) what: Vec<String>,
    /// JSON merge patch of its status subresource, conditional on the version that it was computed from.
    pub(crate) patch: Value,
}

/// Returns the remains to remove; `None`: there are none, as on a Service that Windlass never served.
pub(crate) fn cleanup(service: &Service, given: &Given) -> Option<Cleanup> {
    let metadata = &service.metadata;
    let status = service.status.as_ref();
    let class = service.spec.as_ref().and_then(|spec| spec.load_balancer_class.as_deref());
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let is_told = conditions.iter().any(|condition| condition.type_ == CONDITION_ADDRESS_ALLOCATED);
    let is_owner = given.owners.iter().any(|owner| Some(&owner.uid) == metadata.uid.as_ref());
    let is_ours = is_told || is_owner || class == Some(LOAD_BALANCER_CLASS);
    let common = ServiceOptions::default().finalizer;
    // The common one may be another controller's.
    let leaves = |finalizer: &str| finalizer == CLASS_FINALIZER || (is_ours && finalizer == common);
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    let (gone, staying): (Vec<&String>, Vec<&String>) = finalizers.iter().partition(|one| leaves(one));
    let shown = status.and_then(|status| status.load_balancer.as_ref()?.ingress.as_deref());
    let shown = shown.unwrap_or_default();
    let (silent, foreign): (Vec<_>, Vec<_>) =
        shown.iter().partition(|entry| is_ours && given.was_given(entry.ip.as_deref()));

    let mut what: Vec<String> = gone.iter().map(|finalizer| format!("finalizer {finalizer}")).collect();
    what.extend(silent.iter().filter_map(|entry| Some(format!("address {}", entry.ip.as_ref()?))));
    if is_told {
        what.push(format!("condition {CONDITION_ADDRESS_ALLOCATED}"));
    }
    if what.is_empty() {
        return None;
    }
    let others: Vec<_> =
        conditions.iter().filter(|condition| condition.type_ != CONDITION_ADDRESS_ALLOCATED).collect();
    let patch = json!({
        "metadata": {
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "finalizers": or_null(&staying),
        },
        "status": { "loadBalancer": { "ingress": or_null(&foreign) }, "conditions": or_null(&others) },
    });
    Some(Cleanup { what, patch })
}

/// A merge patch removes what is null.
fn or_null<T: serde::Serialize>(items: &[T]) -> Value {
    if items.is_empty() { Value::Null } else { json!(items) }
}
