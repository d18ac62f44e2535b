//! Which Services are ours, and what they need: an address, a clean-up, or nothing.

use k8s_openapi::api::core::v1::Service;

use super::ServiceOptions;

/// Finalizer, annotation and class helpers read these often.
fn class(service: &Service) -> Option<&str> {
    service.spec.as_ref()?.load_balancer_class.as_deref()
}

/// Returns true if `spec.type` is `LoadBalancer`.
fn is_load_balancer(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
}

/// Returns true if the Service requests a load balancer from this provider (service-contract S-01).
pub(crate) fn wants_lb(service: &Service, serves_class: impl Fn(Option<&str>) -> bool) -> bool {
    is_load_balancer(service) && serves_class(class(service))
}

/// The finalizer a Service that wants a load balancer must carry: classed Services have one that no other controller
/// strips (service-contract S-07).
pub(crate) fn finalizer_for<'a>(service: &Service, options: &'a ServiceOptions) -> &'a str {
    if class(service).is_some() { &options.class_finalizer } else { &options.finalizer }
}

/// Returns true if the Service carries this finalizer.
pub(crate) fn has_finalizer(service: &Service, finalizer: &str) -> bool {
    service.metadata.finalizers.iter().flatten().any(|present| present == finalizer)
}

/// Returns the finalizers on the Service that are ours to remove. On a Service with a class, that class's controller added the standard
/// one; without a class it is ours if we serve classless Services, or did: `was_ours` if the Service has a load balancer of ours.
pub(crate) fn own_finalizers<'a>(
    service: &Service,
    was_ours: bool,
    serves_class: impl Fn(Option<&str>) -> bool,
    options: &'a ServiceOptions,
) -> Vec<&'a str> {
    let standard_is_ours = class(service).is_none() && (was_ours || serves_class(None));
    let candidates =
        [(options.finalizer.as_str(), standard_is_ours), (options.class_finalizer.as_str(), true)];
    candidates
        .into_iter()
        .filter(|(finalizer, ours)| *ours && has_finalizer(service, finalizer))
        .map(|(finalizer, _)| finalizer)
        .collect()
}

/// Returns true if the load balancer has to be removed because the Service is being deleted or no longer requests one (service-contract
/// S-02).
pub(crate) fn needs_cleanup(
    service: &Service,
    serves_class: impl Fn(Option<&str>) -> bool,
    options: &ServiceOptions,
) -> bool {
    let going = service.metadata.deletion_timestamp.is_some() || !wants_lb(service, &serves_class);
    going && !own_finalizers(service, false, serves_class, options).is_empty()
}

/// Returns true if an earlier run that served classless Services may have left a load balancer here: only the provider can determine that,
/// because the finalizer may belong to another controller.
fn may_be_left_over(
    service: &Service,
    serves_class: impl Fn(Option<&str>) -> bool,
    options: &ServiceOptions,
) -> bool {
    class(service).is_none() && !serves_class(None) && has_finalizer(service, &options.finalizer)
}

/// Operation that a Service needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Create or update its load balancer.
    Ensure,
    /// Remove its load balancer.
    Cleanup,
    /// The same, if the provider knows of a load balancer.
    Check,
    /// Nothing.
    Nothing,
}

/// Returns true if a service controller with these options reconciles the load balancer of this Service, even just after a start without
/// any record of it: the Service requests one, or a finalizer shows that it had one. The provider itself has to remove what is left of any
/// other Service's load balancer.
pub fn is_reconciled(
    service: &Service,
    serves_class: impl Fn(Option<&str>) -> bool,
    options: &ServiceOptions,
) -> bool {
    wants_lb(service, &serves_class)
        || needs_cleanup(service, &serves_class, options)
        || may_be_left_over(service, &serves_class, options)
}

/// Returns the operation for the Service. `known`: this process made a load balancer for it, whatever its finalizers. A Service that is
/// being deleted and carries no finalizer of ours needs nothing: no finalizer can be added any more (service-contract S-08).
pub(crate) fn operation(
    service: &Service,
    known: bool,
    serves_class: impl Fn(Option<&str>) -> bool,
    options: &ServiceOptions,
) -> Operation {
    let deleting = service.metadata.deletion_timestamp.is_some();
    if wants_lb(service, &serves_class) && !deleting {
        Operation::Ensure
    } else if known || needs_cleanup(service, &serves_class, options) {
        Operation::Cleanup
    } else if may_be_left_over(service, serves_class, options) {
        Operation::Check
    } else {
        Operation::Nothing
    }
}
