//! Bytes read and written, and the exchange with a real kernel in a network namespace.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressMessage, AddressProtocol, CacheInfo,
};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;

use super::*;
use crate::interfaces::OWN_PROTOCOL;

mod bytes;
mod kernel;

/// Runs `body` in a new network namespace that goes when it ends. Without root it is skipped, but fails where CI=true.
pub(crate) fn in_namespace(body: impl FnOnce() + Send + 'static) {
    if !nix::unistd::geteuid().is_root() {
        assert!(std::env::var("CI").is_err(), "CI=true, and this test needs root for a network namespace");
        eprintln!("skipped: makes a network namespace and needs root (run with sudo)");
        return;
    }
    let thread = std::thread::spawn(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        body();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Adds an Ethernet interface, up (its other end is not), and returns its index.
pub(crate) fn add_interface(route: &mut RouteSocket, name: &str) -> u32 {
    let mut link = LinkMessage::default();
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    link.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth)]),
    ];
    route.request(RouteNetlinkMessage::NewLink(link), NLM_F_CREATE | NLM_F_EXCL).unwrap();
    let links = route.links().unwrap().entries;
    links.into_iter().find(|link| link.name == name).expect("the new interface is listed").index
}

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
