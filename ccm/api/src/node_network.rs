//! `NodeNetwork`: what a node's agent sees of its network. Observed, not wished for, and kept in `spec` as `CSINode`
//! keeps its own: one writer, no status subresource needed.

use std::net::{IpAddr, Ipv6Addr};

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The network of one node, written by its agent; named after the node.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "NodeNetwork",
    plural = "nodenetworks",
    singular = "nodenetwork",
    shortname = "nodenet",
    category = "windlass",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Interface", "type": "string", "jsonPath": ".spec.interfaces[0].name"}"#,
    printcolumn = r#"{"name": "Addresses", "type": "string", "jsonPath": ".spec.interfaces[0].addresses"}"#,
    printcolumn = r#"{"name": "Foreign-VRID", "type": "integer", "jsonPath": ".spec.foreignRouters[0].vrid", "description": "A VRRP router that is not Windlass' own", "priority": 1}"#,
    printcolumn = r#"{"name": "Failed", "type": "string", "jsonPath": ".spec.failedChecks[0]", "description": "A fault of the node"}"#,
    printcolumn = r#"{"name": "No-Multicast", "type": "string", "jsonPath": ".spec.withoutMulticast[0].node", "description": "A node to or from which multicast of VRRP does not pass", "priority": 1}"#,
    printcolumn = r#"{"name": "Agent", "type": "string", "jsonPath": ".spec.agentVersion"}"#,
    printcolumn = r#"{"name": "Capabilities", "type": "string", "jsonPath": ".spec.capabilities", "description": "Restrictions that the agent obeys", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkSpec {
    /// Version of the agent that wrote this.
    #[serde(default)]
    pub agent_version: String,
    /// Restrictions that the agent obeys, and whose violation would do harm. An agent that reports none is older than
    /// this field, and obeys none of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>", length(max = 64), inner(length(max = 63)))]
    pub capabilities: Vec<Capability>,
    /// Ethernet interfaces that are up and have an address, by name; of several in one subnet those that have carrier first.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub interfaces: Vec<InterfaceInfo>,
    /// Source address of the node's outgoing traffic in each family: on the interface of its default route.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::ip_addresses")]
    pub primary_addresses: Vec<IpAddr>,
    /// Addresses that the node has besides those of `interfaces`: of the loopback interface, of tunnels, of interfaces that
    /// are down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::ip_addresses")]
    pub further_addresses: Vec<IpAddr>,
    /// VRRP and CARP routers that are not Windlass' own: Windlass does not use their VRIDs.
    #[serde(default)]
    #[schemars(length(max = 4096))]
    pub foreign_routers: Vec<ForeignRouter>,
    /// Virtual IPs that another host of the LAN has or claims, as this node saw it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub duplicates: Vec<DuplicateAddress>,
    /// Faults of the node, with their reasons: it ranks below all nodes without faults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(max = 1024)))]
    pub failed_checks: Vec<String>,
    /// Nodes with which this node exchanges adverts by unicast: multicast of VRRP does not pass between them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub without_multicast: Vec<UnicastPeer>,
    /// IDs of the keys of adverts that the node has: the controller lets virtual routers sign only after all of their nodes have the
    /// key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::key_ids")]
    pub vrrp_keys: Vec<u8>,
    /// The virtual routers of this node that another node is joining, as far as this one knows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub known_routers: Vec<KnownRouter>,
}

/// Restriction in the objects that an agent reads, and that it obeys. Each field that an agent without support for it would violate has
/// one; a field that can be ignored without harm has none.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// `spec.sources` of a [`VirtualIP`](crate::VirtualIP): such an address is announced only while all others are kept out.
    SourceRanges,
    /// `spec.loadSharing` of a [`VirtualIP`](crate::VirtualIP): the node directs packets of a shared address to the nodes that serve them.
    /// Reported while the node can do that.
    LoadSharing,
    /// One of a newer version.
    #[serde(other)]
    Unknown,
}

impl Capability {
    /// All that this version has on every node. [`Self::LoadSharing`] depends on the node.
    pub const ALL: [Self; 1] = [Self::SourceRanges];
}

/// A virtual router as a node knows it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct KnownRouter {
    /// Name of the `VirtualRouter`.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its `metadata.generation`.
    pub generation: i64,
}

/// Virtual IP that another host uses.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct DuplicateAddress {
    /// Interface on which it was seen.
    #[schemars(length(max = 15))]
    pub interface: String,
    /// The address.
    #[schemars(schema_with = "crate::validation::ip_address")]
    pub address: IpAddr,
    /// Link-layer address of the other host.
    #[schemars(length(max = 64))]
    pub mac: String,
}

/// Node without multicast to or from this node: one of the two nodes is Active for a virtual router, and the other node does not receive
/// its multicast.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct UnicastPeer {
    /// Interface of this node.
    #[schemars(length(max = 15))]
    pub interface: String,
    /// Source of the other node's adverts.
    #[schemars(schema_with = "crate::validation::ip_address")]
    pub address: IpAddr,
    /// Name of the other Node.
    #[schemars(length(max = 253))]
    pub node: String,
}

/// One interface of the node.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceInfo {
    /// Name, as `eth0`.
    #[schemars(length(max = 15))]
    pub name: String,
    /// Link-layer address, as `02:00:00:00:00:01`.
    #[schemars(length(max = 64))]
    pub mac: String,
    /// Addresses with their prefix length, as `192.0.2.11/24`; the primary address of each family first.
    #[schemars(length(max = 256), inner(length(max = 49)))]
    pub addresses: Vec<String>,
    /// IPv6 link-local address: source of the interface's IPv6 adverts (RFC 9568 §5.1.2.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::validation::optional_ipv6_address")]
    pub link_local: Option<Ipv6Addr>,
    /// True for a bridge without a port that leads out of the node, as container networks and virtual machines have: its addresses may be
    /// the same on every node. Absent: it is no such bridge, or the agent is older than this field.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub isolated: bool,
    /// Longest packet, in bytes. Absent: the agent is older than this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::validation::optional_mtu")]
    pub mtu: Option<u32>,
}

/// A VRRP or CARP router that is not ours.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct ForeignRouter {
    /// Interface on which it was seen.
    #[schemars(length(max = 15))]
    pub interface: String,
    /// Its VRID.
    #[schemars(schema_with = "crate::validation::octet")]
    pub vrid: u8,
    /// Source address of its adverts.
    #[schemars(schema_with = "crate::validation::ip_address")]
    pub source: IpAddr,
    /// VRRP version of its adverts.
    #[schemars(schema_with = "crate::validation::octet")]
    pub version: u8,
}
