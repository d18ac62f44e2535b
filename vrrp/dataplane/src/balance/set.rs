//! The sets and maps of the table, and their elements.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use windlass_kernel::mark_mask::MarkMask;
use windlass_kernel::netfilter::attributes::Attributes;
use windlass_kernel::netfilter::element::{self, Element, Part, TIMEOUT, octets, with_port, word};
use windlass_kernel::port::ProtocolPort;
use windlass_vrrp::Family;

use super::Balancing;
use super::balancing::{Backends, ClientSource, LOTS};
use super::ways::Sender;
use crate::guard::AWAKE;

#[cfg(test)]
mod tests;

/// Time for which the node's own packets to a VIP go to backends after the last renewal. A renewal may wait for some seconds in the
/// kernel, while another program loads thousands of rules.
const LOCAL_TIMEOUT: Duration = AWAKE;

/// Contents of the table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Contents {
    pub(super) balancing: Balancing,
    /// Link-layer address and mark of each peer, by its address.
    pub(super) senders: BTreeMap<IpAddr, Sender>,
    /// VIPs to which the node's own packets go to backends, until these elements expire.
    pub(super) local: BTreeSet<IpAddr>,
    /// The bits of marks that lead to peers.
    pub(super) marks: MarkMask,
}

/// Kind of a set: the meaning of its elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Own,
    Local,
    Lots,
    Masqueraded,
    Kept,
    Nodes,
    Servers,
    Senders,
    Marks,
}

/// A set of the table: one of each kind for each family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Set {
    pub(super) kind: Kind,
    pub(super) family: Family,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Own,
        Self::Local,
        Self::Lots,
        Self::Masqueraded,
        Self::Kept,
        Self::Nodes,
        Self::Servers,
        Self::Senders,
        Self::Marks,
    ];

    /// Its set of IPv4 and that of IPv6.
    pub(super) fn sets(self) -> [Set; 2] {
        [Family::V4, Family::V6].map(|family| Set { kind: self, family })
    }
}

impl Set {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().flat_map(Kind::sets)
    }

    pub(super) fn name(self) -> &'static str {
        let [v4, v6] = match self.kind {
            Kind::Own => ["own4", "own6"],
            Kind::Local => ["local4", "local6"],
            Kind::Lots => ["lots4", "lots6"],
            Kind::Masqueraded => ["masqueraded4", "masqueraded6"],
            Kind::Kept => ["kept4", "kept6"],
            Kind::Nodes => ["nodes4", "nodes6"],
            Kind::Servers => ["servers4", "servers6"],
            Kind::Senders => ["senders4", "senders6"],
            Kind::Marks => ["marks4", "marks6"],
        };
        match self.family {
            Family::V4 => v4,
            Family::V6 => v6,
        }
    }

    /// Adds what defines the set to the attributes that name it (table, name and number).
    pub(super) fn definition(self, attributes: &Attributes) -> Attributes {
        let (named, address) = (attributes.clone(), Part::address(self.family));
        match self.kind {
            Kind::Own | Kind::Nodes => element::set(named, &[address], 0),
            Kind::Local => {
                let millis = u64::try_from(LOCAL_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
                element::set(named, &[address], TIMEOUT).long(11, millis)
            }
            Kind::Lots => {
                let lot = [address, Part::PROTOCOL, Part::PORT, Part::MARK];
                element::map(named, &lot, &[address, Part::PORT])
            }
            Kind::Masqueraded | Kind::Kept | Kind::Servers => {
                element::set(named, &[address, Part::PROTOCOL, Part::PORT], 0)
            }
            Kind::Senders => element::map(named, &[Part::ETHERNET], &[Part::MARK]),
            Kind::Marks => element::set(named, &[Part::MARK], 0),
        }
    }

    /// Returns the set's elements that have no timeout.
    pub(super) fn members(self, Contents { balancing, senders, .. }: &Contents) -> BTreeSet<Element> {
        let own = |address: &IpAddr| Family::of(*address) == self.family;
        let services = balancing.services.iter().filter(|((vip, _), _)| own(vip));
        match self.kind {
            Kind::Own => self.addresses(&balancing.own),
            Kind::Local => BTreeSet::new(),
            Kind::Lots => services.flat_map(|(service, backends)| lots(*service, backends)).collect(),
            Kind::Masqueraded | Kind::Kept => services
                .filter(|(_, backends)| !backends.targets.is_empty() && self.is_of(backends.source))
                .map(|((vip, port), _)| Element::of(with_port(*vip, *port)))
                .collect(),
            Kind::Nodes => {
                let peers = &balancing.returns.peers;
                if peers.is_empty() {
                    return BTreeSet::new();
                }
                self.addresses(balancing.own.union(peers))
            }
            Kind::Servers => {
                let servers = balancing.returns.servers.iter().filter(|(address, _)| own(address));
                servers.map(|(address, port)| Element::of(with_port(*address, *port))).collect()
            }
            Kind::Senders => {
                // Of two addresses of one node the second is left out: one key has one mark.
                let own = senders.iter().rev().filter(|(peer, _)| own(peer));
                let marks: BTreeMap<[u8; 6], u32> =
                    own.map(|(_, sender)| (sender.link_layer, sender.mark)).collect();
                let element = |(link_layer, mark): ([u8; 6], u32)| {
                    let data = mark.to_ne_bytes().to_vec();
                    Element { data, ..Element::of(link_layer.to_vec()) }
                };
                marks.into_iter().map(element).collect()
            }
            Kind::Marks => senders
                .iter()
                .filter(|(peer, _)| own(peer))
                .map(|(_, sender)| Element::of(sender.mark.to_ne_bytes().to_vec()))
                .collect(),
        }
    }

    /// Returns true if the set has the ports whose remote backends see this source.
    fn is_of(self, source: ClientSource) -> bool {
        match source {
            ClientSource::Masquerade => self.kind == Kind::Masqueraded,
            ClientSource::Keep => self.kind == Kind::Kept,
        }
    }

    /// Returns the addresses of the set's family, as elements.
    pub(super) fn addresses<'a>(self, all: impl IntoIterator<Item = &'a IpAddr>) -> BTreeSet<Element> {
        let own = all.into_iter().filter(|address| Family::of(**address) == self.family);
        own.map(|address| Element::of(octets(*address))).collect()
    }
}

/// Assigns each lot to a backend; one backend alone gets all.
fn lots((vip, port): (IpAddr, ProtocolPort), backends: &Backends) -> impl Iterator<Item = Element> {
    (0..LOTS).zip(backends.targets.iter().cycle()).map(move |(lot, target)| {
        let key = [with_port(vip, port).as_slice(), &lot.to_ne_bytes()].concat();
        Element { data: place(*target), ..Element::of(key) }
    })
}

fn place(target: SocketAddr) -> Vec<u8> {
    [octets(target.ip()).as_slice(), &word(target.port())].concat()
}
