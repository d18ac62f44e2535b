//! Addresses that a Service wants as external IPs.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use windlass_api::ServiceRef;

use super::decide;
use crate::allocation::allocation_state::AllocationState;
use crate::stores::Stores;

impl AllocationState {
    /// Returns true if the Service `owner` wants `address` for another reason than being a load balancer: as an external IP that it
    /// may have.
    pub(crate) fn wants_as_external_ip(
        &self,
        stores: &Stores,
        owner: &ServiceRef,
        service: Option<&Service>,
        address: IpAddr,
    ) -> bool {
        service.is_some_and(|service| {
            service.metadata.uid.as_ref() == Some(&owner.uid)
                && decide::wants_external(service, &stores.requester(service), address, &self.reviewed())
        })
    }
}
