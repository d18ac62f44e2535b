//! What every role serves: its metrics, and whether it does its work.

use std::net::SocketAddr;

use anyhow::Context as _;
use prometheus::{Registry, labels, opts, register_int_gauge_with_registry};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_ccm::client::ClientMetrics;
use windlass_ccm::serving::{HealthChecks, PlainServer, Scope};

#[cfg(test)]
mod tests;

/// Registers `windlass_build_info`.
pub(crate) fn register_build(registry: &Registry, role: &str) -> prometheus::Result<()> {
    let build = opts!(
        "windlass_build_info",
        "Version and role of this process; the value is always 1",
        labels! { "version" => env!("CARGO_PKG_VERSION"), "role" => role }
    );
    register_int_gauge_with_registry!(build, registry)?.set(1);
    Ok(())
}

/// The agent's registry: `windlass_build_info` and the metrics of the process' client.
pub(crate) fn registry() -> prometheus::Result<(Registry, ClientMetrics)> {
    let registry = Registry::new();
    register_build(&registry, "agent")?;
    let client = ClientMetrics::register(&registry)?;
    Ok((registry, client))
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
        registry: Registry,
        health: Health,
        token: CancellationToken,
    ) -> anyhow::Result<()> {
        self.0.serve(registry, health.0, token).await;
        Ok(())
    }
}
