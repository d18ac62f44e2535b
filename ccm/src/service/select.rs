//! Which Services are ours, and what they need: an address, a clean-up, or nothing.

use k8s_openapi::api::core::v1::Service;

use super::ServiceOptions;

/// Finalizer, annotation and class helpers read these often.
fn class(service: &Service) -> Option<&str> {
    service.spec.as_ref()?.load_balancer_class.as_deref()
}

/// Whether `spec.type` is `LoadBalancer`.
fn is_load_balancer(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
}

/// Whether the Service is to have a load balancer from this provider (service-contract S-01).
pub(crate) fn wants_lb(service: &Service, serves_class: impl Fn(Option<&str>) -> bool) -> bool {
    is_load_balancer(service) && serves_class(class(service))
}

/// The finalizer a Service that wants a load balancer must carry: classed Services have one that no other controller
/// strips (service-contract S-07).
pub(crate) fn finalizer_for<'a>(service: &Service, options: &'a ServiceOptions) -> &'a str {
    if class(service).is_some() { &options.class_finalizer } else { &options.finalizer }
}

/// Whether the Service carries this finalizer.
pub(crate) fn has_finalizer(service: &Service, finalizer: &str) -> bool {
    service.metadata.finalizers.iter().flatten().any(|present| present == finalizer)
}

/// The finalizers on the Service that are ours to remove. The standard one on a Service with a class was put there by
/// that class's controller; without a class it is ours if we serve classless Services, or did: `was_ours` says that the
/// Service has a load balancer of ours.
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

/// Whether the load balancer is to be taken away because the Service is going or no longer asks for one
/// (service-contract S-02).
pub(crate) fn needs_cleanup(
    service: &Service,
    serves_class: impl Fn(Option<&str>) -> bool,
    options: &ServiceOptions,
) -> bool {
    let going = service.metadata.deletion_timestamp.is_some() || !wants_lb(service, &serves_class);
    going && !own_finalizers(service, false, serves_class, options).is_empty()
}

/// Whether an earlier run that served classless Services may have left a load balancer here: only the provider can tell,
/// because the finalizer may as well be another controller's.
fn may_be_left_over(
    service: &Service,
    serves_class: impl Fn(Option<&str>) -> bool,
    options: &ServiceOptions,
) -> bool {
    class(service).is_none() && !serves_class(None) && has_finalizer(service, &options.finalizer)
}

/// What is to be done for a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Create or update its load balancer.
    Ensure,
    /// Take its load balancer away.
    Cleanup,
    /// The same, if the provider knows of a load balancer.
    Check,
    /// Nothing.
    Nothing,
}

/// Whether a service controller with these options reconciles the load balancer of this Service, even one that has just
/// started and knows of none: it wants one, or a finalizer tells that it had one. What is left of any other Service's load
/// balancer the provider has to remove itself.
pub fn is_reconciled(
    service: &Service,
    serves_class: impl Fn(Option<&str>) -> bool,
    options: &ServiceOptions,
) -> bool {
    wants_lb(service, &serves_class)
        || needs_cleanup(service, &serves_class, options)
        || may_be_left_over(service, &serves_class, options)
}

/// Decides between ensure and delete. `known`: this process made a load balancer for it, whatever finalizers say.
/// A Service that is being deleted and carries no finalizer of ours needs nothing: no finalizer can be added any more
/// (service-contract S-08).
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
