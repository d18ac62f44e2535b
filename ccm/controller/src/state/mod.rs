//! The state of the controller: the objects as the watches show them, and what each of its parts derived from them.
//!
//! Every part owns its state and changes it alone. [`ClusterState::on_change`] hands each change of an object to the parts that it
//! concerns: the controller's table of contents. Decisions here are synchronous and touch nothing outside; they return the Services to
//! sync.

pub(crate) mod kept;
pub(crate) mod shared;
pub(crate) mod watch;
pub(crate) mod watched_kinds;

use std::collections::BTreeMap;
use std::net::IpAddr;

use windlass_ccm::ServiceKey;

use self::watched_kinds::WatchedChange;
use crate::allocation::allocation_state::AllocationState;
use crate::allocation::ledger::Ledger;
use crate::allocation::request::owner;
use crate::nodes::instances::addresses::readdressed;
use crate::nodes::reports::{Doubt, DoubtsByNode, ToldDoubts};
use crate::nodes::taken_addresses::{self, TakenAddresses};
use crate::placement::placement_state::PlacementState;
use crate::provider::node_changes::NodeChanges;
use crate::provider::status_conflict::StatusConflicts;
use crate::provider::vip_summary;
use crate::stores::Stores;
use crate::stores::clock::Clock;

/// The objects of the cluster, and the parts with their state.
#[derive(Debug, Default)]
pub(crate) struct ClusterState {
    pub(crate) stores: Stores,
    pub(crate) allocation: AllocationState,
    pub(crate) placement: PlacementState,
    /// Services whose status another controller writes, too.
    pub(crate) status_conflicts: StatusConflicts,
    /// Doubts about the nodes' reports that were published.
    pub(crate) told_doubts: ToldDoubts,
    /// Addresses that were taken from Services by the report of a node.
    pub(crate) taken_addresses: TakenAddresses,
    /// Addresses that moved from node to node and were not reported yet.
    pub(crate) node_changes: NodeChanges,
    pub(crate) clock: Clock,
    /// Nodes whose agents reported other addresses and that are not queued yet.
    readdressed_nodes: Vec<String>,
}

impl ClusterState {
    /// Updates every part after a change of the stores, and returns the Services to sync. Before all lists are complete the parts only
    /// record what they cannot derive from the lists.
    pub(crate) fn on_change(&mut self, change: WatchedChange<'_>) -> Vec<ServiceKey> {
        let Self { stores, allocation, placement, status_conflicts, node_changes, clock, .. } = self;
        let is_ready = allocation.is_ready();
        match change {
            WatchedChange::Pool(change) => allocation.on_pool_change(stores, change),
            WatchedChange::Announcement(change) => {
                placement.on_announcement_change(stores, change);
                Vec::new()
            }
            WatchedChange::VirtualIp(change) => {
                placement.on_vip_change(change);
                let mut keys = allocation.on_vip_change(stores, clock.now(), change);
                if is_ready {
                    node_changes.on_vip_change(stores, change);
                    keys.extend(vip_summary::services_to_sync(change));
                }
                keys
            }
            WatchedChange::VirtualRouter(change) => {
                placement.on_router_change(change);
                Vec::new()
            }
            WatchedChange::NodeNetwork(change) => {
                placement.on_network_change(change);
                stores.reports.on_network_change(change);
                self.readdressed_nodes.extend(readdressed(change));
                allocation.on_network_change(change);
                allocation.services_with(taken_addresses::newly_seen(change))
            }
            WatchedChange::Service(change) => {
                let is_ongoing = |holder| status_conflicts.is_ongoing(&holder, clock.now());
                let is_contested = change.new.as_deref().and_then(owner).is_some_and(is_ongoing);
                allocation.on_service_change(stores, change, is_contested)
            }
            WatchedChange::Namespace(change) => allocation.on_namespace_change(change),
            WatchedChange::Node(change) => {
                let is_reported_anew = stores.reports.on_node_change(change);
                if is_reported_anew {
                    allocation.findings_changed();
                }
                placement.on_node_change(change, is_reported_anew);
                Vec::new()
            }
            // The next review of the pools reads them.
            WatchedChange::ServiceCidr => Vec::new(),
            WatchedChange::EndpointSlice(change) => {
                placement.on_endpoints_change(stores, is_ready, change);
                Vec::new()
            }
        }
    }

    /// The holders of each address.
    pub(crate) const fn ledger(&self) -> &Ledger {
        self.allocation.ledger()
    }

    /// Builds the ledger once every list is complete. Returns true if it did.
    fn rebuild_when_complete(&mut self) -> bool {
        let is_due = !self.allocation.is_ready() && self.stores.are_complete();
        if is_due {
            self.allocation.rebuild(&self.stores, self.clock.now());
        }
        is_due
    }

    /// Returns the doubts about the nodes' reports, by node.
    pub(crate) fn doubts(&self) -> DoubtsByNode {
        let mut doubts = self.stores.reports().doubts.clone();
        let mut withheld: BTreeMap<String, usize> = BTreeMap::new();
        for (node, ignored) in self.allocation.reviewed().iter().flat_map(|one| &one.ignored_reports) {
            *withheld.entry(node.clone()).or_default() += ignored;
        }
        for (node, ignored) in withheld {
            doubts.entry(node).or_default().insert(Doubt::Withheld { ignored });
        }
        for (node, doubt) in self.taken_addresses.doubts(self.stores.reports(), self.clock.now()) {
            doubts.entry(node).or_default().insert(doubt);
        }
        doubts
    }

    /// The node on whose word another host has `address`, if one is believed.
    pub(crate) fn node_that_sees_a_stranger_with(&self, address: IpAddr) -> Option<String> {
        let vip = self.stores.vip(address);
        let router = vip.and_then(|vip| self.stores.routers.get(vip.spec.virtual_router.as_ref()?));
        let is_candidate =
            |node: &str| router.is_some_and(|router| router.spec.nodes.iter().any(|one| one.name == node));
        self.taken_addresses.believed(address, self.stores.reports(), self.clock.now(), is_candidate)
    }
}

#[cfg(test)]
mod tests;
