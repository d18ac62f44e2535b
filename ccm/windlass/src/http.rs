//! What every role serves: its metrics, and whether it does its work.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_ccm::client::ClientMetrics;
use windlass_ccm::serving::{HealthChecks, PlainServer, Scope};

#[cfg(test)]
mod tests;

/// The metrics of the process, registered by its parts.
pub(crate) type SharedRegistry = Arc<Mutex<Registry>>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
    role: &'static str,
}

/// Registers `windlass_build_info`.
pub(crate) fn register_build(registry: &mut Registry, role: &'static str) {
    registry.register(
        "windlass_build",
        "Version and role of this process; the value is always 1",
        Info::new(BuildLabels { version: env!("CARGO_PKG_VERSION"), role }),
    );
}

/// The agent's registry: `windlass_build_info` and the metrics of the process' client.
pub(crate) fn registry() -> (SharedRegistry, ClientMetrics) {
    let mut registry = Registry::default();
    register_build(&mut registry, "agent");
    let client = ClientMetrics::register(&mut registry);
    (Arc::new(Mutex::new(registry)), client)
}

/// Whether the process does its work, shown in `/readyz` as the check `started`.
#[derive(Debug, Clone)]
pub(crate) struct Health(HealthChecks);

impl Health {
    /// Not ready, for `reason`; the sender changes that.
    pub(crate) fn starting(reason: &str) -> (Self, watch::Sender<Result<(), String>>) {
        let (sender, receiver) = watch::channel(Err(reason.to_owned()));
        let checks = HealthChecks::new();
        checks.add("started", Scope::READY, move || receiver.borrow().clone());
        (Self(checks), sender)
    }
}

/// A bound server of plain HTTP, meant for loopback. Binding comes first, so that a port in use is found before any other
/// work is done.
#[derive(Debug)]
pub(crate) struct Server(PlainServer);

impl Server {
    /// Listens on `address`.
    pub(crate) async fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        PlainServer::bind(address).await.map(Self).context("cannot use --http-address")
    }

    /// Answers until `token` is cancelled.
    pub(crate) async fn serve(
        self,
        registry: SharedRegistry,
        health: Health,
        token: CancellationToken,
    ) -> anyhow::Result<()> {
        self.0.serve(registry, health.0, token).await;
        Ok(())
    }
}
