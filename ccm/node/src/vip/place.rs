//! On which interface a virtual IP is announced, and from which addresses. Pure.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use windlass_engine::{HostAddresses, InterfaceInfo};

use super::settings::VipSettings;

/// Place at which a virtual IP is announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) interface: String,
    /// The source of adverts: an IPv6 link-local address where they go to the group of all VRRP routers.
    pub(super) source: IpAddr,
    /// The address at which this node's programs are reached.
    pub(super) own: IpAddr,
}

/// Finds the place, or returns what is missing.
pub(super) fn find(vip: &VipSettings, machine: &HostAddresses) -> Result<Place, String> {
    let address = vip.address;
    let interface = match (&vip.interface, vip.vrrp) {
        (Some(name), _) => machine.interfaces.iter().find(|interface| interface.name == *name).ok_or_else(|| {
            format!(
                "interface {name} does not exist, is down or has no {} address: bring it up, or name another interface",
                family(address)
            )
        })?,
        (None, false) => reached(machine, address).ok_or_else(|| {
            format!(
                "no interface of this host has an {} address, at which the host's programs are reached: give it one",
                family(address)
            )
        })?,
        (None, true) => nearest(machine, address).ok_or_else(|| {
            format!(
                "no interface of this host has a network with {address}: it has {}. Name the interface whose LAN contains the \
                 address, or choose another address. Between different networks an address moves only by BGP: set protocols: [bgp]",
                networks(machine, address)
            )
        })?,
    };
    let own = own_address(interface, address).ok_or_else(|| {
        format!(
            "interface {} has no {} address besides {address} by which clients reach this host's programs: give it an address of \
             that network. If {address} is the host's own address, choose another virtual IP",
            interface.name,
            family(address)
        )
    })?;
    let source = match own {
        IpAddr::V4(_) => own,
        IpAddr::V6(_) if !vip.multicast || !vip.vrrp => own,
        IpAddr::V6(_) => link_local(interface).map(IpAddr::V6).ok_or_else(|| {
            format!(
                "interface {} has no usable link-local address, which IPv6 adverts need as their source: let the kernel create \
                 one (net.ipv6.conf.{}.addr_gen_mode=0)",
                interface.name, interface.name
            )
        })?,
    };
    Ok(Place { interface: interface.name.clone(), source, own })
}

/// The node's addresses of the family: connections that go to one of them need not leave the node.
pub(super) fn own_addresses(machine: &HostAddresses) -> BTreeSet<IpAddr> {
    machine.addresses.iter().map(|(_, address)| *address).collect()
}

fn family(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    }
}

/// The networks of the family of `address` that an interface has, an address each.
fn networks_of(interface: &InterfaceInfo, address: IpAddr) -> impl Iterator<Item = IpNet> {
    let v4 = interface.ipv4.iter().map(|(own, length)| (IpAddr::V4(*own), *length));
    let lasting = interface.ipv6.iter().take(interface.ipv6_lasting);
    let v6 = lasting.map(|(own, length)| (IpAddr::V6(*own), *length));
    let nets = v4.chain(v6).filter_map(|(own, length)| IpNet::new(own, length).ok());
    nets.filter(move |net| net.addr().is_ipv4() == address.is_ipv4())
}

/// The interface with the smallest network that has the address, as the kernel's routes choose; of several alike the first that has
/// carrier.
fn nearest(machine: &HostAddresses, address: IpAddr) -> Option<&InterfaceInfo> {
    let length = |interface| {
        let nets = networks_of(interface, address).filter(|net| is_within(net, address));
        nets.map(|net| net.prefix_len()).max()
    };
    let having = machine.interfaces.iter().rev().filter(|interface| length(interface).is_some());
    having.max_by_key(|interface| (length(interface), interface.carrier))
}

/// The interface of the default route, else one whose network has the address, else the first that has an address of its family.
fn reached(machine: &HostAddresses, address: IpAddr) -> Option<&InterfaceInfo> {
    let source = machine.sources.iter().find(|source| source.is_ipv4() == address.is_ipv4());
    let has = |interface: &&InterfaceInfo, wanted: IpAddr| {
        networks_of(interface, address).any(|net| net.addr() == wanted)
    };
    let of_default = source.and_then(|source| machine.interfaces.iter().find(|all| has(all, *source)));
    let serves = |interface: &&InterfaceInfo| own_address(interface, address).is_some();
    of_default
        .filter(serves)
        .or_else(|| nearest(machine, address))
        .or_else(|| machine.interfaces.iter().find(serves))
}

/// An address that others bind to be reached by is of no network (/32, /128).
fn is_within(net: &IpNet, address: IpAddr) -> bool {
    net.prefix_len() < net.max_prefix_len() && net.contains(&address)
}

/// Returns an address of the interface in the network of `address`, or another one that is not link-local.
fn own_address(interface: &InterfaceInfo, address: IpAddr) -> Option<IpAddr> {
    let candidates = || {
        let others = networks_of(interface, address).filter(move |net| net.addr() != address);
        others.filter(|net| !is_link_local(net.addr()))
    };
    let of_network = candidates().find(|net| is_within(net, address));
    of_network.or_else(|| candidates().next()).map(|net| net.addr())
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn link_local(interface: &InterfaceInfo) -> Option<Ipv6Addr> {
    let addresses = interface.ipv6.iter().map(|(address, _)| *address);
    addresses.filter(Ipv6Addr::is_unicast_link_local).min()
}

/// The networks of this host, for people.
fn networks(machine: &HostAddresses, address: IpAddr) -> String {
    let of = |interface: &InterfaceInfo| {
        let nets: Vec<_> = networks_of(interface, address)
            .map(|net| format!("{} on {}", net.trunc(), interface.name))
            .collect();
        nets
    };
    let all: Vec<String> = machine.interfaces.iter().flat_map(of).collect();
    if all.is_empty() { format!("no {} network", family(address)) } else { all.join(", ") }
}
