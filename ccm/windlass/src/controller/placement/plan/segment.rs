//! Segments: the subnets of either family that nodes have an interface in.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv6Net};
use kube::ResourceExt as _;
use windlass_api::{InterfaceInfo, NodeNetwork};
use windlass_ipam::{AddressRange, AddressSet};

/// Longer prefixes hold no neighbours: such an address is a host route.
const fn longest_prefix(net: &IpNet) -> u8 {
    match net {
        IpNet::V4(_) => 30,
        IpNet::V6(_) => 126,
    }
}

/// Addresses of one link.
const LINK_LOCAL: IpNet = IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10));

/// A node's place on a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) node: String,
    pub(crate) interface: String,
    /// Where its adverts come from: its primary address there, in IPv6 the interface's link-local one.
    pub(crate) source: IpAddr,
    /// In the stable node set.
    pub(crate) healthy: bool,
}

/// All segments.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    subnets: BTreeMap<IpNet, Vec<Candidate>>,
    /// Lengths of their prefixes, by whether the family is IPv4.
    lengths: BTreeSet<(bool, u8)>,
    /// For each interface and whether the family is IPv4, the subnet there that the most nodes have.
    widest: BTreeMap<String, BTreeMap<bool, IpNet>>,
    /// IPv6 subnets on interfaces without a link-local address: nobody can send adverts there.
    without_link_local: BTreeSet<IpNet>,
    /// Addresses without a subnet, each as `2001:db8::5/128 on eth0 of node n1`, by interface.
    host_routes: BTreeMap<String, Vec<(IpNet, String)>>,
    /// Nodes whose network is known.
    reported: BTreeSet<String>,
}

impl Segments {
    /// The segments of nodes that exist.
    pub(crate) fn new(networks: &[Arc<NodeNetwork>], nodes: &BTreeMap<String, bool>) -> Self {
        let mut segments = Self::default();
        for network in networks {
            let node = network.name_any();
            let Some(&healthy) = nodes.get(&node) else { continue };
            for interface in &network.spec.interfaces {
                segments.add(&node, interface, healthy);
            }
            segments.reported.insert(node);
        }
        segments.index();
        segments
    }

    /// What [`Self::find`] looks up: there may be a subnet for each of hundreds of nodes.
    fn index(&mut self) {
        let mut widths: BTreeMap<(&str, bool), (usize, Reverse<IpNet>)> = BTreeMap::new();
        for (net, places) in &self.subnets {
            let is_ipv4 = net.addr().is_ipv4();
            self.lengths.insert((is_ipv4, net.prefix_len()));
            let on: BTreeSet<(&str, &str)> =
                places.iter().map(|one| (one.interface.as_str(), one.node.as_str())).collect();
            let mut nodes: BTreeMap<&str, usize> = BTreeMap::new();
            for (interface, _) in on {
                *nodes.entry(interface).or_default() += 1;
            }
            for (interface, count) in nodes {
                let width = (count, Reverse(*net));
                let known = widths.entry((interface, is_ipv4)).or_insert(width);
                *known = (*known).max(width);
            }
        }
        for ((interface, is_ipv4), (_, Reverse(net))) in widths {
            self.widest.entry(interface.to_owned()).or_default().insert(is_ipv4, net);
        }
    }

    fn add(&mut self, node: &str, interface: &InterfaceInfo, healthy: bool) {
        for address in &interface.addresses {
            let Ok(net) = address.parse::<IpNet>() else { continue };
            if net.prefix_len() > longest_prefix(&net) {
                let what = format!("{net} on {} of node {node}", interface.name);
                self.host_routes.entry(interface.name.clone()).or_default().push((net, what));
                continue;
            }
            let source = match net {
                IpNet::V4(net) => Some(IpAddr::V4(net.addr())),
                // Every link has this subnet, which is another one on each.
                IpNet::V6(net) if net.addr().is_unicast_link_local() => continue,
                IpNet::V6(_) => interface.link_local.map(IpAddr::V6),
            };
            let Some(source) = source else {
                self.without_link_local.insert(net.trunc());
                continue;
            };
            let (node, interface) = (node.to_owned(), interface.name.clone());
            let candidate = Candidate { node, interface, source, healthy };
            self.subnets.entry(net.trunc()).or_default().push(candidate);
        }
    }

    /// Whether the node has said what its network is.
    pub(crate) fn is_reported(&self, node: &str) -> bool {
        self.reported.contains(node)
    }

    /// The candidates of `segment`, each node once, on `interface` if one is named.
    pub(crate) fn candidates(&self, segment: IpNet, interface: Option<&str>) -> Vec<&Candidate> {
        let mut seen = BTreeSet::new();
        self.places(segment, interface).filter(|one| seen.insert(one.node.as_str())).collect()
    }

    /// The same by the nodes' names.
    pub(crate) fn by_node<'a>(
        &'a self,
        segment: IpNet,
        interface: Option<&str>,
    ) -> BTreeMap<&'a str, &'a Candidate> {
        let mut candidates = BTreeMap::new();
        for one in self.places(segment, interface) {
            candidates.entry(one.node.as_str()).or_insert(one);
        }
        candidates
    }

    /// Whether `segment` has a candidate.
    pub(crate) fn has_candidates(&self, segment: IpNet, interface: Option<&str>) -> bool {
        self.places(segment, interface).next().is_some()
    }

    /// Whether `node` is a candidate of `segment`.
    pub(crate) fn has_candidate(&self, segment: IpNet, node: &str) -> bool {
        self.places(segment, None).any(|one| one.node == node)
    }

    fn places<'a, 'i>(
        &'a self,
        segment: IpNet,
        interface: Option<&'i str>,
    ) -> impl Iterator<Item = &'a Candidate> + use<'a, 'i> {
        let all = self.subnets.get(&segment).into_iter().flatten();
        all.filter(move |one| interface.is_none_or(|name| name == one.interface))
    }

    /// The segment for `address`: the smallest subnet that holds it. With an `interface` named, a subnet of its family
    /// there will do even if it does not hold the address, the one of most nodes first.
    pub(crate) fn find(&self, address: IpAddr, interface: Option<&str>) -> Option<IpNet> {
        let is_ipv4 = address.is_ipv4();
        let longest_first = self.lengths.range((is_ipv4, 0)..=(is_ipv4, u8::MAX)).rev();
        longest_first
            .filter_map(|(_, length)| Some(IpNet::new(address, *length).ok()?.trunc()))
            .find(|net| self.has_candidates(*net, interface))
            .or_else(|| self.widest.get(interface?)?.get(&is_ipv4).copied())
    }

    /// Those of `addresses` that [`Self::find`] finds a segment for, and these segments. Link-local ones are none of them: agents
    /// refuse to announce what is another address on each link.
    pub(crate) fn find_all(
        &self,
        addresses: &AddressSet,
        interface: Option<&str>,
    ) -> (AddressSet, BTreeSet<IpNet>) {
        let mut left = addresses.clone();
        left.remove(AddressRange::from(LINK_LOCAL));
        let (mut found, mut segments) = (AddressSet::default(), BTreeSet::new());
        let mut places: Vec<(IpNet, IpNet)> = self.subnets(interface).map(|net| (net, net)).collect();
        let widest = interface.and_then(|name| self.widest.get(name)).into_iter().flat_map(BTreeMap::values);
        places.extend(widest.filter_map(|net| Some((IpNet::new(net.addr(), 0).ok()?, *net))));
        places.sort_by_key(|(holds, _)| Reverse(holds.prefix_len()));
        for (holds, segment) in places {
            let part = left.within(AddressRange::from(holds));
            if !part.is_empty() {
                left.subtract(&part);
                found.extend(&part);
                segments.insert(segment);
            }
        }
        (found, segments)
    }

    /// Every subnet that has a candidate, on `interface` if one is named.
    pub(crate) fn subnets(&self, interface: Option<&str>) -> impl Iterator<Item = IpNet> {
        self.subnets.keys().copied().filter(move |net| self.has_candidates(*net, interface))
    }

    /// Whether some node has said what its network is.
    pub(crate) fn is_any_reported(&self) -> bool {
        !self.reported.is_empty()
    }

    /// Where no node has a subnet of the family of `address`, on `interface` if one is named: an address there that is one
    /// of its own, and in none.
    pub(crate) fn find_host_route(&self, address: IpAddr, interface: Option<&str>) -> Option<&str> {
        let same_family = |net: &IpNet| net.addr().is_ipv4() == address.is_ipv4();
        if self.subnets.keys().any(|net| same_family(net) && self.has_candidates(*net, interface)) {
            return None;
        }
        let named =
            self.host_routes.iter().filter(|(name, _)| interface.is_none_or(|interface| interface == *name));
        named.flat_map(|(_, all)| all).find(|(net, _)| same_family(net)).map(|(_, what)| what.as_str())
    }

    /// A subnet that holds `address` and nobody can send adverts in.
    pub(crate) fn find_without_link_local(&self, address: IpAddr) -> Option<IpNet> {
        self.without_link_local.iter().find(|net| net.contains(&address)).copied()
    }
}
