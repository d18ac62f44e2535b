//! Properties of a Service for providers; the controller itself needs none of them.

use k8s_openapi::api::core::v1::Service;

/// The name that most providers give a Service's load balancer: `a` and the UID without dashes, at most 32 characters
/// (service-contract S-17). `None` for an object that the API server has not stored, which has no UID.
pub fn default_load_balancer_name(service: &Service) -> Option<String> {
    let uid = service.metadata.uid.as_deref()?;
    Some(std::iter::once('a').chain(uid.chars().filter(|c| *c != '-')).take(32).collect())
}

/// Returns true if traffic from outside has to stay on the node that it reaches.
pub fn keeps_traffic_local(service: &Service) -> bool {
    let Some(spec) = &service.spec else { return false };
    let from_outside = matches!(spec.type_.as_deref(), Some("LoadBalancer" | "NodePort"));
    from_outside && spec.external_traffic_policy.as_deref() == Some("Local")
}

/// Returns true if a load balancer has to query each node's `spec.healthCheckNodePort` for endpoints of the Service (service-contract
/// S-36).
pub fn needs_health_check(service: &Service) -> bool {
    let load_balancer =
        service.spec.as_ref().is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"));
    load_balancer && keeps_traffic_local(service)
}

#[cfg(test)]
mod tests;
