//! Two racks of a control plane, with a network and a BGP router of their own each, and the router before them that clients use.
//!
//! ```text
//!   LAN 192.0.2.0/24        cp, clients ──► core .1, AS 64500
//!   198.18.0.0/24           core .1 ──┬── leaf1 .11, AS 64501
//!                                     └── leaf2 .12, AS 64502
//!   198.18.1.0/24           leaf1 .1 ──── cp1 .21, cp2 .22
//!   198.18.2.0/24           leaf2 .1 ──── cp3 .23
//!   198.18.255.1            the VIP of the API servers, AS 64512
//! ```
//! Each network is a bridge, so that no router loses a link when a host at the other end does: only BFD or the hold time shows it. Routers
//! use all paths of the shortest AS path.

use std::{collections::BTreeSet, fmt::Write as _, net::Ipv4Addr, time::Duration};

use anyhow::ensure;

use crate::{
    frr::{self, BgpPath},
    lab::Lab,
    topology::{Host, Role},
    wait::await_that,
};

/// The VIP of the API servers.
pub(crate) const VIP: Ipv4Addr = Ipv4Addr::new(198, 18, 255, 1);
/// AS of the nodes.
pub(crate) const NODES_ASN: u32 = 64512;
/// Length of the AS path of a good route at the router before the racks; a degraded one is longer everywhere.
const LONGEST_GOOD: u64 = 2;
/// Time limit of a change of routes.
const LIMIT: Duration = Duration::from_mins(1);
const CORE: &str = "core";
const CORE_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const LEAVES: [&str; 2] = ["leaf1", "leaf2"];

/// Number of the network of an address: 0 of the routers, 1 and 2 of the racks; `None` for the LAN.
pub(crate) fn network(address: Ipv4Addr) -> Option<u8> {
    match address.octets() {
        [198, 18, network, _] => Some(network),
        _ => None,
    }
}

/// Name of the bridge of a network.
pub(crate) fn bridge(network: u8) -> String {
    format!("rack{network}")
}

/// The router of a network.
pub(crate) fn gateway(network: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, network, 1)
}

/// Moves the nodes of the control plane to the racks, and adds the routers.
pub(crate) fn hosts(mut hosts: Vec<Host>) -> Vec<Host> {
    let nodes = hosts.iter_mut().filter(|host| host.role == Role::ControlPlaneNode);
    let mut nodes: Vec<&mut Host> = nodes.collect();
    let last = nodes.len().saturating_sub(1);
    for (number, node) in nodes.iter_mut().enumerate() {
        let [.., octet] = node.address.octets();
        node.address = Ipv4Addr::new(198, 18, if number == last { 2 } else { 1 }, octet);
    }
    let router = |name: &str, address| Host { name: name.to_owned(), role: Role::Router, address };
    hosts.push(router(CORE, CORE_ADDRESS));
    hosts.extend((11..).zip(LEAVES).map(|(last, leaf)| router(leaf, Ipv4Addr::new(198, 18, 0, last))));
    hosts
}

/// The shell script (`sh -e`) that connects routers and racks, after that of the topology.
pub(crate) fn script(hosts: &[Host]) -> String {
    let mut script = String::new();
    let routers = hosts.iter().filter(|host| host.role == Role::Router);
    for (network, Host { name, address, .. }) in (0..).zip(routers) {
        let (bridge, gateway) = (bridge(network), gateway(network));
        let _ = write!(
            script,
            "ip -n lan link add r-{name} type veth peer name rack netns {name}\n\
             ip -n lan link set r-{name} master {bridge} up\n\
             ip -n {name} addr add {gateway}/24 dev rack\n\
             ip -n {name} link set rack up\n\
             nsenter --net=/run/netns/{name} sh -ec 'cd /proc/sys/net/ipv4; echo 1 >ip_forward\n\
             echo 1 >fib_multipath_hash_policy\n\
             for one in all default eth0 rack; do echo 0 >conf/$one/send_redirects; echo 0 >conf/$one/rp_filter; done\n\
             # Routers with the same seed would all choose the path of the same number.\n\
             [ ! -e fib_multipath_hash_seed ] || echo {} >fib_multipath_hash_seed'\n",
            network + 1
        );
        if network > 0 {
            let _ = write!(
                script,
                "ip -n {name} route add default via {}\n\
                 ip -n {CORE} route add 198.18.{network}.0/24 via {address}\n",
                self::gateway(0)
            );
        }
    }
    for user in hosts.iter().filter(|host| matches!(host.role, Role::ControlPlane | Role::Client)) {
        let _ = writeln!(script, "ip -n {} route add default via {CORE_ADDRESS}", user.name);
    }
    script
}

impl Lab {
    /// Starts the routers.
    pub(crate) async fn start_routers(&self) -> anyhow::Result<()> {
        let [first, second] = LEAVES.map(|leaf| self.host(leaf).map(|host| host.address));
        let leaves = [first?, second?];
        // Leaves open the sessions: two that do so at once, once a second, would be in each other's way.
        let neighbours = |(asn, leaf): (u32, Ipv4Addr)| {
            format!("{}neighbor {leaf} passive\n", frr::router(&leaf.to_string(), asn))
        };
        let neighbours: String = (64501..).zip(leaves).map(neighbours).collect();
        self.start_bgp_router(CORE, 64500, &neighbours).await?;
        for (network, leaf) in (1_u32..).zip(LEAVES) {
            let core = frr::router(&gateway(0).to_string(), 64500);
            let neighbours = core + &frr::nodes(&format!("198.18.{network}.0/24"), NODES_ASN);
            self.start_bgp_router(leaf, 64500 + network, &neighbours).await?;
        }
        Ok(())
    }

    /// Returns the paths that a router, as `core` or `leaf1`, has to the VIP.
    pub async fn vip_paths(&self, router: &str) -> anyhow::Result<Vec<BgpPath>> {
        self.bgp_paths(router, &format!("{VIP}/32")).await
    }

    /// Returns the hosts to which a router sends packets to the VIP.
    pub async fn vip_next_hops(&self, router: &str) -> anyhow::Result<BTreeSet<String>> {
        let used = self.vip_paths(router).await?.into_iter().filter(|path| path.is_used);
        Ok(used.map(|path| self.router_or_node(path.next_hop)).collect())
    }

    fn router_or_node(&self, address: Ipv4Addr) -> String {
        let host = self.hosts.iter().find(|host| host.address == address);
        if address == gateway(0) {
            return CORE.to_owned();
        }
        host.map_or_else(|| address.to_string(), |host| host.name.clone())
    }

    /// Waits until all routers send packets to the VIP to all that they may, by good routes.
    pub async fn await_racks(&self) -> anyhow::Result<()> {
        await_that("routers use all nodes", LIMIT, async || {
            for (router, all) in
                [(CORE, &LEAVES as &[&str]), (LEAVES[0], &["cp1", "cp2"]), (LEAVES[1], &["cp3"])]
            {
                let paths = self.vip_paths(router).await?;
                let used = self.vip_next_hops(router).await?;
                let is_good = paths.iter().all(|path| path.length <= LONGEST_GOOD || !path.is_used);
                ensure!(is_good && used.iter().eq(all.iter()), "{router} uses {used:?} of {paths:?}");
            }
            Ok(Some(()))
        })
        .await
    }

    /// Waits until no router sends packets to the VIP to this host.
    pub async fn await_avoided(&self, host: &str) -> anyhow::Result<()> {
        await_that(&format!("routers avoid {host}"), LIMIT, async || {
            for router in [CORE, LEAVES[0], LEAVES[1]] {
                let used = self.vip_next_hops(router).await?;
                ensure!(router == host || !used.contains(host), "{router} uses {used:?}");
            }
            Ok(Some(()))
        })
        .await
    }

    /// Cuts a rack, that of `leaf1` or `leaf2`, off from all else, or connects it again. No router sees a link go down but its own.
    pub fn cut_rack(&self, leaf: &str, is_cut: bool) -> anyhow::Result<()> {
        let state = if is_cut { "down" } else { "up" };
        self.sandbox.script(&format!("ip -n lan link set v-{leaf} {state}")).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology;

    #[test]
    fn all_nodes_but_the_last_are_in_the_first_rack_and_each_address_is_one_hosts() {
        let hosts = hosts(topology::hosts(0, 3, 0, &["c1".into()]).unwrap());
        let of_nodes = hosts.iter().filter(|host| host.role == Role::ControlPlaneNode);
        let networks: Vec<_> = of_nodes.map(|host| network(host.address)).collect();
        assert_eq!(networks, [Some(1), Some(1), Some(2)]);
        let mut addresses: BTreeSet<Ipv4Addr> = (0..3).map(gateway).chain([VIP]).collect();
        for host in &hosts {
            assert!(addresses.insert(host.address), "{host:?}");
        }
    }
}
