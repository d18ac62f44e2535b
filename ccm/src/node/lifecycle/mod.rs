//! The cloud-node-lifecycle controller: Nodes whose machine is gone, and nodes that are shut down (service-contract §2.3).
//!
//! Every few seconds it checks the nodes that are not ready, and no others: the provider reports whether the machine exists, and whether it
//! is shut down. Only a clear no deletes a Node; an error, or no answer, leaves it alone.

mod decide;
mod run;
mod sync;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;

use crate::metrics::Metrics;
use crate::provider::Instances;
use crate::store::Informers;

/// Taint of a node whose machine is shut down, with effect `NoSchedule` and no value (service-contract L-02, L-04).
pub const TAINT_SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// Options of the node-lifecycle controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifecycleOptions {
    /// Time between two checks of all nodes (`--node-monitor-period`).
    pub monitor_period: Duration,
    /// Nodes checked at the same time (`--concurrent-node-lifecycle-syncs`); at least one. More than one, so that a provider that does not answer for one
    /// machine holds up no other.
    pub workers: usize,
    /// Longest time for one answer of the provider. A later one counts as an error: the Node is kept.
    pub answer_limit: Duration,
    /// `source.component` of the events.
    pub component: String,
}

impl Default for LifecycleOptions {
    fn default() -> Self {
        Self {
            monitor_period: Duration::from_secs(5),
            workers: 16,
            answer_limit: Duration::from_secs(30),
            component: "cloud-node-lifecycle-controller".to_owned(),
        }
    }
}

/// Deletes Nodes whose machine is gone, and taints those that are shut down.
pub struct NodeLifecycleController<P> {
    client: Client,
    informers: Informers,
    instances: Arc<P>,
    options: LifecycleOptions,
    metrics: Metrics,
}

impl<P: Instances> NodeLifecycleController<P> {
    /// A controller; nothing happens until [`NodeLifecycleController::run`].
    pub fn new(
        client: Client,
        informers: Informers,
        instances: Arc<P>,
        options: LifecycleOptions,
        metrics: Metrics,
    ) -> Self {
        Self { client, informers, instances, options, metrics }
    }
}
