//! Elements of sets and maps.

use std::net::IpAddr;

use windlass_vrrp::Family;

use crate::port::ProtocolPort;

use super::attributes::{self, Attributes};
use super::expression::value;

/// Attribute of a message about a set: its elements.
pub(crate) const LIST: u16 = 3;

/// Flag of an element before which a range ends.
pub(crate) const RANGE_END: u32 = 0x1;

/// Flag of a set that maps each element to data.
const MAP: u32 = 0x8;
/// Flag of a set whose elements expire.
pub const TIMEOUT: u32 = 0x10;

/// Bits of one kind in a number that stands for several.
const KIND_BITS: u32 = 6;

/// A part of an element: what it is, as `nft` numbers kinds of data to show them by, and its bytes.
#[derive(Clone, Copy)]
pub struct Part {
    kind: u32,
    length: u32,
}

impl Part {
    /// Link-layer address.
    pub const ETHERNET: Self = Self { kind: 9, length: 6 };
    /// Number of a transport protocol.
    pub const PROTOCOL: Self = Self { kind: 12, length: 1 };
    /// Port.
    pub const PORT: Self = Self { kind: 13, length: 2 };
    /// Packet mark.
    pub const MARK: Self = Self { kind: 19, length: 4 };
    /// Index of an interface.
    pub const INTERFACE: Self = Self { kind: 20, length: 4 };

    /// Address of this family.
    pub const fn address(family: Family) -> Self {
        match family {
            Family::V4 => Self { kind: 7, length: 4 },
            Family::V6 => Self { kind: 8, length: 16 },
        }
    }

    /// A number of so many bytes.
    pub const fn number(length: u32) -> Self {
        Self { kind: 4, length }
    }

    /// Length in bytes.
    pub const fn length(self) -> u32 {
        self.length
    }
}

/// Defines a set with these flags, whose elements have these parts.
pub fn set(named: Attributes, key: &[Part], flags: u32) -> Attributes {
    let (kind, length) = kind_and_length(key);
    named.number(4, kind).number(5, length).number(3, flags)
}

/// Defines a map from these parts to others.
pub fn map(named: Attributes, key: &[Part], data: &[Part]) -> Attributes {
    let (kind, length) = kind_and_length(data);
    set(named, key, MAP).number(6, kind).number(7, length)
}

/// Kind and length of what has these parts, each of which takes whole words.
fn kind_and_length(parts: &[Part]) -> (u32, u32) {
    let kind = parts.iter().fold(0, |kind, part| kind << KIND_BITS | part.kind);
    let whole = parts.iter().map(|part| part.length.next_multiple_of(4)).sum();
    // What stands alone is as long as it is.
    let length = if let [part] = parts { part.length } else { whole };
    (kind, length)
}

/// An element as the kernel has it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Element {
    /// Bytes of its parts.
    pub key: Vec<u8>,
    /// True if a range ends before this key. In sets with ranges all other elements begin one.
    pub ends: bool,
    /// Data of the element in a map; empty in sets.
    pub data: Vec<u8>,
}

impl Element {
    /// Element with this key and no data, which ends no range.
    pub fn of(key: Vec<u8>) -> Self {
        Self { key, ends: false, data: Vec::new() }
    }

    fn encode(&self) -> Attributes {
        let element = Attributes::new().nest(1, &value(&self.key));
        let element = if self.data.is_empty() { element } else { element.nest(2, &value(&self.data)) };
        if self.ends { element.number(3, RANGE_END) } else { element }
    }
}

/// Elements as the kernel takes them.
pub fn encode<'a>(elements: impl IntoIterator<Item = &'a Element>) -> Attributes {
    elements.into_iter().fold(Attributes::new(), |list, element| list.nest(1, &element.encode()))
}

/// An element where it lies in a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ElementRef<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) ends: bool,
    pub(crate) data: &'a [u8],
}

/// The elements in a message about a set.
pub(crate) fn each(message: &[u8]) -> impl Iterator<Item = ElementRef<'_>> {
    let list = attributes::find(message, LIST).unwrap_or_default();
    attributes::read(list).filter_map(|(_, element)| {
        let bytes = |kind| attributes::find(attributes::find(element, kind)?, 1);
        Some(ElementRef {
            key: bytes(1)?,
            ends: attributes::find_number(element, 3).is_some_and(|flags| flags & RANGE_END != 0),
            data: bytes(2).unwrap_or_default(),
        })
    })
}

/// The same, as copies.
pub fn read(message: &[u8]) -> Vec<Element> {
    let owned = |element: ElementRef<'_>| Element {
        key: element.key.to_vec(),
        ends: element.ends,
        data: element.data.to_vec(),
    };
    each(message).map(owned).collect()
}

/// The bytes of an address.
pub fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Reads an address from its bytes; `None` if they are not as many as an address has.
pub fn address_of(octets: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}

/// Each part takes whole words.
pub fn with_protocol(address: IpAddr, protocol: u8) -> Vec<u8> {
    [octets(address).as_slice(), &[protocol, 0, 0, 0]].concat()
}

/// An address and a port of it, as sets have them.
pub fn with_port(address: IpAddr, ProtocolPort { protocol, port }: ProtocolPort) -> Vec<u8> {
    [with_protocol(address, protocol.number()).as_slice(), &word(port)].concat()
}

/// A port, as a part of an element.
pub fn word(port: u16) -> [u8; 4] {
    let [high, low] = port.to_be_bytes();
    [high, low, 0, 0]
}
