//! The cloud-node controller: initializes nodes and keeps their addresses (service-contract §2).

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::provider::Instances;

/// How the node controller runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOptions {
    /// Nodes synchronised at the same time (`--concurrent-node-syncs`); at least one.
    pub workers: usize,
    /// Time between two looks at every node's addresses (`--node-status-update-frequency`).
    pub refresh_period: Duration,
    /// Who the events say they are from.
    pub component: String,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            workers: 1,
            refresh_period: Duration::from_mins(5),
            component: "cloud-node-controller".to_owned(),
        }
    }
}

/// Initializes nodes and keeps their addresses.
pub struct NodeController<P> {
    client: Client,
    instances: Arc<P>,
    options: NodeOptions,
    metrics: Metrics,
}

impl<P: Instances> NodeController<P> {
    /// A controller; nothing happens until [`NodeController::run`].
    pub fn new(client: Client, instances: Arc<P>, options: NodeOptions, metrics: Metrics) -> Self {
        Self { client, instances, options, metrics }
    }

    /// Runs until `token` is cancelled.
    pub async fn run(self, token: CancellationToken) {
        token.cancelled().await;
        drop(self);
    }
}
