//! Checks of nodes.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::announcements::interface_pattern;
use crate::node_check::{
    DEFAULT_FAILURE_THRESHOLD, DEFAULT_PATH, DEFAULT_PERIOD_SECONDS, DEFAULT_TIMEOUT_SECONDS,
};

/// Checks that each node makes: few, as each costs a question a second.
const MOST: u8 = 8;

/// Checks, each of which asks one thing.
pub(crate) fn checks(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": MOST,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "properties": {
                "httpGet": http_get(),
                "tcpSocket": tcp_socket(),
                "grpc": grpc(),
                "link": link(),
                "periodSeconds": number(
                    "Interval between two checks, in seconds, 1 to 600. Default: 1.",
                    600,
                    DEFAULT_PERIOD_SECONDS,
                ),
                "timeoutSeconds": number(
                    "Longest wait for an answer, in seconds, 1 to 60. Default: 1.",
                    60,
                    DEFAULT_TIMEOUT_SECONDS,
                ),
                "failureThreshold": number(
                    "Number of failures in a row after which the check counts as failed, missing answers included, 1 to 100. Default: 3.",
                    100,
                    DEFAULT_FAILURE_THRESHOLD,
                ),
            },
            "x-kubernetes-validations": [{
                "rule": "[has(self.httpGet), has(self.tcpSocket), has(self.grpc), has(self.link)].filter(one, one).size() == 1",
                "message": "a check asks one thing: give it exactly one of httpGet, tcpSocket, grpc and link",
            }],
        },
    })
}

fn http_get() -> Value {
    json!({
        "description": "An HTTP request that must be answered with a status of 200 to 399.",
        "type": "object",
        "required": ["port"],
        "properties": {
            "host": host(),
            "port": port(),
            "path": {
                "description": "Path to request. Default: /.",
                "type": "string",
                "minLength": 1,
                "maxLength": 256,
                "default": DEFAULT_PATH,
                "x-kubernetes-validations": [{
                    "rule": format!("self.matches('{PATH}')"),
                    "messageExpression": "'path \"' + self + '\" cannot be requested: it must begin with \"/\" and have only what RFC \
                        3986 allows in a path and a query; write any other character as % and its two hexadecimal digits'",
                }],
            },
            "scheme": {
                "description": "Scheme of the request. With HTTPS the server's certificate is not verified, as in Kubernetes' probes. \
                    Default: HTTP.",
                "type": "string",
                "enum": ["HTTP", "HTTPS"],
                "default": "HTTP",
            },
        },
    })
}

/// RFC 3986 §3.3 and §3.4, without the `'` that would end the text in CEL.
const PATH: &str = "^/([-A-Za-z0-9._~!$&()*+,;=:@/?]|%[0-9A-Fa-f][0-9A-Fa-f])*$";

fn tcp_socket() -> Value {
    json!({
        "description": "A TCP connection that must be accepted.",
        "type": "object",
        "required": ["port"],
        "properties": { "host": host(), "port": port() },
    })
}

fn grpc() -> Value {
    json!({
        "description": "A request for health by grpc.health.v1.Health/Check, without TLS, that must be answered with SERVING.",
        "type": "object",
        "required": ["port"],
        "properties": {
            "host": host(),
            "port": port(),
            "service": {
                "description": "Service whose health is requested. Default: the server as a whole.",
                "type": "string",
                "maxLength": 256,
                "x-kubernetes-validations": [{
                    "rule": format!("self.matches('{SERVICE}')"),
                    "messageExpression": "'service \"' + self + '\" cannot be requested: it must have only printable characters of \
                        ASCII without spaces, as etcdserverpb.KV'",
                }],
            },
        },
    })
}

/// Printable ASCII without the space.
const SERVICE: &str = "^[!-~]*$";

fn link() -> Value {
    json!({
        "description": "Links of the node, enough of which must have carrier. A name that no interface has is a link that is down.",
        "type": "object",
        "required": ["interfaces"],
        "properties": {
            "interfaces": {
                "description": "Names of interfaces, in which * stands for any characters, as bond0 or ens*.",
                "type": "array",
                "minItems": 1,
                "maxItems": 16,
                "x-kubernetes-list-type": "atomic",
                "items": interface_pattern(),
            },
            "minimum": count("Number of links that must have carrier. Default: all.", 256),
            "minimumMegabitsPerSecond": count(
                "Least total speed of the links with carrier, in Mbit/s. A link of unknown speed is fast enough. Default: any speed \
                    will do.",
                100_000_000,
            ),
        },
    })
}

/// A number from 1 on, without a default.
fn count(description: &str, most: u32) -> Value {
    json!({ "description": description, "type": "integer", "format": "int32", "minimum": 1, "maximum": most })
}

/// Returns the schema of an address: a check must not depend on name resolution.
fn host() -> Value {
    json!({
        "description": "Address to connect to, such as the gateway's. Default: the node itself.",
        "type": "string",
        "maxLength": 45,
        "x-kubernetes-validations": [{
            "rule": "isIP(self)",
            "messageExpression": "'host \"' + self + '\" is not an IP address: names are not looked up; leave host out to ask the \
                node itself'",
        }],
    })
}

fn port() -> Value {
    json!({
        "description": "Port to connect to, 1 to 65535.",
        "type": "integer",
        "format": "int32",
        "minimum": 1,
        "maximum": 65535,
    })
}

fn number(description: &str, most: u32, default: u32) -> Value {
    json!({
        "description": description,
        "type": "integer",
        "format": "int32",
        "minimum": 1,
        "maximum": most,
        "default": default,
    })
}
