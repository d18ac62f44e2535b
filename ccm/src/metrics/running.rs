//! `running_managed_controllers` (service-contract S-51).

use prometheus::{IntGauge, IntGaugeVec, Registry, register_int_gauge_vec_with_registry};

/// `manager` of every controller.
const MANAGER: &str = "cloud-controller-manager";

#[derive(Debug, Clone)]
pub(crate) struct RunningMetrics(IntGaugeVec);

impl RunningMetrics {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let controllers = register_int_gauge_vec_with_registry!(
            "running_managed_controllers",
            "1 while the controller runs: `service`, `cloud-node` or `cloud-node-lifecycle`",
            &["manager", "name"],
            registry
        )?;
        Ok(Self(controllers))
    }

    /// The controller of this name runs until the guard is dropped.
    pub(crate) fn started(&self, name: &'static str) -> RunningGuard {
        let gauge = self.0.with_label_values(&[MANAGER, name]);
        gauge.set(1);
        RunningGuard(gauge)
    }
}

/// A controller that runs.
#[derive(Debug)]
pub(crate) struct RunningGuard(IntGauge);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.set(0);
    }
}
