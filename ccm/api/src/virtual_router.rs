//! `VirtualRouter`: a VRID on a segment and the nodes that elect an owner for it, in order.

use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, Resource as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::announcement::default_unicast_fallback;
use crate::{
    ANNOTATION_PREFERRED_NODE, ANNOTATION_VRID_CHANGES, AddressConflictPolicy, Authentication,
    ConnectionPolicy, NodeCheck, Transport,
};

/// One VRRP virtual router: it carries any number of virtual IPs of one family.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "VirtualRouter",
    plural = "virtualrouters",
    singular = "virtualrouter",
    shortname = "vrouter",
    category = "windlass",
    status = "VirtualRouterStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name": "VRID", "type": "integer", "jsonPath": ".spec.vrid"}"#,
    printcolumn = r#"{"name": "Segment", "type": "string", "jsonPath": ".spec.segment"}"#,
    printcolumn = r#"{"name": "Announcement", "type": "string", "jsonPath": ".spec.announcement", "priority": 1}"#,
    printcolumn = r#"{"name": "Interval", "type": "integer", "jsonPath": ".spec.advertisementIntervalMilliseconds", "description": "Milliseconds between two adverts", "priority": 1}"#,
    printcolumn = r#"{"name": "Active", "type": "string", "jsonPath": ".status.activeNode"}"#,
    printcolumn = r#"{"name": "Since", "type": "date", "jsonPath": ".status.activeSince"}"#,
    printcolumn = r#"{"name": "Candidates", "type": "string", "jsonPath": ".spec.nodes", "description": "Nodes that elect the Active router, ranked by priority", "priority": 1}"#,
    printcolumn = r#"{"name": "Moves", "type": "integer", "jsonPath": ".status.transitions", "priority": 1}"#,
    printcolumn = r#"{"name": "Multicast-Heard", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"MulticastHeard\")].status", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct VirtualRouterSpec {
    /// Virtual router identifier, 1 to 255, unique on the segment and address family.
    #[schemars(schema_with = "crate::validation::vrid")]
    pub vrid: u8,
    /// The subnet whose nodes elect the owner, as a CIDR.
    #[schemars(length(max = 43))]
    pub segment: String,
    /// Time between two adverts, in milliseconds, a multiple of 10 (10 to 40950).
    #[schemars(schema_with = "crate::validation::advertisement_interval")]
    pub advertisement_interval_milliseconds: u32,
    /// Candidates, in the order of preference while no node has a fault. Their priority shows the current preference: a node that is being
    /// drained keeps its place here.
    #[schemars(length(max = 254))]
    pub nodes: Vec<RankedNode>,
    /// `externalTrafficPolicy` of the Services whose addresses it carries. With `Local`, a node without an endpoint of these Services ranks
    /// below all nodes that have one.
    #[serde(default, skip_serializing_if = "ExternalTrafficPolicy::is_cluster")]
    pub external_traffic_policy: ExternalTrafficPolicy,
    /// Name of the `Announcement` that applies to its virtual IPs; absent: none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub announcement: Option<String>,
    /// Delay in seconds: a preferred node waits for this time before it replaces another Active node.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(schema_with = "crate::validation::preempt_delay_seconds")]
    pub preempt_delay_seconds: u32,
    /// Transport of adverts to the other nodes.
    #[serde(default, skip_serializing_if = "Transport::is_multicast")]
    pub transport: Transport,
    /// True if nodes that multicast does not reach receive adverts by unicast, too.
    #[serde(default = "default_unicast_fallback", skip_serializing_if = "is_true")]
    pub unicast_fallback: bool,
    /// True if virtual IPs use the MAC address of the virtual router.
    #[serde(default, rename = "virtualMAC", skip_serializing_if = "std::ops::Not::not")]
    pub virtual_mac: bool,
    /// Signing of adverts; absent: they are not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// Checks that each node runs by itself: a node on which a check fails has a lower priority than all nodes on which all checks pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::checks")]
    pub checks: Vec<NodeCheck>,
    /// Reaction when another host of the LAN claims a virtual IP that is announced.
    #[serde(default, skip_serializing_if = "AddressConflictPolicy::is_defend")]
    pub address_conflict: AddressConflictPolicy,
    /// Handling of established connections when another node takes over.
    #[serde(default = "ConnectionPolicy::forward", skip_serializing_if = "ConnectionPolicy::is_forward")]
    pub connections: ConnectionPolicy,
    /// UID of the virtual router that it replaces, with the same nodes under another VRID: the addresses that the old one still carries
    /// move here, and no other address moves because of it. Absent: it replaces none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub replaces: Option<String>,
}

impl VirtualRouter {
    /// Returns the Active node, as its agent reports it.
    pub fn active_node(&self) -> Option<&str> {
        self.status.as_ref()?.active_node.as_deref()
    }

    /// The node that an admin wants to have its addresses ([`ANNOTATION_PREFERRED_NODE`]), whether or not there is one of that name.
    pub fn preferred_node(&self) -> Option<&str> {
        let annotations = self.meta().annotations.as_ref()?;
        annotations.get(ANNOTATION_PREFERRED_NODE).map(String::as_str).filter(|node| !node.is_empty())
    }

    /// Number of VRID changes in a row of which it is the last ([`ANNOTATION_VRID_CHANGES`]); 0: it was made for another reason.
    pub fn vrid_changes(&self) -> u32 {
        let annotations = self.meta().annotations.as_ref();
        let written = annotations.and_then(|annotations| annotations.get(ANNOTATION_VRID_CHANGES));
        written.and_then(|text| text.parse().ok()).unwrap_or_default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
const fn is_true(value: &bool) -> bool {
    *value
}

/// `Service.spec.externalTrafficPolicy`: which endpoints a node sends the traffic to that it gets for an address.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ExternalTrafficPolicy {
    /// Endpoints of all nodes: every node can serve the address.
    #[default]
    Cluster,
    /// Its own: a node without an endpoint drops the traffic.
    Local,
}

impl ExternalTrafficPolicy {
    /// Returns true if every node can serve.
    pub const fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster)
    }
}

/// A candidate for a virtual router.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RankedNode {
    /// Name of the Node.
    #[schemars(length(max = 253))]
    pub name: String,
    /// VRRP priority, 1 to 254. Never 255: no node owns a Service's address (RFC 9568 §5.2.4).
    #[schemars(schema_with = "crate::validation::backup_priority")]
    pub priority: u8,
    /// Source of its adverts: the node's primary address on the segment, in IPv6 its interface's link-local address
    /// (RFC 9568 §5.1.2.1). Its family is that of the virtual router.
    #[schemars(schema_with = "crate::validation::ip_address")]
    pub address: IpAddr,
    /// The node's interface on the segment.
    #[schemars(length(max = 15))]
    pub interface: String,
    /// True if other candidates may not know it yet, or not with this address, and would not obey it. It ranks above such a candidate only
    /// after the candidate reported that it knows it (`NodeNetwork.spec.knownRouters`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub joining: bool,
    /// While it is joining with another address: the address by which the other candidates know it until now. They obey both addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::validation::optional_ip_address")]
    pub former_address: Option<IpAddr>,
}

impl RankedNode {
    /// The addresses by which the others know it and obey it: its own, and while it is joining with that its former one.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        std::iter::once(self.address).chain(self.former_address)
    }
}

/// Status of the virtual router, as the Active node reports it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VirtualRouterStatus {
    /// Node that is Active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_node: Option<String>,
    /// Time at which the node became Active (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_since: Option<String>,
    /// Number of changes of the Active node.
    #[serde(default)]
    pub transitions: i64,
    /// `MulticastHeard`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::conditions")]
    pub conditions: Vec<Condition>,
}
