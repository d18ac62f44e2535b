//! Addresses that a node is to have. Pure.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use windlass_api::{InterfaceInfo, NodeNetwork};
use windlass_ccm::node::ANNOTATION_PROVIDED_NODE_IP;
use windlass_ccm::store::Change;
use windlass_common::bridges::is_inside_the_node;

/// Type of an address within the cluster.
const INTERNAL: &str = "InternalIP";
/// Type of one that is reached from outside.
const EXTERNAL: &str = "ExternalIP";

/// A virtual IP, as far as it matters to a node.
#[derive(Debug, Clone)]
pub(crate) struct Vip {
    /// `namespace/name` of the Service that has it.
    pub(crate) service: String,
    /// Since when; `None`: it is just being claimed.
    pub(crate) since: Option<Timestamp>,
}

/// Types and addresses of a node, host names left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NodeAddresses<'a> {
    pub(super) list: Vec<(&'a str, IpAddr)>,
    /// Reason that it does not have the addresses that its kubelet names.
    pub(super) refused: Option<String>,
}

/// Returns the node whose agent reports other addresses than before.
pub(crate) fn readdressed(change: &Change<NodeNetwork>) -> Option<String> {
    let addresses = |network: &Arc<NodeNetwork>| {
        let spec = &network.spec;
        (spec.interfaces.clone(), spec.primary_addresses.clone(), spec.further_addresses.clone())
    };
    let new = change.new.as_ref()?;
    (change.old.as_ref().map(addresses) != Some(addresses(new))).then(|| new.name_any())
}

/// The addresses of `node`: those that its kubelet names, else those it has, else those that its agent reports. None that a
/// Service has, unless the node had it first. `initialized_here`: nobody else writes them.
pub(super) fn addresses<'a>(
    node: &'a Node,
    network: Option<&NodeNetwork>,
    vip: impl Fn(IpAddr) -> Option<Vip>,
    in_pool: impl Fn(IpAddr) -> bool,
    initialized_here: bool,
) -> NodeAddresses<'a> {
    let had = existing(node);
    let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let taken = |address: IpAddr| {
        let had_it_first = |vip: &Vip| {
            let is_older = created.zip(vip.since).is_none_or(|(created, since)| created <= since);
            is_older && had.iter().any(|(_, one)| *one == address)
        };
        vip(address).filter(|vip| !had_it_first(vip))
    };
    let named = named_by_kubelet(node);
    let (refused, named): (Vec<IpAddr>, Vec<IpAddr>) =
        named.into_iter().partition(|address| taken(*address).is_some());
    let mut list: Vec<(&str, IpAddr)> = named.iter().map(|address| (INTERNAL, *address)).collect();
    let refused = refused.first().and_then(|address| Some(refusal(node, *address, &taken(*address)?)));
    if refused.is_none() && !list.is_empty() {
        return NodeAddresses { list, refused };
    }
    let of_named_family = |address: IpAddr| named.iter().any(|one| one.is_ipv4() == address.is_ipv4());
    list.extend(had.iter().filter(|(type_, address)| {
        taken(*address).is_none() && (*type_ == EXTERNAL || !of_named_family(*address))
    }));
    let mut offered = network.map_or_else(Vec::new, |network| offered(network, |one| taken(one).is_some()));
    // A pool that spans the nodes' subnet must not keep a node uninitialized.
    offered.sort_by_key(|address| in_pool(*address));
    // A kubelet without --cloud-provider=external writes the addresses itself. With it, it never does again once there
    // are some (service-contract K-05), and a machine that moved would keep its old ones for ever.
    let lasts = |address| {
        !initialized_here || named.contains(&address) || network.is_none_or(|network| has(network, address))
    };
    let complete = !initialized_here && refused.is_none() && !list.is_empty();
    NodeAddresses { list: renewed(&list, &offered, lasts, complete), refused }
}

/// Returns the internal and external addresses in the Node's status.
fn existing(node: &Node) -> Vec<(&str, IpAddr)> {
    let listed = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    listed
        .filter(|one| one.type_ == INTERNAL || one.type_ == EXTERNAL)
        .filter_map(|one| Some((one.type_.as_str(), one.address.parse().ok()?)))
        .collect()
}

/// Returns the addresses of `--node-ip`. The controller reports values that are not addresses (service-contract N-05).
fn named_by_kubelet(node: &Node) -> Vec<IpAddr> {
    let text = node.annotations().get(ANNOTATION_PROVIDED_NODE_IP);
    text.into_iter().flat_map(|list| list.split(',')).filter_map(|text| text.trim().parse().ok()).collect()
}

fn refusal(node: &Node, address: IpAddr, vip: &Vip) -> String {
    format!(
        "{address}, which the kubelet of node {} names in annotation {ANNOTATION_PROVIDED_NODE_IP}, is a virtual IP of \
         Service {} and does not become the node's: set --node-ip to an address of the machine, or exclude this one from \
         its pool and make the Service anew",
        node.name_any(),
        vip.service
    )
}

/// The addresses that a node has by its `existing` ones and those `offered` by its agent, best first. An internal one that
/// does not last is replaced in place by the offered one of its family that is most like it: none goes without another.
/// Unless the existing ones are `complete`, a family that has none gets one.
fn renewed<'a>(
    existing: &[(&'a str, IpAddr)],
    offered: &[IpAddr],
    lasts: impl Fn(IpAddr) -> bool,
    complete: bool,
) -> Vec<(&'a str, IpAddr)> {
    let mut addresses: Vec<(&str, IpAddr)> = Vec::new();
    for &(type_, address) in existing {
        let of_family = offered.iter().filter(|one| one.is_ipv4() == address.is_ipv4());
        match of_family.min_by_key(|one| distance(**one, address)) {
            Some(&new) if type_ == INTERNAL && !lasts(address) => addresses.push((INTERNAL, new)),
            Some(_) | None => addresses.push((type_, address)),
        }
    }
    for v4 in [true, false] {
        let of_family = |address: &IpAddr| address.is_ipv4() == v4;
        if !complete && !addresses.iter().any(|(type_, one)| *type_ == INTERNAL && of_family(one)) {
            addresses.extend(offered.iter().copied().find(of_family).map(|address| (INTERNAL, address)));
        }
    }
    addresses
}

/// Returns the distance between two addresses of one family: the longer their common prefix, the smaller.
fn distance(one: IpAddr, other: IpAddr) -> u128 {
    let bits = |address| match address {
        IpAddr::V4(v4) => u128::from(Ipv4Addr::to_bits(v4)),
        IpAddr::V6(v6) => Ipv6Addr::to_bits(v6),
    };
    bits(one) ^ bits(other)
}

/// The addresses that a report lists for an interface, with their prefix lengths.
fn parsed(texts: &[String]) -> impl Iterator<Item = (IpAddr, u8)> {
    texts.iter().filter_map(|text| {
        let (address, length) = text.split_once('/')?;
        Some((address.parse().ok()?, length.parse().ok()?))
    })
}

/// The interfaces whose addresses are the machine's: not the bridges of containers and virtual machines, which every node has
/// with the same addresses.
fn own_interfaces(network: &NodeNetwork) -> impl Iterator<Item = &InterfaceInfo> {
    network.spec.interfaces.iter().filter(|interface| !is_inside_the_node(interface))
}

/// Returns true if the machine has the address, on any interface.
fn has(network: &NodeNetwork, address: IpAddr) -> bool {
    let spec = &network.spec;
    let mut on_interfaces = own_interfaces(network).flat_map(|interface| parsed(&interface.addresses));
    on_interfaces.any(|(one, _)| one == address)
        || spec.further_addresses.contains(&address)
        || spec.primary_addresses.contains(&address)
}

/// The addresses that a node may be called by: of its default route, then one of each family on each interface in the order of
/// the report. Link-local ones and those `taken` are left out.
fn offered(network: &NodeNetwork, taken: impl Fn(IpAddr) -> bool) -> Vec<IpAddr> {
    let is_link_local = |address| match address {
        IpAddr::V4(v4) => Ipv4Addr::is_link_local(&v4),
        IpAddr::V6(v6) => Ipv6Addr::is_unicast_link_local(&v6),
    };
    let mut offered = network.spec.primary_addresses.clone();
    for interface in own_interfaces(network) {
        let mut best: BTreeMap<bool, (bool, IpAddr)> = BTreeMap::new();
        for (address, length) in parsed(&interface.addresses) {
            if is_link_local(address) || taken(address) {
                continue;
            }
            // What others bind to be reached by, as kube-vip the API server's address, is of no subnet.
            let alone = length == if address.is_ipv4() { 32 } else { 128 };
            let best = best.entry(address.is_ipv6()).or_insert((alone, address));
            if best.0 && !alone {
                *best = (alone, address);
            }
        }
        offered.extend(best.into_values().map(|(_, address)| address));
    }
    offered.retain(|address| !is_link_local(*address) && !taken(*address));
    offered
}
