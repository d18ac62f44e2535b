//! TLS of checks: the certificates that are trusted.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use windlass_ccm::files::WatchedFile;

use super::{Failure, Host, Target, Tls, Trust};

/// Time between two looks at a file of certificates.
const LOOK: Duration = Duration::from_secs(1);

/// TLS client for servers. A defect in a file is the answer of each attempt until it is corrected.
#[derive(Debug)]
pub(super) struct TlsClient {
    server_name: Option<ServerName<'static>>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Fixed(Result<Arc<ClientConfig>, String>),
    File {
        file: WatchedFile,
        looked_at: Instant,
        /// Result of the last reading of the file; once it gave certificates, a broken file does not remove them.
        config: Result<Arc<ClientConfig>, String>,
    },
}

impl TlsClient {
    pub(super) fn new(tls: Tls) -> Self {
        let Tls { server_name, trust } = tls;
        let source = match trust {
            Trust::Any => Source::Fixed(known(None)),
            Trust::Certificate(sha256) => Source::Fixed(known(Some(sha256))),
            Trust::Authority(path) => {
                let file = WatchedFile::open(path);
                let config = authority(&file);
                Source::File { file, looked_at: Instant::now(), config }
            }
        };
        Self { server_name, source }
    }

    /// Reads the file again.
    pub(super) fn look(&mut self) {
        match &mut self.source {
            Source::Fixed(_) => {}
            Source::File { file, looked_at, config } => {
                *looked_at = Instant::now();
                if file.refresh() {
                    let new = authority(file);
                    if new.is_ok() || config.is_err() {
                        *config = new;
                    }
                }
            }
        }
    }

    /// Returns the connector for this server.
    ///
    /// # Errors
    /// The file of certificates cannot be used.
    pub(super) fn connector(&mut self, target: &Target) -> Result<Connector, String> {
        let is_due = match &self.source {
            Source::Fixed(_) => false,
            Source::File { looked_at, .. } => looked_at.elapsed() >= LOOK,
        };
        if is_due {
            self.look();
        }
        let config = match &self.source {
            Source::Fixed(config) | Source::File { config, .. } => config.clone()?,
        };
        let server_name = self.server_name.clone().map_or_else(|| name(target), Ok)?;
        Ok(Connector { connector: TlsConnector::from(config), server_name })
    }
}

/// Connector to one server.
pub(super) struct Connector {
    connector: TlsConnector,
    server_name: ServerName<'static>,
}

impl Connector {
    /// Agrees with the server on TLS.
    pub(super) async fn handshake(self, stream: TcpStream) -> Result<TlsStream<TcpStream>, Failure> {
        let ended = self.connector.connect(self.server_name, stream).await;
        ended.map_err(|error| {
            let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
                return Failure::Silent { missing: "TLS handshake", cause: format!(": {error}") };
            };
            let hint = match inner {
                Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                ) => "; give a serverName (--check-server-name) that the certificate contains",
                // Authorities often have one name: those of kubeadm all do.
                Error::InvalidCertificate(
                    CertificateError::UnknownIssuer | CertificateError::BadSignature,
                ) => "; the authority in caFile did not sign it",
                _ => "",
            };
            Failure::Unwell { what: "no TLS".to_owned(), cause: format!(": {error}{hint}") }
        })
    }
}

fn name(target: &Target) -> Result<ServerName<'static>, String> {
    match target.host {
        Host::Address(address) => Ok(ServerName::from(address)),
        Host::Localhost => ServerName::try_from("localhost").map_err(|error| error.to_string()),
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn config(
    verifier: Arc<dyn ServerCertVerifier>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<ClientConfig>, String> {
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A session that is resumed shows no certificate: one that came to be wrong would not be seen.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Believes what the certificates in this file have signed.
fn authority(file: &WatchedFile) -> Result<Arc<ClientConfig>, String> {
    let content = file.content().map_err(|error| format!("caFile: {error}; mount or correct it"))?;
    let path = file.path().display();
    let wrong = |why: String| format!("caFile: {path} {why}; give the authority's certificates in PEM");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(content) {
        let certificate = certificate.map_err(|error| wrong(format!("is not PEM ({error})")))?;
        roots.add(certificate).map_err(|error| wrong(format!("has an invalid certificate ({error})")))?;
    }
    if roots.is_empty() {
        return Err(wrong("has no certificate".to_owned()));
    }
    let provider = provider();
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
    config(verifier.map_err(|error| wrong(format!("cannot be used ({error})")))?, provider)
}

/// Trusts the certificate of this hash, or any.
fn known(sha256: Option<[u8; 32]>) -> Result<Arc<ClientConfig>, String> {
    let provider = provider();
    let algorithms = provider.signature_verification_algorithms;
    config(Arc::new(KnownCertificate { sha256, algorithms }), provider)
}

/// Trusts a certificate by its hash, whatever its issuer, and verifies that the server has its key.
#[derive(Debug)]
struct KnownCertificate {
    /// `None`: any.
    sha256: Option<[u8; 32]>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for KnownCertificate {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found: [u8; 32] = Sha256::digest(certificate).into();
        match self.sha256 {
            Some(expected) if expected != found => {
                let digits = found.iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"));
                Err(Error::General(format!(
                    "its certificate does not match certificateSha256: its SHA-256 is {digits}"
                )))
            }
            Some(_) | None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
