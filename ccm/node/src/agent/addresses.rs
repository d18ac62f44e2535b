//! The machine's own addresses: the node addresses to report to the cluster, and the VIPs that the kernel already answers for. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use ipnet::Ipv6Net;
use windlass_engine::{HostAddresses, InterfaceInfo};

use super::network::{is_containers, is_the_nodes};

#[cfg(test)]
mod tests;

/// Largest number of further addresses: the limit of the API server.
const MAX_FURTHER: usize = 256;

/// Returns, per family, the source address that the kernel chooses by the default route: one of its interface, or of the loopback interface
/// if it has none (RFC 5549). A temporary IPv6 address (RFC 8981), which would not last, gives way to a lasting one of the same interface.
pub(crate) fn primary(machine: &HostAddresses) -> Vec<IpAddr> {
    let source = |source: &IpAddr| {
        let has = |interface: &&InterfaceInfo| interface.addresses().any(|one| one == *source);
        match machine.interfaces.iter().find(has) {
            Some(interface) if !is_the_nodes(interface) => None,
            Some(interface) => match source {
                IpAddr::V4(_) => Some(*source),
                IpAddr::V6(v6) => Some(IpAddr::V6(lasting(interface, *v6))),
            },
            None => further(machine).into_iter().find(|one| one == source),
        }
    };
    machine.sources.iter().filter_map(source).collect()
}

/// Returns `source`, or in its place an address of the interface that lasts: one of a subnet, if possible. Addresses that other programs
/// add to be reached by, such as kube-vip's for the API server, are /128.
fn lasting(interface: &InterfaceInfo, source: Ipv6Addr) -> Ipv6Addr {
    let lasting = || {
        let lasting = interface.ipv6.iter().take(interface.ipv6_lasting);
        lasting.filter(|(address, _)| is_wide(IpAddr::V6(*address)))
    };
    if lasting().any(|(address, _)| *address == source) {
        return source;
    }
    let of_subnet = lasting().find(|(_, length)| *length < 128);
    of_subnet.or_else(|| lasting().next()).map_or(source, |(address, _)| *address)
}

/// Returns the addresses that are on none of the node's own interfaces that are reported: on the loopback interface, on tunnels, on
/// interfaces that are down or whose address is still being checked. Addresses of container networks are left out.
pub(crate) fn further(machine: &HostAddresses) -> Vec<IpAddr> {
    let reported = machine.interfaces.iter().filter(|interface| is_the_nodes(interface));
    let reported: BTreeSet<IpAddr> = reported.flat_map(InterfaceInfo::addresses).collect();
    let all = machine.addresses.iter().filter(|(interface, _)| !is_containers(interface));
    let further: BTreeSet<IpAddr> =
        all.map(|(_, address)| *address).filter(|one| is_wide(*one) && !reported.contains(one)).collect();
    further.into_iter().take(MAX_FURTHER).collect()
}

/// Addresses on the node's own interfaces, for which the kernel answers ARP and neighbour solicitations by itself. (Addresses on the
/// loopback interface and on those of container networks may be VIPs: kube-proxy and servers that answer directly put them there.)
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answered {
    /// Interface of each own address.
    pub(crate) own: BTreeMap<IpAddr, String>,
    /// The IPv6 subnet of each subnet-router anycast address (RFC 4291 §2.6.1). A machine that does not forward has none; a node of
    /// a cluster does, and such an address is no host's in any case.
    pub(crate) anycast: BTreeMap<IpAddr, Ipv6Net>,
}

/// Collects the addresses that the kernel of `machine` answers for.
pub(crate) fn answered(machine: &HostAddresses) -> Answered {
    let mut answered = Answered::default();
    for interface in machine.interfaces.iter().filter(|interface| is_the_nodes(interface)) {
        answered.own.extend(interface.addresses().map(|address| (address, interface.name.clone())));
        let subnets =
            interface.ipv6.iter().filter_map(|(address, length)| Ipv6Net::new(*address, *length).ok());
        // A /127 has none (RFC 6164 §6).
        let subnets = subnets.filter(|net| net.prefix_len() <= 126 && !net.addr().is_unicast_link_local());
        answered.anycast.extend(subnets.map(|net| (IpAddr::V6(net.network()), net.trunc())));
    }
    answered
}

/// Returns true if the address is valid beyond the machine and its links.
fn is_wide(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local() && !v4.is_unspecified(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local() && !v6.is_unspecified(),
    }
}
