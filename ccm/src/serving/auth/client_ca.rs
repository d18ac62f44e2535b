//! Client certificates: valid are those of one CA, which a file names or the API server publishes.

use std::fmt::Debug;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watch_object};
use kube::{Api, Client};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::{User, subject};
use crate::serving::files::{Changed, WatchedFile};
use crate::serving::tls;

/// Every user that is known at all is in this group.
const AUTHENTICATED: &str = "system:authenticated";
const NAMESPACE: &str = "kube-system";
const CONFIG_MAP: &str = "extension-apiserver-authentication";
const KEY: &str = "client-ca-file";

/// The CA of client certificates; clones are the same one. Without one no client certificate is accepted.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientCa(Arc<RwLock<Option<Arc<dyn ClientCertVerifier>>>>);

impl ClientCa {
    /// Whose certificate it is.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub(crate) fn user(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
    ) -> Result<User, String> {
        let verifier = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let verifier = verifier.ok_or("no CA of client certificates is known here")?;
        // Each time anew: it may have run out since the connection was made.
        verifier.verify_client_cert(own, others, UnixTime::now()).map_err(|error| error.to_string())?;
        let own = webpki::EndEntityCert::try_from(own).map_err(|error| error.to_string())?;
        let mut user = subject::user(own.subject())?;
        user.groups.push(AUTHENTICATED.to_owned());
        Ok(user)
    }

    /// From now on the CAs of this text are the valid ones. A text that holds none changes nothing.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn set(&self, pem: &[u8]) -> Result<(), String> {
        let verifier = verifier(pem)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(verifier);
        Ok(())
    }

    /// No client certificate is accepted any more.
    fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn verifier(pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("it is no PEM: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("it has a certificate that cannot be used: {error}"))?;
    }
    if roots.is_empty() {
        return Err("it has no certificate".to_owned());
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), tls::provider());
    let verifier = verifier.build().map_err(|error| error.to_string())?;
    Ok(verifier)
}

/// Reads a file of CAs for the first time.
///
/// # Errors
/// What is wrong with it.
pub(crate) async fn load(path: &Path, ca: &ClientCa) -> Result<WatchedFile, String> {
    let mut file = WatchedFile::new(path.to_owned());
    match file.read().await {
        Changed::To(text) => ca.set(&text)?,
        Changed::Unreadable(error) => return Err(error),
        Changed::Not => {}
    }
    Ok(file)
}

/// Takes over the file's CAs whenever it changes.
pub(crate) async fn follow_file(mut file: WatchedFile, ca: ClientCa) {
    loop {
        tokio::time::sleep(crate::serving::files::PERIOD).await;
        let problem = match file.read().await {
            Changed::Not => continue,
            Changed::To(text) => ca.set(&text).err(),
            Changed::Unreadable(error) => Some(error),
        };
        let path = file.path().display();
        match problem {
            None => tracing::info!(file = %path, "the CA of client certificates changed"),
            Some(error) => {
                tracing::warn!(file = %path, %error, "the new CA of client certificates is refused, the old one stays");
            }
        }
    }
}

/// Takes over the CA that the API server publishes for extension API servers, whenever it changes.
pub(crate) async fn follow(client: Client, ca: ClientCa) {
    let api = Api::<ConfigMap>::namespaced(client, NAMESPACE);
    let mut changes = watch_object(api, CONFIG_MAP).default_backoff().boxed();
    let mut told = None;
    while let Some(change) = changes.next().await {
        let state = apply(change, &ca);
        // Once for each state: a watch that is refused comes back again and again.
        if told.as_ref() == Some(&state) {
            continue;
        }
        match &state {
            Published::Used => tracing::info!("the cluster's CA of client certificates is known"),
            Published::No => tracing::warn!(
                "the cluster publishes no CA of client certificates (ConfigMap {NAMESPACE}/{CONFIG_MAP}): none is \
                 accepted; name one with --client-ca-file, or use tokens"
            ),
            Published::Broken(error) => tracing::warn!(
                %error, "the cluster's CA of client certificates cannot be used (ConfigMap {NAMESPACE}/{CONFIG_MAP})"
            ),
            Published::Unknown(error) => tracing::warn!(
                %error,
                "cannot read ConfigMap {NAMESPACE}/{CONFIG_MAP}, which has the CA of client certificates; bind this \
                 process's account to Role extension-apiserver-authentication-reader"
            ),
        }
        told = Some(state);
    }
}

/// What the ConfigMap says.
#[derive(Debug, PartialEq, Eq)]
enum Published {
    Used,
    No,
    Broken(String),
    Unknown(String),
}

fn apply(change: Result<Option<ConfigMap>, watcher::Error>, ca: &ClientCa) -> Published {
    let map = match change {
        Ok(map) => map,
        Err(error) => return Published::Unknown(error.to_string()),
    };
    let Some(pem) = map.and_then(|map| map.data?.remove(KEY)) else {
        ca.clear();
        return Published::No;
    };
    match ca.set(pem.as_bytes()) {
        Ok(()) => Published::Used,
        Err(error) => Published::Broken(error),
    }
}
