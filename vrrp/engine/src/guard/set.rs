//! The sets of the table, and their elements.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::attributes::{self, Attributes};
use super::expression::value;
use super::{Guarded, UnknownConnections};

/// Kinds of data as `nft` numbers them, for it to show the elements by.
const IPV4_ADDRESS: u32 = 7;
const IPV6_ADDRESS: u32 = 8;
const PROTOCOL: u32 = 12;
const PORT: u32 = 13;
const MARK: u32 = 19;
/// Bits of one kind in a number that stands for several.
const KIND_BITS: u32 = 6;

/// Flags of a set whose elements are ranges in each of their parts.
const INTERVAL: u32 = 0x4;
const CONCATENATION: u32 = 0x80;
/// Flag of a set that has something for each element.
const MAP: u32 = 0x8;

/// A part of an element: what it is, and its bytes.
#[derive(Clone, Copy)]
struct Part {
    kind: u32,
    length: u32,
}

/// The sets of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Set {
    Vips4,
    Vips6,
    Held4,
    Held6,
    Restricted4,
    Restricted6,
    Sources4,
    Sources6,
    Moved4,
    Moved6,
    Window4,
    Window6,
    Left4,
    Left6,
}

/// An element as the kernel has it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Element {
    key: Vec<u8>,
    /// The last key of a range; empty in sets without ranges.
    end: Vec<u8>,
    /// What a map has for it; empty in sets.
    data: Vec<u8>,
}

impl Set {
    pub(super) const ALL: [Self; 14] = [
        Self::Vips4,
        Self::Vips6,
        Self::Held4,
        Self::Held6,
        Self::Restricted4,
        Self::Restricted6,
        Self::Sources4,
        Self::Sources6,
        Self::Moved4,
        Self::Moved6,
        Self::Window4,
        Self::Window6,
        Self::Left4,
        Self::Left6,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Vips4 => "vips4",
            Self::Vips6 => "vips6",
            Self::Held4 => "held4",
            Self::Held6 => "held6",
            Self::Restricted4 => "restricted4",
            Self::Restricted6 => "restricted6",
            Self::Sources4 => "sources4",
            Self::Sources6 => "sources6",
            Self::Moved4 => "moved4",
            Self::Moved6 => "moved6",
            Self::Window4 => "window4",
            Self::Window6 => "window6",
            Self::Left4 => "left4",
            Self::Left6 => "left6",
        }
    }

    pub(super) const fn is_ipv4(self) -> bool {
        match self {
            Self::Vips4
            | Self::Held4
            | Self::Restricted4
            | Self::Sources4
            | Self::Moved4
            | Self::Window4
            | Self::Left4 => true,
            Self::Vips6
            | Self::Held6
            | Self::Restricted6
            | Self::Sources6
            | Self::Moved6
            | Self::Window6
            | Self::Left6 => false,
        }
    }

    fn parts(self) -> Vec<Part> {
        let address = if self.is_ipv4() {
            Part { kind: IPV4_ADDRESS, length: 4 }
        } else {
            Part { kind: IPV6_ADDRESS, length: 16 }
        };
        let port = [address, Part { kind: PROTOCOL, length: 1 }, Part { kind: PORT, length: 2 }];
        match self {
            Self::Vips4
            | Self::Vips6
            | Self::Held4
            | Self::Held6
            | Self::Window4
            | Self::Window6
            | Self::Left4
            | Self::Left6 => vec![address],
            Self::Moved4 | Self::Moved6 => vec![address, Part { kind: MARK, length: 4 }],
            Self::Restricted4 | Self::Restricted6 => port.to_vec(),
            Self::Sources4 | Self::Sources6 => [port.as_slice(), &[address]].concat(),
        }
    }

    /// What it is made with, beside table, name and number. Each part of an element takes whole words.
    pub(super) fn definition(self, attributes: Attributes) -> Attributes {
        let parts = self.parts();
        let kind = parts.iter().fold(0, |kind, part| kind << KIND_BITS | part.kind);
        let length = parts.iter().map(|part| part.length.next_multiple_of(4)).sum();
        let attributes = attributes.number(4, kind).number(5, length);
        match self {
            Self::Vips4
            | Self::Vips6
            | Self::Held4
            | Self::Held6
            | Self::Restricted4
            | Self::Restricted6
            | Self::Moved4
            | Self::Moved6
            | Self::Left4
            | Self::Left6 => attributes.number(3, 0),
            Self::Window4 | Self::Window6 => attributes.number(3, MAP).number(6, MARK).number(7, 4),
            Self::Sources4 | Self::Sources6 => {
                let lengths = parts.iter().fold(Attributes::new(), |list, part| {
                    list.nest(1, &Attributes::new().number(1, part.length))
                });
                attributes.number(3, INTERVAL | CONCATENATION).nest(9, &Attributes::new().nest(2, &lengths))
            }
        }
    }

    /// Elements in one message: an attribute has at most 65,535 bytes.
    pub(super) const fn elements_in_a_message(self) -> usize {
        match self {
            // 28 bytes each.
            Self::Vips4 | Self::Vips6 | Self::Held4 | Self::Held6 | Self::Left4 | Self::Left6 => 2000,
            // 40 bytes each.
            Self::Moved4 | Self::Moved6 | Self::Window4 | Self::Window6 => 1500,
            // 100 bytes each.
            Self::Restricted4 | Self::Restricted6 | Self::Sources4 | Self::Sources6 => 500,
        }
    }

    /// Whether it has the same elements for both, as far as can be told without looking at each.
    pub(super) fn is_untouched(self, old: &Guarded, new: &Guarded) -> bool {
        match self {
            Self::Vips4 | Self::Vips6 => old.vips == new.vips,
            Self::Held4 | Self::Held6 => old.held == new.held,
            Self::Moved4 | Self::Moved6 | Self::Window4 | Self::Window6 | Self::Left4 | Self::Left6 => {
                Arc::ptr_eq(&old.moved, &new.moved)
            }
            Self::Restricted4 | Self::Restricted6 | Self::Sources4 | Self::Sources6 => {
                Arc::ptr_eq(&old.restrictions, &new.restrictions)
            }
        }
    }

    /// Its elements for `one` that it does not have for `other`. Of thousands of addresses few change at a time: only those
    /// are made into elements.
    pub(super) fn missing(self, one: &Guarded, other: &Guarded) -> BTreeSet<Element> {
        match self {
            Self::Vips4 | Self::Vips6 => self.addresses(one.vips.difference(&other.vips)),
            Self::Held4 | Self::Held6 => self.addresses(one.held.difference(&other.held)),
            Self::Restricted4
            | Self::Restricted6
            | Self::Sources4
            | Self::Sources6
            | Self::Moved4
            | Self::Moved6
            | Self::Window4
            | Self::Window6
            | Self::Left4
            | Self::Left6 => {
                let mut members = self.members(one);
                let others = self.members(other);
                members.retain(|element| !others.contains(element));
                members
            }
        }
    }

    fn owns(self, address: &IpAddr) -> bool {
        address.is_ipv4() == self.is_ipv4()
    }

    fn addresses<'a>(self, all: impl Iterator<Item = &'a IpAddr>) -> BTreeSet<Element> {
        all.filter(|address| self.owns(address)).map(|address| Element::of(octets(*address))).collect()
    }

    /// Its elements.
    pub(super) fn members(self, guarded: &Guarded) -> BTreeSet<Element> {
        let own = |address: &IpAddr| self.owns(address);
        let moved = guarded.moved.iter().filter(|(vip, _)| own(vip));
        let restrictions = guarded.restrictions.iter().filter(|(address, ..)| own(address));
        let port = |address, protocol: u8, port: u16| {
            let [high, low] = port.to_be_bytes();
            [octets(address).as_slice(), &[protocol, 0, 0, 0], &[high, low, 0, 0]].concat()
        };
        match self {
            Self::Vips4 | Self::Vips6 => self.addresses(guarded.vips.iter()),
            Self::Held4 | Self::Held6 => self.addresses(guarded.held.iter()),
            Self::Moved4 | Self::Moved6 => moved
                .filter_map(|(vip, moved)| {
                    Some(Element::of([octets(*vip).as_slice(), &moved.mark?.to_ne_bytes()].concat()))
                })
                .collect(),
            Self::Window4 | Self::Window6 => moved
                .filter(|(_, moved)| moved.unknown == UnknownConnections::Forwarded)
                .filter_map(|(vip, moved)| {
                    let data = moved.mark?.to_ne_bytes().to_vec();
                    Some(Element { data, ..Element::of(octets(*vip)) })
                })
                .collect(),
            Self::Left4 | Self::Left6 => self.addresses(
                moved.filter(|(_, moved)| moved.unknown == UnknownConnections::Dropped).map(|(vip, _)| vip),
            ),
            Self::Restricted4 | Self::Restricted6 => restrictions
                .map(|(address, at, _)| Element::of(port(address, at.protocol.number(), at.port)))
                .collect(),
            Self::Sources4 | Self::Sources6 => restrictions
                .flat_map(|(address, at, sources)| {
                    let port = port(address, at.protocol.number(), at.port);
                    sources.iter().map(move |range| Element::from_range(&port, *range))
                })
                .collect(),
        }
    }
}

impl Element {
    fn of(key: Vec<u8>) -> Self {
        Self { key, end: Vec::new(), data: Vec::new() }
    }

    /// Packets to this port from this range.
    fn from_range(port: &[u8], range: IpNet) -> Self {
        let [key, end] = [range.network(), range.broadcast()].map(|one| [port, &octets(one)].concat());
        Self { key, end, data: Vec::new() }
    }

    fn encode(&self) -> Attributes {
        let element = Attributes::new().nest(1, &value(&self.key));
        let element = if self.data.is_empty() { element } else { element.nest(2, &value(&self.data)) };
        if self.end.is_empty() { element } else { element.nest(10, &value(&self.end)) }
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Elements as the kernel takes them.
pub(super) fn encode<'a>(elements: impl IntoIterator<Item = &'a Element>) -> Attributes {
    elements.into_iter().fold(Attributes::new(), |list, element| list.nest(1, &element.encode()))
}

/// The elements in an answer about a set.
pub(super) fn read(answer: &[u8]) -> Vec<Element> {
    let list = attributes::find(answer, 3).unwrap_or_default();
    let read = |element: &[u8]| {
        let bytes = |kind| attributes::find(attributes::find(element, kind)?, 1).map(<[u8]>::to_vec);
        Some(Element {
            key: bytes(1)?,
            end: bytes(10).unwrap_or_default(),
            data: bytes(2).unwrap_or_default(),
        })
    };
    attributes::read(list).filter_map(|(_, element)| read(element)).collect()
}

#[cfg(test)]
impl Element {
    /// The address that it is, if it is one.
    pub(super) fn address(&self) -> Option<IpAddr> {
        let key = self.key.as_slice();
        let four = <[u8; 4]>::try_from(key).map(IpAddr::from);
        four.or_else(|_| <[u8; 16]>::try_from(key).map(IpAddr::from)).ok()
    }
}
