//! Segments: the IPv4 subnets that nodes have an interface in.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::Ipv4Net;
use kube::ResourceExt as _;
use windlass_api::NodeNetwork;

/// Longer prefixes hold no neighbours: such an address is a host route.
const LONGEST_PREFIX: u8 = 30;

/// A node's place on a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) node: String,
    pub(crate) interface: String,
    /// Its primary address there.
    pub(crate) address: IpAddr,
    /// In the stable node set.
    pub(crate) healthy: bool,
}

/// All segments.
#[derive(Debug)]
pub(crate) struct Segments {
    subnets: BTreeMap<Ipv4Net, Vec<Candidate>>,
    /// Nodes whose network is known.
    reported: BTreeSet<String>,
}

impl Segments {
    /// The segments of nodes that exist.
    pub(crate) fn new(networks: &[Arc<NodeNetwork>], nodes: &BTreeMap<String, bool>) -> Self {
        let mut subnets = BTreeMap::<Ipv4Net, Vec<Candidate>>::new();
        let mut reported = BTreeSet::new();
        for network in networks {
            let node = network.name_any();
            let Some(&healthy) = nodes.get(&node) else { continue };
            reported.insert(node.clone());
            for interface in &network.spec.interfaces {
                for address in &interface.addresses {
                    // IPv6, or not an address at all: not a segment of this version.
                    let Ok(net) = address.parse::<Ipv4Net>() else { continue };
                    if net.prefix_len() > LONGEST_PREFIX {
                        continue;
                    }
                    subnets.entry(net.trunc()).or_default().push(Candidate {
                        node: node.clone(),
                        interface: interface.name.clone(),
                        address: IpAddr::V4(net.addr()),
                        healthy,
                    });
                }
            }
        }
        Self { subnets, reported }
    }

    /// Whether the node has said what its network is.
    pub(crate) fn is_reported(&self, node: &str) -> bool {
        self.reported.contains(node)
    }

    /// The candidates of `segment`, each node once, on `interface` if one is named.
    pub(crate) fn candidates(&self, segment: &str, interface: Option<&str>) -> Vec<Candidate> {
        let Ok(net) = segment.parse::<Ipv4Net>() else { return Vec::new() };
        self.on(net, interface)
    }

    fn on(&self, net: Ipv4Net, interface: Option<&str>) -> Vec<Candidate> {
        let mut seen = BTreeSet::new();
        let all = self.subnets.get(&net).into_iter().flatten();
        all.filter(|one| interface.is_none_or(|name| name == one.interface))
            .filter(|one| seen.insert(one.node.as_str()))
            .cloned()
            .collect()
    }

    /// The segment for `address`: the smallest subnet that holds it. With an `interface` named, a subnet there will do
    /// even if it does not hold the address, the one of most nodes first.
    pub(crate) fn find(
        &self,
        address: Ipv4Addr,
        interface: Option<&str>,
    ) -> Option<(String, Vec<Candidate>)> {
        self.subnets
            .keys()
            .map(|net| (*net, self.on(*net, interface)))
            .filter(|(net, candidates)| {
                !candidates.is_empty() && (interface.is_some() || net.contains(&address))
            })
            .max_by_key(|(net, candidates)| {
                let holds = net.contains(&address);
                (holds, if holds { net.prefix_len() } else { 0 }, candidates.len(), std::cmp::Reverse(*net))
            })
            .map(|(net, candidates)| (net.to_string(), candidates))
    }
}
