//! This node's view of its network: interfaces to report, and VRRP routers that are not the cluster's. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use windlass_api::{ForeignRouter, InterfaceInfo, RankedNode, UnicastPeer};
use windlass_common::bridges::{is_container_bridge, is_of_pods};

#[cfg(test)]
mod tests;

/// Time after which a silent foreign router is removed.
const FORGET_AFTER: Duration = Duration::from_mins(10);
/// Delay before a foreign router is reported: the adverts of a virtual router that another node of the cluster has just been given may
/// arrive before this node has read of it.
const GRACE: Duration = Duration::from_secs(3);
/// Time for which adverts of a formerly ranked node count as its last ones, not as a foreign router's.
const LAST_ADVERTS: Duration = Duration::from_secs(30);
/// Largest number of foreign routers: an attacker must not fill the memory or the API server.
const MAX_STRANGERS: usize = 256;
/// Largest number of them with one VRID on one interface: further ones add no information.
const MAX_OF_A_VRID: usize = 4;

/// Time with carrier after which an interface that lost its carrier is preferred again to others of its subnet.
const STEADY: Duration = Duration::from_mins(1);

/// Interfaces that lost their carrier, each with the time since which it is back. Of two interfaces in one subnet, those that have
/// carrier come first in a report, and the first is the one that announces.
#[derive(Debug, Default)]
pub(crate) struct Carriers {
    lost: BTreeMap<String, Option<Instant>>,
}

impl Carriers {
    /// Records the current interfaces.
    pub(crate) fn note(&mut self, found: &[windlass_engine::InterfaceInfo], now: Instant) {
        self.lost.retain(|name, _| found.iter().any(|one| one.name == *name));
        for interface in found {
            if !interface.carrier {
                self.lost.insert(interface.name.clone(), None);
            } else if let Some(back) = self.lost.get_mut(&interface.name) {
                let since = *back.get_or_insert(now);
                if now.duration_since(since) >= STEADY {
                    self.lost.remove(&interface.name);
                }
            }
        }
    }

    /// Returns true if the interface lost its carrier and another one of its subnets has not.
    fn has_better(
        &self,
        interface: &windlass_engine::InterfaceInfo,
        found: &[windlass_engine::InterfaceInfo],
    ) -> bool {
        self.lost.contains_key(&interface.name)
            && found.iter().filter(|other| !self.lost.contains_key(&other.name)).any(|other| {
                other.ipv4.iter().any(|net| interface.ipv4.iter().any(|own| is_same_subnet(net, own)))
                    || other.ipv6.iter().any(|net| interface.ipv6.iter().any(|own| is_same_subnet(net, own)))
            })
    }
}

/// Returns true for two addresses of one subnet. Link-local ones are of one on each link.
fn is_same_subnet<A: Copy + Into<IpAddr>>(
    &(one, length): &(A, u8),
    &(other, other_length): &(A, u8),
) -> bool {
    let net = |address: A, length| IpNet::new(address.into(), length).ok().map(|net| net.trunc());
    let is_link_local = matches!(one.into(), IpAddr::V6(address) if address.is_unicast_link_local());
    !is_link_local && net(one, length).is_some() && net(one, length) == net(other, other_length)
}

/// Returns true for an interface that can carry the node's own addresses: everything but loopback, the [interfaces of pod
/// networks](is_of_pod_network) and the [bridges of containers and virtual machines](is_container_bridge). A bridge of the admin's own
/// (`br0`, `br-lan`) counts.
pub(crate) fn is_the_nodes(interface: &windlass_engine::InterfaceInfo) -> bool {
    interface.name != "lo" && !is_of_pod_network(interface) && !is_container_bridge(&interface.name)
}

/// Returns true for an interface of a pod network, judged by its name (`cni…`, `veth…`, `kube-…`, `cali…`, `flannel…`, `cilium…`,
/// `lxc…`, `nodelocaldns…`). A network card, VLAN or bond of such a name is the admin's: no CNI plugin makes one on the node.
fn is_of_pod_network(interface: &windlass_engine::InterfaceInfo) -> bool {
    is_of_pods(&interface.name) && !interface.hardware
}

/// Returns true if a container network, Kubernetes' or another, created the interface.
pub fn is_containers(name: &str) -> bool {
    is_of_pods(name) || is_container_bridge(name)
}

/// Returns the interfaces to report, by name: first the ones that can carry the node's own addresses, and of several in one subnet the ones
/// that have carrier. Bridges of containers and virtual machines are included: an Announcement decides whether one announces. Link-local
/// IPv6 addresses are left out of the addresses: every link has them, and they identify no segment. The lowest of them is the source of
/// adverts.
pub(crate) fn interfaces(
    found: &[windlass_engine::InterfaceInfo],
    carriers: &Carriers,
) -> Vec<InterfaceInfo> {
    let mut sorted: Vec<&windlass_engine::InterfaceInfo> = found.iter().collect();
    sorted.sort_by_key(|one| (is_container_bridge(&one.name), carriers.has_better(one, found), &one.name));
    sorted
        .into_iter()
        .filter(|interface| interface.name != "lo" && !is_of_pod_network(interface))
        .map(|interface| {
            let v4 = interface.ipv4.iter().map(|(address, length)| format!("{address}/{length}"));
            let (link_local, v6): (Vec<_>, Vec<_>) =
                interface.ipv6.iter().partition(|(address, _)| address.is_unicast_link_local());
            let v6 = v6.into_iter().map(|(address, length)| format!("{address}/{length}"));
            InterfaceInfo {
                name: interface.name.clone(),
                mac: crate::mac(interface.mac),
                addresses: v4.chain(v6).collect(),
                link_local: link_local.into_iter().map(|(address, _)| address).min(),
                isolated: interface.isolated,
                mtu: Some(interface.mtu),
            }
        })
        .filter(|interface| !interface.addresses.is_empty())
        .collect()
}

/// Returns the nodes between which and this one multicast does not pass, named after the candidates of the virtual routers.
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

/// Foreign routers observed lately.
#[derive(Debug, Default)]
pub(crate) struct ForeignRouters {
    heard: BTreeMap<ForeignRouter, (Instant, Instant)>,
    ranked: HashMap<(u8, IpAddr), Instant>,
}

impl ForeignRouters {
    /// Records a router that the engine does not obey. One with a VRID of the cluster takes the place of one with another VRID if there is
    /// no room.
    pub(crate) fn hear(&mut self, router: ForeignRouter, now: Instant) {
        if let Some((_, last)) = self.heard.get_mut(&router) {
            *last = now;
            return;
        }
        let is_alike = |one: &&ForeignRouter| {
            (one.vrid, &one.interface, one.source.is_ipv4())
                == (router.vrid, &router.interface, router.source.is_ipv4())
        };
        if self.heard.keys().filter(is_alike).count() >= MAX_OF_A_VRID {
            return;
        }
        if self.heard.len() >= MAX_STRANGERS {
            let Some(dropped) = self.least_important(router.vrid) else { return };
            self.heard.remove(&dropped);
        }
        self.heard.insert(router, (now, now));
    }

    /// Returns the router that gives way to one with this VRID: none unless the cluster uses the VRID.
    fn least_important(&self, vrid: u8) -> Option<ForeignRouter> {
        let ours: BTreeSet<u8> = self.ranked.keys().map(|(vrid, _)| *vrid).collect();
        let others = self.heard.iter().filter(|(one, _)| !ours.contains(&one.vrid));
        let oldest = || others.min_by_key(|(_, (_, last))| *last).map(|(one, _)| one.clone());
        ours.contains(&vrid).then(oldest).flatten()
    }

    /// Records the VRID and address of every candidate of every virtual router of the cluster.
    pub(crate) fn rank(&mut self, candidates: impl Iterator<Item = (u8, IpAddr)>, now: Instant) {
        self.ranked.extend(candidates.map(|candidate| (candidate, now)));
        self.ranked.retain(|_, last| now.duration_since(*last) < FORGET_AFTER);
    }

    /// Returns the routers that are not the cluster's: observed in the last ten minutes, from a source that was no candidate for the VRID
    /// then.
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
