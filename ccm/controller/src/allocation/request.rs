//! Request of a Service. Pure.
//!
//! | file | concept |
//! |---|---|
//! | `annotations` | sources of the request: our annotations and those of other load balancers |
//! | `addresses` | the addresses it names, and how many it wants |
//! | `families` | IPv4, IPv6 or both |
//! | `sharing` | its ports, and the Services that it shares an address with |
//! | `limits` | maximum sizes |
//! | `error` | errors of the request, and the remedies |

mod addresses;
mod annotations;
mod error;
mod families;
mod limits;
mod sharing;

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use windlass_api::ServiceRef;
use windlass_ccm::service::SourceRanges;
use windlass_ipam::{Labels, Request, Requester, Terms};

use self::annotations::Annotations;
pub(crate) use self::annotations::{is_read, too_long};
pub(crate) use self::error::RequestError;
pub(crate) use self::limits::{MOST_ELEMENTS, MOST_PORTS, MOST_SOURCES};
pub(crate) use self::sharing::is_object_name;
use super::settings::Settings;

/// The Service as an owner; `None` if it has no UID yet, which only an object never sent to an API server lacks.
pub fn owner(service: &Service) -> Option<ServiceRef> {
    let metadata = &service.metadata;
    Some(ServiceRef {
        namespace: metadata.namespace.clone()?,
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
    })
}

/// Returns true if Windlass is to give the Service an address: type LoadBalancer of a class that is served (service-contract S-01).
pub(crate) fn wants_address(service: &Service, settings: Settings) -> bool {
    service.spec.as_ref().is_some_and(|spec| {
        spec.type_.as_deref() == Some("LoadBalancer")
            && settings.serves_class(spec.load_balancer_class.as_deref())
    })
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

/// Returns the request of a Service in a namespace with these labels. It keeps the addresses that the Service holds; callers that know
/// the pools decide whether they may be moved.
///
/// # Errors
/// The first error in it.
pub fn request(
    service: &Service,
    namespace_labels: &Labels,
    settings: Settings,
) -> Result<Request, RequestError> {
    sources(service)?;
    let annotations = Annotations::of(service, settings);
    if let Some(value) = annotations.too_long() {
        return Err(RequestError::TooLong {
            annotation: value.annotation,
            text: error::shortened(value.text),
        });
    }
    let families = families::families(service.spec.as_ref())?;
    let named = addresses::named(service, annotations)?;
    addresses::fit(&named, families)?;
    let count = addresses::count(annotations, &named)?;
    let pool = match annotations.pool() {
        Some(entry) if !is_object_name(entry.text) => {
            let value = error::shortened(entry.text);
            return Err(RequestError::PoolName { annotation: entry.annotation, value });
        }
        entry => entry.map(|entry| entry.text.to_owned()),
    };
    Ok(Request {
        families,
        count,
        addresses: named.addresses,
        pool,
        preferred: status_addresses(service).collect(),
        requester: Requester {
            namespace: service.namespace().unwrap_or_default(),
            namespace_labels: namespace_labels.clone(),
            labels: service.metadata.labels.clone().unwrap_or_default(),
        },
        terms: sharing::terms(service, annotations)?,
        may_replace_unpooled: false,
        given_from_pool: Vec::new(),
        inherited: Vec::new(),
    })
}

/// The pool that the Service names, as it is written.
pub(crate) fn named_pool(service: &Service, settings: Settings) -> Option<String> {
    Annotations::of(service, settings).pool().map(|entry| entry.text.to_owned())
}

/// The clients that the Service lets in; `None`: all.
///
/// # Errors
/// What is wrong with its ranges. They let nobody in then.
pub(crate) fn sources(service: &Service) -> Result<Option<SourceRanges>, RequestError> {
    let ports = service.spec.iter().filter_map(|spec| spec.ports.as_ref()).map(Vec::len).sum::<usize>();
    match SourceRanges::of(service)? {
        Some(ranges) if ranges.ranges().len() > MOST_SOURCES => {
            Err(RequestError::TooManySources { place: ranges.place(), number: ranges.ranges().len() })
        }
        Some(ranges) if ranges.ranges().len() * ports > MOST_ELEMENTS => {
            Err(RequestError::TooManySourcesOfPorts {
                place: ranges.place(),
                number: ranges.ranges().len(),
                ports,
            })
        }
        ranges => Ok(ranges),
    }
}

/// Returns true if the Service's request differs from before, whatever its status shows.
pub(crate) fn asks_otherwise(old: &Service, new: &Service, settings: Settings) -> bool {
    let asked = |service: &Service| {
        let request = request(service, &Labels::new(), settings);
        request.map(|request| Request { preferred: Vec::new(), ..request })
    };
    asked(old) != asked(new)
}

/// The terms on which a Service uses what it holds.
///
/// # Errors
/// The first thing that is wrong with them.
pub(crate) fn terms(service: &Service, settings: Settings) -> Result<Terms, RequestError> {
    sharing::terms(service, Annotations::of(service, settings))
}

#[cfg(test)]
mod tests;
