//! Routes of the node: the interfaces and the gateways by which packets leave.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{NlasIterator, Parseable};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::RouteMessage;

use super::error::NetlinkError;
use super::route::{RouteSocket, towards};

/// Length of `struct rtmsg`, and offsets of its `rtm_family`, `rtm_dst_len`, `rtm_protocol` and `rtm_type`.
const HEADER: usize = 12;
const FAMILY: usize = 0;
const LENGTH: usize = 1;
const PROTOCOL: usize = 5;
const TYPE: usize = 7;
/// Length of `struct rtnexthop`, and offset of its `rtnh_ifindex`.
const NEXT_HOP: usize = 8;
const NEXT_HOP_INTERFACE: usize = 4;
/// `RTA_VIA`, which libc does not have.
const VIA: u16 = 18;

/// Destination of packets to an address: this node or a next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// The address is one of this node's own.
    ThisNode,
    /// They leave this node.
    By(Hop),
}

/// Next hop by which packets leave.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Hop {
    /// Number of the interface.
    pub interface: u32,
    /// Gateway that forwards them; `None`: their destination is on the link.
    pub gateway: Option<IpAddr>,
}

/// A route to other hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// Destination of the route; all addresses, for a default route.
    pub(crate) destination: IpNet,
    /// Next hops: of several, each packet takes one.
    pub(crate) hops: Vec<Hop>,
}

impl RouteSocket {
    /// Returns the way of packets to this address; `None` if there is no route.
    pub fn way_towards(&mut self, far: IpAddr) -> Result<Option<Way>, NetlinkError> {
        let found = self.ask(RouteNetlinkMessage::GetRoute(towards(far)), way)?;
        Ok(found.flatten())
    }

    /// The routes that the program of this number made (rtm_protocol), of any table. Routes that cannot be read are left out.
    pub fn routes_by(&mut self, protocol: u8) -> Result<Vec<RouteMessage>, NetlinkError> {
        let all = RouteNetlinkMessage::GetRoute(RouteMessage::default());
        let dump = self.dump_as(&all, |kind, payload| {
            let is_by = kind == libc::RTM_NEWROUTE && payload.get(PROTOCOL) == Some(&protocol);
            Ok(is_by.then(|| RouteMessage::parse(payload).ok()).flatten())
        })?;
        Ok(dump.entries)
    }

    /// The routes to other hosts, of any table: without those that every IPv6 link has.
    pub(crate) fn routes(&mut self) -> Result<Vec<Route>, NetlinkError> {
        let all = RouteNetlinkMessage::GetRoute(RouteMessage::default());
        let dump = self.dump_as(&all, |kind, payload| {
            Ok((kind == libc::RTM_NEWROUTE).then(|| route(payload)).flatten())
        })?;
        Ok(dump.entries)
    }
}

/// Returns the way that a found route leads.
fn way(payload: &[u8]) -> Option<Way> {
    match *payload.get(TYPE)? {
        libc::RTN_LOCAL => Some(Way::ThisNode),
        libc::RTN_UNICAST => route(payload)?.hops.first().copied().map(Way::By),
        _ => None,
    }
}

/// Parses a route to other hosts; `None` if it is none, or malformed.
pub(super) fn route(payload: &[u8]) -> Option<Route> {
    let attributes = payload.get(HEADER..).filter(|_| payload[TYPE] == libc::RTN_UNICAST)?;
    let mut destination = match i32::from(payload[FAMILY]) {
        libc::AF_INET => IpAddr::from([0; 4]),
        libc::AF_INET6 => IpAddr::from([0; 16]),
        _ => return None,
    };
    let (mut single, mut hops) = (NextHop::default(), Vec::new());
    for attribute in NlasIterator::new(attributes).filter_map(Result::ok) {
        let value = attribute.value();
        match attribute.kind() {
            libc::RTA_DST if is_of_each_link(value) => return None,
            libc::RTA_DST => destination = address(value)?,
            libc::RTA_OIF => single.interface = number(value, 0),
            libc::RTA_MULTIPATH => hops.extend(next_hops(value)),
            kind => single.hear_gateway(kind, value),
        }
    }
    hops.extend(single.hop());
    let destination = IpNet::new(destination, payload[LENGTH]).ok()?;
    Some(Route { destination, hops })
}

/// Link-local addresses and multicast of IPv6.
fn is_of_each_link(destination: &[u8]) -> bool {
    match destination {
        [0xff, ..] if destination.len() == 16 => true,
        [0xfe, second, ..] if destination.len() == 16 => second & 0xc0 == 0x80,
        _ => false,
    }
}

/// The next hops of a route that has several.
fn next_hops(mut rest: &[u8]) -> Vec<Hop> {
    let mut hops = Vec::new();
    while let Some(interface) = number(rest, NEXT_HOP_INTERFACE) {
        let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]])).max(NEXT_HOP).next_multiple_of(4);
        let mut hop = NextHop { interface: Some(interface), gateway: None };
        let attributes = rest.get(NEXT_HOP..length.min(rest.len())).unwrap_or_default();
        for attribute in NlasIterator::new(attributes).filter_map(Result::ok) {
            hop.hear_gateway(attribute.kind(), attribute.value());
        }
        hops.extend(hop.hop());
        rest = rest.get(length..).unwrap_or_default();
    }
    hops
}

/// Attributes of a hop that have been read so far.
#[derive(Default)]
struct NextHop {
    interface: Option<u32>,
    gateway: Option<IpAddr>,
}

impl NextHop {
    fn hear_gateway(&mut self, kind: u16, value: &[u8]) {
        match kind {
            libc::RTA_GATEWAY => self.gateway = address(value),
            // Of the other family than the route: after the number of its family.
            VIA => self.gateway = value.get(2..).and_then(address),
            _ => {}
        }
    }

    fn hop(self) -> Option<Hop> {
        Some(Hop { interface: self.interface?, gateway: self.gateway })
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map(|number| u32::from_ne_bytes(*number))
}
