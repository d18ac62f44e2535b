//! Objects as they are kept: there may be thousands, so they hold nothing that nobody reads.

use k8s_openapi::api::core::v1::{Node, Service};

#[cfg(test)]
mod tests;

/// Drops a Service's managed fields, and the room that its lists do not use: a parsed list has room for four items at least,
/// and most have one.
pub fn service(service: &mut Service) {
    service.metadata.managed_fields = None;
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
