//! The sets and maps of the table, and their elements.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use windlass_vrrp::Family;

use super::Balancing;
use super::balancing::{Backends, ClientSource};
use crate::netfilter::attributes::Attributes;
use crate::netfilter::element::{self, Element, MAP, Part, TIMEOUT, octets, with_port, word};
use crate::restriction::ProtocolPort;

#[cfg(test)]
mod tests;

/// Of so many connections each backend gets as many, or one less: all get the same where there are two to six, and of more one gets
/// a sixtieth more than another at most.
pub(super) const LOTS: u32 = 60;
/// How long the node's own packets to a VIP are sent to backends after that was last said.
const LOCAL_TIMEOUT_MS: u64 = 3000;

/// What a set says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Own,
    Local,
    Sole,
    Shared,
    Masqueraded,
}

/// A set of the table: one of each kind for each family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Set {
    pub(super) kind: Kind,
    pub(super) family: Family,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Own, Self::Local, Self::Sole, Self::Shared, Self::Masqueraded];

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
            Kind::Sole => ["sole4", "sole6"],
            Kind::Shared => ["shared4", "shared6"],
            Kind::Masqueraded => ["masqueraded4", "masqueraded6"],
        };
        match self.family {
            Family::V4 => v4,
            Family::V6 => v6,
        }
    }

    /// Whether its elements stay until they are taken out.
    pub(super) fn is_lasting(self) -> bool {
        self.kind != Kind::Local
    }

    /// What it is made with, beside table, name and number.
    pub(super) fn definition(self, attributes: &Attributes) -> Attributes {
        let address = Part::address(self.family);
        let keyed = |parts: &[Part]| {
            let (kind, length) = element::kind_and_length(parts);
            attributes.clone().number(4, kind).number(5, length)
        };
        let to_backend = |attributes: Attributes| {
            let (kind, length) = element::kind_and_length(&[address, Part::PORT]);
            attributes.number(3, MAP).number(6, kind).number(7, length)
        };
        match self.kind {
            Kind::Own => keyed(&[address]).number(3, 0),
            Kind::Local => keyed(&[address]).number(3, TIMEOUT).long(11, LOCAL_TIMEOUT_MS),
            Kind::Sole => to_backend(keyed(&[address, Part::PROTOCOL, Part::PORT])),
            Kind::Shared => to_backend(keyed(&[address, Part::PROTOCOL, Part::PORT, Part::MARK])),
            Kind::Masqueraded => keyed(&[address, Part::PROTOCOL, Part::PORT]).number(3, 0),
        }
    }

    /// Its elements that last.
    pub(super) fn members(self, balancing: &Balancing) -> BTreeSet<Element> {
        let own = |address: &IpAddr| Family::of(*address) == self.family;
        let services = balancing.services.iter().filter(|((vip, _), _)| own(vip));
        match self.kind {
            Kind::Own => self.addresses(&balancing.own),
            Kind::Local => BTreeSet::new(),
            Kind::Sole => services.filter_map(|(service, backends)| sole(*service, backends)).collect(),
            Kind::Shared => services.flat_map(|(service, backends)| shared(*service, backends)).collect(),
            Kind::Masqueraded => services
                .filter(|(_, backends)| {
                    backends.source == ClientSource::Masquerade && !backends.targets.is_empty()
                })
                .map(|((vip, port), _)| Element::of(with_port(*vip, *port)))
                .collect(),
        }
    }

    /// Those of its family, as elements.
    pub(super) fn addresses(self, all: &BTreeSet<IpAddr>) -> BTreeSet<Element> {
        let own = all.iter().filter(|address| Family::of(**address) == self.family);
        own.map(|address| Element::of(octets(*address))).collect()
    }
}

/// To whom all goes, where there is one alone.
fn sole((vip, port): (IpAddr, ProtocolPort), backends: &Backends) -> Option<Element> {
    let target = backends.targets.first().filter(|_| backends.targets.len() == 1)?;
    Some(Element { data: place(*target), ..Element::of(with_port(vip, port)) })
}

/// Who gets each lot, where there are several.
fn shared((vip, port): (IpAddr, ProtocolPort), backends: &Backends) -> impl Iterator<Item = Element> {
    let several = (backends.targets.len() > 1).then(|| backends.targets.iter().cycle());
    let lots = (0..LOTS).zip(several.into_iter().flatten());
    lots.map(move |(lot, target)| {
        let key = [with_port(vip, port).as_slice(), &lot.to_ne_bytes()].concat();
        Element { data: place(*target), ..Element::of(key) }
    })
}

fn place(target: SocketAddr) -> Vec<u8> {
    [octets(target.ip()).as_slice(), &word(target.port())].concat()
}
