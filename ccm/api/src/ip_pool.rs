//! `IPPool`: the addresses an admin lets Windlass give to Services.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Addresses that Windlass may give to Services.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "IPPool",
    plural = "ippools",
    singular = "ippool",
    shortname = "ipp",
    category = "windlass",
    status = "IPPoolStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Addresses", "type": "string", "jsonPath": ".spec.addresses"}"#,
    printcolumn = r#"{"name": "Auto", "type": "boolean", "jsonPath": ".spec.autoAssign", "priority": 1}"#,
    printcolumn = r#"{"name": "Total", "type": "integer", "jsonPath": ".status.ipv4.total"}"#,
    printcolumn = r#"{"name": "Assigned", "type": "integer", "jsonPath": ".status.ipv4.assigned"}"#,
    printcolumn = r#"{"name": "Available", "type": "integer", "jsonPath": ".status.ipv4.available"}"#,
    printcolumn = r#"{"name": "Total6", "type": "integer", "jsonPath": ".status.ipv6.total", "priority": 1}"#,
    printcolumn = r#"{"name": "Assigned6", "type": "integer", "jsonPath": ".status.ipv6.assigned", "priority": 1}"#,
    printcolumn = r#"{"name": "Available6", "type": "integer", "jsonPath": ".status.ipv6.available", "priority": 1}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct IPPoolSpec {
    /// CIDRs (`192.0.2.0/28`, every address usable) and inclusive ranges (`192.0.2.10-192.0.2.20`).
    #[schemars(schema_with = "crate::validation::address_ranges")]
    pub addresses: Vec<String>,
    /// Whether Services that name no pool may get an address from here.
    #[serde(default = "yes")]
    pub auto_assign: bool,
    /// Interface that announces these addresses on every node. Default: the one whose subnet holds the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::validation::interface_name")]
    pub interface: Option<String>,
    /// Time between two VRRP adverts, in milliseconds, a multiple of 10: failover takes up to 3 times as long plus
    /// the skew.
    #[serde(default = "default_interval")]
    #[schemars(schema_with = "crate::validation::advertisement_interval")]
    pub advertisement_interval_milliseconds: u32,
}

/// What the pool holds now.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct IPPoolStatus {
    /// IPv4 counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<AddressCounts>,
    /// IPv6 counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<AddressCounts>,
    /// What keeps the pool, or part of it, from being used.
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
}

fn yes() -> bool {
    true
}

fn default_interval() -> u32 {
    super::DEFAULT_ADVERTISEMENT_INTERVAL_MS
}
