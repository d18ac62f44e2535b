//! Addresses that no pool may give: nodes, pods, ClusterIPs or Services of other load balancers use them, or they have a meaning of their own. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv6Net};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::ResourceExt as _;
use windlass_api::NodeNetwork;
use windlass_ipam::{AddressRange, AddressSet};

use super::Reason;

/// Addresses that no pool may give, and what they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnusableSet {
    pub(super) addresses: AddressSet,
    pub(super) reason: Reason,
    /// As `podCIDR 10.0.0.0/24 of node n1`.
    pub(super) what: String,
    /// The node on whose word alone it is known.
    pub(super) said_by: Option<String>,
}

/// All addresses of the cluster that no pool may give.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnusableAddresses {
    /// Addresses of the nodes themselves, with the node's name.
    pub(super) nodes: BTreeMap<IpAddr, String>,
    /// Addresses in `nodes` that only the node's agent reports, not its Node.
    pub(super) only_reported: BTreeSet<IpAddr>,
    /// Addresses that other load balancers gave Services, with the Service's name.
    pub(super) services: BTreeMap<IpAddr, String>,
    /// Everything else, in a fixed order.
    pub(super) blocks: Vec<UnusableSet>,
}

impl UnusableAddresses {
    /// Collects the unusable addresses of these Nodes, networks and ServiceCIDRs.
    pub(crate) fn new(nodes: &[&Node], networks: &[&NodeNetwork], service_cidrs: &[&ServiceCIDR]) -> Self {
        let mut blocks = subnet_edges(networks);
        blocks.extend(nodes.iter().flat_map(|node| pod_cidrs(node)));
        blocks.extend(service_cidrs.iter().flat_map(|cidr| cluster_ips(cidr)));
        let (nodes, only_reported) = node_addresses(nodes, networks);
        Self { nodes, only_reported, services: BTreeMap::new(), blocks }
    }

    /// Adds the addresses of Services that other load balancers serve.
    pub(crate) fn with_services(self, services: BTreeMap<IpAddr, String>) -> Self {
        Self { services, ..self }
    }
}

/// The addresses of nodes, and which of them no Node lists.
fn node_addresses(
    nodes: &[&Node],
    networks: &[&NodeNetwork],
) -> (BTreeMap<IpAddr, String>, BTreeSet<IpAddr>) {
    let mut addresses = BTreeMap::new();
    let mut only_reported = BTreeSet::new();
    for node in nodes {
        let listed = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
        for address in listed.filter_map(|address| address.address.parse().ok()) {
            addresses.insert(address, node.name_any());
        }
    }
    for network in networks {
        let listed = network.spec.interfaces.iter().flat_map(|interface| &interface.addresses);
        for address in listed.filter_map(|text| text.split('/').next()?.parse().ok()) {
            addresses.entry(address).or_insert_with(|| {
                only_reported.insert(address);
                network.name_any()
            });
        }
    }
    (addresses, only_reported)
}

/// The reserved addresses of every subnet that a node has an address in, each subnet once. (Link-local subnets are not among
/// those that nodes report.)
fn subnet_edges(networks: &[&NodeNetwork]) -> Vec<UnusableSet> {
    let mut subnets: BTreeMap<IpNet, BTreeSet<String>> = BTreeMap::new();
    for network in networks {
        let listed = network.spec.interfaces.iter().flat_map(|interface| &interface.addresses);
        for net in listed.filter_map(|text| text.parse::<IpNet>().ok()) {
            subnets.entry(net.trunc()).or_default().insert(network.name_any());
        }
    }
    let edges = |(subnet, mut nodes): (IpNet, BTreeSet<String>)| UnusableSet {
        addresses: reserved_in(subnet),
        reason: Reason::SubnetAddress,
        what: format!("of {subnet}"),
        said_by: nodes.pop_first().filter(|_| nodes.is_empty()),
    };
    subnets.into_iter().map(edges).filter(|block| !block.addresses.is_empty()).collect()
}

/// Longest prefix of a subnet whose reserved anycast addresses (RFC 2526) are reserved here. No kernel answers for them unless an
/// admin configures one, and in a longer prefix the 128 of them would be no small part: a quarter of a /119, half of a /120, all of a
/// /121.
const LONGEST_WITH_ANYCAST: u8 = 112;
/// Prefix of those 128.
const ANYCAST_BLOCK: u8 = 121;

/// Addresses of `subnet` that are no host's.
///
/// In IPv4 the network and the broadcast address; of /31 and /32 every address is an ordinary one (RFC 3021). In IPv6 the
/// subnet-router anycast address, which every router of the subnet answers for, and each node that forwards is one (RFC 4291
/// §2.6.1), but for /127 (RFC 6164 §6) and /128; and the highest 128 interface identifiers (RFC 2526 §2): those of 64 bits have
/// the universal/local bit 0 there, so that they are not the last of the subnet.
pub(super) fn reserved_in(subnet: IpNet) -> AddressSet {
    match subnet {
        IpNet::V4(net) if net.prefix_len() > 30 => AddressSet::default(),
        IpNet::V4(net) => AddressSet::from_iter([net.network(), net.broadcast()].map(IpAddr::V4)),
        IpNet::V6(net) if net.prefix_len() > 126 => AddressSet::default(),
        IpNet::V6(net) => {
            let mut reserved = AddressSet::from_iter([IpAddr::V6(net.network())]);
            let highest = match net.prefix_len() {
                64 => net.broadcast().to_bits() & !UNIVERSAL,
                _ => net.broadcast().to_bits(),
            };
            if net.prefix_len() <= LONGEST_WITH_ANYCAST {
                let highest = Ipv6Net::new_assert(Ipv6Addr::from_bits(highest), ANYCAST_BLOCK);
                reserved.insert(IpNet::V6(highest).into());
            }
            reserved
        }
    }
}

/// The universal/local bit of an interface identifier of 64 bits (RFC 4291 §2.5.1).
const UNIVERSAL: u128 = 1 << 57;

fn pod_cidrs(node: &Node) -> Vec<UnusableSet> {
    let spec = node.spec.as_ref();
    let mut listed: Vec<&String> =
        spec.into_iter().flat_map(|spec| spec.pod_cidrs.iter().flatten()).collect();
    if listed.is_empty() {
        listed.extend(spec.and_then(|spec| spec.pod_cidr.as_ref()));
    }
    let what = |cidr: &str| format!("of node {} (podCIDR {cidr})", node.name_any());
    listed.into_iter().filter_map(|cidr| block(cidr, Reason::PodCidr, what(cidr))).collect()
}

fn cluster_ips(object: &ServiceCIDR) -> Vec<UnusableSet> {
    let listed = object.spec.iter().flat_map(|spec| spec.cidrs.iter().flatten());
    let what = |cidr: &str| format!("of ServiceCIDR {} ({cidr})", object.name_any());
    listed.filter_map(|cidr| block(cidr, Reason::ServiceCidr, what(cidr))).collect()
}

/// (A text that is no CIDR is none of the pools' problems.)
fn block(cidr: &str, reason: Reason, what: String) -> Option<UnusableSet> {
    let net: IpNet = cidr.parse().ok()?;
    Some(UnusableSet {
        addresses: AddressSet::from_iter([AddressRange::from(net)]),
        reason,
        what,
        said_by: None,
    })
}
