//! TLS as this endpoint speaks it.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};

use super::options::TlsVersion;

/// The cryptography of this process.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Returns the TLS configuration for connections.
///
/// # Errors
/// A message about the fault of the pair.
pub(crate) fn config(chain: &[u8], key: &[u8], min_version: TlsVersion) -> Result<Arc<ServerConfig>, String> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("the certificate file is not valid PEM: {error}"))?;
    if chain.is_empty() {
        return Err("the certificate file has no certificate".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| format!("the key file has no private key in valid PEM: {error}"))?;
    let versions: &[_] = match min_version {
        TlsVersion::Tls12 => &[&TLS12, &TLS13],
        TlsVersion::Tls13 => &[&TLS13],
    };
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| format!("certificate and key cannot be used together: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
