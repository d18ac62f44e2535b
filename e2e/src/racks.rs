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

use std::{collections::BTreeSet, net::Ipv4Addr, time::Duration};

use anyhow::ensure;

use crate::{
    frr::{self, BgpPath},
    lab::Lab,
    rack_hosts::{CORE, LEAVES},
    rack_networks::{NODES_ASN, VIP, gateway},
    wait::await_that,
};

/// Length of the AS path of a good route at the router before the racks; a degraded one is longer everywhere.
const LONGEST_GOOD: u64 = 2;
/// Time limit of a change of routes.
const LIMIT: Duration = Duration::from_mins(1);

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

    /// Waits until BFD between each node and its router is Up: without it only the hold time shows that a node died.
    pub async fn await_bfd(&self) -> anyhow::Result<()> {
        await_that("BFD of all nodes is Up", LIMIT, async || {
            for (leaf, nodes) in [(LEAVES[0], &["cp1", "cp2"] as &[&str]), (LEAVES[1], &["cp3"])] {
                let up: BTreeSet<_> =
                    self.bfd_peers(leaf).await?.into_iter().map(|peer| self.router_or_node(peer)).collect();
                ensure!(nodes.iter().all(|node| up.contains(*node)), "{leaf} has it with {up:?}");
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
