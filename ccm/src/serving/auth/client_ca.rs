//! Client certificates: valid are those of one CA, which a file names or the API server publishes.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::certificate::Validity;

use super::{User, x509};
use crate::files::WatchedFile;
use crate::serving::tls;
use crate::store::Store;
use crate::watch::{self, Event, watch_in};

/// Every user that is known at all is in this group.
const AUTHENTICATED: &str = "system:authenticated";
const NAMESPACE: &str = "kube-system";
const CONFIG_MAP: &str = "extension-apiserver-authentication";
const KEY: &str = "client-ca-file";

/// The CAs of client certificates; clones are the same ones. Without one no client certificate is accepted.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientCa(Arc<RwLock<Arc<[Ca]>>>);

/// One of them.
#[derive(Debug)]
struct Ca {
    validity: Validity,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientCa {
    /// Whose certificate it is, at `now`: it, or its CA, may have run out since the connection was made.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub(crate) fn user(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<User, String> {
        let cas = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        let mut refused = match &*cas {
            [] => "no CA of client certificates is known here".to_owned(),
            _ => "no CA of client certificates here is valid now".to_owned(),
        };
        for ca in cas.iter().filter(|ca| x509::covers(&ca.validity, now)) {
            match ca.verifier.verify_client_cert(own, others, now) {
                Ok(_) => {
                    let mut user = x509::user(own)?;
                    user.groups.push(AUTHENTICATED.to_owned());
                    return Ok(user);
                }
                Err(error) => refused = error.to_string(),
            }
        }
        Err(refused)
    }

    /// From now on the CAs of this text are the valid ones. A text that holds none changes nothing.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn set(&self, pem: &[u8]) -> Result<(), String> {
        let certificates = CertificateDer::pem_slice_iter(pem);
        let cas = certificates
            .map(|certificate| ca(certificate.map_err(|error| format!("it is no PEM: {error}"))?))
            .collect::<Result<Arc<[Ca]>, String>>()?;
        if cas.is_empty() {
            return Err("it has no certificate".to_owned());
        }
        self.become_these(cas);
        Ok(())
    }

    /// No client certificate is accepted any more.
    fn clear(&self) {
        self.become_these(Arc::default());
    }

    fn become_these(&self, cas: Arc<[Ca]>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = cas;
    }
}

fn ca(certificate: CertificateDer<'_>) -> Result<Ca, String> {
    let unusable =
        |error: &dyn std::fmt::Display| format!("it has a certificate that cannot be used: {error}");
    let validity = x509::validity(&certificate).map_err(|error| unusable(&error))?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate).map_err(|error| unusable(&error))?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), tls::provider());
    let verifier = verifier.build().map_err(|error| unusable(&error))?;
    Ok(Ca { validity, verifier })
}

/// Reads a file of CAs for the first time.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn load(path: &Path, ca: &ClientCa) -> Result<WatchedFile, String> {
    let file = WatchedFile::open(path);
    take(&file, ca)?;
    Ok(file)
}

/// Takes over the file's CAs whenever it changes.
pub(crate) async fn follow_file(mut file: WatchedFile, ca: ClientCa) {
    loop {
        file.changed().await;
        let path = file.path().display();
        match take(&file, &ca) {
            Ok(()) => tracing::info!(file = %path, "the CA of client certificates changed"),
            Err(error) => {
                tracing::warn!(file = %path, %error, "the new CA of client certificates is refused, the old one stays");
            }
        }
    }
}

fn take(file: &WatchedFile, ca: &ClientCa) -> Result<(), String> {
    ca.set(file.content().map_err(|error| error.to_string())?)
}

/// Takes over the CA that the API server publishes for extension API servers, whenever it changes.
pub(crate) async fn follow(client: Client, ca: ClientCa) {
    let name = CONFIG_MAP.to_owned();
    let options = watch::Options { name: Some(name.clone()), ..watch::Options::default() };
    let mut events = watch_in::<ConfigMap>(&client, NAMESPACE, options);
    let mut maps = Store::new(|metadata| metadata.name.clone().unwrap_or_default(), |_| {});
    let mut told = None;
    while let Some(event) = events.next().await {
        let state = match event {
            Ok(event) => {
                let is_whole = match event {
                    Event::Init | Event::InitApply(_) | Event::InitUnreadable(_) => false,
                    Event::InitDone | Event::Apply(_) | Event::Delete(_) => true,
                };
                drop(maps.apply(event));
                if !is_whole {
                    continue;
                }
                apply(maps.get(&name), &ca)
            }
            Err(error) => Published::Unknown(error.to_string()),
        };
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

fn apply(map: Option<&Arc<ConfigMap>>, ca: &ClientCa) -> Published {
    let Some(pem) = map.and_then(|map| map.data.as_ref()?.get(KEY)) else {
        ca.clear();
        return Published::No;
    };
    match ca.set(pem.as_bytes()) {
        Ok(()) => Published::Used,
        Err(error) => Published::Broken(error),
    }
}

#[cfg(test)]
mod tests;
