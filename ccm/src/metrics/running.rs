//! `running_managed_controllers` (service-contract S-51).

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// `manager` of every controller.
const MANAGER: &str = "cloud-controller-manager";

#[derive(Debug, Clone, Default)]
pub(crate) struct RunningMetrics {
    controllers: Family<RunningLabels, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunningLabels {
    manager: &'static str,
    name: &'static str,
}

impl RunningMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "running_managed_controllers",
            "Whether the controller of this name runs (1) or has stopped (0)",
            self.controllers.clone(),
        );
    }

    /// The controller of this name runs until the guard is dropped.
    pub(crate) fn started(&self, name: &'static str) -> Running {
        let gauge = self.controllers.get_or_create(&RunningLabels { manager: MANAGER, name }).clone();
        gauge.set(1);
        Running(gauge)
    }
}

/// A controller that runs.
#[derive(Debug)]
pub(crate) struct Running(Gauge);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.set(0);
    }
}
