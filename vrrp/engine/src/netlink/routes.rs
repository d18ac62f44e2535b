//! By which interfaces the routes of the node leave.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlink_packet_core::NlasIterator;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::RouteMessage;

use super::error::NetlinkError;
use super::route::{RouteSocket, towards};

/// Length of `struct rtmsg`, and where its `rtm_type` is.
const HEADER: usize = 12;
const TYPE: usize = 7;
/// Length of `struct rtnexthop`, and where its `rtnh_ifindex` is.
const NEXT_HOP: usize = 8;
const NEXT_HOP_INTERFACE: usize = 4;

/// Where packets go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// The address is one of this node's own.
    ThisNode,
    /// They leave by the interface of this number.
    By(u32),
}

impl RouteSocket {
    /// Where packets to this address go; `None` if there is no way.
    pub(crate) fn way_towards(&mut self, far: IpAddr) -> Result<Option<Way>, NetlinkError> {
        let found = self.ask(RouteNetlinkMessage::GetRoute(towards(far)), way)?;
        Ok(found.flatten())
    }

    /// The numbers of the interfaces by which some route leaves, of any table, to other hosts: without those that every IPv6 link has.
    pub(crate) fn routed_interfaces(&mut self) -> Result<BTreeSet<u32>, NetlinkError> {
        let all = RouteNetlinkMessage::GetRoute(RouteMessage::default());
        let dump = self
            .dump_as(&all, |kind, payload| Ok((kind == libc::RTM_NEWROUTE).then(|| interfaces(payload))))?;
        Ok(dump.entries.into_iter().flatten().collect())
    }
}

/// What the route that was found says.
fn way(payload: &[u8]) -> Option<Way> {
    let attributes = payload.get(HEADER..)?;
    match payload[TYPE] {
        libc::RTN_LOCAL => Some(Way::ThisNode),
        libc::RTN_UNICAST => {
            let mut attributes = NlasIterator::new(attributes).filter_map(Result::ok);
            let outgoing = attributes.find(|attribute| attribute.kind() == libc::RTA_OIF)?;
            number(outgoing.value(), 0).map(Way::By)
        }
        _ => None,
    }
}

/// The interfaces of one route; none of what cannot be read.
pub(super) fn interfaces(payload: &[u8]) -> Vec<u32> {
    let mut interfaces = Vec::new();
    let Some(attributes) = payload.get(HEADER..).filter(|_| payload[TYPE] == libc::RTN_UNICAST) else {
        return interfaces;
    };
    for attribute in NlasIterator::new(attributes).filter_map(Result::ok) {
        match attribute.kind() {
            libc::RTA_DST if is_of_each_link(attribute.value()) => return Vec::new(),
            libc::RTA_OIF => interfaces.extend(number(attribute.value(), 0)),
            libc::RTA_MULTIPATH => interfaces.extend(next_hops(attribute.value())),
            _ => {}
        }
    }
    interfaces
}

/// Link-local addresses and multicast of IPv6.
fn is_of_each_link(destination: &[u8]) -> bool {
    match destination {
        [0xff, ..] if destination.len() == 16 => true,
        [0xfe, second, ..] if destination.len() == 16 => second & 0xc0 == 0x80,
        _ => false,
    }
}

/// The interfaces of a route of several next hops.
fn next_hops(mut rest: &[u8]) -> Vec<u32> {
    let mut interfaces = Vec::new();
    while let Some(interface) = number(rest, NEXT_HOP_INTERFACE) {
        interfaces.push(interface);
        let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]])).max(NEXT_HOP).next_multiple_of(4);
        rest = rest.get(length..).unwrap_or_default();
    }
    interfaces
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map(|number| u32::from_ne_bytes(*number))
}
