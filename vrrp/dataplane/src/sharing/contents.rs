//! Contents of the table, and the transactions from one to another. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use windlass_kernel::netfilter::element::Element;
use windlass_vrrp::Family;

use super::by_share::ByShare;
use super::hash::LOTS;
use super::set::{Directed, Service, Set, elements};
use super::shares::{Share, Shares, SharingLink};

#[cfg(test)]
mod tests;

/// Most elements that a change has in one transaction, so that the guard's changes do not wait long for the kernel's lock.
const ELEMENTS_IN_A_TRANSACTION: usize = 2_000;

/// Contents of the table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Contents {
    /// Indexes of interfaces whose frames are looked at, by name.
    pub(super) devices: BTreeMap<String, u32>,
    /// Link-layer addresses of other nodes.
    pub(super) peers: BTreeSet<[u8; 6]>,
    pub(super) services: BTreeMap<Service, Arc<Directed>>,
}

impl Contents {
    /// Returns the contents on a node with these interfaces. `known`: what `links` led to before.
    pub(super) fn of(
        shares: &Shares,
        links: &BTreeMap<String, SharingLink>,
        known: &mut ByShare<Arc<Directed>>,
    ) -> Self {
        let directed = known.follow(shares, |service, share| {
            let link = links.get(&share.interface);
            Arc::new(link.map_or_else(Directed::default, |link| directed(share, service, link)))
        });
        let services = directed.filter(|(_, directed)| !directed.lots.is_empty());
        Self {
            devices: links.iter().map(|(name, link)| (name.clone(), link.index)).collect(),
            peers: links.values().flat_map(|link| link.peers.values().copied()).collect(),
            services: services.map(|(service, directed)| (service, Arc::clone(directed))).collect(),
        }
    }

    /// Returns the contents after the next transaction on the way to `wanted`. Peers are known before packets are directed, and until
    /// none is.
    pub(super) fn next(&self, wanted: &Self) -> Self {
        let is_wanted = |(name, index): &(&String, &u32)| wanted.devices.get(*name) == Some(*index);
        let mut next = Self {
            devices: self
                .devices
                .iter()
                .filter(is_wanted)
                .map(|(name, index)| (name.clone(), *index))
                .collect(),
            peers: self.peers.union(&wanted.peers).copied().collect(),
            services: self.services.clone(),
        };
        let mut room = ELEMENTS_IN_A_TRANSACTION;
        for service in self.changed_services(wanted) {
            let [old, new] = [self, wanted].map(|contents| contents.services.get(&service));
            let [gone, come] = changed_elements(service, old, new);
            match room.checked_sub(gone.len().saturating_add(come.len())) {
                Some(rest) => room = rest,
                None if room == ELEMENTS_IN_A_TRANSACTION => room = 0,
                None => return next,
            }
            match new {
                Some(new) => drop(next.services.insert(service, Arc::clone(new))),
                None => drop(next.services.remove(&service)),
            }
        }
        wanted.clone()
    }

    /// The services that differ between these contents and others.
    pub(super) fn changed_services(&self, other: &Self) -> BTreeSet<Service> {
        let all = self.services.keys().chain(other.services.keys());
        all.filter(|service| self.services.get(service) != other.services.get(service)).copied().collect()
    }
}

fn directed(share: &Share, (vip, protocol): Service, link: &SharingLink) -> Directed {
    let is_known = |server: &IpAddr| {
        Family::of(*server) == Family::of(vip)
            && (link.own.contains(server) || link.peers.contains_key(server))
    };
    let other = |lot| {
        let server = share.directed(lot, protocol).into_iter().find(is_known)?;
        link.peers.contains_key(&server).then_some((lot, server))
    };
    Directed {
        interface: link.index,
        ports: share.ports.clone(),
        by: share.by,
        lots: (0..).take(LOTS).filter_map(other).collect(),
    }
}

/// The elements that go and come when a service changes.
pub(super) fn changed_elements(
    service: Service,
    old: Option<&Arc<Directed>>,
    new: Option<&Arc<Directed>>,
) -> [BTreeSet<(Set, Element)>; 2] {
    let [old, new] = [old, new]
        .map(|directed| directed.map_or_else(BTreeSet::new, |directed| elements(service, directed)));
    [old.difference(&new).cloned().collect(), new.difference(&old).cloned().collect()]
}
