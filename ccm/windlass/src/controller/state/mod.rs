//! What the controller knows: the cluster as the watches show it, the ledger, and who waits for an address. Decisions
//! here are synchronous and touch nothing outside; they return the Services to look at again.

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
use windlass_api::{
    REASON_ADDRESS_REFUSED, REASON_ADDRESS_TAKEN, REASON_UNGUARDED, ServiceRef, VirtualIP, virtual_ip_name,
};
use windlass_ccm::ServiceKey;
use windlass_ipam::Pool;

use crate::controller::allocation::external::ReportedRejections;
use crate::controller::allocation::ledger::Ledger;
use crate::controller::allocation::pools::{PoolFindings, PoolReviewer, ReviewedPool};
use crate::controller::allocation::settings::Settings;
use crate::controller::allocation::waiting::{Trigger, Waiting};
use crate::controller::placement::plan::why_unplaced;
use crate::controller::placement::router_loads::RouterLoads;
use crate::controller::placement::topology_cache::TopologyCache;
use crate::controller::provider::status_conflict::StatusConflicts;
use crate::controller::stores::clock::Clock;
use crate::controller::stores::{Stores, service_key};
use windlass_ccm::store::Change;

/// Everything known.
#[derive(Debug, Default)]
pub(crate) struct ClusterState {
    pub(crate) settings: Settings,
    pub(crate) stores: Stores,
    pub(crate) ledger: Ledger,
    /// VIPs of each virtual router.
    pub(crate) loads: RouterLoads,
    /// Where they can be.
    pub(crate) topology_cache: TopologyCache,
    /// What pools have to tell of, by their names, unless it is to be looked for anew.
    pub(crate) findings: Option<Arc<BTreeMap<String, PoolFindings>>>,
    pub(crate) waiting: Waiting,
    pool_reviewer: PoolReviewer,
    /// Services with external IPs.
    pub(crate) external_ip_services: BTreeSet<ServiceRef>,
    /// What was told of external IPs that are refused.
    pub(crate) reported_rejections: ReportedRejections,
    /// Services that may have addresses that nobody sees to: changed since they were looked at.
    pub(crate) orphan_candidates: BTreeSet<ServiceRef>,
    /// The pools that Services named when they were given what they have.
    pub(crate) named_pools: BTreeMap<ServiceRef, String>,
    /// Services whose status another controller writes, too.
    pub(crate) status_conflicts: StatusConflicts,
    pub(crate) clock: Clock,
    /// Nodes whose agents reported other addresses since they were looked at.
    readdressed_nodes: Vec<String>,
    pools: Vec<Pool>,
    /// All lists are complete and the ledger was built from them: before that nobody may be given anything.
    pub(crate) ready: bool,
}

impl ClusterState {
    /// Reviews the pools and lets the ledger give what can be used. Also says which Services may be served by it.
    pub(crate) fn review_pools(&mut self) -> (Arc<[ReviewedPool]>, Vec<ServiceKey>) {
        let external = self.external_uses();
        let changed = self.pool_reviewer.refresh(&self.stores, external);
        let reviewed = self.pool_reviewer.reviewed();
        if !changed {
            return (reviewed, Vec::new());
        }
        // Who has external IPs may not have them any more: load balancers are seen to by the service controller.
        self.orphan_candidates.extend(self.external_ip_services.iter().cloned());
        let external = self.external_ip_services.iter().map(service_key).collect::<Vec<_>>();
        let usable: Vec<Pool> = reviewed.iter().map(|one| one.pool.clone()).collect();
        if usable == self.pools {
            return (reviewed, external);
        }
        let owners_and_pools = |state: &Self| -> Vec<(IpAddr, Option<String>)> {
            let held = state.ledger.claims().map(|(address, _)| address);
            held.map(|address| (address, state.ledger.pool_of(address).map(|pool| pool.name.clone())))
                .collect()
        };
        let before = owners_and_pools(self);
        self.ledger.set_pools(usable.iter().cloned());
        self.findings = None;
        let before_pools = std::mem::replace(&mut self.pools, usable);
        let after = owners_and_pools(self);
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
        let mut keys: Vec<_> =
            moved.flat_map(|((address, _), _)| self.ledger.holders(*address)).map(service_key).collect();
        // What a status shows already is its Service's before anybody is given it who waits.
        if self.ready {
            keys.extend(self.adopt_all_shown());
        }
        keys.extend(self.retry_waiting(&[Trigger::Pools(&before_pools)]));
        keys.extend(external);
        (reviewed, keys)
    }

    /// The pools as they were reviewed last.
    pub(crate) fn reviewed(&self) -> Arc<[ReviewedPool]> {
        self.pool_reviewer.reviewed()
    }

    /// The node that has `address` itself.
    pub(crate) fn node_with(&self, address: IpAddr) -> Option<&str> {
        self.pool_reviewer.node_with(address)
    }

    /// The Service of that name, whatever its UID.
    pub(crate) fn service(&self, owner: &ServiceRef) -> Option<Arc<Service>> {
        self.stores.service(owner)
    }

    /// The object that claims `address`.
    pub(crate) fn vip(&self, address: IpAddr) -> Option<&Arc<VirtualIP>> {
        self.stores.vips.get(&virtual_ip_name(address))
    }

    fn on_vip_change(&mut self, change: &Change<VirtualIP>) -> Vec<ServiceKey> {
        if !self.ready {
            return Vec::new();
        }
        match (&change.old, &change.new) {
            (old, Some(new)) => {
                let mut keys = self.observe_vip(new, None);
                let said = VipSummary::by(new);
                if old.as_ref().map_or_else(|| said.at_first(), |old| VipSummary::by(old)) != said {
                    keys.extend(new.spec.owners.iter().map(service_key));
                }
                keys
            }
            (Some(old), None) => self.vip_deleted(old.spec.address, &old.uid().unwrap_or_default(), true),
            (None, None) => Vec::new(),
        }
    }

    fn on_service_change(&mut self, change: &Change<Service>) -> Vec<ServiceKey> {
        if !self.ready {
            return Vec::new();
        }
        let mut keys = self.on_request_change(change);
        keys.extend(self.on_holder_change(change.old.as_deref(), change.new.as_deref()));
        keys.extend(self.on_status_change(change));
        keys
    }
}

/// What an object says that its Services have to hear of.
#[derive(Debug, Default, PartialEq, Eq)]
struct VipSummary {
    announced: bool,
    unplaced: Option<String>,
    /// Why a node that could announce the address does not.
    blocked_by: Option<String>,
    pool: String,
    may_move: bool,
}

impl VipSummary {
    /// What an object is expected to say when it is new.
    fn at_first(&self) -> Self {
        Self { pool: self.pool.clone(), may_move: self.may_move, ..Self::default() }
    }

    fn by(vip: &VirtualIP) -> Self {
        let is_blocking = |one: &&Condition| {
            matches!(one.reason.as_str(), REASON_ADDRESS_TAKEN | REASON_ADDRESS_REFUSED | REASON_UNGUARDED)
        };
        Self {
            announced: vip.is_announced(),
            unplaced: why_unplaced(vip).map(str::to_owned),
            blocked_by: vip.announced().filter(is_blocking).map(|one| one.message.clone()),
            pool: vip.spec.pool.clone(),
            may_move: vip.allows_move(),
        }
    }
}

#[cfg(test)]
mod tests;
