//! The options of the endpoint: the flags of service-contract §5.2, as values.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use super::allowed_paths::AllowedPaths;

/// Options of the endpoint: address, certificate, and authentication of callers.
#[derive(Debug, Clone)]
pub struct ServingOptions {
    /// Address to listen on (`--bind-address`); the unspecified one is every address of its family.
    pub bind_address: IpAddr,
    /// Port to listen on (`--secure-port`); 0 serves nothing.
    pub secure_port: u16,
    /// Source of the certificate.
    pub tls: TlsSource,
    /// Oldest version of TLS that is spoken (`--tls-min-version`).
    pub min_tls_version: TlsVersion,
    /// Authentication and authorization of callers.
    pub auth: AuthOptions,
}

impl Default for ServingOptions {
    fn default() -> Self {
        Self {
            bind_address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            secure_port: 10258,
            tls: TlsSource::SelfSigned,
            min_tls_version: TlsVersion::Tls12,
            auth: AuthOptions::default(),
        }
    }
}

/// Source of the endpoint's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsSource {
    /// PEM files (`--tls-cert-file`, `--tls-private-key-file`), read again when they change.
    Files {
        /// The chain, the endpoint's own certificate first.
        cert: PathBuf,
        /// Its private key.
        key: PathBuf,
    },
    /// `cloud-controller-manager.crt` and `.key` in this folder (`--cert-dir`). Where there are none, a self-signed pair
    /// is written there.
    Folder(PathBuf),
    /// A self-signed certificate that only this process has.
    SelfSigned,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

impl std::str::FromStr for TlsVersion {
    type Err = String;

    /// `VersionTLS12` or `VersionTLS13`, as Kubernetes writes them.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "VersionTLS12" => Ok(Self::Tls12),
            "VersionTLS13" => Ok(Self::Tls13),
            "VersionTLS10" | "VersionTLS11" => {
                Err(format!("{text} is broken and not spoken; give VersionTLS12 or VersionTLS13"))
            }
            _ => Err(format!("{text:?} is no version of TLS; give VersionTLS12 or VersionTLS13")),
        }
    }
}

/// Options for the authentication and authorization of callers, and the paths that need neither.
#[derive(Debug, Clone)]
pub struct AuthOptions {
    /// Paths that anybody may read (`--authorization-always-allow-paths`).
    pub always_allow_paths: AllowedPaths,
    /// Time for which the API server's answer on a token is cached (`--authentication-token-webhook-cache-ttl`).
    pub token_ttl: Duration,
    /// Time for which a permission is cached (`--authorization-webhook-cache-authorized-ttl`).
    pub authorized_ttl: Duration,
    /// Time for which a refusal is cached (`--authorization-webhook-cache-unauthorized-ttl`).
    pub unauthorized_ttl: Duration,
}

impl Default for AuthOptions {
    fn default() -> Self {
        Self {
            always_allow_paths: AllowedPaths::default(),
            token_ttl: Duration::from_secs(10),
            authorized_ttl: Duration::from_secs(10),
            unauthorized_ttl: Duration::from_secs(10),
        }
    }
}
