//! Subnets that a host knows by a route without a gateway: DHCPv6 gives an address of 128 bits, and a router advertisement says that its /64
//! is on the link. Pure.

use std::net::IpAddr;

use ipnet::IpNet;

use super::InterfaceInfo;
use crate::netlink::Route;

#[cfg(test)]
mod tests;

/// Shortest prefix of a subnet.
const SHORTEST: u8 = 8;

/// Returns true if the length is that of a single address.
const fn is_host_length(address: IpAddr, length: u8) -> bool {
    length == if address.is_ipv4() { 32 } else { 128 }
}

/// Addresses of an interface that last, with the lengths of their prefixes.
fn lasting(info: &mut InterfaceInfo) -> impl Iterator<Item = (IpAddr, &mut u8)> {
    let v4 = info.ipv4.iter_mut().map(|(address, length)| (IpAddr::V4(*address), length));
    let v6 = info.ipv6.iter_mut().take(info.ipv6_lasting);
    v4.chain(v6.map(|(address, length)| (IpAddr::V6(*address), length)))
}

/// Returns true if an interface has an address without a subnet.
pub(super) fn has_host_address(info: &InterfaceInfo) -> bool {
    let v4 = info.ipv4.iter().any(|(_, length)| *length == 32);
    v4 || info.ipv6.iter().take(info.ipv6_lasting).any(|(_, length)| *length == 128)
}

/// Gives an address without a subnet the prefix length of the on-link route to its subnet: the first address in each subnet only, as
/// other programs may have bound the further ones (keepalived's virtual addresses), and none where another address has the subnet.
pub(super) fn give_lengths(info: &mut InterfaceInfo, routes: &[Route]) {
    let longest = |net: &IpNet| net.max_prefix_len().saturating_sub(2);
    let is_subnet = |net: &IpNet| (SHORTEST..=longest(net)).contains(&net.prefix_len());
    let is_here =
        |route: &&Route| route.hops.iter().any(|hop| hop.interface == info.index && hop.gateway.is_none());
    let on_link = routes.iter().filter(is_here).map(|route| route.destination.trunc()).filter(is_subnet);
    let mut on_link: Vec<IpNet> = on_link.collect();
    // The narrowest subnet is the one that counts.
    on_link.sort_by_key(|net| std::cmp::Reverse(net.prefix_len()));
    for net in on_link {
        let has_it =
            lasting(info).any(|(address, length)| *length == net.prefix_len() && net.contains(&address));
        if !has_it {
            let mut hosts = lasting(info).filter(|(address, length)| is_host_length(*address, **length));
            if let Some((_, length)) = hosts.find(|(address, _)| net.contains(address)) {
                *length = net.prefix_len();
            }
        }
    }
}
