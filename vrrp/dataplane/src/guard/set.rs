//! The sets of the table, and their elements.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use windlass_kernel::netfilter::attributes::Attributes;
use windlass_kernel::netfilter::element::{
    self, Element, Part, TIMEOUT, address_of, octets, with_port, with_protocol,
};
use windlass_kernel::port::ProtocolPort;
use windlass_vrrp::Family;

use super::{Guarded, Step, UnknownConnections, ports};
use crate::restriction::Restrictions;
use crate::sharing::SharedBy;

#[cfg(test)]
mod tests;

/// Flag of a set whose elements are the edges of ranges.
const INTERVAL: u32 = 0x4;
/// Flags of a set to which packets add, and whose elements expire.
const BY_PACKETS: u32 = 0x20;
/// Lifetime of a stray, in milliseconds: a few looks.
const STRAY_TIMEOUT_MS: u64 = 5000;
/// Most strays at a time: more come from a flood of invalid packets, and each costs a question to the kernel.
const MOST_STRAYS: u32 = 256;

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Kind of a set: the meaning of its elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Vips,
    Held,
    Restricted,
    Sources,
    Owned,
    Ports,
    Moved,
    Window,
    Left,
    Strays,
    Movable,
    Replicated,
    Astray,
    Ended,
    Known,
    Open,
    /// Marks of the next nodes for unknown packets of shared addresses.
    Next(SharedBy),
}

/// A set of the table: one of each kind for each family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Set {
    pub(super) kind: Kind,
    pub(super) family: Family,
}

impl Kind {
    const ALL: [Self; 18] = [
        Self::Vips,
        Self::Held,
        Self::Restricted,
        Self::Sources,
        Self::Owned,
        Self::Ports,
        Self::Moved,
        Self::Window,
        Self::Left,
        Self::Strays,
        Self::Movable,
        Self::Replicated,
        Self::Astray,
        Self::Ended,
        Self::Known,
        Self::Open,
        Self::Next(SharedBy::Connection),
        Self::Next(SharedBy::Client),
    ];

    /// Its set of IPv4 and that of IPv6.
    pub(super) fn sets(self) -> [Set; 2] {
        FAMILIES.map(|family| Set { kind: self, family })
    }
}

impl Set {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().flat_map(Kind::sets)
    }

    pub(super) fn name(self) -> &'static str {
        let [v4, v6] = match self.kind {
            Kind::Vips => ["vips4", "vips6"],
            Kind::Held => ["held4", "held6"],
            Kind::Restricted => ["restricted4", "restricted6"],
            Kind::Sources => ["sources4", "sources6"],
            Kind::Owned => ["owned4", "owned6"],
            Kind::Ports => ["ports4", "ports6"],
            Kind::Moved => ["moved4", "moved6"],
            Kind::Window => ["window4", "window6"],
            Kind::Left => ["left4", "left6"],
            Kind::Strays => ["strays4", "strays6"],
            Kind::Movable => ["movable4", "movable6"],
            Kind::Replicated => ["replicated4", "replicated6"],
            Kind::Astray => ["astray4", "astray6"],
            Kind::Ended => ["ended4", "ended6"],
            Kind::Known => ["known4", "known6"],
            Kind::Open => ["open4", "open6"],
            Kind::Next(SharedBy::Connection) => ["next4", "next6"],
            Kind::Next(SharedBy::Client) => ["sticky4", "sticky6"],
        };
        match self.family {
            Family::V4 => v4,
            Family::V6 => v6,
        }
    }

    /// Adds what defines the set to the attributes that name it. Each part of an element takes whole words.
    pub(super) fn definition(self, named: Attributes) -> Attributes {
        let address = Part::address(self.family);
        match self.kind {
            Kind::Vips | Kind::Held | Kind::Left | Kind::Replicated | Kind::Known | Kind::Ended => {
                element::set(named, &[address], 0)
            }
            Kind::Moved => element::set(named, &[address, Part::MARK], 0),
            Kind::Owned => element::set(named, &[address, Part::PROTOCOL], 0),
            Kind::Restricted | Kind::Ports | Kind::Open => {
                element::set(named, &[address, Part::PROTOCOL, Part::PORT], 0)
            }
            Kind::Movable => element::set(named, &[address, Part::INTERFACE], 0),
            Kind::Window => element::map(named, &[address], &[Part::MARK]),
            Kind::Next(_) => element::map(named, &[address, Part::PROTOCOL, Part::MARK], &[Part::MARK]),
            Kind::Astray => element::set(named, &[address], INTERVAL),
            // As one number, of which only the last bytes differ within a range: the kernel keeps that in a tree. It takes
            // concatenations with ranges, too, but each a hundred times as slowly.
            Kind::Sources => {
                let length = address.length().saturating_mul(2).saturating_add(8);
                element::set(named, &[Part::number(length)], INTERVAL)
            }
            Kind::Strays => {
                let ends = [address, Part::PORT, address, Part::PORT];
                element::set(named, &ends, BY_PACKETS | TIMEOUT)
                    .nest(9, &Attributes::new().number(1, MOST_STRAYS))
                    .long(11, STRAY_TIMEOUT_MS)
            }
        }
    }

    /// Returns true if the set has the same elements for both, as far as that is known without a look at each.
    pub(super) fn is_untouched(self, old: &Guarded, new: &Guarded) -> bool {
        match self.kind {
            Kind::Vips => old.refused() == new.refused(),
            Kind::Held => old.refused_here() == new.refused_here(),
            Kind::Window | Kind::Left => Arc::ptr_eq(&old.moved, &new.moved),
            Kind::Moved => Arc::ptr_eq(&old.moved, &new.moved) && has_same_trails(old, new),
            Kind::Next(_) => has_same_trails(old, new),
            Kind::Restricted | Kind::Sources => old.restrictions.has_sources_of(&new.restrictions),
            Kind::Owned | Kind::Ports | Kind::Open => Arc::ptr_eq(&old.restrictions, &new.restrictions),
            Kind::Strays => true,
            Kind::Movable => old.movable == new.movable,
            Kind::Replicated => old.replicated == new.replicated,
            Kind::Astray => old.astray == new.astray,
            Kind::Ended => old.restrictions.ended() == new.restrictions.ended(),
            Kind::Known => {
                Arc::ptr_eq(&old.restrictions, &new.restrictions)
                    && Arc::ptr_eq(&old.moved, &new.moved)
                    && has_same_trails(old, new)
                    && old.refused() == new.refused()
                    && old.replicated == new.replicated
            }
        }
    }

    /// Returns its elements for `one` that it does not have for `other`, whose restrictions differ for these addresses. Few of thousands of
    /// addresses change at a time: only those are looked at.
    pub(super) fn missing(
        self,
        one: &Guarded,
        other: &Guarded,
        differing: &BTreeSet<IpAddr>,
    ) -> BTreeSet<Element> {
        let own = || differing.iter().copied().filter(|address| self.owns(address));
        let (permitted, known) = (&*one.restrictions, &*other.restrictions);
        match self.kind {
            Kind::Vips => self.addresses(one.refused().difference(other.refused())),
            Kind::Held => self.addresses(one.refused_here().difference(other.refused_here())),
            Kind::Replicated => self.addresses(one.replicated.difference(&other.replicated)),
            Kind::Ended => self.addresses(one.restrictions.ended().difference(other.restrictions.ended())),
            Kind::Owned => ports::owned(own(), permitted, known),
            Kind::Ports => ports::ports(own(), permitted, known),
            Kind::Known => self.addresses(one.known_unlike(other, differing)),
            Kind::Open => ports::open(own(), permitted, known),
            Kind::Restricted | Kind::Sources => {
                let mut members = self.restricted(one.restrictions.unlike(&other.restrictions));
                let others = self.restricted(other.restrictions.unlike(&one.restrictions));
                members.retain(|element| !others.contains(element));
                members
            }
            Kind::Astray => self.ranges(&one.astray, &other.astray),
            Kind::Next(by) => self.next(by, one, other),
            Kind::Moved | Kind::Window | Kind::Left | Kind::Strays | Kind::Movable => {
                let mut members = self.members(one);
                let others = self.members(other);
                members.retain(|element| !others.contains(element));
                members
            }
        }
    }

    fn owns(self, address: &IpAddr) -> bool {
        Family::of(*address) == self.family
    }

    fn addresses<'a>(self, all: impl Iterator<Item = &'a IpAddr>) -> BTreeSet<Element> {
        all.filter(|address| self.owns(address)).map(|address| Element::of(octets(*address))).collect()
    }

    /// Returns its elements for these ports and their sources: the ports, or the sources.
    fn restricted<'a>(
        self,
        ports: impl Iterator<Item = (IpAddr, ProtocolPort, &'a Arc<[IpNet]>)>,
    ) -> BTreeSet<Element> {
        let own = ports.filter(|(address, ..)| self.owns(address));
        let named = own.map(|(address, port, sources)| (with_port(address, port), sources));
        if self.kind == Kind::Sources {
            let edges = |(port, sources): (Vec<u8>, &'a Arc<[IpNet]>)| {
                stretches(sources).flat_map(move |stretch| edges(&port, stretch))
            };
            named.flat_map(edges).collect()
        } else {
            named.map(|(port, _)| Element::of(port)).collect()
        }
    }

    /// The edges of the stretches of these ranges that the others do not have: a stretch is there as a whole or not at all.
    fn ranges(self, ranges: &BTreeSet<IpNet>, others: &BTreeSet<IpNet>) -> BTreeSet<Element> {
        let of_family = |ranges: &BTreeSet<IpNet>| {
            let own = ranges.iter().filter(|range| self.owns(&range.network())).copied().collect();
            stretches(&IpNet::aggregate(&own)).collect::<BTreeSet<_>>()
        };
        let others = of_family(others);
        let own = of_family(ranges).into_iter().filter(|stretch| !others.contains(stretch));
        own.flat_map(|stretch| edges(&[], stretch)).collect()
    }

    /// Returns the lots whose next node is another for `one` than for `other`, with the node's mark.
    fn next(self, by: SharedBy, one: &Guarded, other: &Guarded) -> BTreeSet<Element> {
        let services = one.trails.iter().flat_map(|trails| &trails.services);
        let mut elements = BTreeSet::new();
        for (service, trail) in services {
            let ((vip, protocol), (shared_by, steps)) = (service, &**trail);
            let known = other.trails.as_ref().and_then(|trails| trails.services.get(service));
            if *shared_by != by || !self.owns(vip) || known.is_some_and(|known| Arc::ptr_eq(known, trail)) {
                continue;
            }
            let known = known.filter(|known| known.0 == by).map(|known| &known.1);
            let is_new = |(lot, step): &(&u8, &Step)| known.and_then(|known| known.get(lot)) != Some(*step);
            for (lot, step) in steps.iter().filter(is_new) {
                let number = u32::from(*lot).to_ne_bytes();
                let key = [with_protocol(*vip, protocol.number()).as_slice(), &number].concat();
                let data = step.data(one.marks).to_ne_bytes().to_vec();
                elements.insert(Element { data, ..Element::of(key) });
            }
        }
        elements
    }

    /// Returns its elements, as far as this process writes them.
    pub(super) fn members(self, guarded: &Guarded) -> BTreeSet<Element> {
        let own = |address: &IpAddr| self.owns(address);
        let moved = guarded.moved.iter().filter(|(vip, _)| own(vip));
        match self.kind {
            Kind::Vips
            | Kind::Held
            | Kind::Replicated
            | Kind::Ended
            | Kind::Owned
            | Kind::Ports
            | Kind::Known
            | Kind::Open
            | Kind::Next(_)
            | Kind::Astray => {
                let differing = guarded.restrictions.differing_for_the_guard(&Restrictions::default());
                self.missing(guarded, &Guarded::default(), &differing)
            }
            Kind::Moved => moved
                .filter_map(|(vip, moved)| Some((*vip, moved.mark?)))
                .chain(guarded.marked().filter(|(vip, _)| own(vip)).copied())
                .map(|(vip, mark)| Element::of([octets(vip).as_slice(), &mark.to_ne_bytes()].concat()))
                .collect(),
            Kind::Window => moved
                .filter(|(_, moved)| moved.unknown == UnknownConnections::Forwarded)
                .filter_map(|(vip, moved)| {
                    let data = moved.mark?.to_ne_bytes().to_vec();
                    Some(Element { data, ..Element::of(octets(*vip)) })
                })
                .collect(),
            Kind::Left => self.addresses(
                moved.filter(|(_, moved)| moved.unknown == UnknownConnections::Dropped).map(|(vip, _)| vip),
            ),
            Kind::Restricted | Kind::Sources => self.restricted(guarded.restrictions.iter()),
            Kind::Strays => BTreeSet::new(),
            Kind::Movable => {
                let own = guarded.movable.iter().filter(|(vip, _)| own(vip));
                own.map(|(vip, interface)| {
                    Element::of([octets(*vip).as_slice(), &interface.to_ne_bytes()].concat())
                })
                .collect()
            }
        }
    }
}

fn has_same_trails(old: &Guarded, new: &Guarded) -> bool {
    match (&old.trails, &new.trails) {
        (Some(old), Some(new)) => Arc::ptr_eq(old, new),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Returns where the range from the first to the last address begins and ends: with the port, or the addresses alone without one. A
/// range up to the last number of all has no end.
fn edges(port: &[u8], [first, last]: [IpAddr; 2]) -> impl Iterator<Item = Element> + use<> {
    let at = |address| [port, &octets(address)].concat();
    let end = following(at(last)).map(|key| Element { ends: true, ..Element::of(key) });
    [Some(Element::of(at(first))), end].into_iter().flatten()
}

/// The parts of a stray: source and destination, each with its port.
pub(super) fn ends(stray: &Element, family: Family) -> Option<[(IpAddr, u16); 2]> {
    let length: usize = match family {
        Family::V4 => 4,
        Family::V6 => 16,
    };
    // A port takes a word.
    let (source, destination) = stray.key.split_at_checked(length.saturating_add(4))?;
    let end = |bytes: &[u8]| {
        let (address, port) = bytes.split_at_checked(length)?;
        let port = port.first_chunk().map(|port| u16::from_be_bytes(*port))?;
        Some((address_of(address)?, port))
    };
    Some([end(source)?, end(destination)?])
}

/// The first and the last address of each stretch without a gap, of ranges in ascending order: the kernel would take two adjacent
/// ranges for one.
fn stretches(ranges: &[IpNet]) -> impl Iterator<Item = [IpAddr; 2]> + use<> {
    let mut stretches: Vec<[IpAddr; 2]> = Vec::with_capacity(ranges.len());
    for range in ranges {
        let [first, last] = [range.network(), range.broadcast()];
        match stretches.last_mut() {
            Some([_, end]) if following(octets(*end)) == Some(octets(first)) => *end = last,
            _ => stretches.push([first, last]),
        }
    }
    stretches.into_iter()
}

/// The number after this one, of as many bytes, if there is one.
fn following(mut number: Vec<u8>) -> Option<Vec<u8>> {
    for byte in number.iter_mut().rev() {
        let (next, carries) = byte.overflowing_add(1);
        *byte = next;
        if !carries {
            return Some(number);
        }
    }
    None
}
