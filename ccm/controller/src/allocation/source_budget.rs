//! Budgets for the cluster's restricted ports: for the elements that they need in the kernel of each node, which has all of them, and
//! for the ports that the objects name and agents keep. The Services of one namespace must not exhaust the agents of all.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use windlass_api::{PortSources, VirtualIP};
use windlass_ccm::ServiceKey;
use windlass_ccm::store::Change;

use super::allocation_state::AllocationState;
use super::request::{MOST_ELEMENTS, RequestError, owner};
use super::source_elements::{MOST_OF_CLUSTER, MOST_PORTS_OF_CLUSTER, beyond_few, elements};
use super::sources;
use crate::stores::{Stores, service_key};

#[cfg(test)]
mod tests;

impl AllocationState {
    /// Returns the sources that the object of `address` is to have for a Service that owns it, or is to. Sources in force stay in any
    /// case; new ones that exceed the nodes' budget are replaced by an empty list, which admits no client.
    pub(super) fn sources_at(
        &self,
        stores: &Stores,
        address: IpAddr,
        service: &Service,
    ) -> Option<PortSources> {
        let wanted = sources::of_service(service, address.is_ipv4(), self.settings)?;
        Some(if self.has_room_for(stores, &wanted, address) {
            wanted
        } else {
            PortSources { allowed: Vec::new(), ..wanted }
        })
    }

    /// Checks that the nodes have room for the Service's restrictions, at its addresses or at one that it is to get.
    ///
    /// # Errors
    /// The nodes have no room.
    pub(super) fn check_room_for_sources(
        &self,
        stores: &Stores,
        service: &Service,
    ) -> Result<(), RequestError> {
        let held = owner(service).map(|owner| self.ledger.held_by(&owner)).unwrap_or_default();
        for unspecified in [IpAddr::from([0; 4]), IpAddr::from([0; 16])] {
            let Some(wanted) = sources::of_service(service, unspecified.is_ipv4(), self.settings) else {
                continue;
            };
            let of_family = held.iter().filter(|address| address.is_ipv4() == unspecified.is_ipv4());
            let mut addresses = of_family.copied().chain(held.is_empty().then_some(unspecified));
            if !addresses.all(|address| self.has_room_for(stores, &wanted, address)) {
                let number = elements(std::slice::from_ref(&wanted));
                return Err(RequestError::NoRoomForSources { number, others: self.source_elements.total });
            }
        }
        Ok(())
    }

    /// Returns true if the object of `address` may name this many ports. Ports that it names already stay.
    pub(super) fn has_room_for_ports(&self, stores: &Stores, address: IpAddr, ports: usize) -> bool {
        let own = stores.vip(address).map_or(0, |vip| beyond_few(vip.spec.ports.len()));
        let wanted = beyond_few(ports);
        wanted <= own || self.source_elements.ports.saturating_sub(own) + wanted <= MOST_PORTS_OF_CLUSTER
    }

    fn has_room_for(&self, stores: &Stores, wanted: &PortSources, address: IpAddr) -> bool {
        let known = stores.vip(address).map(|vip| &vip.spec);
        // What is replaced makes room. At an address that is shared nobody knows whose is whose.
        let own = known.filter(|known| known.owners.len() == 1).map_or(0, |known| elements(&known.sources));
        known.is_some_and(|known| known.sources.contains(wanted))
            || self.source_elements.total.saturating_sub(own) + elements(std::slice::from_ref(wanted))
                <= MOST_OF_CLUSTER
    }

    /// A `VirtualIP` came, changed or went: returns the Services that may have waited for the room that it made.
    pub(super) fn on_source_elements_change(
        &mut self,
        stores: &Stores,
        change: &Change<VirtualIP>,
    ) -> Vec<ServiceKey> {
        let before = self.source_elements.total;
        self.source_elements.on_change(change);
        let is_near = before + 2 * MOST_ELEMENTS > MOST_OF_CLUSTER;
        if !is_near || self.source_elements.total >= before {
            return Vec::new();
        }
        let restricts = |service: &&Arc<Service>| {
            [true, false].into_iter().any(|ipv4| sources::of_service(service, ipv4, self.settings).is_some())
        };
        let services = stores.services.list();
        services
            .iter()
            .filter(restricts)
            .filter_map(|service| owner(service).as_ref().map(service_key))
            .collect()
    }
}
