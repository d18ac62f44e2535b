//! `node_controller_*` (service-contract N-09).

use jiff::Timestamp;
use prometheus::{Histogram, Registry, exponential_buckets, register_histogram_with_registry};

#[derive(Debug, Clone)]
pub(crate) struct NodeMetrics {
    taint_removal_delay: Histogram,
    initial_sync_delay: Histogram,
}

impl NodeMetrics {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let buckets = exponential_buckets(1.0, 4.0, 6)?;
        Ok(Self {
            taint_removal_delay: register_histogram_with_registry!(
                "node_controller_cloud_provider_taint_removal_delay_seconds",
                "Time from a Node's creation to the removal of its uninitialized taint",
                buckets.clone(),
                registry
            )?,
            initial_sync_delay: register_histogram_with_registry!(
                "node_controller_initial_node_sync_delay_seconds",
                "Time from a Node's creation to the end of its first synchronisation",
                buckets,
                registry
            )?,
        })
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
