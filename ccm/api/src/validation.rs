//! What the API server refuses by itself: schemas with CEL rules, so that a mistake is told to who makes it, at once
//! and with its reason.
//!
//! Lists and strings are bounded, or the API server's cost estimate for the rules would not end (limit: 10⁷ per rule).

use schemars::{Schema, SchemaGenerator, json_schema};

/// The two ends of `a-b`. Not with `split`: the size of its parts is not known to the cost estimate.
const FIRST: &str = "self.substring(0, self.indexOf('-')).trim()";
const LAST: &str = "self.substring(self.indexOf('-') + 1).trim()";
/// Blocks of which no Service can have an address.
const UNUSABLE: [&str; 6] =
    ["0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32", "::/127", "ff00::/8"];

/// A list of address ranges: at most 64 of at most 100 characters.
///
/// Two mistakes are beyond CEL and are found by the controller, which says so in the pool's condition `Ready`: an
/// inverted IPv6 range (CEL does not order addresses, and reads no hexadecimal numbers), and a range that merely spans
/// an unusable block.
pub(crate) fn address_ranges(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = excluded_ranges(generator);
    schema.insert("minItems".to_owned(), 1.into());
    schema
}

/// As [`address_ranges`], but it may be empty.
pub(crate) fn excluded_ranges(_: &mut SchemaGenerator) -> Schema {
    let is_range = format!("self.contains('-') && isIP({FIRST}) && isIP({LAST})");
    let is_cidr = "!self.contains('-') && isCIDR(self.trim())";
    let same_family = format!("ip({FIRST}).family() == ip({LAST}).family()");
    let number = |end: &str| {
        let octet = |index: u8| format!("int({end}.split('.')[{index}])");
        format!("{} * 16777216 + {} * 65536 + {} * 256 + {}", octet(0), octet(1), octet(2), octet(3))
    };
    let usable = |end: &str| {
        let blocks: Vec<_> =
            UNUSABLE.iter().map(|block| format!("!cidr('{block}').containsIP({end})")).collect();
        blocks.join(" && ")
    };
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "set",
        "items": {
            "type": "string",
            "minLength": 1,
            "maxLength": 100,
            "x-kubernetes-validations": [
                {
                    "rule": format!("({is_range}) || ({is_cidr})"),
                    "messageExpression": "'address range \"' + self + '\" is neither a CIDR nor a range of two \
                        addresses: write 192.0.2.0/28 or 192.0.2.10-192.0.2.20'",
                },
                {
                    "rule": format!("!({is_cidr}) || cidr(self.trim()) == cidr(self.trim()).masked()"),
                    "messageExpression": "'address range \"' + self + '\" has bits set behind its prefix length: \
                        write the subnet as 192.0.2.0/24, or one address as 192.0.2.10/32'",
                },
                {
                    "rule": format!("!({is_range}) || {same_family}"),
                    "messageExpression": "'address range \"' + self + '\" mixes IPv4 and IPv6: write one range for \
                        each family'",
                },
                {
                    "rule": format!(
                        "!({is_range}) || !({same_family}) || ip({FIRST}).family() == 6 || {} <= {}",
                        number(FIRST), number(LAST)
                    ),
                    "messageExpression": format!(
                        "'address range \"' + self + '\" ends before it begins: write ' + {LAST} + '-' + {FIRST}"
                    ),
                },
                {
                    "rule": format!(
                        "!({is_cidr}) || ({})", usable("cidr(self.trim()).masked().ip()")
                    ),
                    "messageExpression": UNUSABLE_MESSAGE,
                },
                {
                    "rule": format!("!({is_range}) || ({} && {})", usable(FIRST), usable(LAST)),
                    "messageExpression": UNUSABLE_MESSAGE,
                },
            ],
        },
    })
}

const UNUSABLE_MESSAGE: &str = "'address range \"' + self + '\" includes unspecified, loopback, multicast or \
    broadcast addresses, which cannot be given to a Service: leave them out'";

/// Names of namespaces.
pub(crate) fn namespaces(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 256,
        "x-kubernetes-list-type": "set",
        "items": {
            "type": "string",
            "minLength": 1,
            "maxLength": 63,
            "x-kubernetes-validations": [{
                "rule": "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
                "messageExpression": "'\"' + self + '\" cannot be the name of a namespace: it has lower-case letters, \
                    digits and \"-\" only, and begins and ends with a letter or digit'",
            }],
        },
    })
}

/// Name of a network interface (Linux: IFNAMSIZ is 16 with the closing zero; no `/`, no blank, not `.` or `..`).
pub(crate) fn interface_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "nullable": true,
        "minLength": 1,
        "maxLength": 15,
        "x-kubernetes-validations": [{
            "rule": "self.matches('^[^/\\\\s]+$') && self != '.' && self != '..'",
            "messageExpression": "'interface \"' + self + '\" cannot exist: an interface name has no blank and no \"/\" \
                in it, and is neither \".\" nor \"..\"'",
        }],
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

/// A claim never changes hands at once: whoever held the address would be given another one. Services that share an
/// address may join and leave.
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

/// An IPv6 address, or none.
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

/// Conditions, one of each type, so that several writers can each own theirs.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let item = generator.subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>();
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
