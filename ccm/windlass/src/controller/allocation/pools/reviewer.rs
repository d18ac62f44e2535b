//! When the pools are reviewed again: only if something changed that matters to them. Everything else that happens in a
//! cluster of thousands of Services costs a look at some counters.

use std::net::IpAddr;
use std::sync::Arc;

use windlass_api::virtual_ip_name;

use super::{ExternalUse, Obstacles, Reviewed, review};
use crate::controller::stores::Stores;

/// The last review and what it was made from.
#[derive(Debug, Default)]
pub(crate) struct Reviewer {
    /// Revisions of the caches of pools, nodes, node networks and ServiceCIDRs.
    seen: Option<[u64; 4]>,
    obstacles: Obstacles,
    external: Vec<ExternalUse>,
    /// Addresses of nodes that a pool has, and whether they are VIPs.
    contested: Vec<(IpAddr, bool)>,
    reviewed: Arc<[Reviewed]>,
}

impl Reviewer {
    /// Reviews the pools if need be, and says whether it did.
    pub(crate) fn refresh(&mut self, stores: &Stores, external: Vec<ExternalUse>) -> bool {
        let revisions = [
            stores.pools.revision(),
            stores.nodes.revision(),
            stores.networks.revision(),
            stores.service_cidrs.revision(),
        ];
        let is_vip = |address: IpAddr| stores.vips.get(&virtual_ip_name(address)).is_some();
        let claims_changed = self.contested.iter().any(|(address, claimed)| is_vip(*address) != *claimed);
        let [pools, others @ ..] = revisions;
        let pools_changed = self.seen.is_none_or(|[seen, ..]| seen != pools);
        let others_changed = self.seen.is_none_or(|[_, seen @ ..]| seen != others);
        self.seen = Some(revisions);
        let mut changed = pools_changed || claims_changed || external != self.external;
        if others_changed {
            let nodes = stores.nodes.list();
            let nodes: Vec<_> = nodes.iter().map(|node| &**node).collect();
            let networks: Vec<_> = stores.networks.iter().map(|network| &**network).collect();
            let service_cidrs: Vec<_> = stores.service_cidrs.iter().map(|cidr| &**cidr).collect();
            let obstacles = Obstacles::new(&nodes, &networks, &service_cidrs);
            changed |= obstacles != self.obstacles;
            self.obstacles = obstacles;
        }
        if !changed {
            return false;
        }
        self.external = external;
        let pools: Vec<_> = stores.pools.iter().cloned().collect();
        self.reviewed = review(&pools, &self.obstacles, &self.external, is_vip).into();
        self.contested = self.reviewed.iter().flat_map(|one| one.of_nodes.iter().copied()).collect();
        true
    }

    /// The node that has `address` itself.
    pub(crate) fn node_with(&self, address: IpAddr) -> Option<&str> {
        self.obstacles.nodes.get(&address).map(String::as_str)
    }

    /// The pools as they were reviewed last.
    pub(crate) fn reviewed(&self) -> Arc<[Reviewed]> {
        Arc::clone(&self.reviewed)
    }
}
