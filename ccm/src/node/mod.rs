//! The cloud-node controller: initializes nodes and keeps their addresses (service-contract §2).
//!
//! A node that kubelet registered with `--cloud-provider=external` carries a taint that keeps pods away. It goes, last
//! of all, when the node has its addresses, providerID and labels. Later only addresses are looked after.
//!
//! [`lifecycle`] is the controller beside it that deletes Nodes whose machine is gone.

mod addresses;
mod decide;
pub mod lifecycle;
mod run;
mod sync;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;

use crate::metrics::Metrics;
use crate::provider::Instances;
use crate::store::Informers;

pub use addresses::ANNOTATION_PROVIDED_NODE_IP;
pub use decide::{TAINT_UNINITIALIZED, is_kubernetes_own};

/// Options of the node controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOptions {
    /// Nodes synchronised at the same time (`--concurrent-node-syncs`); at least one.
    pub workers: usize,
    /// Time between two syncs of every node's addresses (`--node-status-update-frequency`).
    pub refresh_period: Duration,
    /// Longest time for one answer of the provider. A later one counts as an error: a machine that does not answer must not delay all
    /// others.
    pub answer_limit: Duration,
    /// `source.component` of the events.
    pub component: String,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            workers: 1,
            refresh_period: Duration::from_mins(5),
            answer_limit: Duration::from_secs(30),
            component: "cloud-node-controller".to_owned(),
        }
    }
}

/// Initializes nodes and keeps their addresses.
pub struct NodeController<P> {
    client: Client,
    informers: Informers,
    instances: Arc<P>,
    options: NodeOptions,
    metrics: Metrics,
    /// Source of the current time, by which the ages of Nodes are measured.
    clock: fn() -> Timestamp,
}

impl<P: Instances> NodeController<P> {
    /// A controller; nothing happens until [`NodeController::run`].
    pub fn new(
        client: Client,
        informers: Informers,
        instances: Arc<P>,
        options: NodeOptions,
        metrics: Metrics,
    ) -> Self {
        Self { client, informers, instances, options, metrics, clock: Timestamp::now }
    }
}

/// Reason that a node cannot be initialized or that its addresses cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NodeError {
    /// Service-contract N-04.
    #[error("cloud provider does not set node provider ID for node {node}")]
    NoProviderId { node: String },
    /// Service-contract N-05.
    #[error(
        "provided node ip for node {node:?} is not valid: {reason}; correct kubelet's --node-ip, which it hands over in \
         annotation {ANNOTATION_PROVIDED_NODE_IP}"
    )]
    ProvidedNodeIp { node: String, reason: String },
}
