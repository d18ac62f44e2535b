//! `node_controller_*` (service-contract N-09).

use jiff::Timestamp;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

#[derive(Debug, Clone)]
pub(crate) struct NodeMetrics {
    taint_removal_delay: Histogram,
    initial_sync_delay: Histogram,
}

impl Default for NodeMetrics {
    fn default() -> Self {
        let seconds = || Histogram::new(exponential_buckets(1.0, 4.0, 6));
        Self { taint_removal_delay: seconds(), initial_sync_delay: seconds() }
    }
}

impl NodeMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "node_controller_cloud_provider_taint_removal_delay",
            "Time from a Node's creation to the removal of its uninitialized taint",
            Unit::Seconds,
            self.taint_removal_delay.clone(),
        );
        registry.register_with_unit(
            "node_controller_initial_node_sync_delay",
            "Time from a Node's creation to the end of its first synchronisation",
            Unit::Seconds,
            self.initial_sync_delay.clone(),
        );
    }

    /// A node that was made at `created` was initialized at `now`.
    pub(crate) fn initialized(&self, created: Option<Timestamp>, now: Timestamp) {
        let Some(created) = created else { return };
        // The API server's clock may be ahead of this one.
        let delay = now.duration_since(created).as_secs_f64().max(0.0);
        self.taint_removal_delay.observe(delay);
        self.initial_sync_delay.observe(delay);
    }
}
