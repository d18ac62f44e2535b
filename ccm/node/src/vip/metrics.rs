//! Metrics and readiness of `windlass vip`.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

/// One virtual IP as it is shown.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown {
    pub(super) address: String,
    pub(super) interface: String,
    /// 0 if there is none yet.
    pub(super) vrid: u8,
    /// True if this node answers for it.
    pub(super) active: bool,
    /// 0 if it is in no election.
    pub(super) priority: u8,
    pub(super) became_active: u64,
    pub(super) checks: Vec<ShownCheck>,
    /// Each backend by its name, and whether it is well.
    pub(super) backends: Vec<(String, bool)>,
    /// Reason why it cannot be announced here.
    pub(super) obstacle: Option<String>,
}

/// One check as it is shown.
#[derive(Debug, Clone, Default)]
pub(super) struct ShownCheck {
    pub(super) name: String,
    pub(super) is_passing: bool,
    /// It passes, and has failed so often lately that it has to prove itself.
    pub(super) is_proving: bool,
}

/// State that is shown now.
#[derive(Debug, Clone, Default)]
pub(super) struct Display(Arc<Mutex<Vec<Shown>>>);

impl Display {
    pub(super) fn set(&self, shown: Vec<Shown>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }

    pub(super) fn get(&self) -> Vec<Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns an error if the process is not ready: the virtual IPs that it cannot announce, with reasons.
    pub(super) fn readiness(&self) -> Result<(), String> {
        let obstacles: Vec<String> = self
            .get()
            .into_iter()
            .filter_map(|vip| vip.obstacle.map(|why| format!("{}: {why}", vip.address)))
            .collect();
        if obstacles.is_empty() { Ok(()) } else { Err(obstacles.join("; ")) }
    }

    /// Shows it in the registry.
    pub(super) fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        let gauge = |name: &str, help: &str, labels: &[&str]| IntGaugeVec::new(Opts::new(name, help), labels);
        let vip = &["address", "interface"];
        registry.register(Box::new(Metrics {
            display: self.clone(),
            active: gauge("windlass_vip_active", "1 while this node answers for the virtual IP", vip)?,
            vrid: gauge("windlass_vip_vrid", "VRID of the virtual IP; 0: none yet", vip)?,
            priority: gauge(
                "windlass_vip_priority",
                "Priority of this node for the virtual IP; below 51 it is unfit, 0: in no election",
                vip,
            )?,
            transitions: IntCounterVec::new(
                Opts::new("windlass_vip_became_active_total", "Times this node took the virtual IP over"),
                vip,
            )?,
            check: gauge(
                "windlass_vip_check_passing",
                "1 while the check of this node passes",
                &["address", "check"],
            )?,
            proving: gauge(
                "windlass_vip_check_proving",
                "1 while the check passes but has failed so often in the last minutes that fit nodes have \
                 precedence",
                &["address", "check"],
            )?,
            backend: gauge(
                "windlass_vip_backend_up",
                "1 while the backend is well, where connections are balanced",
                &["address", "backend"],
            )?,
        }))
    }
}

struct Metrics {
    display: Display,
    active: IntGaugeVec,
    vrid: IntGaugeVec,
    priority: IntGaugeVec,
    transitions: IntCounterVec,
    check: IntGaugeVec,
    proving: IntGaugeVec,
    backend: IntGaugeVec,
}

impl Metrics {
    fn all(&self) -> [&dyn Collector; 7] {
        let Self { display: _, active, vrid, priority, transitions, check, proving, backend } = self;
        [active, vrid, priority, transitions, check, proving, backend]
    }
}

impl Collector for Metrics {
    fn desc(&self) -> Vec<&Desc> {
        self.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Virtual IPs that are gone are shown no more.
        for gauge in [&self.active, &self.vrid, &self.priority, &self.check, &self.proving, &self.backend] {
            gauge.reset();
        }
        self.transitions.reset();
        for vip in self.display.get() {
            let labels = [vip.address.as_str(), vip.interface.as_str()];
            self.active.with_label_values(&labels).set(vip.active.into());
            self.vrid.with_label_values(&labels).set(vip.vrid.into());
            self.priority.with_label_values(&labels).set(vip.priority.into());
            self.transitions.with_label_values(&labels).inc_by(vip.became_active);
            for check in &vip.checks {
                let labels = [vip.address.as_str(), check.name.as_str()];
                self.check.with_label_values(&labels).set(check.is_passing.into());
                self.proving.with_label_values(&labels).set(check.is_proving.into());
            }
            for (backend, is_well) in &vip.backends {
                self.backend.with_label_values(&[vip.address.as_str(), backend]).set((*is_well).into());
            }
        }
        self.all().into_iter().flat_map(Collector::collect).collect()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    fn shown() -> Shown {
        Shown {
            address: "192.0.2.100".to_owned(),
            interface: "eth0".to_owned(),
            vrid: 7,
            active: true,
            priority: 203,
            became_active: 2,
            checks: vec![
                ShownCheck { name: "tcp://127.0.0.1:6443".to_owned(), ..ShownCheck::default() },
                ShownCheck { name: "exec:/bin/true".to_owned(), is_passing: true, is_proving: true },
            ],
            backends: vec![("192.0.2.11:6443".to_owned(), true)],
            obstacle: Some("interface eth0 is down".to_owned()),
        }
    }

    #[test]
    fn what_is_shown_is_in_the_registry_and_no_longer_when_it_is_gone() {
        let (registry, display) = (Registry::new(), Display::default());
        display.register(&registry).unwrap();
        display.set(vec![shown()]);
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "windlass_vip_active{address=\"192.0.2.100\",interface=\"eth0\"} 1",
            "windlass_vip_became_active_total{address=\"192.0.2.100\",interface=\"eth0\"} 2",
            "windlass_vip_priority{address=\"192.0.2.100\",interface=\"eth0\"} 203",
            "windlass_vip_vrid{address=\"192.0.2.100\",interface=\"eth0\"} 7",
            "windlass_vip_check_passing{address=\"192.0.2.100\",check=\"tcp://127.0.0.1:6443\"} 0",
            "windlass_vip_check_proving{address=\"192.0.2.100\",check=\"tcp://127.0.0.1:6443\"} 0",
            "windlass_vip_check_proving{address=\"192.0.2.100\",check=\"exec:/bin/true\"} 1",
            "windlass_vip_backend_up{address=\"192.0.2.100\",backend=\"192.0.2.11:6443\"} 1",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
        }
        display.set(Vec::new());
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        assert!(!text.contains("192.0.2.100"), "{text}");
    }

    #[test]
    fn the_page_has_every_metric() {
        let page = include_str!("../../../../docs/metrics.md");
        let (registry, display) = (Registry::new(), Display::default());
        display.register(&registry).unwrap();
        display.set(vec![shown()]);
        for family in registry.gather() {
            assert!(
                page.contains(&format!("`{}`", family.name())),
                "{} is not in docs/metrics.md",
                family.name()
            );
        }
    }

    #[test]
    fn the_process_is_ready_unless_an_address_cannot_be_announced() {
        let display = Display::default();
        display.set(vec![Shown { obstacle: None, ..shown() }]);
        assert_eq!(display.readiness(), Ok(()));
        display.set(vec![shown(), Shown { obstacle: None, ..shown() }]);
        assert_eq!(display.readiness(), Err("192.0.2.100: interface eth0 is down".to_owned()));
    }
}
