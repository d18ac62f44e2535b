//! The state of the placement: derived from the cluster's objects, and updated or dropped by their changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use tokio::time::Instant;
use windlass_api::{Announcement, NodeNetwork, VirtualIP, VirtualIPSpec, VirtualRouter};
use windlass_ccm::store::Change;
use windlass_common::failures;

use super::announcements::Announcements;
use super::endpoints::{EndpointIndex, ServingNodes};
use super::plan::{Flaw, PlacementClass, ReadyRouters, Topology};
use super::router_loads::RouterLoads;
use super::sharing::SharingMemory;
use super::topology_cache::{AnnounceabilityByPool, TopologyCache};
use crate::allocation::pools::ReviewedPool;
use crate::stores::Stores;

/// Derived state of the placement. It is given each change of the stores.
#[derive(Debug, Default)]
pub(crate) struct PlacementState {
    /// VIPs of each virtual router.
    loads: RouterLoads,
    /// Segments of the nodes, and results computed from them.
    topology: TopologyCache,
    /// Announcements, as far as they can be read.
    announcements: Arc<Announcements>,
    /// Nodes with endpoints.
    endpoints: EndpointIndex,
    /// Reasons that clients do not reach addresses that are announced.
    flaws: BTreeMap<IpAddr, Flaw>,
    /// Times of the lots of shared addresses.
    sharing: Arc<SharingMemory>,
}

impl PlacementState {
    pub(crate) fn on_vip_change(&mut self, change: &Change<VirtualIP>) {
        self.loads.on_change(change);
    }

    /// Drops the ready routers if the spec or identity of a router changed. Its status, which agents write for people to read, does
    /// not count.
    pub(crate) fn on_router_change(&mut self, change: &Change<VirtualRouter>) {
        let what_counts = |router: &Arc<VirtualRouter>| {
            let metadata = &router.metadata;
            (router.spec.clone(), metadata.uid.clone(), metadata.deletion_timestamp.clone())
        };
        if change.old.as_ref().map(what_counts) != change.new.as_ref().map(what_counts) {
            self.topology.ready_routers_changed();
        }
    }

    pub(crate) fn on_announcement_change(&mut self, stores: &Stores, change: &Change<Announcement>) {
        let what_counts = |one: &Arc<Announcement>| {
            (
                one.spec.clone(),
                one.metadata.creation_timestamp.clone(),
                one.metadata.deletion_timestamp.clone(),
            )
        };
        if change.old.as_ref().map(what_counts) != change.new.as_ref().map(what_counts) {
            self.announcements = Arc::new(Announcements::new(stores.announcements.iter()));
            self.topology.topology_changed();
        }
    }

    pub(crate) fn on_network_change(&mut self, change: &Change<NodeNetwork>) {
        let [was, is] = [&change.old, &change.new].map(|network| {
            network.as_ref().map(|network| {
                let spec = &network.spec;
                let fails: Vec<&str> = failures::that_matter(&spec.failed_checks).collect();
                let keys = (&spec.vrrp_keys, &spec.known_routers);
                (&spec.interfaces, &spec.foreign_routers, &spec.capabilities, keys, fails)
            })
        });
        if was != is {
            self.topology.topology_changed();
        }
    }

    /// Follows a change of a Node. `is_reported_anew`: what the nodes' reports are judged by changed.
    pub(crate) fn on_node_change(&mut self, change: &Change<Node>, is_reported_anew: bool) {
        let traits = |node: &Arc<Node>| self.announcements.traits(node);
        if is_reported_anew || change.old.as_ref().map(traits) != change.new.as_ref().map(traits) {
            self.topology.topology_changed();
        }
    }

    /// Updates the nodes with endpoints. `is_ready`: all lists are complete.
    pub(crate) fn on_endpoints_change(
        &mut self,
        stores: &Stores,
        is_ready: bool,
        change: &Change<EndpointSlice>,
    ) {
        let is_new = |service: &str| is_ready && stores.is_local(service);
        self.endpoints.on_change(&stores.endpoint_slices, change, is_new, Instant::now());
    }

    pub(crate) fn announcements(&self) -> &Arc<Announcements> {
        &self.announcements
    }

    /// Nodes and their segments.
    pub(crate) fn topology(&mut self, stores: &Stores) -> Arc<Topology> {
        self.topology.topology(stores, &self.announcements)
    }

    /// Returns the announceability of each pool.
    pub(crate) fn announceability_by_pool(
        &mut self,
        stores: &Stores,
        reviewed: &Arc<[ReviewedPool]>,
    ) -> Arc<AnnounceabilityByPool> {
        self.topology.announceability_by_pool(stores, reviewed, &self.announcements)
    }

    /// Returns the nodes with endpoints of the Services of a VIP.
    pub(crate) fn serving(&self, stores: &Stores, vip: &VirtualIPSpec, now: Instant) -> ServingNodes {
        self.endpoints.serving(&stores.endpoint_slices, &vip.owners, vip.address.is_ipv4(), now)
    }

    /// Returns the time after which an endpoint counts that does not count yet.
    pub(crate) fn next_settled(&self, now: Instant) -> Option<Instant> {
        self.endpoints.next_settled(now)
    }

    /// Returns the virtual router of a VIP whose object is being made.
    pub(super) fn expected(&self, address: IpAddr) -> Option<&str> {
        self.loads.expected(address)
    }

    /// Takes the next virtual router for new VIPs of this class for `address`, by their loads and `partners`, the first nodes of the holder's
    /// other addresses. `made` are those routers, if they are not known.
    pub(super) fn take_router(
        &mut self,
        address: IpAddr,
        class: PlacementClass,
        partners: &BTreeSet<String>,
        made: impl FnOnce(&Arc<Announcements>) -> ReadyRouters,
    ) -> Option<String> {
        let Self { loads, topology, announcements, .. } = self;
        let ready = topology.ready_routers(class, || made(announcements));
        let router = ready.next(partners, |router| loads.of(router))?.to_owned();
        loads.expect(address, router.clone());
        Some(router)
    }

    /// The reason that clients do not reach an address that is announced.
    pub(crate) fn flaw(&self, address: IpAddr) -> Option<&Flaw> {
        self.flaws.get(&address)
    }

    /// Records the flaws of addresses, and returns the addresses whose flaw changed.
    pub(super) fn set_flaws(&mut self, now: BTreeMap<IpAddr, Flaw>) -> BTreeSet<IpAddr> {
        let before = std::mem::replace(&mut self.flaws, now);
        let mut changed: BTreeSet<IpAddr> = before.keys().chain(self.flaws.keys()).copied().collect();
        changed.retain(|address| before.get(address) != self.flaws.get(address));
        changed
    }

    /// Returns the times of the lots of shared addresses, with what these objects show at `now`.
    pub(super) fn sharing(&mut self, vips: &[Arc<VirtualIP>], now: Timestamp) -> Arc<SharingMemory> {
        Arc::make_mut(&mut self.sharing).observe(vips, now);
        Arc::clone(&self.sharing)
    }

    /// Records the addresses whose lots are to move soon.
    pub(super) fn set_uneven(&mut self, addresses: &BTreeSet<IpAddr>, now: Timestamp) {
        Arc::make_mut(&mut self.sharing).set_uneven(addresses, now);
    }

    /// Forgets the topology, as after a restart.
    #[cfg(test)]
    pub(crate) fn forget_topology(&mut self) {
        self.topology = TopologyCache::default();
    }
}
