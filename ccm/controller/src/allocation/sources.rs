//! Ports of an address and their source ranges, as its Services name them (service-contract S-37).
//!
//! A Service whose ranges cannot be read admits no client until they are corrected: its intention is unknown.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use kube::ResourceExt as _;
use windlass_api::{PortProtocol, PortSources, RestrictedPort};
use windlass_ccm::service::SourceRanges;

use super::request::{MOST_PORTS, sources, wants_address};
use super::settings::Settings;
use windlass_ccm::store::Change;

#[cfg(test)]
mod tests;

/// kube-proxy leaves a Service with this label to another one.
const LABEL_OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";

/// The source ranges of the Service's ports at an address of this family. `None`: no restriction, or no load balancer of ours.
pub(crate) fn of_service(service: &Service, ipv4: bool, settings: Settings) -> Option<PortSources> {
    if !wants_address(service, settings) {
        return None;
    }
    let (allowed, by_kube_proxy) = match sources(service) {
        Ok(ranges) => {
            let ranges = ranges?;
            let other_proxy = service.labels().contains_key(LABEL_OTHER_PROXY);
            (ranges.allowed(ipv4)?, ranges.are_enforced_by_kube_proxy(ipv4) && !other_proxy)
        }
        Err(_) => (Vec::new(), false),
    };
    let allowed = allowed.iter().map(ToString::to_string).collect();
    let ports: Vec<RestrictedPort> = ports(service).into_iter().take(MOST_PORTS).collect();
    (!ports.is_empty()).then_some(PortSources { ports, allowed, by_kube_proxy })
}

/// The Service's ports.
pub(crate) fn ports(service: &Service) -> BTreeSet<RestrictedPort> {
    let ports = service.spec.iter().filter_map(|spec| spec.ports.as_ref()).flatten();
    ports.filter_map(port).collect()
}

/// `None` for what cannot be a port, which no packet has either.
fn port(port: &ServicePort) -> Option<RestrictedPort> {
    let protocol = match port.protocol.as_deref() {
        None | Some("TCP") => PortProtocol::Tcp,
        Some("UDP") => PortProtocol::Udp,
        Some("SCTP") => PortProtocol::Sctp,
        Some(_) => return None,
    };
    let number = u16::try_from(port.port).ok().filter(|number| *number > 0)?;
    Some(RestrictedPort { protocol, port: number })
}

/// Returns true if the change of a Service may change its ports or the clients that may send to them: agents need such a change soon.
pub(crate) fn may_differ(change: &Change<Service>) -> bool {
    let of = |service: &Service| (SourceRanges::of(service), ports(service));
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => of(old) != of(new),
        (None, _) | (_, None) => false,
    }
}
