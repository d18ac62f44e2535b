//! `/healthz`, `/livez`, `/readyz` and `/metrics` over plain HTTP, meant for loopback.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, anyhow};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_ccm::client::ClientMetrics;

#[cfg(test)]
mod tests;

/// The metrics of the process, registered by its parts.
pub(crate) type SharedRegistry = Arc<Mutex<Registry>>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
    role: &'static str,
}

/// A registry that holds `windlass_build_info` and the metrics of the process' client.
pub(crate) fn registry(role: &'static str) -> (SharedRegistry, ClientMetrics) {
    let mut registry = Registry::default();
    registry.register(
        "windlass_build",
        "Version and role of this process; the value is always 1",
        Info::new(BuildLabels { version: env!("CARGO_PKG_VERSION"), role }),
    );
    let client = ClientMetrics::register(&mut registry);
    (Arc::new(Mutex::new(registry)), client)
}

/// Whether the process does its work: `Err` says what it waits for.
#[derive(Debug, Clone)]
pub(crate) struct Health(watch::Receiver<Result<(), String>>);

impl Health {
    /// Not ready, for `reason`; the sender changes that.
    pub(crate) fn starting(reason: &str) -> (Self, watch::Sender<Result<(), String>>) {
        let (sender, receiver) = watch::channel(Err(reason.to_owned()));
        (Self(receiver), sender)
    }
}

/// A bound server. Binding comes first, so that a port in use is found before any other work is done.
#[derive(Debug)]
pub(crate) struct Server(TcpListener);

impl Server {
    /// Listens on `address`.
    pub(crate) async fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        TcpListener::bind(address).await.map(Self).map_err(|error| {
            let remedy = match error.kind() {
                std::io::ErrorKind::AddrInUse => "stop the process that uses it or choose another port",
                std::io::ErrorKind::AddrNotAvailable => "give an address of this host",
                _ => "choose another address",
            };
            anyhow!("cannot serve HTTP on {address}: {error}; {remedy} with --http-address")
        })
    }

    /// Answers until `token` is cancelled.
    pub(crate) async fn serve(
        self,
        registry: SharedRegistry,
        health: Health,
        token: CancellationToken,
    ) -> anyhow::Result<()> {
        let alive = async || "ok\n";
        let app = Router::new()
            .route("/healthz", get(alive))
            .route("/livez", get(alive))
            .route("/readyz", get(ready))
            .with_state(health)
            .merge(Router::new().route("/metrics", get(metrics)).with_state(registry));
        // Not graceful: a scraper that keeps its connection open must not hold up the end of the process.
        tokio::select! {
            result = axum::serve(self.0, app) => result.context("the HTTP server failed"),
            () = token.cancelled() => Ok(()),
        }
    }
}

async fn ready(State(health): State<Health>) -> Response {
    match &*health.0.borrow() {
        Ok(()) => "ok\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")).into_response(),
    }
}

async fn metrics(State(registry): State<SharedRegistry>) -> Response {
    let mut body = String::new();
    let encoded = {
        let registry = registry.lock().unwrap_or_else(PoisonError::into_inner);
        text::encode(&mut body, &registry)
    };
    match encoded {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], body).into_response()
        }
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be encoded\n").into_response(),
    }
}
