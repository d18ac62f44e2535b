//! Bytes read and written, and the exchange with a real kernel in a network namespace.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressMessage, AddressProtocol, CacheInfo,
};
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;

use super::*;
use crate::interfaces::OWN_PROTOCOL;
use crate::lab::{add_interface, in_namespace};

mod bytes;
mod kernel;

/// An address as the engine adds it, valid for `seconds`.
pub(crate) fn own_address(index: u32, address: IpAddr, seconds: u32) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.index = index;
    message.header.family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.prefix_len = if address.is_ipv4() { 32 } else { 128 };
    let mut lifetime = CacheInfo::default();
    lifetime.ifa_valid = seconds;
    message.attributes = vec![
        AddressAttribute::Local(address),
        AddressAttribute::Address(address),
        AddressAttribute::Flags(AddressFlags::Nodad | AddressFlags::Noprefixroute),
        AddressAttribute::CacheInfo(lifetime),
        AddressAttribute::Protocol(AddressProtocol::Other(OWN_PROTOCOL)),
    ];
    message
}
