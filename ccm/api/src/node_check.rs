//! `NodeCheck`: what a node that announces as a good one has to pass. Its words are those of Kubernetes' probes.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// Path that is requested unless another is named, as by Kubernetes' probes.
pub(crate) const DEFAULT_PATH: &str = "/";
/// Default time between two questions, in seconds. (Kubernetes' probes: 10. Whether clients are served is to be known sooner.)
pub(crate) const DEFAULT_PERIOD_SECONDS: u32 = 1;
/// Default time that an answer may take, in seconds, as of Kubernetes' probes.
pub(crate) const DEFAULT_TIMEOUT_SECONDS: u32 = 1;
/// Default number of failures in a row that count, as of Kubernetes' probes.
pub(crate) const DEFAULT_FAILURE_THRESHOLD: u32 = 3;

/// A check that a node's agent makes by itself, without the API server.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "camelCase")]
pub struct NodeCheck {
    /// Action of the check, and its target.
    #[serde(flatten)]
    pub action: CheckAction,
    /// Interval between two checks, in seconds. Default: 1.
    #[serde(default = "default_period_seconds")]
    pub period_seconds: u32,
    /// Longest wait for an answer, in seconds. Default: 1.
    #[serde(default = "default_timeout_seconds")]
    pub timeout_seconds: u32,
    /// Number of failures in a row that count, missing answers included. Default: 3.
    #[serde(default = "default_failure_threshold")]
    pub failure_threshold: u32,
}

/// Action of a check, and its target: exactly one of them.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "camelCase")]
pub enum CheckAction {
    /// An HTTP request that must be answered with a status of 200 to 399.
    HttpGet(HttpGet),
    /// A TCP connection that must be accepted.
    TcpSocket(TcpSocket),
    /// A request for health by gRPC that must be answered with `SERVING`.
    Grpc(GrpcCheck),
    /// Links of the node, enough of which must have carrier.
    Link(LinkCheck),
}

/// An HTTP request.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "camelCase")]
pub struct HttpGet {
    /// Address to connect to. Default: the node itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<IpAddr>,
    /// Port to connect to, 1 to 65535.
    pub port: u16,
    /// Path to request. Default: /.
    #[serde(default = "default_path")]
    pub path: String,
    /// Scheme of the request. Default: HTTP.
    #[serde(default)]
    pub scheme: Scheme,
}

/// Scheme of an HTTP request.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Without TLS.
    #[default]
    #[serde(rename = "HTTP")]
    Http,
    /// With TLS; any certificate of the server will do, as for Kubernetes' probes.
    #[serde(rename = "HTTPS")]
    Https,
}

/// A TCP connection.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "camelCase")]
pub struct TcpSocket {
    /// Address to connect to. Default: the node itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<IpAddr>,
    /// Port to connect to, 1 to 65535.
    pub port: u16,
}

/// A request by `grpc.health.v1.Health/Check`, without TLS.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "camelCase")]
pub struct GrpcCheck {
    /// Address to connect to. Default: the node itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<IpAddr>,
    /// Port to connect to, 1 to 65535.
    pub port: u16,
    /// Service whose health is requested. Default: empty, the server as a whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service: String,
}

impl CheckAction {
    /// The port that the check connects to; `None` for a check of links.
    pub const fn port(&self) -> Option<u16> {
        match self {
            Self::HttpGet(HttpGet { port, .. })
            | Self::TcpSocket(TcpSocket { port, .. })
            | Self::Grpc(GrpcCheck { port, .. }) => Some(*port),
            Self::Link(_) => None,
        }
    }
}

/// Links of a node. A name that no interface has is a link that is down.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "camelCase")]
pub struct LinkCheck {
    /// Names of interfaces, in which `*` stands for any characters, as `bond0` or `ens*`.
    pub interfaces: Vec<String>,
    /// Number of them that must have carrier. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<u32>,
    /// Least total speed of the links with carrier, in Mbit/s. A link of unknown speed is fast enough. Default: any speed will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_megabits_per_second: Option<u32>,
}

/// As `httpGet http://192.0.2.1:80/healthz`, `tcpSocket localhost:22`, `grpc localhost:2379/SERVICE` or `link bond0,ens*`.
impl fmt::Display for CheckAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |host: Option<IpAddr>, port: u16| match host {
            Some(host) => SocketAddr::new(host, port).to_string(),
            None => format!("localhost:{port}"),
        };
        match self {
            Self::HttpGet(HttpGet { host, port, path, scheme: Scheme::Http }) => {
                write!(f, "httpGet http://{}{path}", at(*host, *port))
            }
            Self::HttpGet(HttpGet { host, port, path, scheme: Scheme::Https }) => {
                write!(f, "httpGet https://{}{path}", at(*host, *port))
            }
            Self::TcpSocket(TcpSocket { host, port }) => write!(f, "tcpSocket {}", at(*host, *port)),
            Self::Grpc(GrpcCheck { host, port, service }) if service.is_empty() => {
                write!(f, "grpc {}", at(*host, *port))
            }
            Self::Grpc(GrpcCheck { host, port, service }) => {
                write!(f, "grpc {}/{service}", at(*host, *port))
            }
            Self::Link(LinkCheck { interfaces, .. }) => write!(f, "link {}", interfaces.join(",")),
        }
    }
}

fn default_path() -> String {
    DEFAULT_PATH.to_owned()
}

fn default_period_seconds() -> u32 {
    DEFAULT_PERIOD_SECONDS
}

fn default_timeout_seconds() -> u32 {
    DEFAULT_TIMEOUT_SECONDS
}

fn default_failure_threshold() -> u32 {
    DEFAULT_FAILURE_THRESHOLD
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_left_out_of_a_check_has_its_default_and_what_is_said_is_kept() {
        let least = json!({ "httpGet": { "port": 8080 } });
        let filled = json!({
            "httpGet": { "port": 8080, "path": "/", "scheme": "HTTP" },
            "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 3,
        });
        let links = json!({
            "link": { "interfaces": ["bond0", "ens*"], "minimum": 2, "minimumMegabitsPerSecond": 20_000 },
            "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 3,
        });
        let own = json!({
            "tcpSocket": { "host": "192.0.2.1", "port": 22 },
            "periodSeconds": 10, "timeoutSeconds": 2, "failureThreshold": 1,
        });
        let grpc = json!({
            "grpc": { "host": "192.0.2.1", "port": 2379, "service": "etcdserverpb.KV" },
            "periodSeconds": 10, "timeoutSeconds": 2, "failureThreshold": 1,
        });
        for (written, expected) in [
            (least, &filled),
            (filled.clone(), &filled),
            (own.clone(), &own),
            (links.clone(), &links),
            (grpc.clone(), &grpc),
        ] {
            let check: NodeCheck = serde_json::from_value(written.clone()).expect("a check");
            assert_eq!(json!(check), *expected, "{written}");
        }
    }

    #[test]
    fn a_check_that_asks_nothing_is_none() {
        for nothing in [json!({}), json!({ "periodSeconds": 1 }), json!({ "exec": { "command": ["true"] } })]
        {
            assert!(serde_json::from_value::<NodeCheck>(nothing.clone()).is_err(), "{nothing}");
        }
    }

    #[test]
    fn a_check_is_told_by_what_it_asks_and_where() {
        let rows = [
            (json!({ "httpGet": { "port": 80, "path": "/healthz" } }), "httpGet http://localhost:80/healthz"),
            (json!({ "httpGet": { "port": 80, "host": "2001:db8::1" } }), "httpGet http://[2001:db8::1]:80/"),
            (json!({ "httpGet": { "port": 6443, "scheme": "HTTPS" } }), "httpGet https://localhost:6443/"),
            (json!({ "tcpSocket": { "port": 22 } }), "tcpSocket localhost:22"),
            (json!({ "grpc": { "port": 2379 } }), "grpc localhost:2379"),
            (json!({ "grpc": { "port": 2379, "service": "a.B" } }), "grpc localhost:2379/a.B"),
            (json!({ "tcpSocket": { "port": 22, "host": "192.0.2.1" } }), "tcpSocket 192.0.2.1:22"),
            (json!({ "link": { "interfaces": ["bond0", "ens*"] } }), "link bond0,ens*"),
        ];
        for (check, told) in rows {
            let check: NodeCheck = serde_json::from_value(check).expect("a check");
            assert_eq!(check.action.to_string(), told);
        }
    }
}
