//! Metrics of the controllers (service-contract S-50, S-51). The caller owns the registry and passes it by reference.

mod node;
mod queue;
mod running;

use prometheus::{
    Histogram, IntCounter, IntCounterVec, IntGauge, Registry, exponential_buckets,
    register_histogram_with_registry, register_int_counter_vec_with_registry,
    register_int_counter_with_registry, register_int_gauge_vec_with_registry,
};

pub(crate) use self::node::NodeMetrics;
use self::queue::QueueMetrics;
pub(crate) use self::queue::{QueueGauges, WorkTimer};
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
    /// Metrics of the running controllers.
    pub(crate) running: RunningMetrics,
    /// Synchronisations, by controller and outcome.
    syncs: IntCounterVec,
}

impl Metrics {
    /// Creates the metrics and registers them; `election_name` is the Lease's name.
    ///
    /// # Errors
    /// Another metric of the registry has the name of one.
    pub fn register(registry: &Registry, election_name: &str) -> prometheus::Result<Self> {
        let buckets = exponential_buckets(1.0, 2.0, 15)?;
        let election = ElectionMetrics {
            master: register_int_gauge_vec_with_registry!(
                "leader_election_master_status",
                "1 on the replica that holds the lease, else 0",
                &["name"],
                registry
            )?
            .with_label_values(&[election_name]),
            slow_paths: register_int_counter_vec_with_registry!(
                "leader_election_slowpath_total",
                "Lease renewals that had to read the lease first",
                &["name"],
                registry
            )?
            .with_label_values(&[election_name]),
        };
        let service = ServiceMetrics {
            node_driven_syncs: register_int_counter_with_registry!(
                "service_controller_loadbalancer_sync_total",
                "Load balancers updated to a changed node set",
                registry
            )?,
            node_sync_errors: register_int_counter_with_registry!(
                "service_controller_nodesync_error_total",
                "Updates of load balancers to a changed node set that failed",
                registry
            )?,
            node_sync_seconds: register_histogram_with_registry!(
                "service_controller_nodesync_latency_seconds",
                "Time from a change of the nodes to the update of every load balancer",
                buckets.clone(),
                registry
            )?,
            update_nodes_seconds: register_histogram_with_registry!(
                "service_controller_update_loadbalancer_host_latency_seconds",
                "Time to update one load balancer to a changed node set",
                buckets,
                registry
            )?,
        };
        let syncs = register_int_counter_vec_with_registry!(
            "windlass_ccm_syncs_total",
            "Synchronisations of Services (`service`), Nodes (`node`) and Nodes that are not ready \
             (`node-lifecycle`) by result: `success`, `pending`, `error`",
            &["controller", "result"],
            registry
        )?;
        // Prometheus sees no increase of a counter that begins at 1.
        for controller in Controller::ALL {
            for result in SyncResult::ALL {
                syncs.with_label_values(&[controller.as_str(), result.as_str()]);
            }
        }
        Ok(Self {
            election,
            service,
            node: NodeMetrics::register(registry)?,
            queues: QueueMetrics::register(registry)?,
            running: RunningMetrics::register(registry)?,
            syncs,
        })
    }

    /// Metrics that count but are shown nowhere.
    pub fn unregistered(election_name: &str) -> Self {
        Self::register(&Registry::new(), election_name).expect("no other metric is in the registry")
    }

    pub(crate) fn count_sync(&self, controller: Controller, result: SyncResult) {
        self.syncs.with_label_values(&[controller.as_str(), result.as_str()]).inc();
    }
}

/// `leader_election_*`.
#[derive(Debug, Clone)]
pub struct ElectionMetrics {
    master: IntGauge,
    slow_paths: IntCounter,
}

impl ElectionMetrics {
    /// Sets whether this process leads. The elector calls it; a process that runs without election calls it itself.
    pub fn set_master(&self, leading: bool) {
        self.master.set(i64::from(leading));
    }

    pub(crate) fn count_slow_path(&self) {
        self.slow_paths.inc();
    }

    #[cfg(test)]
    pub(crate) fn is_master(&self) -> bool {
        self.master.get() == 1
    }

    #[cfg(test)]
    pub(crate) fn slow_paths(&self) -> u64 {
        self.slow_paths.get()
    }
}

/// `service_controller_*`.
#[derive(Debug, Clone)]
pub struct ServiceMetrics {
    pub(crate) node_driven_syncs: IntCounter,
    pub(crate) node_sync_errors: IntCounter,
    pub(crate) node_sync_seconds: Histogram,
    pub(crate) update_nodes_seconds: Histogram,
}

/// Controller that ran a sync.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Controller {
    Service,
    Node,
    NodeLifecycle,
}

impl Controller {
    const ALL: [Self; 3] = [Self::Service, Self::Node, Self::NodeLifecycle];

    fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Node => "node",
            Self::NodeLifecycle => "node-lifecycle",
        }
    }
}

/// Result of a sync, as a label of its metrics.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SyncResult {
    Success,
    Pending,
    Error,
}

impl SyncResult {
    const ALL: [Self; 3] = [Self::Success, Self::Pending, Self::Error];

    fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Pending => "pending",
            Self::Error => "error",
        }
    }
}

#[cfg(test)]
mod tests;
