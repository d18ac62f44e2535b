//! TLS as this endpoint speaks it.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};

use super::options::TlsVersion;

/// The cryptography of this process.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// What connections are answered with.
///
/// # Errors
/// What is wrong with the pair.
pub(crate) fn config(chain: &[u8], key: &[u8], oldest: TlsVersion) -> Result<Arc<ServerConfig>, String> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("the certificate is no PEM: {error}"))?;
    if chain.is_empty() {
        return Err("the certificate's file has no certificate".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the key is no PEM: {error}"))?;
    let versions: &[_] = match oldest {
        TlsVersion::Tls12 => &[&TLS12, &TLS13],
        TlsVersion::Tls13 => &[&TLS13],
    };
    let provider = provider();
    let verifier = Arc::new(AnyCertificate(Arc::clone(&provider)));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .and_then(|builder| builder.with_client_cert_verifier(verifier).with_single_cert(chain, key))
        .map_err(|error| format!("certificate and key cannot be used together: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Asks for a client certificate and takes any whose key the caller has: who it is, is decided for each request, so that
/// the CA may change and a stranger gets a sentence rather than a broken connection.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _own: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, own, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, own, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
