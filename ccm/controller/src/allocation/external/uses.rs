//! The Services with external IPs, and the addresses that they name.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use windlass_api::ServiceRef;
use windlass_ipam::Requester;

use super::refused::Refused;
use super::{decide, external_ips};
use crate::allocation::request::owner;
use crate::state::ClusterState;
use windlass_ccm::store::Change;

impl ClusterState {
    /// Keeps the list of Services with external IPs.
    pub(crate) fn on_external_ips_change(&mut self, change: &Change<Service>) {
        if let Some(owner) = change.old.as_ref().and_then(|service| owner(service)) {
            self.external_ip_services.remove(&owner);
        }
        if let Some(service) = &change.new
            && !external_ips(service).is_empty()
        {
            self.external_ip_services.extend(owner(service));
        }
        // Nothing is refused of one that lists none any more, or is another under its name.
        let old = change.old.as_ref().and_then(|service| owner(service));
        if let Some(old) = old.filter(|old| !self.external_ip_services.contains(old))
            && self.refused_external_ips.replace(&old, &Refused::default()).changed
        {
            self.findings = None;
        }
    }

    /// Returns true if the Service `owner` wants `address` for another reason than being a load balancer: as an external IP that it
    /// may have.
    pub(crate) fn wants_as_external_ip(
        &self,
        owner: &ServiceRef,
        service: Option<&Service>,
        address: IpAddr,
    ) -> bool {
        service.is_some_and(|service| {
            service.metadata.uid.as_ref() == Some(&owner.uid)
                && decide::wants_external(service, &self.requester(service), address, &self.reviewed())
        })
    }

    /// The Service as the selectors of pools and Announcements see it.
    pub(crate) fn requester(&self, service: &Service) -> Requester {
        let namespace = service.metadata.namespace.clone().unwrap_or_default();
        let labels = self.stores.namespaces.get(&namespace).and_then(|one| one.metadata.labels.clone());
        Requester {
            namespace,
            namespace_labels: labels.unwrap_or_default(),
            labels: service.metadata.labels.clone().unwrap_or_default(),
        }
    }
}
