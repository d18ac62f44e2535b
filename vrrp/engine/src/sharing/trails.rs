//! Nodes that may have connections of lots which have had other servers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use windlass_dataplane::marked_ways::NextHop;
use windlass_dataplane::sharing::{ByShare, LOTS, Share, SharedBy, Shares, SharingLink};
use windlass_kernel::port::Protocol;
use windlass_vrrp::Family;

#[cfg(test)]
mod tests;

/// Shared addresses, and the nodes that may have connections of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Trails {
    /// All shared addresses, and how often lots of each have moved.
    pub(crate) addresses: BTreeMap<IpAddr, u32>,
    /// Nodes that do not answer, if this node directs packets.
    pub(crate) silent: BTreeSet<IpAddr>,
    /// Nodes that are asked one after the other about a packet of a lot, for addresses with such lots.
    pub(crate) services: BTreeMap<(IpAddr, Protocol), Arc<Trail>>,
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
    /// All these nodes.
    pub(crate) nodes: BTreeSet<NextHop>,
}

impl Trail {
    pub(crate) fn new(by: SharedBy, lots: BTreeMap<u8, Vec<NextHop>>) -> Self {
        let nodes = lots.values().flatten().copied().collect();
        Self { by, lots, nodes }
    }
}

/// Inputs of trails besides the shares.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Surroundings {
    /// This node's interfaces.
    pub(super) links: BTreeMap<String, SharingLink>,
    /// Nodes that are not asked, because they do not answer.
    pub(super) silent: BTreeSet<IpAddr>,
    /// True if this node was away. It then also asks the substitutes of each lot about connections of TCP: a flow of UDP would begin at the
    /// last node that is asked, so at a substitute.
    pub(super) was_away: bool,
}

/// Finds the trails anew as shares and surroundings change.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    /// Shares that were recorded last, and those whose trails were found.
    noted: Arc<Shares>,
    found: Arc<Shares>,
    surroundings: Surroundings,
    by_share: ByShare<Arc<Trail>>,
    /// Number of moves of lots, by shared address.
    moves: BTreeMap<IpAddr, u32>,
    trails: Arc<Trails>,
}

impl Tracer {
    /// Returns true if these shares were recorded last.
    pub(super) fn knows(&self, shares: &Arc<Shares>) -> bool {
        Arc::ptr_eq(&self.noted, shares)
    }

    /// Records these shares. Returns true if lots have moved since the last call from servers that may have connections.
    pub(super) fn note_moves(&mut self, shares: &Arc<Shares>) -> bool {
        if self.knows(shares) {
            return false;
        }
        let moved: BTreeSet<IpAddr> = moved(&self.noted, shares).collect();
        for vip in &moved {
            let count = self.moves.entry(*vip).or_default();
            *count = count.wrapping_add(1);
        }
        self.moves.retain(|vip, _| shares.has(*vip));
        self.noted = Arc::clone(shares);
        !moved.is_empty()
    }

    /// Finds the trails of the shares that were recorded last anew, if these or the surroundings are others.
    pub(super) fn follow(&mut self, surroundings: Surroundings) {
        if self.surroundings != surroundings {
            (self.by_share, self.surroundings) = (ByShare::default(), surroundings);
        } else if Arc::ptr_eq(&self.found, &self.noted) {
            return;
        }
        self.found = Arc::clone(&self.noted);
        self.trails = Arc::new(self.find());
    }

    /// Returns the trails; `None` while no address is shared.
    pub(super) fn trails(&self) -> Option<Arc<Trails>> {
        (!self.trails.addresses.is_empty()).then(|| Arc::clone(&self.trails))
    }

    fn find(&mut self) -> Trails {
        let (shares, surroundings) = (&self.found, &self.surroundings);
        let moves = |vip| self.moves.get(&vip).copied().unwrap_or_default();
        let addresses = shares.services.keys().map(|(vip, _)| (*vip, moves(*vip))).collect();
        let trails = self.by_share.follow(shares, |(vip, protocol), share| {
            let link = surroundings.links.get(&share.interface);
            let substituted = matches!(protocol, Protocol::Tcp) && surroundings.was_away;
            let share = if substituted { &share.with_substitutes() } else { share };
            let lots = link.map(|link| lots(share, Family::of(vip), link, &surroundings.silent));
            Arc::new(Trail::new(share.by, lots.unwrap_or_default()))
        });
        let services = trails.filter(|(_, trail)| !trail.lots.is_empty());
        Trails {
            addresses,
            silent: surroundings.silent.clone(),
            services: services.map(|(service, trail)| (service, Arc::clone(trail))).collect(),
        }
    }
}

impl Trails {
    /// Returns the addresses of all nodes that are asked.
    pub(crate) fn nodes(&self) -> BTreeSet<IpAddr> {
        self.services.values().flat_map(|trail| &trail.nodes).map(|hop| hop.address).collect()
    }
}

/// Returns the addresses of which lots have moved from servers that may have connections. One that is new counts if all its lots have former
/// servers: of the others this node would not know the server until it directs their packets.
fn moved(old: &Shares, new: &Shares) -> impl Iterator<Item = IpAddr> {
    let has_moved = |service, share: &Arc<Share>| match old.services.get(service) {
        Some(old) if Arc::ptr_eq(old, share) => false,
        Some(old) => !share.former.is_empty() && (&old.servers, &old.lots) != (&share.servers, &share.lots),
        None => share.all_have_moved(),
    };
    new.services.iter().filter(move |(service, share)| has_moved(*service, share)).map(|((vip, _), _)| *vip)
}

/// Returns the other nodes of each lot, the next one first.
fn lots(
    share: &Share,
    family: Family,
    link: &SharingLink,
    silent: &BTreeSet<IpAddr>,
) -> BTreeMap<u8, Vec<NextHop>> {
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
    lots.filter_map(others).collect()
}
