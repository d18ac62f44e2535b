//! What the planner sees of the state.

use std::net::IpAddr;
use std::sync::Arc;

use kube::ResourceExt as _;
use windlass_api::{IPPool, ServiceRef, VirtualIP};
use windlass_ccm::service::is_stable;

use super::plan::{self, Input, PoolPlan};
use super::state::State;

#[cfg(test)]
mod tests;

/// All of it.
pub(crate) fn input(state: &State) -> Input {
    Input { vips: state.world.vips.iter().cloned().collect(), ..surroundings(state) }
}

/// All but the VIPs.
fn surroundings(state: &State) -> Input {
    let world = &state.world;
    let pool = |pool: &Arc<IPPool>| {
        let plan = PoolPlan {
            interface: pool.spec.interface.clone(),
            interval_ms: pool.spec.advertisement_interval_milliseconds,
        };
        (pool.name_any(), plan)
    };
    Input {
        pools: world.pools.iter().map(pool).collect(),
        vips: Vec::new(),
        routers: world.routers.iter().cloned().collect(),
        networks: world.networks.iter().cloned().collect(),
        nodes: world.nodes.iter().map(|node| (node.name_any(), is_stable(node))).collect(),
    }
}

impl State {
    /// The virtual router that `vip`, which is about to be made for `holder`, can name at once: one write less than to make
    /// it and then to say who carries it. `None`: the planner decides when the object is there.
    pub(crate) fn carrier_of_new(&mut self, holder: &ServiceRef, vip: &VirtualIP) -> Option<String> {
        let address = vip.spec.address;
        let is_sibling = |other: &IpAddr| *other != address && other.is_ipv4() == address.is_ipv4();
        if self.ledger.held_by(holder).iter().any(is_sibling) {
            return None;
        }
        let router = plan::carrier_of_new(&surroundings(self), &self.loads.counts(), vip)?;
        self.loads.expect(address, router.clone());
        Some(router)
    }
}
