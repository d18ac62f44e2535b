//! `VirtualIP`: one per address in use. Creating the object is the claim, because object names are unique.

use std::fmt;
use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ANNOTATION_ALLOW_MOVE, CONDITION_ADDRESS_CONFLICT, CONDITION_ANNOUNCED, CONDITION_LOAD_SHARED,
    ExternalTrafficPolicy, OnAddressInUse, SharedLoad, load_shared,
};

/// One address, the Services that own it and the virtual router that carries it.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "VirtualIP",
    plural = "virtualips",
    singular = "virtualip",
    shortname = "wvip",
    category = "windlass",
    status = "VirtualIPStatus",
    derive = "PartialEq",
    validation = (crate::validation::NAMED_AFTER_ADDRESS, "a VirtualIP is named after its address, which makes the name \
        the claim to it"),
    printcolumn = r#"{"name": "Address", "type": "string", "jsonPath": ".spec.address"}"#,
    printcolumn = r#"{"name": "Namespace", "type": "string", "jsonPath": ".spec.owners[0].namespace"}"#,
    printcolumn = r#"{"name": "Service", "type": "string", "jsonPath": ".spec.owners[0].name"}"#,
    printcolumn = r#"{"name": "Pool", "type": "string", "jsonPath": ".spec.pool"}"#,
    printcolumn = r#"{"name": "Router", "type": "string", "jsonPath": ".spec.virtualRouter"}"#,
    printcolumn = r#"{"name": "Announced", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Announced\")].status"}"#,
    printcolumn = r#"{"name": "Node", "type": "string", "jsonPath": ".status.activeNode"}"#,
    printcolumn = r#"{"name": "Quarantine", "type": "string", "jsonPath": ".spec.quarantine.reason"}"#,
    printcolumn = r#"{"name": "Announcement", "type": "string", "jsonPath": ".spec.announcement", "priority": 1}"#,
    printcolumn = r#"{"name": "Owners", "type": "string", "jsonPath": ".spec.owners", "description": "All Services that share the address", "priority": 1}"#,
    printcolumn = r#"{"name": "Until", "type": "string", "jsonPath": ".spec.quarantine.until", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
)]
#[serde(rename_all = "camelCase")]
pub struct VirtualIPSpec {
    /// The address, in its canonical text (RFC 5952 for IPv6).
    #[schemars(schema_with = "crate::validation::claimed_address")]
    pub address: IpAddr,
    /// Name of the `VirtualIPPool` that holds it, or held it last.
    #[schemars(length(max = 253))]
    pub pool: String,
    /// Names of the `VirtualIPPool`s that held it before and that its Services still ask for: the Services keep it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)))]
    pub former_pools: Vec<String>,
    /// Services that own it; Services that share it are in the order in which they joined. In quarantine, the last owners.
    #[schemars(length(min = 1, max = 64), extend("x-kubernetes-validations" = [crate::validation::an_owner_stays()]))]
    pub owners: Vec<ServiceRef>,
    /// Name of the `VirtualRouter` that carries it; absent until one is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub virtual_router: Option<String>,
    /// Name of the `Announcement` that applies to it; absent: none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub announcement: Option<String>,
    /// Ports of the address with restricted clients: every client may send to all other ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub sources: Vec<PortSources>,
    /// All ports of its Services: nodes refuse packets to other ports. Absent: the ports are unknown, and nodes refuse nothing by port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4096))]
    pub ports: Vec<RestrictedPort>,
    /// `Local` if its Services have `externalTrafficPolicy: Local`: only nodes with an endpoint of these Services serve their traffic.
    #[serde(default, skip_serializing_if = "ExternalTrafficPolicy::is_cluster")]
    pub external_traffic_policy: ExternalTrafficPolicy,
    /// With `Local`, the Services' `healthCheckNodePort`: a node's answer there shows whether it has a ready endpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::ports_of_owners")]
    pub health_check_node_ports: Vec<u16>,
    /// `Claim` if its pool has `onAddressInUse: Claim`: nodes announce it although another host of the LAN answers for it.
    #[serde(default, skip_serializing_if = "OnAddressInUse::refuses")]
    pub on_address_in_use: OnAddressInUse,
    /// The nodes that serve its connections, while several do (`loadSharing` of its Announcement). Absent: the node that announces it serves
    /// all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_sharing: Option<SharedLoad>,
    /// Set while no Service has the address and other Services cannot get it: no agent announces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<Quarantine>,
}

impl VirtualIPSpec {
    /// Returns true if only the guard of the nodes keeps out clients that may not use it.
    pub fn needs_guard(&self) -> bool {
        PortSources::need_guard(&self.sources)
    }
}

/// Clients that may send to some ports of an address: the ports of one Service.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PortSources {
    /// The ports.
    #[schemars(length(min = 1, max = 4096))]
    pub ports: Vec<RestrictedPort>,
    /// Allowed ranges of the address's family, as `192.0.2.0/24`. Empty: no client may send. An entry that is not a range allows no client.
    #[serde(default)]
    #[schemars(length(max = 1024), inner(length(max = 49)))]
    pub allowed: Vec<String>,
    /// True if kube-proxy itself keeps other clients out: a node whose agent cannot keep them out may then announce the address, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_kube_proxy: bool,
}

impl PortSources {
    /// Returns true if, for an address with `all` these, only the guard of the nodes keeps out clients that may not use it.
    pub fn need_guard(all: &[Self]) -> bool {
        all.iter().any(|one| !one.by_kube_proxy)
    }
}

/// A port, as a Service has it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct RestrictedPort {
    /// Its protocol.
    pub protocol: PortProtocol,
    /// Its number.
    #[schemars(schema_with = "crate::validation::port")]
    pub port: u16,
}

/// Protocol of a port.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "UPPERCASE")]
pub enum PortProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// Reason and end of the quarantine of an address.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Quarantine {
    /// Cause of the quarantine.
    pub reason: QuarantineReason,
    /// End of the quarantine: the controller then deletes the object, and any Service can get the address again.
    #[schemars(schema_with = "crate::validation::moment")]
    pub until: Time,
    /// Cause in one sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
}

/// Cause of a quarantine.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuarantineReason {
    /// Its Services released it; only they (by namespace and name) get it back before the end.
    Released,
    /// Another host of the LAN has it.
    AddressTaken,
    /// A value of a newer version: nobody gets it before the end.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// A Service, by name and by UID: a Service that was deleted and made again is another one.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct ServiceRef {
    /// Namespace of the Service.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Name of the Service.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// `metadata.uid` of the Service.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
}

impl windlass_ipam::Owner for ServiceRef {
    /// Namespace and name: a Service that was deleted and made again under its name has them still.
    type StableKey = (String, String);

    fn stable_key(&self) -> Self::StableKey {
        (self.namespace.clone(), self.name.clone())
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl ServiceRef {
    /// Returns a lower bound, in their order, of all Services of this namespace and name: those that were recreated under it.
    #[must_use]
    pub fn before_namesakes(&self) -> Self {
        Self { uid: String::new(), ..self.clone() }
    }

    /// Returns true if it has the namespace and name of `other`.
    pub fn is_namesake(&self, other: &Self) -> bool {
        self.namespace == other.namespace && self.name == other.name
    }
}

impl fmt::Display for ServiceRef {
    /// `namespace/name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Status of the address, as the agents report it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VirtualIPStatus {
    /// Node that announces the address now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_node: Option<String>,
    /// `Announced`, `AddressConflict` while another host uses the address, too, `ConnectionsReplicated` where they are
    /// to be, and `LoadShared` where its `loadSharing` applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::conditions")]
    pub conditions: Vec<Condition>,
}

impl VirtualIP {
    /// Returns the condition [`CONDITION_ANNOUNCED`]: the report of the agents, or the planner, whether some node answers for the address.
    pub fn announced(&self) -> Option<&Condition> {
        self.condition(CONDITION_ANNOUNCED)
    }

    /// The condition [`CONDITION_ADDRESS_CONFLICT`], while some node answers for the address and another host uses it, too.
    pub fn conflict(&self) -> Option<&Condition> {
        let condition = self.condition(CONDITION_ADDRESS_CONFLICT)?;
        (condition.status == "True" && self.is_announced()).then_some(condition)
    }

    /// Returns the condition [`CONDITION_LOAD_SHARED`] while one node alone serves the address although several could: it is `False`, for
    /// another reason than a lack of endpoints.
    pub fn unshared(&self) -> Option<&Condition> {
        let condition = self.load_shared()?;
        let lacks_endpoints = [load_shared::ONE_SERVER, load_shared::NO_SERVER].contains(&&*condition.reason);
        (condition.status == "False" && !lacks_endpoints && self.is_announced()).then_some(condition)
    }

    /// Returns the condition [`CONDITION_LOAD_SHARED`]; `None` unless the address should be shared.
    pub fn load_shared(&self) -> Option<&Condition> {
        self.condition(CONDITION_LOAD_SHARED)
    }

    fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.as_ref()?.conditions.iter().find(|one| one.type_ == type_)
    }

    /// Returns true if connections end with the node that serves them, whatever other nodes know: its pods serve them, or several nodes
    /// serve the address together.
    pub fn ends_with_its_servers(&self) -> bool {
        !self.spec.external_traffic_policy.is_cluster() || self.spec.load_sharing.is_some()
    }

    /// Returns true if the controller has placed the address: nodes are to announce it. Whether one does: [`Self::is_announced`].
    pub fn is_placed(&self) -> bool {
        self.spec.virtual_router.is_some()
    }

    /// Returns true if some node answers for the address. In quarantine, or where it is not placed, none does, although its condition may
    /// remain `True` for a moment after the withdrawal.
    pub fn is_announced(&self) -> bool {
        let is_said = || self.announced().is_some_and(|one| one.status == "True");
        self.spec.quarantine.is_none() && self.is_placed() && is_said()
    }

    /// Returns the node that answers for the address, as its agent reports it.
    pub fn active_node(&self) -> Option<&str> {
        self.status.as_ref()?.active_node.as_deref()
    }

    /// Returns true if the admin allows the Services of this very address to be given another one ([`ANNOTATION_ALLOW_MOVE`]).
    pub fn allows_move(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(ANNOTATION_ALLOW_MOVE)).is_some_and(|value| value == "true")
    }
}

/// Name of the object that claims `address`: its canonical text with `:` written as `-`, and `x` put where an IPv6
/// address begins or ends with `:` (object names begin and end with a letter or digit).
pub fn virtual_ip_name(address: IpAddr) -> String {
    let mut name = address.to_string().replace(':', "-");
    if name.starts_with('-') {
        name.insert(0, 'x');
    }
    if name.ends_with('-') {
        name.push('x');
    }
    name
}
