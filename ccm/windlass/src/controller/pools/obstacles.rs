//! Addresses that are in use in another way than as a VIP, or have a meaning of their own: no pool may give them. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::ResourceExt as _;
use windlass_api::NodeNetwork;
use windlass_ipam::{AddressRange, AddressSet};

use super::Reason;

/// Some addresses and what they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    pub(super) addresses: AddressSet,
    pub(super) reason: Reason,
    /// As `podCIDR 10.0.0.0/24 of node n1`.
    pub(super) what: String,
}

/// Everything that no pool may give, whoever asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Obstacles {
    /// Addresses of the nodes themselves, with the node's name.
    pub(super) nodes: BTreeMap<IpAddr, String>,
    /// Everything else, in a fixed order.
    pub(super) blocks: Vec<Block>,
}

impl Obstacles {
    /// What the cluster shows.
    pub(crate) fn new(nodes: &[&Node], networks: &[&NodeNetwork], service_cidrs: &[&ServiceCIDR]) -> Self {
        let mut blocks = subnet_edges(networks);
        blocks.extend(nodes.iter().flat_map(|node| pod_cidrs(node)));
        blocks.extend(service_cidrs.iter().flat_map(|cidr| cluster_ips(cidr)));
        Self { nodes: node_addresses(nodes, networks), blocks }
    }
}

fn node_addresses(nodes: &[&Node], networks: &[&NodeNetwork]) -> BTreeMap<IpAddr, String> {
    let mut addresses = BTreeMap::new();
    for node in nodes {
        let listed = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
        for address in listed.filter_map(|address| address.address.parse().ok()) {
            addresses.insert(address, node.name_any());
        }
    }
    for network in networks {
        let listed = network.spec.interfaces.iter().flat_map(|interface| &interface.addresses);
        for address in listed.filter_map(|text| text.split('/').next()?.parse().ok()) {
            addresses.insert(address, network.name_any());
        }
    }
    addresses
}

/// Network and broadcast address of every IPv4 subnet that a node has an address in, each subnet once. (Of /31 and /32
/// every address is an ordinary one, RFC 3021.)
fn subnet_edges(networks: &[&NodeNetwork]) -> Vec<Block> {
    let interfaces = networks.iter().flat_map(|network| &network.spec.interfaces);
    let listed = interfaces.flat_map(|interface| &interface.addresses);
    let mut subnets: Vec<IpNet> = listed
        .filter_map(|text| text.parse::<IpNet>().ok())
        .filter(|net| net.addr().is_ipv4() && net.prefix_len() <= 30)
        .map(|net| net.trunc())
        .collect();
    subnets.sort();
    subnets.dedup();
    let edges = |subnet: IpNet| Block {
        addresses: AddressSet::from_iter([subnet.network(), subnet.broadcast()]),
        reason: Reason::SubnetAddress,
        what: format!("of {subnet}"),
    };
    subnets.into_iter().map(edges).collect()
}

fn pod_cidrs(node: &Node) -> Vec<Block> {
    let spec = node.spec.as_ref();
    let mut listed: Vec<&String> =
        spec.into_iter().flat_map(|spec| spec.pod_cidrs.iter().flatten()).collect();
    if listed.is_empty() {
        listed.extend(spec.and_then(|spec| spec.pod_cidr.as_ref()));
    }
    let what = |cidr: &str| format!("of node {} (podCIDR {cidr})", node.name_any());
    listed.into_iter().filter_map(|cidr| block(cidr, Reason::PodCidr, what(cidr))).collect()
}

fn cluster_ips(object: &ServiceCIDR) -> Vec<Block> {
    let listed = object.spec.iter().flat_map(|spec| spec.cidrs.iter().flatten());
    let what = |cidr: &str| format!("of ServiceCIDR {} ({cidr})", object.name_any());
    listed.filter_map(|cidr| block(cidr, Reason::ServiceCidr, what(cidr))).collect()
}

/// (A text that is no CIDR is none of the pools' problems.)
fn block(cidr: &str, reason: Reason, what: String) -> Option<Block> {
    let net: IpNet = cidr.parse().ok()?;
    let range: AddressRange = net.trunc().to_string().parse().ok()?;
    Some(Block { addresses: AddressSet::from_iter([range]), reason, what })
}
