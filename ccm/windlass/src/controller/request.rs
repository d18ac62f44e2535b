//! What a Service asks for. Pure.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use windlass_api::{ANNOTATION_ADDRESSES, ANNOTATION_POOL, ServiceRef};
use windlass_ipam::{Families, Family, Labels, Request, Subject};

use super::settings::Settings;

/// The Service as an owner; `None` if it has no UID yet, which only an object never sent to an API server lacks.
pub(crate) fn owner(service: &Service) -> Option<ServiceRef> {
    let metadata = &service.metadata;
    Some(ServiceRef {
        namespace: metadata.namespace.clone()?,
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
    })
}

/// Whether Windlass is to give the Service an address: type LoadBalancer of a class that is served (service-contract
/// S-01).
pub(crate) fn wants_address(service: &Service, settings: Settings) -> bool {
    service.spec.as_ref().is_some_and(|spec| {
        spec.type_.as_deref() == Some("LoadBalancer")
            && settings.serves_class(spec.load_balancer_class.as_deref())
    })
}

/// Whether what `owner` holds is to be withdrawn although the service controller will not ask for it: its Service is
/// gone, was made anew, or wants no address and carries no finalizer by which the service controller would see to it.
pub(crate) fn is_orphaned(owner: &ServiceRef, service: Option<&Service>, settings: Settings) -> bool {
    let Some(service) = service.filter(|service| service.metadata.uid.as_ref() == Some(&owner.uid)) else {
        return true;
    };
    let finalizers = service.metadata.finalizers.iter().flatten();
    !wants_address(service, settings)
        && !finalizers.into_iter().any(|name| name.ends_with("/load-balancer-cleanup"))
}

/// The addresses in `status.loadBalancer.ingress`.
pub(crate) fn status_addresses(service: &Service) -> impl Iterator<Item = IpAddr> {
    service
        .status
        .iter()
        .filter_map(|status| status.load_balancer.as_ref())
        .flat_map(|balancer| balancer.ingress.iter().flatten())
        .filter_map(|ingress| ingress.ip.as_deref()?.parse().ok())
}

/// Why a Service cannot be served as it asks; each says what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    #[error(
        "{0}: this version announces IPv4 only; set ipFamilyPolicy SingleStack or PreferDualStack, with IPv4 first in ipFamilies"
    )]
    NeedsIpv6(&'static str),
    #[error("{field} {value:?} is not an IP address: write one, as 192.0.2.10")]
    NotAnAddress { field: &'static str, value: String },
    #[error(
        "annotation {ANNOTATION_ADDRESSES} names {0} addresses, and a Service has one in this version: name one"
    )]
    TooMany(usize),
    #[error(
        "spec.loadBalancerIP says {field} and annotation {ANNOTATION_ADDRESSES} says {annotation}: remove one of them"
    )]
    Disagree { field: IpAddr, annotation: IpAddr },
}

/// The request of a Service: the pool or the address it names, and what its status shows.
pub(crate) fn request(service: &Service) -> Result<Request, RequestError> {
    let spec = service.spec.as_ref();
    let first = spec.and_then(|spec| spec.ip_families.as_ref()?.first()).map(String::as_str);
    let policy = spec.and_then(|spec| spec.ip_family_policy.as_deref());
    if first == Some("IPv6") {
        return Err(RequestError::NeedsIpv6("the first of spec.ipFamilies is IPv6"));
    }
    if policy == Some("RequireDualStack") {
        return Err(RequestError::NeedsIpv6("spec.ipFamilyPolicy is RequireDualStack"));
    }
    let annotation = |name: &str| {
        let value = service.metadata.annotations.as_ref()?.get(name)?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    let named = annotation(ANNOTATION_ADDRESSES)
        .map(|list| match list.split(',').map(str::trim).collect::<Vec<_>>()[..] {
            [one] => parse(ANNOTATION_ADDRESSES, one),
            ref many => Err(RequestError::TooMany(many.len())),
        })
        .transpose()?;
    let field = spec
        .and_then(|spec| spec.load_balancer_ip.as_deref())
        .map(str::trim)
        .filter(|value| !value.is_empty())
        .map(|value| parse("spec.loadBalancerIP", value))
        .transpose()?;
    let address = match (field, named) {
        (Some(field), Some(annotation)) if field != annotation => {
            return Err(RequestError::Disagree { field, annotation });
        }
        (field, named) => field.or(named),
    };
    let namespace = service.metadata.namespace.clone().unwrap_or_default();
    Ok(Request {
        addresses: address.into_iter().collect(),
        pool: annotation(ANNOTATION_POOL),
        preferred: status_addresses(service).collect(),
        subject: Subject {
            namespace: namespace.clone(),
            namespace_labels: Labels::new(),
            labels: service.metadata.labels.clone().unwrap_or_default(),
        },
        ..Request::any(Families::Single(Family::V4), &namespace)
    })
}

fn parse(field: &'static str, value: &str) -> Result<IpAddr, RequestError> {
    value.parse().map_err(|_| RequestError::NotAnAddress { field, value: value.to_owned() })
}

#[cfg(test)]
mod tests;
