//! The sets and maps of the table, and their elements. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use windlass_kernel::netfilter::attributes::Attributes;
use windlass_kernel::netfilter::element::{self, Element, Part, octets, with_port, with_protocol};
use windlass_kernel::port::{Protocol, ProtocolPort};
use windlass_vrrp::Family;

use super::hash::SharedBy;

/// A shared address with one of its protocols.
pub(super) type Service = (IpAddr, Protocol);

/// Packets for a shared address that this node sends to others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Directed {
    /// Index of the interface to which the packets come.
    pub(super) interface: u32,
    pub(super) ports: BTreeSet<u16>,
    pub(super) by: SharedBy,
    /// The other nodes' lots.
    pub(super) lots: BTreeMap<u8, IpAddr>,
}

/// A set of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Set {
    /// Link-layer addresses of other nodes.
    Peers,
    /// Ports whose connections are shared by client and port.
    Shared(Family),
    /// Ports whose connections are shared by client.
    Sticky(Family),
    /// The node of each lot that another node serves.
    Lots(Family),
}

impl Set {
    pub(super) const ALL: [Self; 7] = [
        Self::Peers,
        Self::Shared(Family::V4),
        Self::Shared(Family::V6),
        Self::Sticky(Family::V4),
        Self::Sticky(Family::V6),
        Self::Lots(Family::V4),
        Self::Lots(Family::V6),
    ];

    pub(super) fn of(by: SharedBy, family: Family) -> Self {
        match by {
            SharedBy::Connection => Self::Shared(family),
            SharedBy::Client => Self::Sticky(family),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Peers => "peers",
            Self::Shared(Family::V4) => "shared4",
            Self::Shared(Family::V6) => "shared6",
            Self::Sticky(Family::V4) => "sticky4",
            Self::Sticky(Family::V6) => "sticky6",
            Self::Lots(Family::V4) => "lots4",
            Self::Lots(Family::V6) => "lots6",
        }
    }

    /// Adds what defines the set to the attributes that name it (table, name and number).
    pub(super) fn definition(self, attributes: Attributes) -> Attributes {
        match self {
            Self::Peers => element::set(attributes, &[Part::ETHERNET], 0),
            Self::Shared(family) | Self::Sticky(family) => {
                let port = [Part::INTERFACE, Part::address(family), Part::PROTOCOL, Part::PORT];
                element::set(attributes, &port, 0)
            }
            Self::Lots(family) => {
                let lot = [Part::address(family), Part::PROTOCOL, Part::MARK];
                element::map(attributes, &lot, &[Part::address(family)])
            }
        }
    }
}

/// The elements of a service.
pub(super) fn elements((vip, protocol): Service, directed: &Directed) -> BTreeSet<(Set, Element)> {
    let family = Family::of(vip);
    let port = |port: &u16| {
        let port = with_port(vip, ProtocolPort { protocol, port: *port });
        let key = [directed.interface.to_ne_bytes().as_slice(), &port].concat();
        (Set::of(directed.by, family), Element::of(key))
    };
    let lot = |(lot, server): (&u8, &IpAddr)| {
        let number = u32::from(*lot).to_ne_bytes();
        let key = [with_protocol(vip, protocol.number()).as_slice(), &number].concat();
        (Set::Lots(family), Element { data: octets(*server), ..Element::of(key) })
    };
    directed.ports.iter().map(port).chain(directed.lots.iter().map(lot)).collect()
}
