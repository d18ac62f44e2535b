//! The node's interfaces, as the kernel reports them by netlink.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::netlink::{EthtoolSocket, Hop, NetlinkError, Route, RouteSocket, Way};

mod follower;
mod on_link;
mod table;

pub use follower::Follower;
pub use table::Interfaces;

/// IFA_PROTO of the addresses that an engine binds by default.
#[cfg(test)]
pub(crate) const OWN_PROTOCOL: u8 = crate::tag::AddressTag::DEFAULT.get();
/// Beginning of the alias of the macvlan interfaces that the engine makes: they are not reported.
pub const OWN_ALIAS: &str = "windlass:";

/// An Ethernet interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
pub struct InterfaceInfo {
    /// Name, as `eth0`.
    pub name: String,
    /// Index.
    pub index: u32,
    /// Link-layer address.
    pub mac: [u8; 6],
    /// Longest packet, in bytes.
    pub mtu: u32,
    /// IPv4 addresses with prefix length, the primary one first. VIPs that the engine binds are not among them.
    pub ipv4: Vec<(Ipv4Addr, u8)>,
    /// IPv6 addresses with prefix length that can be used: those that last, then temporary (RFC 8981) and deprecated ones,
    /// each in their order as numbers. VIPs that the engine binds are not among them.
    pub ipv6: Vec<(Ipv6Addr, u8)>,
    /// Number of lasting addresses in `ipv6`: they are its first ones.
    pub ipv6_lasting: usize,
    /// IPv6 addresses that cannot be used, with the reason.
    pub ipv6_unusable: Vec<(Ipv6Addr, Unusable)>,
    /// True if it is up and the kernel counts it as able to carry packets.
    pub carrier: bool,
    /// True if it is administratively up.
    pub up: bool,
    /// True if it is a bridge all of whose ports, if any, lead to containers or virtual machines of this host.
    pub isolated: bool,
    /// True if it is a network card, or a VLAN or bond of network cards, and no other virtual device.
    pub hardware: bool,
}

impl InterfaceInfo {
    /// Returns its IPv4 addresses, then its usable IPv6 addresses.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let v4 = self.ipv4.iter().map(|(address, _)| IpAddr::V4(*address));
        v4.chain(self.ipv6.iter().map(|(address, _)| IpAddr::V6(*address)))
    }
}

/// Reason why an IPv6 address of an interface cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "the engine has a remedy for each")]
pub enum Unusable {
    /// The kernel still probes for another host that has it (RFC 4862 §5.4): it can be used about a second later.
    #[error("is being checked for duplicates")]
    Tentative,
    /// Another host has it (RFC 4862 §5.4.5).
    #[error("is another host's too (duplicate address detection failed)")]
    Duplicate,
}

/// The addresses of a machine, without what the engine binds and makes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct HostAddresses {
    /// Ethernet interfaces that are up and have an IPv4 or a usable IPv6 address, by name. The length of an address is that of the
    /// subnet on the link, also where the kernel knows that by a route alone (DHCPv6 gives addresses of /128).
    pub interfaces: Vec<InterfaceInfo>,
    /// Every address with the name of its interface, of whatever kind, up or down; but for those that another host has.
    pub addresses: Vec<(String, IpAddr)>,
    /// Source address that the kernel would use towards the internet, for each family that has a route there.
    pub sources: Vec<IpAddr>,
}

/// State and speed of an interface's link.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct HostLink {
    /// Name of the interface.
    pub name: String,
    /// True if it is up and the kernel counts it as able to carry packets: a bond, if one of its ports is.
    pub carrier: bool,
    /// Its speed in Mbit/s, a bond's that of its ports together; `None` if it is not known, or there is no carrier.
    pub megabits_per_second: Option<u32>,
}

impl HostLink {
    /// A link.
    #[must_use]
    pub fn new(name: &str, carrier: bool, megabits_per_second: Option<u32>) -> Self {
        Self { name: name.to_owned(), carrier, megabits_per_second }
    }
}

/// Kind of an interface that is up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LinkKind {
    /// Name of the interface.
    pub name: String,
    /// Kind of virtual device, as `vxlan`; `None` of a real one.
    pub kind: Option<String>,
}

impl LinkKind {
    /// A link.
    #[must_use]
    pub fn new(name: &str, kind: Option<&str>) -> Self {
        Self { name: name.to_owned(), kind: kind.map(str::to_owned) }
    }
}

/// A way to other hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HostRoute {
    /// Destination: all addresses of the family, for a default route.
    pub destination: IpNet,
    /// Name of the interface by which packets leave.
    pub interface: String,
    /// Gateway that forwards the packets; `None`: their destination is on the link.
    pub gateway: Option<IpAddr>,
    /// True if packets to the gateway itself leave by that interface as well.
    pub is_direct: bool,
}

impl HostRoute {
    /// A route to `destination` by the interface, by way of `gateway` if there is one.
    #[must_use]
    pub fn new(destination: IpNet, interface: &str, gateway: Option<IpAddr>, is_direct: bool) -> Self {
        Self { destination, interface: interface.to_owned(), gateway, is_direct }
    }
}

/// Somewhere in the world (a.root-servers.net), to ask for the way there. Nothing is sent.
const ROUTE_LOOKUP_DESTINATIONS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(198, 41, 0, 4)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0x503, 0xba3e, 0, 0, 0, 2, 0x30)),
];

/// Reads the addresses from the kernel, in the calling thread's network namespace.
pub fn scan() -> io::Result<HostAddresses> {
    let mut route = RouteSocket::open()?;
    let (table, _) = Interfaces::dump(&mut route)?;
    let has_address = |info: &InterfaceInfo| !info.ipv4.is_empty() || !info.ipv6.is_empty();
    let mut interfaces: Vec<InterfaceInfo> =
        table.all().into_iter().filter(|info| info.up && has_address(info)).collect();
    if interfaces.iter().any(on_link::has_host_address) {
        let routes = route.routes()?;
        for info in &mut interfaces {
            on_link::give_lengths(info, &routes);
        }
    }
    let mut sources = Vec::new();
    for destination in ROUTE_LOOKUP_DESTINATIONS {
        sources.extend(route.source_towards(destination)?);
    }
    Ok(HostAddresses { interfaces, addresses: table.addresses(), sources })
}

/// The interfaces of these names but for those that the engine makes.
pub fn links(is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<HostLink>> {
    let links = RouteSocket::open()?.links()?.entries;
    // A kernel without it is no reason not to tell the rest.
    let mut ethtool = EthtoolSocket::open().ok();
    let wanted = links.iter().filter(|link| is_wanted(&link.name) && !table::is_own(link));
    let info = wanted.map(|link| {
        let speed = ethtool.as_mut().filter(|_| link.running).map(|ethtool| ethtool.speed(link.index));
        HostLink::new(&link.name, link.running, speed.and_then(Result::ok).flatten())
    });
    Ok(info.collect())
}

/// The interfaces that are up, and their kinds.
pub fn link_kinds() -> io::Result<Vec<LinkKind>> {
    let links = RouteSocket::open()?.links()?.entries;
    let up = links.iter().filter(|link| link.up && !table::is_own(link));
    Ok(up.map(|link| LinkKind::new(&link.name, link.kind.as_deref())).collect())
}

/// The routes by interfaces that are up, for each of their next hops one.
pub fn routes() -> io::Result<Vec<HostRoute>> {
    let mut socket = RouteSocket::open()?;
    let links = socket.links()?.entries;
    let up = links.iter().filter(|link| link.up && !table::is_own(link));
    let names: BTreeMap<u32, &str> = up.map(|link| (link.index, link.name.as_str())).collect();
    let mut direct: BTreeMap<Hop, bool> = BTreeMap::new();
    let mut routes = Vec::new();
    for Route { destination, hops } in socket.routes()? {
        for hop in hops {
            let Some(name) = names.get(&hop.interface) else { continue };
            let is_direct = match (hop.gateway, direct.get(&hop)) {
                (None, _) => true,
                (Some(_), Some(known)) => *known,
                (Some(gateway), None) => {
                    let way = socket.way_towards(gateway)?;
                    matches!(way, Some(Way::By(Hop { interface, .. })) if interface == hop.interface)
                }
            };
            direct.insert(hop, is_direct);
            routes.push(HostRoute::new(destination, name, hop.gateway, is_direct));
        }
    }
    Ok(routes)
}

impl From<NetlinkError> for io::Error {
    fn from(error: NetlinkError) -> Self {
        Self::other(error)
    }
}
