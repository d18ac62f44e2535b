//! Health as metrics: `kubernetes_healthcheck` and `kubernetes_healthchecks_total` (service-contract S-51).

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Probe;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Latest {
    name: String,
    r#type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Counted {
    name: String,
    r#type: &'static str,
    status: &'static str,
}

/// How checks went, the last time and in all.
#[derive(Debug, Clone, Default)]
pub(super) struct Slis {
    latest: Family<Latest, Gauge>,
    counted: Family<Counted, Counter>,
}

impl Slis {
    pub(super) fn count(&self, name: &str, probe: Probe, ok: bool) {
        let (name, r#type) = (name.to_owned(), probe.name());
        let status = if ok { "success" } else { "error" };
        self.latest.get_or_create(&Latest { name: name.clone(), r#type }).set(i64::from(ok));
        self.counted.get_or_create(&Counted { name, r#type, status }).inc();
    }

    pub(super) fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        registry.register(
            "kubernetes_healthcheck",
            "How a health check went the last time: 1 passed, 0 failed",
            self.latest.clone(),
        );
        registry.register(
            "kubernetes_healthchecks",
            "Health checks that were run, by how they went",
            self.counted.clone(),
        );
        registry
    }
}
