//! What the controllers count (service-contract S-50, S-51). The registry is the caller's, handed over by reference.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Everything the controllers of one process count. Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Leader election.
    pub election: ElectionMetrics,
    /// The service controller.
    pub service: ServiceMetrics,
    /// The work queues, by name.
    pub(crate) queues: QueueMetrics,
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
            "service_controller_update_loadbalancer_host_latency",
            "Time to bring one load balancer to a changed node set",
            Unit::Seconds,
            metrics.service.update_nodes_seconds.clone(),
        );
        registry.register("workqueue_depth", "Items waiting", metrics.queues.depth.clone());
        registry.register("workqueue_adds", "Items added", metrics.queues.adds.clone());
        registry.register(
            "workqueue_retries",
            "Items added again after a failure",
            metrics.queues.retries.clone(),
        );
        registry.register_with_unit(
            "workqueue_work_duration",
            "Time one item took",
            Unit::Seconds,
            metrics.queues.work_seconds.clone(),
        );
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
        Self {
            election: ElectionMetrics { master, labels },
            service: ServiceMetrics {
                node_driven_syncs: Counter::default(),
                node_sync_errors: Counter::default(),
                update_nodes_seconds: Histogram::new(exponential_buckets(1.0, 2.0, 15)),
            },
            queues: QueueMetrics {
                depth: Family::default(),
                adds: Family::default(),
                retries: Family::default(),
                work_seconds: Family::new_with_constructor(|| {
                    Histogram::new(exponential_buckets(0.001, 4.0, 10))
                }),
            },
            syncs: Family::default(),
        }
    }

    pub(crate) fn count_sync(&self, controller: Controller, result: SyncResult) {
        self.syncs.get_or_create(&SyncLabels { controller, result }).inc();
    }
}

/// `leader_election_master_status`.
#[derive(Debug, Clone)]
pub struct ElectionMetrics {
    master: Family<ElectionLabels, Gauge>,
    labels: ElectionLabels,
}

impl ElectionMetrics {
    /// Whether this process leads. The elector sets it; a process that runs without election sets it itself.
    pub fn set_master(&self, leading: bool) {
        self.master.get_or_create(&self.labels).set(i64::from(leading));
    }
}

/// `service_controller_*`.
#[derive(Debug, Clone)]
pub struct ServiceMetrics {
    pub(crate) node_driven_syncs: Counter,
    pub(crate) node_sync_errors: Counter,
    pub(crate) update_nodes_seconds: Histogram,
}

#[derive(Debug, Clone)]
pub(crate) struct QueueMetrics {
    depth: Family<QueueLabels, Gauge>,
    adds: Family<QueueLabels, Counter>,
    retries: Family<QueueLabels, Counter>,
    work_seconds: Family<QueueLabels, Histogram, fn() -> Histogram>,
}

impl QueueMetrics {
    pub(crate) fn of(&self, name: &'static str) -> QueueGauges {
        let labels = QueueLabels { name };
        QueueGauges {
            depth: self.depth.get_or_create(&labels).clone(),
            adds: self.adds.get_or_create(&labels).clone(),
            retries: self.retries.get_or_create(&labels).clone(),
            work_seconds: self.work_seconds.get_or_create(&labels).clone(),
        }
    }
}

/// The metrics of one queue.
#[derive(Debug, Clone)]
pub(crate) struct QueueGauges {
    pub(crate) depth: Gauge,
    pub(crate) adds: Counter,
    pub(crate) retries: Counter,
    pub(crate) work_seconds: Histogram,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ElectionLabels {
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: &'static str,
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
}

impl EncodeLabelValue for Controller {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        let value = match self {
            Self::Service => "service",
            Self::Node => "node",
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
