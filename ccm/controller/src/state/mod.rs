//! The state of the controller: the cluster as the watches show it, the ledger, and the Services that wait for an address.
//! Decisions here are synchronous and touch nothing outside; they return the Services to sync.

pub(crate) mod shared;
pub(crate) mod wakeup;
pub(crate) mod watch;
pub(crate) mod watched_kinds;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use windlass_api::{QuarantineReason, ServiceRef, VirtualIP, announced, virtual_ip_name};
use windlass_ccm::ServiceKey;

use crate::allocation::external::ExternalIps;
use crate::allocation::ledger::Ledger;
use crate::allocation::pools::{PoolFindings, PoolReviewer, ReviewedPool};
use crate::allocation::settings::Settings;
use crate::allocation::source_elements::SourceElements;
use crate::allocation::waiting::{Trigger, Waiting};
use crate::nodes::reports::{Doubt, DoubtsByNode, ToldDoubts};
use crate::nodes::taken_addresses::TakenAddresses;
use crate::placement::placement_state::PlacementState;
use crate::placement::plan::{Flaw, why_unplaced};
use crate::provider::node_changes::{self, Known, NodeChange, NodeChanges};
use crate::provider::status_conflict::StatusConflicts;
use crate::stores::clock::Clock;
use crate::stores::{Stores, service_key};
use windlass_ccm::store::Change;

/// The cluster, the ledger, and what was worked out from them.
#[derive(Debug, Default)]
pub(crate) struct ClusterState {
    pub(crate) settings: Settings,
    pub(crate) stores: Stores,
    pub(crate) ledger: Ledger,
    pub(crate) placement: PlacementState,
    /// Elements that the restricted ports of all VIPs need on the nodes.
    pub(crate) source_elements: SourceElements,
    /// Reasons that clients do not reach addresses that are announced.
    pub(crate) flaws: BTreeMap<IpAddr, Flaw>,
    pub(crate) waiting: Waiting,
    pub(crate) pools: PoolReviewer,
    pub(crate) external_ips: ExternalIps,
    /// Services whose addresses may be orphaned.
    pub(crate) orphan_candidates: BTreeSet<ServiceRef>,
    /// The pools that Services named when they were given what they have.
    pub(crate) named_pools: BTreeMap<ServiceRef, String>,
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
    /// All lists are complete and the ledger was built from them: before that nothing may be allocated.
    pub(crate) ready: bool,
}

impl ClusterState {
    /// Reviews the pools, hands the usable addresses to the ledger, and returns the affected Services.
    pub(crate) fn review_pools(&mut self) -> (Arc<[ReviewedPool]>, Vec<ServiceKey>) {
        let changed = self.pools.refresh(&self.stores);
        let reviewed = self.pools.reviewed();
        if !changed {
            return (reviewed, Vec::new());
        }
        // External IPs may not be permitted any more. (Load balancer addresses are the service controller's.) Who holds none is not
        // looked at, however many list some.
        let holders = self.ledger.claims().flat_map(|(_, holders)| holders);
        let external: BTreeSet<ServiceRef> =
            holders.filter(|holder| self.external_ips.has(holder)).cloned().collect();
        let keys_of_external = || external.iter().map(service_key);
        self.orphan_candidates.extend(external.iter().cloned());
        let Some((before_pools, usable)) = self.pools.usable_change() else {
            return (reviewed, keys_of_external().collect());
        };
        let owners_and_pools = |state: &Self| -> Vec<(IpAddr, Option<String>)> {
            let held = state.ledger.claims().map(|(address, _)| address);
            held.map(|address| (address, state.ledger.pool_of(address).map(|pool| pool.name.clone())))
                .collect()
        };
        let before = owners_and_pools(self);
        self.ledger.set_pools(usable);
        let after = owners_and_pools(self);
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
        let mut keys: Vec<_> =
            moved.flat_map(|((address, _), _)| self.ledger.holders(*address)).map(service_key).collect();
        // A Service that shows an address already comes before those that wait for one.
        if self.ready {
            keys.extend(self.adopt_all_shown());
        }
        keys.extend(self.retry_waiting(&[Trigger::Pools(&before_pools)]));
        keys.extend(keys_of_external());
        (reviewed, keys)
    }

    /// Records the flaws of addresses, and returns the Services whose conditions change by it.
    pub(crate) fn set_flaws(&mut self, now: BTreeMap<IpAddr, Flaw>) -> Vec<ServiceKey> {
        let before = std::mem::replace(&mut self.flaws, now);
        let now = &self.flaws;
        let all: BTreeSet<IpAddr> = before.keys().chain(now.keys()).copied().collect();
        let changed = all.into_iter().filter(|address| before.get(address) != now.get(address));
        changed.flat_map(|address| self.ledger.holders(address)).map(service_key).collect()
    }

    /// The pools as they were reviewed last.
    pub(crate) fn reviewed(&self) -> Arc<[ReviewedPool]> {
        self.pools.reviewed()
    }

    /// Returns the findings for the status of pools, by their names.
    pub(crate) fn findings(&mut self) -> Arc<BTreeMap<String, PoolFindings>> {
        let Self { stores, ledger, external_ips, pools, .. } = self;
        let pool_of = |address| ledger.pool_of(address).map(|pool| pool.name.as_str());
        pools.findings(|| PoolFindings::of(stores, pool_of, external_ips.refused()))
    }

    /// Returns true if the status of its pool reports it.
    fn is_a_finding(&self, vip: &VirtualIP) -> bool {
        match vip.spec.quarantine.as_ref().map(|quarantine| quarantine.reason) {
            None => self.ledger.pool_of(vip.spec.address).is_none(),
            Some(QuarantineReason::AddressTaken) => true,
            Some(QuarantineReason::Released | QuarantineReason::Unknown) => false,
        }
    }

    /// Returns the doubts about the nodes' reports, by node.
    pub(crate) fn doubts(&self) -> DoubtsByNode {
        let mut doubts = self.stores.reports().doubts.clone();
        let mut withheld: BTreeMap<String, usize> = BTreeMap::new();
        for (node, ignored) in self.reviewed().iter().flat_map(|one| &one.ignored_reports) {
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
        let router =
            self.vip(address).and_then(|vip| self.stores.routers.get(vip.spec.virtual_router.as_ref()?));
        let is_candidate =
            |node: &str| router.is_some_and(|router| router.spec.nodes.iter().any(|one| one.name == node));
        self.taken_addresses.believed(address, self.stores.reports(), self.clock.now(), is_candidate)
    }

    /// The node that has `address` itself.
    pub(crate) fn node_with(&self, address: IpAddr) -> Option<&str> {
        self.pools.node_with(address)
    }

    /// The Service that another load balancer gave `address`.
    pub(crate) fn foreign_service_with(&self, address: IpAddr) -> Option<&str> {
        self.pools.foreign_service_with(address)
    }

    /// The object that claims `address`.
    pub(crate) fn vip(&self, address: IpAddr) -> Option<&Arc<VirtualIP>> {
        self.stores.vips.get(&virtual_ip_name(address))
    }

    fn on_vip_change(&mut self, change: &Change<VirtualIP>) -> Vec<ServiceKey> {
        if [&change.old, &change.new].into_iter().flatten().any(|vip| self.is_a_finding(vip)) {
            self.pools.findings_changed();
        }
        let mut keys = self.on_source_elements_change(change);
        if !self.ready {
            return Vec::new();
        }
        self.note_node_change(change);
        keys.extend(self.on_claim_change(change));
        keys
    }

    /// Queues a report for its Services if another node announces an address than before.
    fn note_node_change(&mut self, change: &Change<VirtualIP>) {
        let Some((vip, from, to)) = node_changes::nodes(change) else { return };
        let router = vip.spec.virtual_router.as_ref().and_then(|name| self.stores.routers.get(name));
        let node = self.stores.nodes.get(from);
        let known = Known {
            router: router.map(AsRef::as_ref),
            node: node.as_deref(),
            network: self.stores.networks.get(from).map(AsRef::as_ref),
        };
        let message = node_changes::message(vip.spec.address, from, to, known);
        self.node_changes.add(NodeChange { owners: vip.spec.owners.clone(), message });
    }

    fn on_claim_change(&mut self, change: &Change<VirtualIP>) -> Vec<ServiceKey> {
        match (&change.old, &change.new) {
            (old, Some(new)) => {
                let mut keys = self.observe_vip(new, None);
                let summary = VipSummary::of(new);
                if old.as_ref().map_or_else(|| summary.when_new(), |old| VipSummary::of(old)) != summary {
                    keys.extend(new.spec.owners.iter().map(service_key));
                }
                keys
            }
            (Some(old), None) => self.vip_deleted(old.spec.address, &old.uid().unwrap_or_default(), true),
            (None, None) => Vec::new(),
        }
    }

    fn on_service_change(&mut self, change: &Change<Service>) -> Vec<ServiceKey> {
        if self.external_ips.follow(change) {
            self.pools.findings_changed();
        }
        let matters_to_pools = self.pools.follow(change, self.settings);
        if !self.ready {
            return Vec::new();
        }
        let mut keys = if matters_to_pools { self.review_pools().1 } else { Vec::new() };
        keys.extend(self.on_existence_change(change));
        keys.extend(self.on_request_change(change));
        keys.extend(self.on_holder_change(change.old.as_deref(), change.new.as_deref()));
        keys.extend(self.on_status_change(change));
        keys
    }
}

/// Parts of a `VirtualIP` that its Services depend on.
#[derive(Debug, Default, PartialEq, Eq)]
struct VipSummary {
    announced: bool,
    unplaced: Option<String>,
    /// Reason that a node that could announce the address does not.
    blocked_by: Option<String>,
    /// Host that uses the address beside the node that announces it.
    conflict: Option<String>,
    pool: String,
    may_move: bool,
}

impl VipSummary {
    /// The summary of this object when it was new.
    fn when_new(&self) -> Self {
        Self { pool: self.pool.clone(), may_move: self.may_move, ..Self::default() }
    }

    fn of(vip: &VirtualIP) -> Self {
        let is_blocking = |one: &&Condition| {
            matches!(
                one.reason.as_str(),
                announced::ADDRESS_TAKEN | announced::ADDRESS_REFUSED | announced::UNGUARDED
            )
        };
        Self {
            announced: vip.is_announced(),
            unplaced: why_unplaced(vip).map(str::to_owned),
            blocked_by: vip.announced().filter(is_blocking).map(|one| one.message.clone()),
            conflict: vip.conflict().map(|one| one.message.clone()),
            pool: vip.spec.pool.clone(),
            may_move: vip.allows_move(),
        }
    }
}

#[cfg(test)]
mod tests;
