//! The HTTPS endpoint of a cloud-controller-manager (service-contract §5.2, S-60, S-62, S-51): `/healthz`, `/livez`,
//! `/readyz`, `/metrics` and `/metrics/slis`, and the provider's [`Pages`].
//!
//! ```text
//! connections ──► TLS (certificate) ──► handler ──► auth: path? token? access review?
//!                                           └─────► health, metrics, pages
//! ```
//!
//! It serves from before the election until the process ends, standbys too, and whether or not the API server answers:
//! the paths that a kubelet probes need no authentication. An unauthenticated request costs a place among a bounded number of
//! connections for a bounded time, and no log line.

mod allowed_paths;
mod auth;
mod certificate;
mod connections;
mod handler;
mod health;
mod options;
mod pages;
mod socket;
mod tls;

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use kube::Client;
use prometheus::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use self::allowed_paths::AllowedPaths;
use self::auth::AuthFilter;
use self::certificate::Certificate;
use self::connections::accept;
use self::handler::RequestHandler;
pub use self::health::{HealthChecks, Probe, Scope};
pub use self::options::{AuthOptions, ServingOptions, TlsSource, TlsVersion};
pub use self::pages::{Page, Pages};
pub use self::socket::{SocketError, SocketServer};

/// Reason that nothing can be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServingError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; {}", remedy(source))]
    Listen {
        /// Address and port.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// Certificate or key cannot be used.
    #[error("cannot serve HTTPS with certificate {} and key {}: {reason}; give the PEM files of a pair", cert.display(), key.display())]
    Certificate {
        /// File of the certificate.
        cert: PathBuf,
        /// File of its key.
        key: PathBuf,
        /// Fault of the pair.
        reason: String,
    },
    /// A self-signed certificate cannot be kept.
    #[error("cannot write a self-signed certificate to {}: {source}; name a folder that this process may write to, or none", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A self-signed certificate cannot be made.
    #[error("cannot make a self-signed certificate: {0}; name a certificate and its key")]
    SelfSigned(String),
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another process of this host has the port (`ss -ltnp` names it; 10258 is the port of all cloud-controller-managers): stop that \
             one or choose another port"
        }
        io::ErrorKind::AddrNotAvailable => "give an address of this host",
        io::ErrorKind::PermissionDenied => "choose a port above 1023",
        _ => "choose another address",
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, ServingError> {
    TcpListener::bind(address).await.map_err(|source| ServingError::Listen { address, source })
}

/// The endpoint, bound and with its certificate: what may be wrong with its options is found before any other work is
/// done.
pub struct Server(Option<Listening>);

struct Listening {
    listener: TcpListener,
    certificate: Certificate,
    auth_filter: AuthFilter,
    pages: Pages,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Server").field(&self.local_addr()).finish()
    }
}

impl Server {
    /// Listens, and loads the certificate. `client` sends the reviews of callers to the API server; it is not used before the first caller
    /// that needs one.
    ///
    /// Port 0 listens nowhere: [`Server::serve`] then only waits.
    ///
    /// # Errors
    /// The address or the files cannot be used.
    pub async fn bind(options: ServingOptions, client: Client) -> Result<Self, ServingError> {
        if options.secure_port == 0 {
            return Ok(Self(None));
        }
        let listener = listen(SocketAddr::new(options.bind_address, options.secure_port)).await?;
        Self::on(listener, options, client)
    }

    /// As [`Server::bind`], on what listens already; `bind_address` is only a name for the certificate then.
    ///
    /// # Errors
    /// The files cannot be used.
    pub fn on(listener: TcpListener, options: ServingOptions, client: Client) -> Result<Self, ServingError> {
        let ServingOptions { bind_address, secure_port: _, tls, min_tls_version, auth } = options;
        let certificate = Certificate::load(&tls, min_tls_version, bind_address)?;
        let auth_filter = AuthFilter::new(&auth, client);
        Ok(Self(Some(Listening { listener, certificate, auth_filter, pages: Pages::default() })))
    }

    /// Serves these pages, too.
    #[must_use]
    pub fn with_pages(self, pages: Pages) -> Self {
        Self(self.0.map(|listening| Listening { pages, ..listening }))
    }

    /// Returns the address on which it listens.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.0.as_ref().and_then(|bound| bound.listener.local_addr().ok())
    }

    /// Answers until `token` is cancelled. Open connections are closed then: a scraper must not hold up the end of the
    /// process.
    ///
    /// # Errors
    /// None so far: nothing that arrives from outside ends it.
    pub async fn serve(
        self,
        registry: Registry,
        health: HealthChecks,
        token: CancellationToken,
    ) -> Result<(), ServingError> {
        let Some(Listening { listener, certificate, auth_filter, pages }) = self.0 else {
            token.cancelled().await;
            return Ok(());
        };
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "serving HTTPS");
        }
        let tls = certificate.current();
        let handler = Arc::new(RequestHandler { auth_filter: Some(auth_filter), health, registry, pages });
        let beside = async {
            certificate.follow().await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = accept(listener, tls, handler, token) => {}
            () = beside => {}
        }
        Ok(())
    }
}
