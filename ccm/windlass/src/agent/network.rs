//! What this node sees of its network: which interfaces count, and which VRRP routers are not ours. Pure.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use windlass_api::{ForeignRouter, InterfaceInfo, RankedNode, UnicastPeer};

use crate::bridges::is_container_bridge;

#[cfg(test)]
mod tests;

/// Interfaces of Kubernetes' own pod networking, by the beginning of their names: they carry pods' addresses, and nobody is to
/// announce there.
const OF_PODS: &[&str] = &["cni", "veth", "kube-", "cali", "flannel", "cilium", "lxc", "nodelocaldns"];

/// A stranger that is not heard any more is forgotten after this time.
const FORGET_AFTER: Duration = Duration::from_mins(10);
/// A stranger is reported only after this time: the adverts of a virtual router that another node of the cluster has
/// just been given may come before this node has read of it.
const GRACE: Duration = Duration::from_secs(3);
/// Adverts of a node that was ranked until so recently are the end of its work, not a stranger's.
const LAST_ADVERTS: Duration = Duration::from_secs(30);
/// More strangers than this are not kept: an attacker must not fill the memory or the API server.
const MAX_STRANGERS: usize = 256;

/// Whether the interface can be one that carries the node's own addresses, judged by its name: everything but loopback, the
/// interfaces of pod networks (those named `cni…`, `veth…`, `kube-…`, `cali…`, `flannel…`, `cilium…`, `lxc…`, `nodelocaldns…`)
/// and the [bridges of containers and virtual machines](is_container_bridge). A bridge of the admin's own (`br0`, `br-lan`)
/// counts.
pub(crate) fn is_the_nodes(name: &str) -> bool {
    name != "lo" && !is_containers(name)
}

/// Whether a container network made the interface: Kubernetes' or another.
pub(crate) fn is_containers(name: &str) -> bool {
    is_of_pods(name) || is_container_bridge(name)
}

fn is_of_pods(name: &str) -> bool {
    OF_PODS.iter().any(|prefix| name.starts_with(prefix))
}

/// The interfaces to report, by name, those that can carry the node's own addresses first. The bridges of containers and virtual
/// machines are among them: whether one announces, an Announcement says. Link-local IPv6 addresses are not among their addresses:
/// every link has those, they tell no segment. The lowest of them is the source of adverts.
pub(crate) fn interfaces(found: &[windlass_engine::InterfaceInfo]) -> Vec<InterfaceInfo> {
    let mut interfaces: Vec<InterfaceInfo> = found
        .iter()
        .filter(|interface| interface.name != "lo" && !is_of_pods(&interface.name))
        .map(|interface| {
            let v4 = interface.ipv4.iter().map(|(address, length)| format!("{address}/{length}"));
            let (link_local, v6): (Vec<_>, Vec<_>) =
                interface.ipv6.iter().partition(|(address, _)| address.is_unicast_link_local());
            let v6 = v6.into_iter().map(|(address, length)| format!("{address}/{length}"));
            InterfaceInfo {
                name: interface.name.clone(),
                mac: mac(interface.mac),
                addresses: v4.chain(v6).collect(),
                link_local: link_local.into_iter().map(|(address, _)| address).min(),
            }
        })
        .filter(|interface| !interface.addresses.is_empty())
        .collect();
    interfaces.sort_by(|a, b| {
        (is_container_bridge(&a.name), &a.name).cmp(&(is_container_bridge(&b.name), &b.name))
    });
    interfaces
}

/// The nodes between which and this one multicast does not pass, by what the candidates of the virtual routers are called.
pub(crate) fn without_multicast<'a>(
    peers: impl IntoIterator<Item = (String, IpAddr)>,
    candidates: impl Iterator<Item = &'a RankedNode>,
) -> Vec<UnicastPeer> {
    let names: HashMap<IpAddr, &str> = candidates.map(|node| (node.address, node.name.as_str())).collect();
    let peer = |(interface, address): (String, IpAddr)| {
        let node = names.get(&address).copied().unwrap_or_default().to_owned();
        UnicastPeer { interface, address, node }
    };
    peers.into_iter().map(peer).take(MAX_STRANGERS).collect()
}

/// A link-layer address as `02:00:00:00:00:01`.
pub(crate) fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

/// The strangers heard lately.
#[derive(Debug, Default)]
pub(crate) struct ForeignRouters {
    heard: BTreeMap<ForeignRouter, (Instant, Instant)>,
    ranked: HashMap<(u8, IpAddr), Instant>,
}

impl ForeignRouters {
    /// The engine heard a router that it obeys not.
    pub(crate) fn hear(&mut self, router: ForeignRouter, now: Instant) {
        let room = self.heard.len() < MAX_STRANGERS;
        if let Some((_, last)) = self.heard.get_mut(&router) {
            *last = now;
        } else if room {
            self.heard.insert(router, (now, now));
        }
    }

    /// The VRID and address of every candidate of every virtual router of the cluster, as known now.
    pub(crate) fn rank(&mut self, candidates: impl Iterator<Item = (u8, IpAddr)>, now: Instant) {
        self.ranked.extend(candidates.map(|candidate| (candidate, now)));
        self.ranked.retain(|_, last| now.duration_since(*last) < FORGET_AFTER);
    }

    /// The routers that are not the cluster's: heard in the last ten minutes, from a source that was no candidate for
    /// the VRID then.
    pub(crate) fn foreign(&mut self, now: Instant) -> Vec<ForeignRouter> {
        self.heard.retain(|_, (_, last)| now.duration_since(*last) < FORGET_AFTER);
        let stranger = |router: &ForeignRouter, first: Instant, last: Instant| {
            let ours = self
                .ranked
                .get(&(router.vrid, router.source))
                .is_some_and(|ranked| last.saturating_duration_since(*ranked) < LAST_ADVERTS);
            !ours && now.duration_since(first) >= GRACE
        };
        let heard = self.heard.iter();
        heard
            .filter(|(router, (first, last))| stranger(router, *first, *last))
            .map(|(router, _)| router.clone())
            .collect()
    }
}
