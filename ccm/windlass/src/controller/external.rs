//! `spec.externalIPs`: which of them are announced, and which are refused.
//!
//! Whoever may write a Service may put any address there, and every node then takes the traffic to it that passes through
//! the cluster (CVE-2020-8554). Announced on the LAN such an address would take everybody's traffic. So only addresses of a
//! pool are announced whose admin allows it, for Services that the pool is for, and never one that somebody else has.

mod claims;
mod judge;

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use windlass_api::ServiceRef;
use windlass_ipam::Subject;

pub(crate) use judge::Told;

use super::cache::News;
use super::pools::ExternalUse;
use super::request::owner;
use super::state::State;

/// The addresses in `spec.externalIPs`, each once, in the order in which they are written. (The API server has checked that
/// they are addresses.)
pub(crate) fn external_ips(service: &Service) -> Vec<IpAddr> {
    let listed = service.spec.iter().flat_map(|spec| spec.external_ips.iter().flatten());
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in listed.filter_map(|text| text.trim().parse().ok()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

impl State {
    /// Keeps the list of Services with external IPs.
    pub(super) fn note_external(&mut self, news: &News<Service>) {
        if let Some(owner) = news.old.as_ref().and_then(|service| owner(service)) {
            self.external.remove(&owner);
        }
        if let Some(service) = &news.new
            && !external_ips(service).is_empty()
        {
            self.external.extend(owner(service));
        }
    }

    /// Who uses which external IPs, in a fixed order.
    pub(super) fn external_uses(&self) -> Vec<ExternalUse> {
        let services = self.external.iter().filter_map(|owner| Some((owner, self.service(owner)?)));
        let uses = services.map(|(owner, service)| ExternalUse {
            service: owner.to_string(),
            subject: self.subject(service),
            addresses: external_ips(service).into_iter().collect(),
        });
        uses.collect()
    }

    /// Whether the Service `owner` wants `address` for another reason than being a load balancer: as an external IP that it
    /// may have.
    pub(super) fn wants_besides(
        &self,
        owner: &ServiceRef,
        service: Option<&Service>,
        address: IpAddr,
    ) -> bool {
        service.is_some_and(|service| {
            service.metadata.uid.as_ref() == Some(&owner.uid)
                && judge::wants_external(service, &self.subject(service), address, &self.reviewed())
        })
    }

    /// The Service as the selectors of pools see it.
    fn subject(&self, service: &Service) -> Subject {
        let namespace = service.metadata.namespace.clone().unwrap_or_default();
        let labels = self.world.namespaces.get(&namespace).and_then(|one| one.metadata.labels.clone());
        Subject {
            namespace,
            namespace_labels: labels.unwrap_or_default(),
            labels: service.metadata.labels.clone().unwrap_or_default(),
        }
    }
}
