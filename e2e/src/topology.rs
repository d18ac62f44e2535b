//! Hosts on the lab's LAN, with their addresses, and the commands that build it.
//!
//! ```text
//!   LAN 192.0.2.0/24, 2001:db8::/64: a bridge in the network namespace `lan`, one port `v-<host>` per host
//!     cp .10        etcd, kube-apiserver, kube-controller-manager, kube-scheduler
//!     n1 .11 …      nodes; the pods of node i have the i-th /27 of 203.0.113.0/24 and 2001:db8:1:<i>::/64
//!     cp1 .21 …     where the control plane has nodes of its own (`LabBuilder::control_plane_nodes`): all that runs on cp otherwise,
//!                   each; cp only asks, as every host does, at .29, the VIP of the API servers; ::29 is free for another
//!     c1 .101 …     clients
//!   .200 to .250 and ::200 to ::250 are free for pools
//!   of several clusters on one LAN (`LabBuilder::cluster`), all hosts of each have addresses 20 above those of the one before
//!   with `LabBuilder::racks` the nodes of the control plane are in networks of their own, behind routers (`racks.rs`)
//!   Services have 198.51.100.0/24 (or the builder's `service_range`) and 2001:db8:5::/112
//! ```
//! A machine without IPv6 has the IPv4 half of it.

use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
    net::{Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use anyhow::{Context as _, ensure};

use crate::rack_networks;

/// The pods of all nodes, IPv4 and IPv6.
pub const POD_RANGES: &str = "203.0.113.0/24,2001:db8:1::/48";
/// Cluster addresses of Services, IPv6.
pub const SERVICE_RANGE_V6: &str = "2001:db8:5::/112";
/// Most nodes of a lab: as many /27 as 203.0.113.0/24 has.
pub const MAX_NODES: u8 = 8;
/// Most nodes of a control plane that has nodes of its own.
pub const MAX_CONTROL_PLANE_NODES: u8 = 5;
/// Most clients of a lab.
pub const MAX_CLIENTS: usize = 50;
/// Most clusters on one LAN.
pub const MAX_CLUSTERS: u8 = 4;
/// From a cluster's addresses to those of the next: more than a control plane and its nodes have.
const APART: u8 = 20;

/// A link-layer address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.map(|octet| format!("{octet:02x}")).join(":"))
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Mac {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut octets = [0; 6];
        let parts: Vec<&str> = text.split(':').collect();
        ensure!(parts.len() == octets.len(), "MAC address {text:?} has {} parts, not 6", parts.len());
        for (octet, part) in octets.iter_mut().zip(parts) {
            *octet =
                u8::from_str_radix(part, 16).with_context(|| format!("MAC address {text:?}: {part:?}"))?;
        }
        Ok(Self(octets))
    }
}

/// Role of a host of the LAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// etcd and the API server; where those have nodes of their own, the host that the lab itself asks from.
    ControlPlane,
    /// One of the nodes of the control plane: etcd and the API server.
    ControlPlaneNode,
    /// The i-th node, from 1.
    Node(u8),
    /// A host that uses Services.
    Client,
    /// A BGP router between clients and racks.
    Router,
}

/// A host of the LAN: a network namespace of the same name with one interface, `eth0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name, as `n1`.
    pub name: String,
    /// Role of the host.
    pub role: Role,
    /// IPv4 address, in 192.0.2.0/24.
    pub address: Ipv4Addr,
}

impl Host {
    /// Link-layer address of `eth0`.
    pub fn mac(&self) -> Mac {
        Mac([2, 0, 0, 0, 0, self.last_octet()])
    }

    /// IPv6 address, in 2001:db8::/64: `::11` for 192.0.2.11.
    pub fn ipv6(&self) -> Ipv6Addr {
        ipv6_of(self.address)
    }

    /// Addresses of the pods of a node as CIDRs, IPv4 and IPv6; `None` for a host that is no node.
    pub fn pod_cidrs(&self) -> Option<[String; 2]> {
        self.pod_addresses(0).map(|(v4, v6)| [format!("{v4}/27"), format!("{v6}/64")])
    }

    /// The n-th addresses of a node's pods: 0 is the network's own, 1 the node's bridge, up to 30 pods' (a /27).
    pub fn pod_addresses(&self, n: u8) -> Option<(Ipv4Addr, Ipv6Addr)> {
        match self.role {
            Role::Node(index) => Some((
                Ipv4Addr::new(203, 0, 113, (index - 1) * 32 + n),
                Ipv6Addr::new(0x2001, 0xdb8, 1, index.into(), 0, 0, 0, n.into()),
            )),
            Role::ControlPlane | Role::ControlPlaneNode | Role::Client | Role::Router => None,
        }
    }

    /// Bridge of `eth0`'s network, in the network namespace `lan`.
    fn bridge(&self) -> String {
        rack_networks::network(self.address).map_or_else(|| "br0".to_owned(), rack_networks::bridge)
    }

    fn last_octet(&self) -> u8 {
        self.address.octets()[3]
    }
}

/// The hosts of the lab that is this one of the clusters on its LAN, from 0: `cp`, then the nodes `n1…`, then those of the control
/// plane, `cp1…`, if it has any of its own, then the clients in the order given.
pub(crate) fn hosts(
    cluster: u8,
    control_plane_nodes: u8,
    nodes: u8,
    clients: &[String],
) -> anyhow::Result<Vec<Host>> {
    ensure!(
        cluster < MAX_CLUSTERS,
        "a LAN has at most {MAX_CLUSTERS} clusters: the last is number 3, not {cluster}"
    );
    // With nodes of its own a control plane is worth a look without any others.
    let least = u8::from(control_plane_nodes == 0);
    ensure!((least..=MAX_NODES).contains(&nodes), "a lab has {least} to {MAX_NODES} nodes, not {nodes}");
    ensure!(
        control_plane_nodes <= MAX_CONTROL_PLANE_NODES,
        "a control plane has at most {MAX_CONTROL_PLANE_NODES} nodes, not {control_plane_nodes}"
    );
    ensure!(clients.len() <= MAX_CLIENTS, "a lab has at most {MAX_CLIENTS} clients, not {}", clients.len());
    let lan = |last| lan(cluster, last);
    let mut hosts = vec![Host { name: "cp".into(), role: Role::ControlPlane, address: lan(10) }];
    hosts.extend((1..=nodes).map(|i| Host {
        name: format!("n{i}"),
        role: Role::Node(i),
        address: lan(10 + i),
    }));
    hosts.extend((1..=control_plane_nodes).map(|i| Host {
        name: format!("cp{i}"),
        role: Role::ControlPlaneNode,
        address: lan(20 + i),
    }));
    for (name, last) in clients.iter().zip(101..) {
        let valid = name.len() <= 12 && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        ensure!(valid && !name.is_empty(), "client name {name:?}: use 1 to 12 lower-case letters and digits");
        ensure!(name != "lan" && hosts.iter().all(|h| h.name != *name), "client name {name:?} is taken");
        hosts.push(Host { name: name.clone(), role: Role::Client, address: lan(last) });
    }
    Ok(hosts)
}

/// An address of this one of the clusters.
fn lan(cluster: u8, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, cluster * APART + last)
}

/// The VIP of the API servers of this one of the clusters, where the control plane has nodes of its own on the LAN.
pub(crate) fn api_vip(cluster: u8) -> Ipv4Addr {
    lan(cluster, 29)
}

/// Returns the IPv6 address on the LAN of the host with this IPv4 address.
pub(crate) fn ipv6_of(address: Ipv4Addr) -> Ipv6Addr {
    let last = u16::from(address.octets()[3]);
    let as_read = last / 100 * 0x100 + last / 10 % 10 * 0x10 + last % 10;
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, as_read)
}

/// The host `cp`.
pub(crate) fn control_plane(hosts: &[Host]) -> anyhow::Result<&Host> {
    hosts.iter().find(|host| host.role == Role::ControlPlane).context("no host cp")
}

/// The shell script (`sh -e`) that makes the LAN and its hosts, with the routes from node to node to pods if those are `routed`.
pub(crate) fn script(hosts: &[Host], routed: bool) -> anyhow::Result<String> {
    let cp = control_plane(hosts)?;
    let mut script = String::from("ip netns add lan\n");
    for bridge in hosts.iter().map(Host::bridge).collect::<BTreeSet<_>>() {
        let _ = write!(
            script,
            "ip -n lan link add {bridge} type bridge mcast_snooping 0 forward_delay 0\n\
             ip -n lan link set {bridge} up\n"
        );
    }
    for host in hosts {
        let (name, address, mac, ipv6) = (&host.name, host.address, host.mac(), host.ipv6());
        let bridge = host.bridge();
        let _ = write!(
            script,
            "ip netns add {name}\n\
             ip -n {name} link set lo up\n\
             ip -n lan link add v-{name} type veth peer name eth0 address {mac} netns {name}\n\
             ip -n lan link set v-{name} master {bridge} up\n\
             ip -n {name} addr add {address}/24 brd + dev eth0\n\
             if [ -e /proc/sys/net/ipv6 ]; then ip -n {name} addr add {ipv6}/64 dev eth0 nodad; fi\n\
             ip -n {name} link set eth0 up\n"
        );
        if matches!(host.role, Role::Node(_) | Role::ControlPlaneNode) {
            // Packets to Services leave by the default route until kube-proxy has rewritten them; the rest ends at `cp`,
            // which forwards nothing.
            let _ = write!(
                script,
                "nsenter --net=/run/netns/{name} sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'\n\
                 ip -n {name} route add default via {}\n\
                 if [ -e /proc/sys/net/ipv6 ]; then\n\
                 nsenter --net=/run/netns/{name} sh -c 'echo 1 >/proc/sys/net/ipv6/conf/all/forwarding'\n\
                 ip -n {name} route add default via {}\nfi\n",
                rack_networks::network(address).map_or(cp.address, rack_networks::gateway),
                cp.ipv6()
            );
        }
        let needs_routes = match host.role {
            Role::Node(_) => routed,
            Role::ControlPlane | Role::ControlPlaneNode | Role::Router => true,
            Role::Client => false,
        };
        for other in hosts.iter().filter(|other| other.name != *name && needs_routes) {
            if let Some([v4, v6]) = other.pod_cidrs() {
                let _ = write!(
                    script,
                    "ip -n {name} route add {v4} via {}\n\
                     if [ -e /proc/sys/net/ipv6 ]; then ip -n {name} route add {v6} via {}; fi\n",
                    other.address,
                    other.ipv6()
                );
            }
        }
    }
    Ok(script)
}

#[cfg(test)]
mod tests;
