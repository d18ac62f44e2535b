//! The flags of the HTTPS port.

use std::net::IpAddr;

use clap::{ArgAction, Args};

use super::duration::GoDuration;
use super::flag_error::FlagError;
use crate::serving::{AuthOptions, ServingOptions, TlsSource, TlsVersion};

/// The HTTPS port.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Serving")]
pub struct ServingFlags {
    /// Address of the HTTPS port; 0.0.0.0 and :: are all of the host
    #[arg(long, default_value = "0.0.0.0", value_name = "ADDRESS")]
    pub bind_address: IpAddr,
    /// HTTPS port of /healthz, /livez, /readyz and /metrics; 0: none
    #[arg(long, default_value_t = 10258, value_name = "PORT")]
    pub secure_port: u16,
    /// Folder of the HTTPS certificate, created if missing [default: self-signed, in memory]
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FOLDER")]
    pub cert_dir: String,
    /// Certificate of the HTTPS port, with its chain
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    pub tls_cert_file: String,
    /// Private key of --tls-cert-file
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    pub tls_private_key_file: String,
    /// Oldest accepted version of TLS: VersionTLS12 or VersionTLS13
    #[arg(long, default_value = "", hide_default_value = true, value_name = "VERSION")]
    pub tls_min_version: String,
    /// Paths that need no authorization
    #[arg(long, default_value = "/healthz,/readyz,/livez", value_name = "LIST", value_delimiter = ',',
          action = ArgAction::Append)]
    pub authorization_always_allow_paths: Vec<String>,
    /// Cache time of the API server's answer on a token
    #[arg(long, default_value = "10s", value_name = "DURATION", allow_hyphen_values = true)]
    pub authentication_token_webhook_cache_ttl: GoDuration,
    /// Cache time of a permission
    #[arg(long, default_value = "10s", value_name = "DURATION", allow_hyphen_values = true)]
    pub authorization_webhook_cache_authorized_ttl: GoDuration,
    /// Cache time of a refusal
    #[arg(long, default_value = "10s", value_name = "DURATION", allow_hyphen_values = true)]
    pub authorization_webhook_cache_unauthorized_ttl: GoDuration,
}

impl ServingFlags {
    /// The options that the flags give. A certificate from files goes before a folder, and a folder before a self-signed one.
    ///
    /// # Errors
    /// A value that cannot be used, or half a certificate.
    pub fn options(&self) -> Result<ServingOptions, FlagError> {
        const CERT: &str = "tls-cert-file";
        const KEY: &str = "tls-private-key-file";
        let tls = match (non_empty(Some(&self.tls_cert_file)), non_empty(Some(&self.tls_private_key_file))) {
            (Some(cert), Some(key)) => TlsSource::Files { cert: cert.into(), key: key.into() },
            (Some(_), None) => return Err(FlagError::HalfCertificate { given: CERT, missing: KEY }),
            (None, Some(_)) => return Err(FlagError::HalfCertificate { given: KEY, missing: CERT }),
            (None, None) => non_empty(Some(&self.cert_dir))
                .map_or(TlsSource::SelfSigned, |folder| TlsSource::Folder(folder.into())),
        };
        let version = non_empty(Some(&self.tls_min_version)).map(str::parse).transpose();
        let paths = self.authorization_always_allow_paths.join(",");
        Ok(ServingOptions {
            bind_address: self.bind_address,
            secure_port: self.secure_port,
            tls,
            min_tls_version: version
                .map_err(|reason| wrong("tls-min-version", &self.tls_min_version, reason))?
                .unwrap_or(TlsVersion::Tls12),
            auth: AuthOptions {
                always_allow_paths: paths
                    .parse()
                    .map_err(|reason| wrong("authorization-always-allow-paths", &paths, reason))?,
                token_ttl: self.authentication_token_webhook_cache_ttl.0,
                authorized_ttl: self.authorization_webhook_cache_authorized_ttl.0,
                unauthorized_ttl: self.authorization_webhook_cache_unauthorized_ttl.0,
            },
        })
    }
}

/// A flag without value is one that is not given: manifests have `--cloud-config=`.
pub(super) fn non_empty(value: Option<&str>) -> Option<&str> {
    value.filter(|value| !value.is_empty())
}

fn wrong(flag: &'static str, value: &str, reason: String) -> FlagError {
    FlagError::Serving { flag, value: value.to_owned(), reason }
}
