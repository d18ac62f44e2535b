//! `Announcement`: which nodes announce which virtual IPs, and how. None is needed: without any, each interface with a subnet
//! that holds an address announces it, as an Announcement with every field left out would have it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LoadSharing, NodeCheck};

/// Interfaces that an Announcement excludes by default: bridges of containers and virtual machines, whose subnets are the same on every
/// node and none of the LAN.
pub const DEFAULT_EXCLUDED_INTERFACES: &[&str] = &["docker*", "podman*", "virbr*"];

/// Default time between two VRRP adverts of a virtual router, in milliseconds.
pub const DEFAULT_ADVERTISEMENT_INTERVAL_MS: u32 = 100;

/// Virtual IPs to announce, their nodes and interfaces, and VRRP settings. If several Announcements select a virtual IP, the one with the
/// lowest `priority` applies; of equal ones, the oldest.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "Announcement",
    plural = "announcements",
    singular = "announcement",
    category = "windlass",
    status = "AnnouncementStatus",
    derive = "PartialEq",
    validation = (crate::validation::SHARES_OR_REPLICATES, "spec.loadSharing: All cannot be combined with spec.connections: \
        Replicate: replies of backends would not pass the node that knows the connection"),
    validation = (crate::validation::SHARES_OR_MOVES_MAC, "spec.loadSharing: All cannot be combined with spec.vrrp.virtualMAC: \
        an address at the virtual MAC address is not shared"),
    printcolumn = r#"{"name": "Priority", "type": "integer", "jsonPath": ".spec.priority", "priority": 1}"#,
    printcolumn = r#"{"name": "VirtualIPs", "type": "integer", "jsonPath": ".status.virtualIPs"}"#,
    printcolumn = r#"{"name": "Applied", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Applied\")].status"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Applied\")].reason"}"#,
    printcolumn = r#"{"name": "Interfaces", "type": "string", "jsonPath": ".spec.interfaces", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AnnouncementSpec {
    /// Precedence among Announcements that select the same virtual IP: the lowest number applies; among equals, the oldest. Default: 100.
    #[serde(default = "default_priority")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub priority: i32,
    /// Names of the `VirtualIPPool`s whose addresses it applies to. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::object_names")]
    pub pools: Vec<String>,
    /// Names of namespaces whose Services it applies to, besides those that `namespaceSelectors` select. Default: all, if both are empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::namespaces")]
    pub namespaces: Vec<String>,
    /// Labels of namespaces whose Services it applies to: one selector that matches is enough. Default: all, if `namespaces` is empty,
    /// too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::selectors")]
    pub namespace_selectors: Vec<LabelSelector>,
    /// Labels of Services that it applies to: one selector that matches is enough. Of Services that share an address, the first owner
    /// decides. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::selectors")]
    pub service_selectors: Vec<LabelSelector>,
    /// Labels of nodes that announce: one selector that matches is enough. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::selectors")]
    pub node_selectors: Vec<LabelSelector>,
    /// Preferred nodes: Windlass adds up the weights of all entries that match a node. Among nodes without faults, those with the
    /// greatest sum announce. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::node_preferences")]
    pub preferred_nodes: Vec<PreferredNodes>,
    /// Handling of the addresses of a node that is cordoned. `Serve`: it keeps them. `Yield`: they move, and come back after `kubectl
    /// uncordon`, unless all nodes are cordoned. Default: Serve.
    #[serde(default)]
    pub unschedulable_nodes: UnschedulableNodePolicy,
    /// Interfaces that announce, as `eth0` or `bond*`. They announce an address even if their subnet does not hold it.
    /// Default: the interfaces whose subnet holds the address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::interface_patterns")]
    pub interfaces: Vec<String>,
    /// Interfaces that do not announce, unless `interfaces` names them without `*`. Default: the bridges of containers and virtual
    /// machines.
    #[serde(default = "default_excluded_interfaces")]
    #[schemars(schema_with = "crate::validation::excluded_interface_patterns")]
    pub exclude_interfaces: Vec<String>,
    /// Checks that each node runs by itself, without the API server, up to 8. A node on which a check fails announces only addresses that no
    /// node on which all checks pass can announce. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::checks")]
    pub checks: Vec<NodeCheck>,
    /// Reaction if another host of the LAN begins to use an announced address. `Defend`: the node announces it again, at most once in 10
    /// s. `Yield`: it stops while the other host answers, then returns. Default: Defend.
    #[serde(default)]
    pub address_conflict: AddressConflictPolicy,
    /// Handling of established TCP connections when an address moves. `Forward`: they stay established while the former node lives, which
    /// receives their packets. `Replicate`: they also survive the death of the node, if their backend lives. `None`: they end. Default:
    /// Replicate.
    #[serde(default)]
    pub connections: ConnectionPolicy,
    /// Sharing of an address's connections among nodes. `None`: the node that announces the address serves all. `Local`: if its Services
    /// have `externalTrafficPolicy: Local`, all nodes with ready endpoints serve, by their number of endpoints. `All`: also other Services,
    /// by all nodes that may announce the address, in equal parts. Default: Local.
    #[serde(default)]
    pub load_sharing: LoadSharing,
    /// Settings of VRRP, by which the nodes elect the one that announces.
    #[serde(default)]
    pub vrrp: VrrpSettings,
}

impl Default for AnnouncementSpec {
    /// With every field left out.
    fn default() -> Self {
        Self {
            priority: default_priority(),
            pools: Vec::new(),
            namespaces: Vec::new(),
            namespace_selectors: Vec::new(),
            service_selectors: Vec::new(),
            node_selectors: Vec::new(),
            preferred_nodes: Vec::new(),
            unschedulable_nodes: UnschedulableNodePolicy::default(),
            interfaces: Vec::new(),
            exclude_interfaces: default_excluded_interfaces(),
            checks: Vec::new(),
            address_conflict: AddressConflictPolicy::default(),
            connections: ConnectionPolicy::default(),
            load_sharing: LoadSharing::default(),
            vrrp: VrrpSettings::default(),
        }
    }
}

/// Nodes that are preferred to others, and how much.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PreferredNodes {
    /// 1 to 100.
    pub weight: i32,
    /// Labels of the nodes.
    pub selector: LabelSelector,
}

/// Handling of the addresses of a node that is unschedulable (`spec.unschedulable` of the Node).
#[derive(
    JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord,
)]
pub enum UnschedulableNodePolicy {
    /// It announces them as before: it still forwards to pods elsewhere.
    #[default]
    Serve,
    /// They move to nodes that are schedulable, and come back when it is: it announces only what none of those can.
    Yield,
}

/// Reaction when another host of the LAN claims an address that is announced (RFC 5227 §2.4).
#[derive(
    JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord,
)]
pub enum AddressConflictPolicy {
    /// It is announced on, and again, at most once in ten seconds: both hosts get some of the traffic.
    #[default]
    Defend,
    /// It is not announced as long as the other host answers for it.
    Yield,
}

impl AddressConflictPolicy {
    /// Returns true if it is the default.
    pub const fn is_defend(&self) -> bool {
        matches!(self, Self::Defend)
    }
}

/// Handling of established connections to an address that moves from one node to another (`docs/connections.md`).
#[derive(
    JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord,
)]
pub enum ConnectionPolicy {
    /// The next nodes know the connections as well: when the node dies, connections whose backend lives stay established. Where answers of
    /// backends do not arrive, as over some overlay networks, it is as `Forward`.
    #[default]
    Replicate,
    /// Connections stay established while the node that had the address lives: their packets are forwarded to it.
    Forward,
    /// They end.
    None,
}

impl ConnectionPolicy {
    /// Returns the policy of a virtual router that names none.
    pub const fn forward() -> Self {
        Self::Forward
    }

    /// Returns true if it is that.
    pub const fn is_forward(&self) -> bool {
        matches!(self, Self::Forward)
    }
}

/// VRRP settings of virtual routers.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct VrrpSettings {
    /// Time between two adverts, in milliseconds, in steps of 10. A failover takes up to three intervals and the skew time. Default: 100.
    #[serde(default = "default_interval")]
    #[schemars(schema_with = "crate::validation::advertisement_interval")]
    pub advertisement_interval_milliseconds: u32,
    /// Time for which a better node waits before it takes addresses from a healthy one, in seconds. Default: 0.
    #[serde(default)]
    #[schemars(schema_with = "crate::validation::preempt_delay_seconds")]
    pub preempt_delay_seconds: u32,
    /// Transport of adverts to the other nodes: `Multicast`, or `Unicast` for LANs without multicast. Default: Multicast.
    #[serde(default)]
    pub transport: Transport,
    /// True if nodes that multicast does not reach receive adverts by unicast, too. Default: true.
    #[serde(default = "default_unicast_fallback")]
    pub unicast_fallback: bool,
    /// True if virtual IPs use the MAC address of the virtual router (RFC 9568 §7.3), which moves with them, for hosts and firewalls that
    /// ignore gratuitous ARP. Each node's switch port must accept a second MAC address. Default: false.
    #[serde(default, rename = "virtualMAC")]
    pub virtual_mac: bool,
    /// Signing of adverts: nodes sign their adverts and accept only signed adverts. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// VRIDs that Windlass may use. It begins at 64, and avoids VRIDs in use. Default: 1 to 255.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::validation::vrid_range")]
    pub vrid_range: Option<VridRange>,
}

impl Default for VrrpSettings {
    /// With every field left out.
    fn default() -> Self {
        Self {
            advertisement_interval_milliseconds: default_interval(),
            preempt_delay_seconds: 0,
            transport: Transport::default(),
            unicast_fallback: default_unicast_fallback(),
            virtual_mac: false,
            authentication: None,
            vrid_range: None,
        }
    }
}

/// Transport of adverts to the other nodes.
#[derive(
    JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord,
)]
pub enum Transport {
    /// To the group of VRRP (RFC 9568 §5.1.1.2, §5.1.2.2).
    #[default]
    Multicast,
    /// To each node by itself, for LANs that do not carry multicast between them.
    Unicast,
}

impl Transport {
    /// Returns true if it is the default.
    pub const fn is_multicast(&self) -> bool {
        matches!(self, Self::Multicast)
    }
}

/// Signing of adverts (`docs/dev/auth.md`).
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct Authentication {
    /// The key that signs, 1 to 255: an entry of the Secret `windlass-vrrp-keys` with this number as its name. Nodes also accept
    /// adverts signed by any other entry of the Secret, so that keys can be changed one node at a time.
    #[schemars(schema_with = "crate::validation::key_id")]
    pub key_id: u8,
}

/// VRIDs, from the first to the last.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct VridRange {
    /// 1 to 255.
    pub first: u8,
    /// No less than the first.
    pub last: u8,
}

/// Status of an Announcement.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct AnnouncementStatus {
    /// Number of virtual IPs to which it applies.
    #[serde(default, rename = "virtualIPs")]
    pub virtual_ips: i64,
    /// `Applied`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::conditions")]
    pub conditions: Vec<Condition>,
}

fn default_priority() -> i32 {
    100
}

fn default_interval() -> u32 {
    DEFAULT_ADVERTISEMENT_INTERVAL_MS
}

pub(crate) const fn default_unicast_fallback() -> bool {
    true
}

fn default_excluded_interfaces() -> Vec<String> {
    DEFAULT_EXCLUDED_INTERFACES.iter().map(|&pattern| pattern.to_owned()).collect()
}
