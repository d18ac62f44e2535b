//! Owns what is derived from the pools: their last review, and the findings that their status shows.
//!
//! Reviews the pools again only if something changed that matters to them. Any other change in a cluster of thousands of
//! Services costs the comparison of some counters.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use windlass_api::virtual_ip_name;
use windlass_ccm::store::Change;
use windlass_ipam::Pool;

use super::{PoolFindings, ReviewedPool, UnusableAddresses, review};
use crate::allocation::foreign_services::ForeignServices;
use crate::allocation::settings::Settings;
use crate::stores::Stores;

/// The last review, its inputs and results.
#[derive(Debug, Default)]
pub(crate) struct PoolReviewer {
    /// Services that other load balancers serve.
    foreign: ForeignServices,
    /// Revisions of the caches of pools, nodes, node networks and ServiceCIDRs, and of the Services of other load balancers.
    seen: Option<[u64; 5]>,
    unusable: UnusableAddresses,
    /// Addresses of nodes that a pool has, and whether they are VIPs.
    node_addresses: Vec<(IpAddr, bool)>,
    reviewed: Arc<[ReviewedPool]>,
    /// The pools with their usable addresses, as [`Self::usable_change`] returned them last.
    usable: Vec<Pool>,
    /// Findings that the status of pools reports, by their names; `None`: to be computed anew.
    findings: Option<Arc<BTreeMap<String, PoolFindings>>>,
}

impl PoolReviewer {
    /// Reviews the pools if needed. Returns true if it did.
    pub(crate) fn refresh(&mut self, stores: &Stores) -> bool {
        let revisions = [
            stores.pools.revision(),
            stores.nodes.revision(),
            stores.networks.revision(),
            stores.service_cidrs.revision(),
            self.foreign.revision(),
        ];
        let is_vip = |address: IpAddr| stores.vips.get(&virtual_ip_name(address)).is_some();
        let claims_changed =
            self.node_addresses.iter().any(|(address, claimed)| is_vip(*address) != *claimed);
        let [pools, others @ ..] = revisions;
        let pools_changed = self.seen.is_none_or(|[seen, ..]| seen != pools);
        let others_changed = self.seen.is_none_or(|[_, seen @ ..]| seen != others);
        self.seen = Some(revisions);
        let mut changed = pools_changed || claims_changed;
        if others_changed {
            let nodes = stores.nodes.list();
            let nodes: Vec<_> = nodes.iter().map(|node| &**node).collect();
            let networks: Vec<_> = stores.reports().of_nodes().map(|network| &**network).collect();
            let service_cidrs: Vec<_> = stores.service_cidrs.iter().map(|cidr| &**cidr).collect();
            let unusable = UnusableAddresses::new(&nodes, &networks, &service_cidrs)
                .with_services(self.foreign.by_address());
            changed |= unusable != self.unusable;
            self.unusable = unusable;
        }
        if !changed {
            return false;
        }
        let pools: Vec<_> = stores.pools.iter().cloned().collect();
        self.reviewed = review(&pools, &self.unusable, is_vip).into();
        self.node_addresses =
            self.reviewed.iter().flat_map(|one| one.node_addresses.iter().copied()).collect();
        true
    }

    /// The node that has `address` itself.
    pub(crate) fn node_with(&self, address: IpAddr) -> Option<&str> {
        self.unusable.nodes.get(&address).map(String::as_str)
    }

    /// The Service that another load balancer gave `address`.
    pub(crate) fn foreign_service_with(&self, address: IpAddr) -> Option<&str> {
        self.unusable.services.get(&address).map(String::as_str)
    }

    /// The pools as they were reviewed last.
    pub(crate) fn reviewed(&self) -> Arc<[ReviewedPool]> {
        Arc::clone(&self.reviewed)
    }

    /// Follows a change of a Service. Returns true if it matters to the pools.
    pub(crate) fn follow(&mut self, change: &Change<Service>, settings: Settings) -> bool {
        self.foreign.follow(change, settings)
    }

    /// Returns the usable pools before and now, if they differ. The second call returns `None`.
    pub(crate) fn usable_change(&mut self) -> Option<(Vec<Pool>, Vec<Pool>)> {
        let usable: Vec<Pool> = self.reviewed.iter().map(|one| one.pool.clone()).collect();
        if usable == self.usable {
            return None;
        }
        self.findings = None;
        Some((std::mem::replace(&mut self.usable, usable.clone()), usable))
    }

    /// Returns the findings for the status of pools, by their names; `find` computes them after a change.
    pub(crate) fn findings(
        &mut self,
        find: impl FnOnce() -> BTreeMap<String, PoolFindings>,
    ) -> Arc<BTreeMap<String, PoolFindings>> {
        Arc::clone(self.findings.get_or_insert_with(|| Arc::new(find())))
    }

    /// Drops the findings after a change that affects them.
    pub(crate) fn findings_changed(&mut self) {
        self.findings = None;
    }
}
