//! What the controllers count (service-contract S-50, S-51). The registry is the caller's, handed over by reference.

mod node;
mod queue;
mod running;

use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

pub(crate) use self::node::NodeMetrics;
use self::queue::QueueMetrics;
pub(crate) use self::queue::{QueueGauges, Work};
pub(crate) use self::running::RunningMetrics;

/// Everything the controllers of one process count. Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Leader election.
    pub election: ElectionMetrics,
    /// The service controller.
    pub service: ServiceMetrics,
    /// The node controllers.
    pub(crate) node: NodeMetrics,
    /// The work queues, by name.
    pub(crate) queues: QueueMetrics,
    /// Which controllers run.
    pub(crate) running: RunningMetrics,
    /// Synchronisations, by controller and outcome.
    pub(crate) syncs: Family<SyncLabels, Counter>,
}

impl Metrics {
    /// Creates the metrics and registers them; `election_name` is the Lease's name.
    pub fn register(registry: &mut Registry, election_name: &str) -> Self {
        let metrics = Self::unregistered(election_name);
        registry.register(
            "leader_election_master_status",
            "Whether this process leads (1) or stands by (0)",
            metrics.election.master.clone(),
        );
        registry.register(
            "leader_election_slowpath",
            "Renewals of the lease for which it had to be read first",
            metrics.election.slow_paths.clone(),
        );
        registry.register(
            "service_controller_loadbalancer_sync",
            "Load balancer updates because the node set changed",
            metrics.service.node_driven_syncs.clone(),
        );
        registry.register(
            "service_controller_nodesync_error",
            "Load balancer updates for a changed node set that failed",
            metrics.service.node_sync_errors.clone(),
        );
        registry.register_with_unit(
            "service_controller_nodesync_latency",
            "Time from a change of the nodes until every load balancer was brought to it",
            Unit::Seconds,
            metrics.service.node_sync_seconds.clone(),
        );
        registry.register_with_unit(
            "service_controller_update_loadbalancer_host_latency",
            "Time to bring one load balancer to a changed node set",
            Unit::Seconds,
            metrics.service.update_nodes_seconds.clone(),
        );
        metrics.node.register(registry);
        metrics.running.register(registry);
        metrics.queues.register(registry);
        registry.register(
            "windlass_ccm_syncs",
            "Synchronisations by controller and result (success, pending, error)",
            metrics.syncs.clone(),
        );
        metrics
    }

    /// Metrics that count but are shown nowhere.
    pub fn unregistered(election_name: &str) -> Self {
        let master = Family::<ElectionLabels, Gauge>::default();
        let labels = ElectionLabels { name: election_name.to_owned() };
        drop(master.get_or_create(&labels));
        let slow_paths = Family::<ElectionLabels, Counter>::default();
        drop(slow_paths.get_or_create(&labels));
        Self {
            election: ElectionMetrics { master, slow_paths, labels },
            service: ServiceMetrics {
                node_driven_syncs: Counter::default(),
                node_sync_errors: Counter::default(),
                node_sync_seconds: Histogram::new(exponential_buckets(1.0, 2.0, 15)),
                update_nodes_seconds: Histogram::new(exponential_buckets(1.0, 2.0, 15)),
            },
            node: NodeMetrics::default(),
            running: RunningMetrics::default(),
            queues: QueueMetrics::default(),
            syncs: Family::default(),
        }
    }

    pub(crate) fn count_sync(&self, controller: Controller, result: SyncResult) {
        self.syncs.get_or_create(&SyncLabels { controller, result }).inc();
    }
}

/// `leader_election_*`.
#[derive(Debug, Clone)]
pub struct ElectionMetrics {
    master: Family<ElectionLabels, Gauge>,
    slow_paths: Family<ElectionLabels, Counter>,
    labels: ElectionLabels,
}

impl ElectionMetrics {
    /// Whether this process leads. The elector sets it; a process that runs without election sets it itself.
    pub fn set_master(&self, leading: bool) {
        self.master.get_or_create(&self.labels).set(i64::from(leading));
    }

    pub(crate) fn count_slow_path(&self) {
        self.slow_paths.get_or_create(&self.labels).inc();
    }

    #[cfg(test)]
    pub(crate) fn slow_paths(&self) -> u64 {
        self.slow_paths.get_or_create(&self.labels).get()
    }
}

/// `service_controller_*`.
#[derive(Debug, Clone)]
pub struct ServiceMetrics {
    pub(crate) node_driven_syncs: Counter,
    pub(crate) node_sync_errors: Counter,
    pub(crate) node_sync_seconds: Histogram,
    pub(crate) update_nodes_seconds: Histogram,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ElectionLabels {
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct SyncLabels {
    controller: Controller,
    result: SyncResult,
}

/// Which controller synchronised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Controller {
    Service,
    Node,
    NodeLifecycle,
}

impl EncodeLabelValue for Controller {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        let value = match self {
            Self::Service => "service",
            Self::Node => "node",
            Self::NodeLifecycle => "node-lifecycle",
        };
        EncodeLabelValue::encode(&value, encoder)
    }
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SyncResult {
    Success,
    Pending,
    Error,
}

impl EncodeLabelValue for SyncResult {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        let value = match self {
            Self::Success => "success",
            Self::Pending => "pending",
            Self::Error => "error",
        };
        EncodeLabelValue::encode(&value, encoder)
    }
}

#[cfg(test)]
mod tests;
