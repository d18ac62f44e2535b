//! Nodes that may have connections of lots which have had other servers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use windlass_dataplane::marked_ways::NextHop;
use windlass_dataplane::sharing::{LOTS, Share, SharedBy, Shares, SharingLink};
use windlass_kernel::port::Protocol;
use windlass_vrrp::Family;

#[cfg(test)]
mod tests;

/// Shared addresses, and the nodes that may have connections of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Trails {
    /// All shared addresses, and how often lots of each have moved.
    pub(crate) addresses: BTreeMap<IpAddr, u32>,
    /// Nodes that are asked one after the other about a packet of a lot, for addresses with such lots.
    pub(crate) services: BTreeMap<(IpAddr, Protocol), Trail>,
}

/// Trails, as the thread that directs packets gives them to the hold thread, and what that thread cannot do.
#[derive(Debug, Default)]
pub(crate) struct Passing {
    trails: ArcSwapOption<Trails>,
    without_mark: ArcSwap<BTreeSet<IpAddr>>,
    /// Shared addresses for which packets are not directed yet.
    pending: ArcSwap<BTreeSet<IpAddr>>,
}

impl Passing {
    /// Returns the trails; `None`: no address is shared.
    pub(crate) fn trails(&self) -> Option<Arc<Trails>> {
        self.trails.load_full()
    }

    /// Replaces the trails. Returns true if they are others.
    pub(crate) fn set_trails(&self, trails: Option<Arc<Trails>>) -> bool {
        let is_new = self.trails() != trails;
        if is_new {
            self.trails.store(trails);
        }
        is_new
    }

    /// Returns true if packets to one of these are to be directed and are not yet.
    pub(crate) fn are_pending(&self, mut addresses: impl Iterator<Item = IpAddr>) -> bool {
        let pending = self.pending.load();
        !pending.is_empty() && addresses.any(|address| pending.contains(&address))
    }

    /// Replaces those addresses. Returns true if they are others.
    pub(crate) fn set_pending(&self, addresses: BTreeSet<IpAddr>) -> bool {
        let is_new = **self.pending.load() != addresses;
        if is_new {
            self.pending.store(Arc::new(addresses));
        }
        is_new
    }

    /// Returns the nodes that are not asked, because no mark is left.
    pub(crate) fn without_mark(&self) -> Arc<BTreeSet<IpAddr>> {
        self.without_mark.load_full()
    }

    /// Replaces those nodes.
    pub(crate) fn set_without_mark(&self, nodes: BTreeSet<IpAddr>) {
        if **self.without_mark.load() != nodes {
            self.without_mark.store(Arc::new(nodes));
        }
    }
}

/// Nodes of an address's lots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Trail {
    pub(crate) by: SharedBy,
    /// Other nodes of each lot, the next one first.
    pub(crate) lots: BTreeMap<u8, Vec<NextHop>>,
}

impl Trails {
    /// Returns the trails on a node with these interfaces, without `silent` nodes. `moves`: number of moves of lots, by address. A node that
    /// was away also asks the substitutes of each lot about connections of TCP: a flow of UDP would begin at the last node that is asked, so
    /// at a substitute.
    pub(crate) fn of(
        shares: &Shares,
        links: &BTreeMap<String, SharingLink>,
        silent: &BTreeSet<IpAddr>,
        moves: &BTreeMap<IpAddr, u32>,
        was_away: bool,
    ) -> Self {
        let services = shares.services.iter().filter_map(|((vip, protocol), share)| {
            let link = links.get(&share.interface)?;
            let trail = match protocol {
                Protocol::Tcp if was_away => trail(&share.with_substitutes(), Family::of(*vip), link, silent),
                Protocol::Tcp | Protocol::Udp | Protocol::Sctp => {
                    trail(share, Family::of(*vip), link, silent)
                }
            };
            (!trail.lots.is_empty()).then_some(((*vip, *protocol), trail))
        });
        let addresses = shares.services.keys().map(|(vip, _)| vip);
        Self {
            addresses: addresses.map(|vip| (*vip, moves.get(vip).copied().unwrap_or_default())).collect(),
            services: services.collect(),
        }
    }

    /// Returns the addresses of all nodes that are asked.
    pub(crate) fn nodes(&self) -> BTreeSet<IpAddr> {
        let hops = self.services.values().flat_map(|trail| trail.lots.values().flatten());
        hops.map(|hop| hop.address).collect()
    }
}

fn trail(share: &Share, family: Family, link: &SharingLink, silent: &BTreeSet<IpAddr>) -> Trail {
    // A node without an address among the others has a place in the order, too.
    let own = link.own.iter().find(|own| Family::of(**own) == family).copied();
    let own = own.unwrap_or(match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    });
    // Also nodes whose link-layer address is unknown yet: the kernel finds it, and a packet that waits is better than a reset.
    let others = |lot| {
        let nodes = share.after(lot, own).into_iter().filter(|node| !silent.contains(node));
        let hops: Vec<_> = nodes.map(|address| NextHop { interface: link.index, address }).collect();
        (!hops.is_empty()).then_some((lot, hops))
    };
    let lots = if share.former.is_empty() { 0..0 } else { 0..u8::try_from(LOTS).unwrap_or(u8::MAX) };
    Trail { by: share.by, lots: lots.filter_map(others).collect() }
}
