//! Reviews the pools again only if something changed that matters to them. Any other change in a cluster of thousands of
//! Services costs the comparison of some counters.

use std::net::IpAddr;
use std::sync::Arc;

use windlass_api::virtual_ip_name;

use super::{ReviewedPool, UnusableAddresses, review};
use crate::allocation::foreign_services::ForeignServices;
use crate::stores::Stores;

/// The last review and what it was made from.
#[derive(Debug, Default)]
pub(crate) struct PoolReviewer {
    /// Revisions of the caches of pools, nodes, node networks and ServiceCIDRs, and of the Services of other load balancers.
    seen: Option<[u64; 5]>,
    unusable: UnusableAddresses,
    /// Addresses of nodes that a pool has, and whether they are VIPs.
    node_addresses: Vec<(IpAddr, bool)>,
    reviewed: Arc<[ReviewedPool]>,
}

impl PoolReviewer {
    /// Reviews the pools if needed. Returns true if it did.
    pub(crate) fn refresh(&mut self, stores: &Stores, foreign: &ForeignServices) -> bool {
        let revisions = [
            stores.pools.revision(),
            stores.nodes.revision(),
            stores.networks.revision(),
            stores.service_cidrs.revision(),
            foreign.revision(),
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
            let unusable =
                UnusableAddresses::new(&nodes, &networks, &service_cidrs).with_services(foreign.by_address());
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
}
