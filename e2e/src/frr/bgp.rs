//! FRR as a BGP router: zebra, bgpd and bfdd on a host.

use std::{collections::BTreeSet, net::Ipv4Addr, time::Duration};

use anyhow::Context as _;
use nix::sys::signal::Signal;
use serde::Deserialize;

use super::folder;
use crate::{lab::Lab, wait::await_that};

const BGPD: &str = "bgpd";
const BFDD: &str = "bfdd";
/// Time limit of a start.
const LIMIT: Duration = Duration::from_secs(30);
/// Interval of BFD between routers, in ms.
const INTERVAL_MS: u32 = 300;

/// A path to a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BgpPath {
    /// Next hop.
    pub next_hop: Ipv4Addr,
    /// Length of the AS path.
    pub length: u64,
    /// True if packets take it.
    pub is_used: bool,
}

/// Detection of a dead BGP peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detection {
    /// BFD with packets at this interval in ms, three of which may be missing.
    Bfd(u32),
    /// The hold time alone, of so many seconds.
    HoldTime(u16),
}

/// Lines about a router.
pub(crate) fn router(name: &str, asn: u32) -> String {
    format!(
        "neighbor {name} remote-as {asn}\nneighbor {name} bfd profile lab\nneighbor {name} timers connect 5\n"
    )
}

/// Lines about the nodes of a network, whose intervals of BFD count.
pub(crate) fn nodes(network: &str, asn: u32) -> String {
    format!(
        "neighbor nodes peer-group
neighbor nodes remote-as {asn}
neighbor nodes bfd profile short
bgp listen range {network} peer-group nodes
"
    )
}

impl Lab {
    /// Starts a router of this AS on a host, with these lines about its neighbours, and waits until it answers.
    pub(crate) async fn start_bgp_router(&self, host: &str, asn: u32, lines: &str) -> anyhow::Result<()> {
        self.start_bgp(host, asn, lines, INTERVAL_MS).await
    }

    async fn start_bgp(&self, host: &str, asn: u32, lines: &str, interval_ms: u32) -> anyhow::Result<()> {
        let id = self.host(host)?.address;
        let bgpd = format!(
            "log stdout informational
router bgp {asn}
bgp router-id {id}
no bgp ebgp-requires-policy
no bgp network import-check
bgp bestpath as-path multipath-relax
{lines}address-family ipv4 unicast
maximum-paths 8
exit-address-family"
        );
        let bfdd = format!(
            "log stdout informational
bfd
profile lab
receive-interval {interval_ms}
transmit-interval {interval_ms}
profile short
receive-interval 50
transmit-interval 50"
        );
        self.start_zebra(host, &[(BGPD, &bgpd), (BFDD, &bfdd)]).await?;
        let socket = format!("{}/bfdd.sock", folder(host));
        self.start_frr_daemon(host, BFDD, &["--bfdctl", &socket])?;
        self.start_frr_daemon(host, BGPD, &[])?;
        await_that(&format!("bgpd on {host} answers"), LIMIT, async || {
            self.ask_frr(host, BGPD, "show bgp summary json").await.map(Some)
        })
        .await
        .map(drop)
    }

    /// Starts FRR on a node of the control plane in a rack in the place of `windlass vip`: the node has the VIP, and bgpd announces it,
    /// whatever the API server does.
    pub async fn start_api_frr(&self, node: &str, detection: Detection) -> anyhow::Result<()> {
        let address = self.host(node)?.address;
        let [a, b, c, _] = address.octets();
        let gateway = Ipv4Addr::new(a, b, c, 1);
        let vip = self.options.api_vip_address();
        self.exec(node, &["ip", "addr", "replace", &format!("{vip}/32"), "dev", "lo"]).await?;
        let (times, interval_ms) = match detection {
            Detection::Bfd(interval_ms) => ("bfd profile lab".to_owned(), interval_ms),
            Detection::HoldTime(seconds) => (format!("timers {} {seconds}", seconds / 3), INTERVAL_MS),
        };
        let lines = format!(
            "neighbor {gateway} remote-as external
neighbor {gateway} timers connect 5
neighbor {gateway} {times}
network {vip}/32
"
        );
        self.start_bgp(node, crate::rack_networks::NODES_ASN, &lines, interval_ms).await
    }

    /// Ends FRR on a node, and takes the VIP from it.
    pub async fn stop_api_frr(&self, node: &str) -> anyhow::Result<()> {
        for daemon in [BGPD, BFDD, super::ZEBRA] {
            self.end_process(node, daemon, Signal::SIGTERM).await?;
        }
        let vip = format!("{}/32", self.options.api_vip_address());
        self.exec(node, &["ip", "addr", "del", &vip, "dev", "lo"]).await.map(drop)
    }

    /// Restarts bgpd on a host in an orderly way, as an upgrade does.
    pub async fn restart_bgp(&self, host: &str) -> anyhow::Result<()> {
        self.end_process(host, BGPD, Signal::SIGTERM).await?;
        self.daemons.start_again(&self.sandbox, host, BGPD)
    }

    async fn ask_frr(&self, host: &str, daemon: &str, question: &str) -> anyhow::Result<String> {
        self.exec(host, &["vtysh", "--vty_socket", &folder(host), "-d", daemon, "-c", question]).await
    }

    /// Returns the peers with which BFD is Up on a host.
    pub(crate) async fn bfd_peers(&self, host: &str) -> anyhow::Result<BTreeSet<Ipv4Addr>> {
        #[derive(Deserialize)]
        struct Peer {
            peer: Ipv4Addr,
            status: String,
        }
        let answer = self.ask_frr(host, BFDD, "show bfd peers json").await?;
        let peers: Vec<Peer> =
            serde_json::from_str(&answer).with_context(|| format!("bfdd on {host} answers {answer}"))?;
        Ok(peers.into_iter().filter(|peer| peer.status == "up").map(|peer| peer.peer).collect())
    }

    /// Returns the paths that bgpd on a host has to a prefix.
    pub(crate) async fn bgp_paths(&self, host: &str, prefix: &str) -> anyhow::Result<Vec<BgpPath>> {
        let answer = self.ask_frr(host, BGPD, &format!("show bgp ipv4 unicast {prefix} json")).await?;
        paths(&answer).with_context(|| format!("bgpd on {host} answers {answer}"))
    }
}

fn paths(answer: &str) -> anyhow::Result<Vec<BgpPath>> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(default)]
        paths: Vec<Path>,
    }
    #[derive(Deserialize)]
    struct Path {
        aspath: AsPath,
        nexthops: [NextHop; 1],
        #[serde(default)]
        multipath: bool,
        #[serde(default)]
        bestpath: Best,
    }
    #[derive(Deserialize)]
    struct AsPath {
        length: u64,
    }
    #[derive(Deserialize)]
    struct NextHop {
        ip: Ipv4Addr,
    }
    #[derive(Default, Deserialize)]
    struct Best {
        #[serde(default)]
        overall: bool,
    }
    let Answer { paths } = serde_json::from_str(answer)?;
    let path = |Path { aspath, nexthops: [next_hop], multipath, bestpath }| BgpPath {
        next_hop: next_hop.ip,
        length: aspath.length,
        is_used: multipath || bestpath.overall,
    };
    Ok(paths.into_iter().map(path).collect())
}
