//! Questions to servers.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use rustls::pki_types::ServerName;

/// Question to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    /// For a page, by HTTP/1.1 or HTTPS.
    Http(HttpQuestion),
    /// To take a connection.
    Tcp,
    /// For its health, by `grpc.health.v1.Health/Check` without TLS.
    Grpc {
        /// The service that is asked for; empty: the server as a whole.
        service: String,
    },
}

/// Request for a page, and the answers that are well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpQuestion {
    /// Path and query, beginning with `/`.
    pub(crate) path: String,
    /// Ranges of the status codes that are well, at least one.
    pub(crate) expect: Vec<RangeInclusive<u16>>,
    /// The header `Host`; `None`: host and port that are asked.
    pub(crate) host: Option<String>,
    /// `None`: plain HTTP.
    pub(crate) tls: Option<Tls>,
    /// True if the body of an answer that is not well is read for the reason.
    pub(crate) reads_reason: bool,
}

/// Proof of its identity that a server has to give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tls {
    /// The name that is asked for and that the certificate has to be of; `None`: the host that is asked.
    pub(crate) server_name: Option<ServerName<'static>>,
    pub(crate) trust: Trust,
}

/// Certificates that are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Any, as the probes of a kubelet do. The connection goes to an address of this host as a rule.
    Any,
    /// Certificates that those of this file (PEM) have signed, for the server's name. Read again when it changes.
    Authority(PathBuf),
    /// The one with this SHA-256 of its DER, as `openssl x509 -fingerprint -sha256` prints it.
    Certificate([u8; 32]),
}

impl Question {
    /// Returns the question as a URL.
    pub(crate) fn url(&self, target: &impl fmt::Display) -> String {
        match self {
            Self::Http(HttpQuestion { path, tls: None, .. }) => format!("http://{target}{path}"),
            Self::Http(HttpQuestion { path, tls: Some(_), .. }) => format!("https://{target}{path}"),
            Self::Tcp => format!("tcp://{target}"),
            Self::Grpc { service } if service.is_empty() => format!("grpc://{target}"),
            Self::Grpc { service } => format!("grpc://{target}/{service}"),
        }
    }
}
