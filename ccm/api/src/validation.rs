//! Validation by the API server itself: schemas with CEL rules, so that the client that makes a mistake receives an error with the reason
//! immediately.
//!
//! Lists and strings are bounded, or the API server's cost estimate for the rules would not end (limit: 10⁷ per rule).

mod announcements;
mod checks;
mod ranges;
mod selectors;

use schemars::{Schema, SchemaGenerator, json_schema};

pub(crate) use announcements::{
    SHARES_OR_MOVES_MAC, SHARES_OR_REPLICATES, excluded_interface_patterns, interface_patterns, key_id,
    key_ids, node_preferences, object_names, preempt_delay_seconds, vrid_range,
};
pub(crate) use checks::checks;
pub(crate) use ranges::{address_ranges, excluded_ranges};
pub(crate) use selectors::selectors;

/// Names of namespaces.
pub(crate) fn namespaces(_: &mut SchemaGenerator) -> Schema {
    names(
        63,
        "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "'\"' + self + '\" cannot be the name of a namespace: it has lower-case letters, digits and \"-\" only, and begins and \
         ends with a letter or digit'",
    )
}

/// Returns the schema of names of this length at most that obey a rule, with the message for names that do not.
fn names(max_length: u16, rule: &str, message_expression: &str) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 256,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "string",
            "minLength": 1,
            "maxLength": max_length,
            "x-kubernetes-validations": [{ "rule": rule, "messageExpression": message_expression }],
        },
    })
}

/// Milliseconds between two adverts: RFC 9568 §5.2.7 counts centiseconds in 12 bits.
pub(crate) fn advertisement_interval(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "integer",
        "format": "int32",
        "minimum": 10,
        "maximum": 40950,
        "x-kubernetes-validations": [{
            "rule": "self % 10 == 0",
            "message": "an advertisement interval is a multiple of 10 milliseconds, because VRRP counts in steps of 10 ms",
        }],
    })
}

/// Seconds that a released address is kept back: up to a day. (Not as `uint32`, a format that the API server does not know
/// and warns of.)
pub(crate) fn quarantine_seconds(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int32", "minimum": 0, "maximum": 86_400 })
}

/// Seconds that a released address stays with its namespace: up to thirty days.
pub(crate) fn namespace_quarantine_seconds(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int32", "minimum": 0, "maximum": 2_592_000 })
}

/// Schema of an optional limit on a number of addresses.
pub(crate) fn limit(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int32", "minimum": 1, "maximum": 1_000_000 })
}

/// A Service has no more addresses than its namespace.
pub(crate) const LIMITS_IN_ORDER: &str = "!has(self.spec.maxPerService) || !has(self.spec.maxPerNamespace) || \
    self.spec.maxPerService <= self.spec.maxPerNamespace";

/// A pool is the only one of the namespaces that it selects, and of their Services that name none.
pub(crate) const WAITS_FOR_ITS_OWN: &str = "self.spec.whenFull != 'Wait' || (self.spec.autoAssign && (\
    (has(self.spec.namespaces) && size(self.spec.namespaces) > 0) || \
    (has(self.spec.namespaceSelectors) && size(self.spec.namespaceSelectors) > 0)))";

/// An address in canonical text that never changes: the object is the claim to it.
pub(crate) fn claimed_address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 45,
        "x-kubernetes-validations": [
            {
                "rule": "isIP(self) && ip.isCanonical(self)",
                "messageExpression": "'address \"' + self + '\" is not an IP address in canonical text (RFC 5952)'",
            },
            { "rule": "self == oldSelf", "message": "the address of a VirtualIP never changes" },
        ],
    })
}

/// Returns the rule that one owner of a claim stays: otherwise its owners would be given another address. Services that share an address
/// may join and leave.
pub(crate) fn an_owner_stays() -> serde_json::Value {
    serde_json::json!({
        "rule": "self.exists(one, oldSelf.exists(old, old.uid == one.uid))",
        "message": "one owner of a VirtualIP must stay: delete the VirtualIP to free its address",
    })
}

/// An IP address of either family. One that is none would keep every reader from reading the objects of its kind.
pub(crate) fn ip_address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 45,
        "x-kubernetes-validations": [
            { "rule": "isIP(self)", "messageExpression": "'address \"' + self + '\" is not an IP address'" },
        ],
    })
}

/// IP addresses, of either family each.
pub(crate) fn ip_addresses(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "maxItems": 256, "items": ip_address(generator) })
}

/// An IPv6 address, or none.
pub(crate) fn optional_ip_address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "nullable": true,
        "maxLength": 45,
        "x-kubernetes-validations": [{
            "rule": "isIP(self)",
            "messageExpression": "'address \"' + self + '\" is not an IP address'",
        }],
    })
}

/// Likewise, of IPv6.
pub(crate) fn optional_ipv6_address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "nullable": true,
        "maxLength": 45,
        "x-kubernetes-validations": [{
            "rule": "isIP(self) && ip(self).family() == 6",
            "messageExpression": "'address \"' + self + '\" is not an IPv6 address'",
        }],
    })
}

/// An octet as VRRP has it on the wire.
pub(crate) fn octet(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int32", "minimum": 0, "maximum": 255 })
}

/// Longest packet of an interface, in bytes.
pub(crate) fn optional_mtu(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int64", "nullable": true, "minimum": 0, "maximum": u32::MAX })
}

/// Number of a port.
pub(crate) fn port(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int32", "minimum": 1, "maximum": 65535 })
}

/// A port of each owner of an address.
pub(crate) fn ports_of_owners(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "maxItems": 64, "items": port(generator) })
}

/// Character that stands for a node.
pub(crate) fn lot_key(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^[a-zA-Z0-9]$" })
}

/// A node of each lot.
pub(crate) fn lots(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^[a-zA-Z0-9]{120}$" })
}

/// Rows of former servers, each with one or none of each lot.
pub(crate) fn former_lots(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 3,
        "items": { "type": "string", "pattern": "^[-a-zA-Z0-9]{120}$" },
    })
}

/// VRID of a virtual router, which never changes: another VRID is another router (RFC 9568 §5.2.3).
pub(crate) fn vrid(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "integer",
        "format": "int32",
        "minimum": 1,
        "maximum": 255,
        "x-kubernetes-validations": [
            { "rule": "self == oldSelf", "message": "the VRID of a VirtualRouter never changes: make another one" },
        ],
    })
}

/// Priority of a node that owns no address: 1 to 254 (RFC 9568 §5.2.4).
pub(crate) fn backup_priority(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int32", "minimum": 1, "maximum": 254 })
}

/// RFC 3339, as our own programs read it: the API server's `date-time` lets through offsets that no clock has, any character
/// before fractions of a second, and the last days of the year 9999, and one such object would keep every reader from
/// reading its kind.
const MOMENT: &str = "^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?\
    (Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$";

/// A point in time.
pub(crate) fn moment(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time", "pattern": MOMENT })
}

/// Conditions, one of each type, so that several writers can each own theirs.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut item = generator.subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>();
    if let Some(since) =
        item.pointer_mut("/properties/lastTransitionTime").and_then(|one| one.as_object_mut())
    {
        since.insert("pattern".to_owned(), MOMENT.into());
    }
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": item,
    })
}

/// The rule that makes the name of a `VirtualIP` the claim to its address: see [`virtual_ip_name`](super::virtual_ip_name).
pub(crate) const NAMED_AFTER_ADDRESS: &str = "self.metadata.name == \
    (self.spec.address.startsWith(':') ? 'x' : '') + self.spec.address.replace(':', '-') + \
    (self.spec.address.endsWith(':') ? 'x' : '')";
