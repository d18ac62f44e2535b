//! Segments: the subnets of either family that nodes have an interface in, as far as they agree on them; see [`Lans`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv6Net};
use kube::ResourceExt as _;
use windlass_api::{InterfaceInfo, NodeNetwork};
use windlass_ipam::{AddressRange, AddressSet};

use crate::nodes::lans::{Lans, longest_prefix};
use crate::placement::announcements::ParsedAnnouncement;
use crate::placement::node_traits::NodeTraits;

/// Addresses of one link.
const LINK_LOCAL: IpNet = IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10));

/// A node's place on a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) node: String,
    pub(crate) interface: String,
    /// Source address of its adverts: its primary address there, in IPv6 the interface's link-local one.
    pub(crate) source: IpAddr,
    /// True if the node is not being removed, excluded or drained.
    pub(crate) healthy: bool,
    /// True if it reports a failure that affects the addresses: no VIPs are given to it.
    pub(crate) fails: bool,
    /// Preference of the Announcement for the node.
    pub(crate) weight: i32,
}

/// Properties of a candidate that come from its node.
#[derive(Debug, Clone, Copy)]
struct Standing {
    healthy: bool,
    fails: bool,
    weight: i32,
}

/// A segment that a node takes part in.
#[derive(Debug, Clone, Copy)]
struct Place {
    segment: IpNet,
    /// The node has its prefix length.
    is_own: bool,
}

/// Segments of the nodes and interfaces that one Announcement selects.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    subnets: BTreeMap<IpNet, Vec<Candidate>>,
    /// Lengths of their prefixes, by whether the family is IPv4.
    lengths: BTreeSet<(bool, u8)>,
    /// Subnet that the most nodes have, by whether the family is IPv4; only if the Announcement names interfaces. It takes addresses
    /// that no subnet contains.
    widest: BTreeMap<bool, IpNet>,
    /// IPv6 subnets on interfaces without a link-local address: nobody can send adverts there.
    without_link_local: BTreeSet<IpNet>,
    /// Addresses without a subnet, each as `2001:db8::5/128 on eth0 of node n1`.
    host_routes: Vec<(IpNet, String)>,
    /// Nodes of which it is known whether they are candidates, and where.
    known: BTreeSet<String>,
    /// Nodes that are to have addresses.
    healthy: BTreeSet<String>,
    /// Preference of the Announcement for each node, if it is not 0.
    weights: BTreeMap<String, i32>,
    is_any_reported: bool,
}

impl Segments {
    /// The segments of nodes that exist and that an Announcement leaves, but for those that are `left_out`.
    pub(crate) fn new(
        networks: &[Arc<NodeNetwork>],
        nodes: &BTreeMap<String, NodeTraits>,
        left_out: &BTreeSet<String>,
        lans: &Lans,
        announcement: &ParsedAnnouncement,
    ) -> Self {
        let mut segments = Self::default();
        let is_left_out = |name: &String, node: &NodeTraits| {
            left_out.contains(name) || !announcement.allows_node(&node.labels)
        };
        let left_out = nodes.iter().filter(|(name, node)| is_left_out(name, node));
        segments.known.extend(left_out.map(|(name, _)| name.clone()));
        let healthy = nodes.iter().filter(|(_, node)| announcement.is_healthy(node));
        segments.healthy = healthy.map(|(name, _)| name.clone()).collect();
        let weights = nodes.iter().map(|(name, node)| (name.clone(), announcement.weight(&node.labels)));
        segments.weights = weights.filter(|(_, weight)| *weight != 0).collect();
        for network in networks {
            let name = network.name_any();
            if !nodes.contains_key(&name) {
                continue;
            }
            segments.is_any_reported = true;
            // New only if the Announcement allows the node.
            if segments.known.insert(name.clone()) {
                let standing = Standing {
                    healthy: segments.is_healthy(&name),
                    fails: announcement.fails_on(&network.spec),
                    weight: segments.weight(&name),
                };
                let interfaces = network.spec.interfaces.iter();
                let mut places = Vec::new();
                for interface in interfaces.filter(|one| announcement.allows_interface(one)) {
                    places.extend(segments.places_of(&name, interface, standing, lans));
                }
                // An interface with the prefix length of the segment comes before others.
                places.sort_by_key(|(place, _)| !place.is_own);
                for (place, candidate) in places {
                    segments.subnets.entry(place.segment).or_default().push(candidate);
                }
            }
        }
        segments.index(announcement.names_interfaces());
        segments
    }

    /// Builds the indexes that [`Self::find`] uses: there may be a subnet for each of hundreds of nodes.
    fn index(&mut self, names_interfaces: bool) {
        let mut widest: BTreeMap<bool, (usize, Reverse<IpNet>)> = BTreeMap::new();
        for (net, places) in &self.subnets {
            let is_ipv4 = net.addr().is_ipv4();
            self.lengths.insert((is_ipv4, net.prefix_len()));
            let nodes: BTreeSet<&str> = places.iter().map(|one| one.node.as_str()).collect();
            let width = (nodes.len(), Reverse(*net));
            let known = widest.entry(is_ipv4).or_insert(width);
            *known = (*known).max(width);
        }
        if names_interfaces {
            self.widest = widest.into_iter().map(|(is_ipv4, (_, Reverse(net)))| (is_ipv4, net)).collect();
        }
    }

    /// Returns the places of an interface of a node. Records addresses that give no place.
    fn places_of(
        &mut self,
        node: &str,
        interface: &InterfaceInfo,
        standing: Standing,
        lans: &Lans,
    ) -> Vec<(Place, Candidate)> {
        let Standing { healthy, fails, weight } = standing;
        let mut places = Vec::new();
        for address in &interface.addresses {
            let Ok(net) = address.parse::<IpNet>() else { continue };
            if net.prefix_len() > longest_prefix(&net) {
                let what = format!("{net} on {} of node {node}", interface.name);
                self.host_routes.push((net, what));
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
            for segment in lans.of_address(net) {
                let (node, interface) = (node.to_owned(), interface.name.clone());
                let place = Place { segment, is_own: segment == net.trunc() };
                places.push((place, Candidate { node, interface, source, healthy, fails, weight }));
            }
        }
        places
    }

    /// Returns true if it is known whether the node is a candidate. A node whose agent has not reported its network may be one.
    pub(crate) fn is_known(&self, node: &str) -> bool {
        self.known.contains(node)
    }

    /// Returns true if a node is to have addresses: it exists, and is not being removed, excluded or drained.
    pub(crate) fn is_healthy(&self, node: &str) -> bool {
        self.healthy.contains(node)
    }

    /// Returns the preference of the Announcement for a node.
    pub(crate) fn weight(&self, node: &str) -> i32 {
        self.weights.get(node).copied().unwrap_or(0)
    }

    /// The candidates of `segment`, each node once.
    pub(crate) fn candidates(&self, segment: IpNet) -> Vec<&Candidate> {
        let mut seen = BTreeSet::new();
        self.places(segment).iter().filter(|one| seen.insert(one.node.as_str())).collect()
    }

    /// Returns the candidates of `segment` by the nodes' names.
    pub(crate) fn by_node(&self, segment: IpNet) -> BTreeMap<&str, &Candidate> {
        let mut candidates = BTreeMap::new();
        for one in self.places(segment) {
            candidates.entry(one.node.as_str()).or_insert(one);
        }
        candidates
    }

    /// Returns true if `segment` has a candidate.
    pub(crate) fn has_candidates(&self, segment: IpNet) -> bool {
        self.subnets.contains_key(&segment)
    }

    /// Returns true if `node` is a candidate of `segment`.
    pub(crate) fn has_candidate(&self, segment: IpNet, node: &str) -> bool {
        self.places(segment).iter().any(|one| one.node == node)
    }

    fn places(&self, segment: IpNet) -> &[Candidate] {
        self.subnets.get(&segment).map_or(&[], Vec::as_slice)
    }

    /// The segment for `address`: the smallest subnet that holds it. Where the Announcement names interfaces, a subnet of its family
    /// there will do even if it does not hold the address: that of the most nodes.
    pub(crate) fn find(&self, address: IpAddr) -> Option<IpNet> {
        let is_ipv4 = address.is_ipv4();
        let longest_first = self.lengths.range((is_ipv4, 0)..=(is_ipv4, u8::MAX)).rev();
        longest_first
            .filter_map(|(_, length)| Some(IpNet::new(address, *length).ok()?.trunc()))
            .find(|net| self.has_candidates(*net))
            .or_else(|| self.widest.get(&is_ipv4).copied())
    }

    /// Returns the part of `addresses` that [`Self::find`] finds a segment for, and these segments. Link-local addresses are left out:
    /// such an address is another one on each link, and agents refuse to announce it.
    pub(crate) fn find_all(&self, addresses: &AddressSet) -> (AddressSet, BTreeSet<IpNet>) {
        let mut left = addresses.clone();
        left.remove(AddressRange::from(LINK_LOCAL));
        let (mut found, mut segments) = (AddressSet::default(), BTreeSet::new());
        let mut places: Vec<(IpNet, IpNet)> = self.subnets().map(|net| (net, net)).collect();
        let widest = self.widest.values();
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

    /// Returns every subnet that has a candidate.
    pub(crate) fn subnets(&self) -> impl Iterator<Item = IpNet> {
        self.subnets.keys().copied()
    }

    /// Returns true if at least one node has reported its network.
    pub(crate) fn is_any_reported(&self) -> bool {
        self.is_any_reported
    }

    /// Returns an address without a subnet, of the family of `address`, if no node has a subnet of that family.
    pub(crate) fn find_host_route(&self, address: IpAddr) -> Option<&str> {
        let same_family = |net: &IpNet| net.addr().is_ipv4() == address.is_ipv4();
        if self.subnets.keys().any(same_family) {
            return None;
        }
        self.host_routes.iter().find(|(net, _)| same_family(net)).map(|(_, what)| what.as_str())
    }

    /// A subnet that holds `address` and nobody can send adverts in.
    pub(crate) fn find_without_link_local(&self, address: IpAddr) -> Option<IpNet> {
        self.without_link_local.iter().find(|net| net.contains(&address)).copied()
    }
}
