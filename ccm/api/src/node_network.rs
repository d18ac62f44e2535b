//! `NodeNetwork`: what a node's agent sees of its network. Observed, not wished for, and kept in `spec` as `CSINode`
//! keeps its own: one writer, no status subresource needed.

use std::net::IpAddr;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// The network of one node, written by its agent; named after the node.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "NodeNetwork",
    plural = "nodenetworks",
    singular = "nodenetwork",
    shortname = "nodenet",
    category = "windlass",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkSpec {
    /// Version of the agent that wrote this.
    #[serde(default)]
    pub agent_version: String,
    /// Ethernet interfaces that are up and have an address, by name.
    #[serde(default)]
    pub interfaces: Vec<InterfaceInfo>,
    /// VRRP and CARP routers that are not Windlass' own, whose VRIDs must not be taken.
    #[serde(default)]
    pub foreign_routers: Vec<ForeignRouter>,
}

/// One interface of the node.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceInfo {
    /// Name, as `eth0`.
    pub name: String,
    /// Link-layer address, as `02:00:00:00:00:01`.
    pub mac: String,
    /// Addresses with their prefix length, as `192.0.2.11/24`; the primary address of each family first.
    pub addresses: Vec<String>,
}

/// A VRRP or CARP router that is not ours.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct ForeignRouter {
    /// Interface on which it was heard.
    pub interface: String,
    /// Its VRID.
    pub vrid: u8,
    /// Source address of its adverts.
    pub source: IpAddr,
    /// VRRP version of its adverts.
    pub version: u8,
}
