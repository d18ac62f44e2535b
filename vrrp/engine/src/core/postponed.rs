//! VIPs that change their virtual router while another node has them.
//!
//! Nodes learn of the move at different moments, and the node that has the VIPs may learn last. So it goes first, if it is there: the
//! others leave each VIP where it was until that node's adverts of the old router no longer list it, or show by the priority of an owner
//! that it has taken all away, or stop.
//!
//! No nodes wait in a circle: the node that has a VIP never waits to release it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::context::RouterId;
use crate::config::{Hold, RouterConfig};

#[cfg(test)]
mod tests;

/// Configuration to be run until the Actives of other nodes have gone before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Interim {
    pub(super) routers: BTreeMap<RouterId, RouterConfig>,
    /// Routers among them that keep VIPs which are to go.
    pub(super) kept: Vec<RouterId>,
}

/// Returns what to run instead of `desired`; `None`: `desired` itself. `is_elsewhere`: returns true if another node has a VIP of a router
/// that is `running`.
pub(super) fn interim(
    desired: &BTreeMap<RouterId, RouterConfig>,
    running: &BTreeMap<RouterId, &RouterConfig>,
    is_elsewhere: impl Fn(RouterId, IpAddr) -> bool,
) -> Option<Interim> {
    let mut takers: Option<BTreeMap<IpAddr, RouterId>> = None;
    let mut interim: Option<Interim> = None;
    for (id, config) in running.iter().filter(|(_, config)| config.hold == Hold::Respond) {
        let wanted = desired.get(id).map(|wanted| &wanted.addresses);
        let leaves = |address: &&IpAddr| wanted.is_none_or(|wanted| !wanted.contains(*address));
        for address in config.addresses.iter().filter(leaves) {
            // With thousands of VIPs it is not looked for where none leaves its router.
            let takers = takers.get_or_insert_with(|| by_address(desired));
            let Some(taker) = takers.get(address).filter(|_| is_elsewhere(*id, *address)) else { continue };
            let Interim { routers, kept } =
                interim.get_or_insert_with(|| Interim { routers: desired.clone(), kept: Vec::new() });
            let (is_unproven, is_forced) = routers.get_mut(taker).map_or((false, false), |taker| {
                taker.addresses.remove(address);
                (taker.unproven.remove(address), taker.forced.contains(address))
            });
            let old = routers.entry(*id).or_insert_with(|| without_addresses(config));
            old.addresses.insert(*address);
            if is_unproven {
                old.unproven.insert(*address);
            }
            if is_forced {
                old.forced.insert(*address);
            }
            if kept.last() != Some(id) {
                kept.push(*id);
            }
        }
    }
    if let Some(Interim { routers, .. }) = &mut interim {
        // What is to have only VIPs that wait begins with them: the node that has them is Active there at once.
        let waits = |id: &RouterId, config: &RouterConfig| {
            config.addresses.is_empty()
                && !running.contains_key(id)
                && desired.get(id).is_some_and(|wanted| !wanted.addresses.is_empty())
        };
        routers.retain(|id, config| !waits(id, config));
    }
    interim
}

fn by_address(routers: &BTreeMap<RouterId, RouterConfig>) -> BTreeMap<IpAddr, RouterId> {
    let addresses = |(id, config): (&RouterId, &RouterConfig)| {
        let id = *id;
        config.addresses.clone().into_iter().map(move |address| (address, id))
    };
    routers.iter().flat_map(addresses).collect()
}

fn without_addresses(config: &RouterConfig) -> RouterConfig {
    RouterConfig { addresses: [].into(), unproven: [].into(), forced: [].into(), ..config.clone() }
}
