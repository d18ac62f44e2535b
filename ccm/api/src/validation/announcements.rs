//! Fields of Announcements.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::names;
use super::selectors::selector;
use crate::DEFAULT_EXCLUDED_INTERFACES;

/// With `All`, replies of backends do not pass the node that would replicate their connections.
pub(crate) const SHARES_OR_REPLICATES: &str =
    "self.spec.loadSharing != 'All' || self.spec.connections != 'Replicate'";

/// Packets to the virtual MAC address do not arrive at the interface that directs packets.
pub(crate) const SHARES_OR_MOVES_MAC: &str = "self.spec.loadSharing != 'All' || !self.spec.vrrp.virtualMAC";

/// Names of objects, as DNS subdomains.
pub(crate) fn object_names(_: &mut SchemaGenerator) -> Schema {
    names(
        253,
        "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
        "'\"' + self + '\" cannot be the name of a pool: it has lower-case letters, digits, \"-\" and \".\" only, and begins and \
         ends with a letter or digit'",
    )
}

/// Names of interfaces, with `*` for any characters.
pub(crate) fn interface_patterns(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "atomic",
        "items": interface_pattern(),
    })
}

/// The same, with the default that is shown.
pub(crate) fn excluded_interface_patterns(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "atomic",
        "default": DEFAULT_EXCLUDED_INTERFACES,
        "items": interface_pattern(),
    })
}

/// Linux: IFNAMSIZ is 16 with the closing zero; no `/`, no blank, not `.` or `..`.
pub(super) fn interface_pattern() -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": 15,
        "x-kubernetes-validations": [{
            "rule": "self.matches('^[^/\\\\s]+$') && self != '.' && self != '..'",
            "messageExpression": "'interface \"' + self + '\" cannot exist: an interface name has no blank and no \"/\" in \
                it, and is neither \".\" nor \"..\"; * stands for any characters'",
        }],
    })
}

/// Selectors of nodes, each with a weight.
pub(crate) fn node_preferences(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["weight", "selector"],
            "properties": {
                "weight": {
                    "description": "Weight of the nodes that the selector matches, 1 to 100.",
                    "type": "integer",
                    "format": "int32",
                    "minimum": 1,
                    "maximum": 100,
                },
                "selector": selector(),
            },
        },
    })
}

/// Seconds that a preferred node waits: up to an hour.
pub(crate) fn preempt_delay_seconds(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int32", "minimum": 0, "maximum": 3600, "default": 0 })
}

/// Number of a key.
pub(crate) fn key_id(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int32", "minimum": 1, "maximum": 255 })
}

/// Numbers of keys.
pub(crate) fn key_ids(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "maxItems": 255, "items": key_id(generator) })
}

/// The first and the last of some VRIDs, or none.
pub(crate) fn vrid_range(_: &mut SchemaGenerator) -> Schema {
    let vrid = |description: &str| json!({ "description": description, "type": "integer", "format": "int32", "minimum": 1, "maximum": 255 });
    json_schema!({
        "type": "object",
        "nullable": true,
        "required": ["first", "last"],
        "properties": { "first": vrid("Lowest VRID."), "last": vrid("Highest VRID.") },
        "x-kubernetes-validations": [{
            "rule": "self.first <= self.last",
            // (The message cannot name them: the API server reckons with a number of any length when it becomes text.)
            "message": "a range of VRIDs ends before it begins: write the lower number first",
        }],
    })
}
