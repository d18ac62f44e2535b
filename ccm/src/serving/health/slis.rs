//! Health as metrics: `kubernetes_healthcheck` and `kubernetes_healthchecks_total` (service-contract S-51).

use prometheus::{
    IntCounterVec, IntGaugeVec, Registry, register_int_counter_vec_with_registry,
    register_int_gauge_vec_with_registry,
};

use super::Probe;

/// Metrics of the checks: their last results, and counts of all results.
#[derive(Debug, Clone)]
pub(super) struct Slis {
    pub(super) registry: Registry,
    latest: IntGaugeVec,
    counted: IntCounterVec,
}

impl Default for Slis {
    fn default() -> Self {
        let registry = Registry::new();
        let latest = register_int_gauge_vec_with_registry!(
            "kubernetes_healthcheck",
            "How a health check went the last time: 1 passed, 0 failed",
            &["name", "type"],
            registry
        );
        let counted = register_int_counter_vec_with_registry!(
            "kubernetes_healthchecks_total",
            "Health checks that were run, by how they went",
            &["name", "type", "status"],
            registry
        );
        let alone = "no other metric is in the registry";
        Self { registry, latest: latest.expect(alone), counted: counted.expect(alone) }
    }
}

impl Slis {
    pub(super) fn count(&self, name: &str, probe: Probe, ok: bool) {
        let status = if ok { "success" } else { "error" };
        self.latest.with_label_values(&[name, probe.name()]).set(i64::from(ok));
        self.counted.with_label_values(&[name, probe.name(), status]).inc();
    }
}
