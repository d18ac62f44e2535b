//! Addresses that a Service wants as external IPs.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use windlass_api::ServiceRef;
use windlass_ipam::Requester;

use super::decide;
use crate::state::ClusterState;

impl ClusterState {
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
