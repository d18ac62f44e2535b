//! The node's interfaces, as the kernel lists them.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

/// An Ethernet interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct InterfaceInfo {
    /// Name, as `eth0`.
    pub name: String,
    /// Index.
    pub index: u32,
    /// Link-layer address.
    pub mac: [u8; 6],
    /// IPv4 addresses with prefix length, the primary one first.
    pub ipv4: Vec<(Ipv4Addr, u8)>,
    /// IPv6 addresses with prefix length.
    pub ipv6: Vec<(Ipv6Addr, u8)>,
    /// Whether it is up and the kernel counts it as able to carry packets.
    pub carrier: bool,
    /// Whether it is administratively up.
    pub up: bool,
}

/// All Ethernet interfaces of this network namespace, with or without address, up or down.
pub(crate) fn scan() -> io::Result<BTreeMap<String, InterfaceInfo>> {
    let entries: Vec<_> = getifaddrs()?.collect();
    let mut found = BTreeMap::new();
    // The packet-family entries name the Ethernet interfaces; the address entries then find theirs.
    for entry in &entries {
        if let Some(info) = ethernet(entry) {
            found.insert(info.name.clone(), info);
        }
    }
    for entry in &entries {
        if let Some(info) = found.get_mut(&entry.interface_name) {
            add_address(info, entry);
        }
    }
    Ok(found)
}

fn ethernet(entry: &InterfaceAddress) -> Option<InterfaceInfo> {
    let link = entry.address.as_ref()?.as_link_addr()?;
    if link.hatype() != libc::ARPHRD_ETHER || entry.flags.contains(InterfaceFlags::IFF_LOOPBACK) {
        return None;
    }
    Some(InterfaceInfo {
        name: entry.interface_name.clone(),
        index: u32::try_from(link.ifindex()).ok()?,
        mac: link.addr()?,
        ipv4: Vec::new(),
        ipv6: Vec::new(),
        up: entry.flags.contains(InterfaceFlags::IFF_UP),
        carrier: entry.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING),
    })
}

fn add_address(info: &mut InterfaceInfo, entry: &InterfaceAddress) {
    let (Some(address), Some(mask)) = (&entry.address, &entry.netmask) else { return };
    if let (Some(address), Some(mask)) = (address.as_sockaddr_in(), mask.as_sockaddr_in()) {
        info.ipv4.push((address.ip(), prefix_length(&mask.ip().octets())));
    } else if let (Some(address), Some(mask)) = (v6(address), v6(mask)) {
        info.ipv6.push((address, prefix_length(&mask.octets())));
    }
}

fn v6(address: &SockaddrStorage) -> Option<Ipv6Addr> {
    address.as_sockaddr_in6().map(nix::sys::socket::SockaddrIn6::ip)
}

fn prefix_length(mask: &[u8]) -> u8 {
    mask.iter().map(|byte| u8::try_from(byte.leading_ones()).unwrap_or(0)).sum()
}
