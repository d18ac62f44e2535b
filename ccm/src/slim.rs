//! Dropping what nobody reads of objects that are stored: there may be thousands.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time};

#[cfg(test)]
mod tests;

/// Drops a Service's managed fields but for when it was [edited], and the room that its lists do not use: a parsed list has
/// room for four items at least, and most have one.
pub fn service(service: &mut Service) {
    let entry =
        edited(service).map(|time| ManagedFieldsEntry { time: Some(Time(time)), ..Default::default() });
    service.metadata.managed_fields = entry.map(|entry| vec![entry]);
    fit(&mut service.metadata.finalizers);
    if let Some(spec) = &mut service.spec {
        fit(&mut spec.cluster_ips);
        fit(&mut spec.ip_families);
        fit(&mut spec.ports);
    }
    if let Some(status) = &mut service.status {
        fit(&mut status.conditions);
        if let Some(balancer) = &mut status.load_balancer {
            fit(&mut balancer.ingress);
        }
    }
}

/// Returns the time of the last write to the Service itself, not just to its status, by the API server's clock, to the second: the latest
/// time in `metadata.managedFields`, or else the creation time.
pub fn edited(service: &Service) -> Option<Timestamp> {
    let entries = service.metadata.managed_fields.iter().flatten();
    let edits = entries.filter(|entry| entry.subresource.as_deref().unwrap_or_default().is_empty());
    let created = service.metadata.creation_timestamp.iter();
    edits.filter_map(|entry| entry.time.as_ref()).chain(created).map(|time| time.0).max()
}

/// Drops a Node's managed fields and its list of images, the most of it.
pub fn node(node: &mut Node) {
    node.metadata.managed_fields = None;
    if let Some(status) = &mut node.status {
        status.images = None;
    }
}

fn fit<T>(list: &mut Option<Vec<T>>) {
    if let Some(list) = list {
        list.shrink_to_fit();
    }
}
