//! The same pages over plain HTTP and for everybody who can connect: for loopback.

use std::net::SocketAddr;
use std::sync::Arc;

use prometheus::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::connections::{Transport, accept};
use super::handler::RequestHandler;
use super::health::HealthChecks;
use super::{ServingError, listen};

/// An endpoint without TLS, authentication and authorization. Let it listen on loopback only.
#[derive(Debug)]
pub struct PlainServer(TcpListener);

impl PlainServer {
    /// Listens on `address`.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn bind(address: SocketAddr) -> Result<Self, ServingError> {
        listen(address).await.map(Self)
    }

    /// Where it listens.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()
    }

    /// Answers until `token` is cancelled. Failed checks are shown with their reasons.
    pub async fn serve(self, registry: Registry, health: HealthChecks, token: CancellationToken) {
        let handler = Arc::new(RequestHandler { auth_filter: None, health, registry });
        accept(self.0, Transport::Plain, handler, token).await;
    }
}
