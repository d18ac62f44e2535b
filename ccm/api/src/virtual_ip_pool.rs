//! `VirtualIPPool`: the addresses an admin lets Windlass give to Services.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Addresses that Windlass may give to Services.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "VirtualIPPool",
    plural = "virtualippools",
    singular = "virtualippool",
    shortname = "vippool",
    category = "windlass",
    status = "VirtualIPPoolStatus",
    derive = "PartialEq",
    validation = (crate::validation::LIMITS_IN_ORDER, "spec.maxPerService is above spec.maxPerNamespace: a Service has no more \
        addresses than its namespace"),
    validation = (crate::validation::WAITS_FOR_ITS_OWN, "spec.whenFull: Wait needs spec.namespaces or spec.namespaceSelectors, \
        which select the namespaces that the pool is for, and spec.autoAssign: true"),
    printcolumn = r#"{"name": "Auto", "type": "boolean", "jsonPath": ".spec.autoAssign", "priority": 1}"#,
    printcolumn = r#"{"name": "Total", "type": "integer", "jsonPath": ".status.ipv4.total"}"#,
    printcolumn = r#"{"name": "Assigned", "type": "integer", "jsonPath": ".status.ipv4.assigned"}"#,
    printcolumn = r#"{"name": "Available", "type": "integer", "jsonPath": ".status.ipv4.available"}"#,
    printcolumn = r#"{"name": "Quarantined", "type": "integer", "jsonPath": ".status.ipv4.quarantined", "priority": 1}"#,
    printcolumn = r#"{"name": "Total6", "type": "integer", "jsonPath": ".status.ipv6.total", "priority": 1}"#,
    printcolumn = r#"{"name": "Assigned6", "type": "integer", "jsonPath": ".status.ipv6.assigned"}"#,
    printcolumn = r#"{"name": "Available6", "type": "integer", "jsonPath": ".status.ipv6.available"}"#,
    printcolumn = r#"{"name": "Quarantined6", "type": "integer", "jsonPath": ".status.ipv6.quarantined", "priority": 1}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Announceable", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Announceable\")].status", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Addresses", "type": "string", "jsonPath": ".spec.addresses"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct VirtualIPPoolSpec {
    /// CIDRs (`192.0.2.0/28`, every address usable), inclusive ranges (`192.0.2.10-192.0.2.20`) and single addresses, of both families.
    #[schemars(schema_with = "crate::validation::address_ranges")]
    pub addresses: Vec<String>,
    /// Parts of `addresses` to leave out, in the same notation. A Service that has one of these already keeps it. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::excluded_ranges")]
    pub exclude: Vec<String>,
    /// True if Services that name neither the pool nor one of its addresses may get an address from it. Default: true.
    #[serde(default = "yes")]
    pub auto_assign: bool,
    /// True if the pool gives no new addresses; Services keep the addresses that they have. Default: false.
    #[serde(default)]
    pub disabled: bool,
    /// Addresses that Windlass does not give, because some equipment treats them specially. `Subnet`: the first and last address of each
    /// IPv4 CIDR up to /30, the first of each IPv6 CIDR up to /126, and in each IPv6 CIDR up to /64 the 128 of RFC 2526.
    /// `SubnetAndClassC`: also every IPv4 address that ends in .0 or .255. Default: None.
    #[serde(default)]
    pub avoid_reserved: AvoidReserved,
    /// Pools are searched in ascending order of this number; among equals, those with selectors first, then by name. Default: 100.
    #[serde(default = "default_priority")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub priority: i32,
    /// Names of namespaces whose Services may use the pool, besides those that `namespaceSelectors` select. Default: all, if both are
    /// empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::namespaces")]
    pub namespaces: Vec<String>,
    /// Labels of namespaces whose Services may use the pool: one selector that matches is enough. Default: all, if `namespaces` is empty,
    /// too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::selectors")]
    pub namespace_selectors: Vec<LabelSelector>,
    /// Labels of Services that may use the pool: one selector that matches is enough. Namespace and Service must both match. Default:
    /// all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::selectors")]
    pub service_selectors: Vec<LabelSelector>,
    /// Handling of Services of the selected namespaces when the pool is full. `UseOthers`: they get an address of another pool. `Wait`:
    /// they wait; pools for all namespaces never give them an address. Default: UseOthers.
    #[serde(default)]
    pub when_full: WhenFull,
    /// Largest number of addresses of each family for one namespace, with external IPs and addresses in quarantine. Services keep the
    /// addresses that they have. Default: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::validation::limit")]
    pub max_per_namespace: Option<u32>,
    /// Largest number of addresses of each family for one Service, with external IPs and addresses in quarantine. It keeps the addresses
    /// that it has. Default: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::validation::limit")]
    pub max_per_service: Option<u32>,
    /// Free address that is given first: `Lowest`, `Highest`, or with `LeastRecentlyUsed` one that was never given, else the one released
    /// longest ago (of 65,536 releases since the controller started). Default: Lowest.
    #[serde(default)]
    pub allocation_order: AllocationOrder,
    /// Time for which a released address is reserved for its Service, in seconds: stale neighbour tables, DNS and clients must not reach
    /// another Service. Default: 60.
    #[serde(default = "default_quarantine")]
    #[schemars(schema_with = "crate::validation::quarantine_seconds")]
    pub quarantine_seconds: u32,
    /// Time for which a released address is reserved for the namespace of its Service, in seconds, if longer than `quarantineSeconds`:
    /// another Service of the namespace can get it by naming it. Default: 0.
    #[serde(default)]
    #[schemars(schema_with = "crate::validation::namespace_quarantine_seconds")]
    pub namespace_quarantine_seconds: u32,
    /// Handling of an address that is in no pool any more. `Keep`: its Service keeps it, and a condition reports that. `Move`: its
    /// Service gets another one, which works before the old one is withdrawn. Default: Keep.
    #[serde(default)]
    pub on_removal: OnRemoval,
    /// Handling of an address for which another host of the LAN answers before its first use. `Refuse`: no node announces it, and a
    /// Service that does not show it yet gets another. `Claim`: nodes announce it, and a condition reports the conflict. Default: Refuse.
    #[serde(default)]
    pub on_address_in_use: OnAddressInUse,
    /// True if nodes announce addresses of the pool in `spec.externalIPs` of Services that the selectors admit. A client that may write
    /// that field may take any address of the pool (CVE-2020-8554). Default: false.
    #[serde(default, rename = "allowExternalIPs")]
    pub allow_external_ips: bool,
}

impl Default for VirtualIPPoolSpec {
    /// A pool of no address with every other field as if it were left out.
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            exclude: Vec::new(),
            auto_assign: yes(),
            disabled: false,
            avoid_reserved: AvoidReserved::default(),
            priority: default_priority(),
            namespaces: Vec::new(),
            namespace_selectors: Vec::new(),
            service_selectors: Vec::new(),
            when_full: WhenFull::default(),
            max_per_namespace: None,
            max_per_service: None,
            allocation_order: AllocationOrder::default(),
            quarantine_seconds: default_quarantine(),
            namespace_quarantine_seconds: 0,
            on_removal: OnRemoval::default(),
            on_address_in_use: OnAddressInUse::default(),
            allow_external_ips: false,
        }
    }
}

/// Addresses that are not given although they are in the pool.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AvoidReserved {
    /// Every address is given.
    #[default]
    None,
    /// The first and the last address of each IPv4 CIDR up to /30; the first of each IPv6 CIDR up to /126 (the subnet-router
    /// anycast address, RFC 4291 §2.6.1), and of each up to /64 the 128 that RFC 2526 reserves for anycast.
    Subnet,
    /// The addresses of `Subnet`, and every IPv4 address that ends in .0 or .255.
    SubnetAndClassC,
    /// A value of a newer version: the pool gives nothing, because it might give what is to be kept back.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// Order in which free addresses are given.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllocationOrder {
    /// The lowest.
    #[default]
    Lowest,
    /// The highest.
    Highest,
    /// One never given, lowest first; with none left, the one released the longest ago.
    LeastRecentlyUsed,
    /// A value of a newer version: the lowest.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// Handling of Services of the namespaces that a pool selects when it has no address left.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// They get one of another pool.
    #[default]
    UseOthers,
    /// They wait. Pools for all namespaces give them nothing of a family that this pool has, not even by name.
    Wait,
    /// A value of a newer version: they wait, because what is others' might be given to them.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// Handling of a Service whose address neither its pool nor any other holds any more.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRemoval {
    /// It keeps the address; a condition reports that.
    #[default]
    Keep,
    /// It is given another, which works before the old one is withdrawn.
    Move,
    /// A value of a newer version: it keeps the address.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// Handling of an address for which another host of the LAN answers before it is announced for the first time.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnAddressInUse {
    /// It is not announced, and a Service that does not show it yet is given another.
    #[default]
    Refuse,
    /// It is announced all the same, and the conflict is reported: for addresses that the Service is to take over from a former holder.
    Claim,
    /// A value of a newer version: it is not announced.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

impl OnAddressInUse {
    /// Returns true if the address is left to the host that has it.
    pub const fn refuses(&self) -> bool {
        !matches!(self, Self::Claim)
    }
}

/// Status of the pool: counts, addresses and conditions.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VirtualIPPoolStatus {
    /// IPv4 counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<AddressCounts>,
    /// IPv6 counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<AddressCounts>,
    /// The addresses of the pool as CIDRs, ascending, and those given from it that no pool holds any more. The API server compares
    /// `spec.externalIPs` of Services with them. Of more than 1024 CIDRs, only the largest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(max = 43)))]
    pub cidrs: Vec<String>,
    /// Conditions of the pool, with the reasons: why Windlass does not use it, or part of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::conditions")]
    pub conditions: Vec<Condition>,
}

/// Counts of one address family. A count beyond 2^63-1 (a large IPv6 prefix) is shown as 2^63-1.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AddressCounts {
    /// Addresses in the pool.
    pub total: i64,
    /// Addresses held by Services.
    pub assigned: i64,
    /// Addresses that can be given.
    pub available: i64,
    /// Addresses that cannot be given for now: released a moment ago, or taken by another host of the LAN.
    #[serde(default)]
    pub quarantined: i64,
}

fn yes() -> bool {
    true
}

fn default_priority() -> i32 {
    100
}

fn default_quarantine() -> u32 {
    60
}
