//! HTTP endpoints of the agent: its metrics and its health.

use std::fmt::Display;
use std::future::ready;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Client;
use prometheus::{Registry, register_int_gauge_vec_with_registry};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_ccm::client::ClientMetrics;
use windlass_ccm::serving::{HealthChecks, Scope, Server, ServingOptions, SocketServer};

#[cfg(test)]
mod tests;

/// Delay before a failed bind is retried.
const RETRY: Duration = Duration::from_secs(5);

/// Registers `windlass_build_info`.
pub fn register_build(registry: &Registry, role: &str) -> prometheus::Result<()> {
    let build = register_int_gauge_vec_with_registry!(
        "windlass_build_info",
        "Version and role of the process; the value is always 1",
        &["version", "role"],
        registry
    )?;
    build.with_label_values(&[env!("CARGO_PKG_VERSION"), role]).set(1);
    Ok(())
}

/// The agent's registry: `windlass_build_info` and the metrics of the process' client.
pub fn registry() -> prometheus::Result<(Registry, ClientMetrics)> {
    let registry = Registry::new();
    register_build(&registry, "agent")?;
    let client = ClientMetrics::register(&registry)?;
    Ok((registry, client))
}

/// Health of the process, shown in `/readyz` as the check `started`.
#[derive(Debug, Clone)]
pub struct Health(HealthChecks);

impl Health {
    /// Not ready, for `reason`; the sender changes that.
    pub fn starting(reason: &str) -> (Self, watch::Sender<Result<(), String>>) {
        let (sender, receiver) = watch::channel(Err(reason.to_owned()));
        let checks = HealthChecks::new();
        checks.add("started", Scope::READY, move || receiver.borrow().clone());
        (Self(checks), sender)
    }
}

/// Endpoints on which the agent answers. Announcing does not need them: a failed bind is logged and retried.
#[derive(Debug)]
pub struct Endpoints {
    /// HTTPS endpoint, for clients that the API server authorizes.
    pub https: ServingOptions,
    /// Socket for this container's probes: a client that exhausts the port does not delay them.
    pub socket: PathBuf,
}

impl Endpoints {
    /// Answers until `token` is cancelled.
    pub async fn serve(
        &self,
        client: &Client,
        registry: &Registry,
        health: &Health,
        token: &CancellationToken,
    ) {
        let Self { https, socket } = self;
        let https = async {
            let bind = || Server::bind(https.clone(), client.clone());
            if let Some(server) = bound(bind, token).await
                && let Err(error) = server.serve(registry.clone(), health.0.clone(), token.clone()).await
            {
                tracing::error!(%error, "HTTPS is not served any more");
            }
        };
        let probes = serve_probes(socket, registry.clone(), health.0.clone(), token.clone());
        tokio::join!(https, probes);
    }
}

/// Answers probes on a socket until `token` is cancelled. A failed bind is logged and retried.
pub async fn serve_probes(socket: &Path, registry: Registry, health: HealthChecks, token: CancellationToken) {
    if let Some(server) = bound(|| ready(SocketServer::bind(socket)), &token).await {
        server.serve(registry, health, token).await;
    }
}

/// Returns the result of `bind` once it succeeds; `None`: `token` was cancelled before.
async fn bound<T, E: Display, F: Future<Output = Result<T, E>>>(
    bind: impl Fn() -> F,
    token: &CancellationToken,
) -> Option<T> {
    let mut told = String::new();
    loop {
        let reason = match bind().await {
            Ok(bound) => return Some(bound),
            Err(error) => error.to_string(),
        };
        if told != reason {
            tracing::error!(
                %reason,
                "cannot serve health and metrics; announcing continues, retrying every {RETRY:?}"
            );
            told = reason;
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            () = token.cancelled() => return None,
        }
    }
}
