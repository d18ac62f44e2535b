//! Metrics and readiness of `windlass vip`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::Registry;
use prometheus::proto::MetricFamily;
use windlass_common::samples::{self, counters, gauges};

use super::routes::Standing;

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
    /// Standing of this node in the routes; `None`: it is not announced by BGP.
    pub(super) standing: Option<Standing>,
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
pub(super) struct Display(Arc<Mutex<(Vec<Shown>, Vec<String>)>>);

impl Display {
    /// Takes the virtual IPs, and the problems of BGP sessions.
    pub(super) fn set(&self, shown: Vec<Shown>, problems: Vec<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (shown, problems);
    }

    fn get(&self) -> (Vec<Shown>, Vec<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns an error if the process is not ready: the virtual IPs that it cannot announce and the BGP sessions that are down, with
    /// reasons.
    pub(super) fn readiness(&self) -> Result<(), String> {
        let (shown, problems) = self.get();
        let of_vips =
            shown.into_iter().filter_map(|vip| vip.obstacle.map(|why| format!("{}: {why}", vip.address)));
        let obstacles: Vec<String> = of_vips.chain(problems).collect();
        if obstacles.is_empty() { Ok(()) } else { Err(obstacles.join("; ")) }
    }

    /// Shows it in the registry.
    pub(super) fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        let display = self.clone();
        samples::register(registry, move || families(&display.get().0))
    }
}

/// Returns the metrics of these virtual IPs.
fn families(shown: &[Shown]) -> Vec<MetricFamily> {
    const VIP: [&str; 2] = ["address", "interface"];
    let of_vips = |read: fn(&Shown) -> u64| {
        shown.iter().map(move |vip| ([vip.address.clone(), vip.interface.clone()], read(vip)))
    };
    vec![
        gauges(
            "windlass_vip_active",
            "1 while this node answers for the virtual IP on the LAN; over all nodes the sum is 1, with BGP alone 0",
            VIP,
            of_vips(|vip| vip.active.into()),
        ),
        gauges(
            "windlass_vip_vrid",
            "VRID of the virtual IP; 0: none yet",
            VIP,
            of_vips(|vip| vip.vrid.into()),
        ),
        gauges(
            "windlass_vip_priority",
            "Priority of this node for the virtual IP: from 101 on fit, below 51 unfit, 0 in no election; up to 50 lower \
             while a check has failed again and again",
            VIP,
            of_vips(|vip| vip.priority.into()),
        ),
        gauges(
            "windlass_vip_route",
            "Route of the virtual IP that BGP routers get from this node: 0 none, 1 degraded, 2 as configured",
            VIP,
            of_vips(|vip| match vip.standing {
                None | Some(Standing::Withheld) => 0,
                Some(Standing::Degraded) => 1,
                Some(Standing::Good) => 2,
            }),
        ),
        counters(
            "windlass_vip_became_active_total",
            "Times this node took the virtual IP over",
            VIP,
            of_vips(|vip| vip.became_active),
        ),
        gauges(
            "windlass_vip_check_passing",
            "1 while the check of this node passes",
            ["address", "check"],
            of_parts(shown, |vip| vip.checks.iter().map(|check| (&check.name, check.is_passing))),
        ),
        gauges(
            "windlass_vip_check_proving",
            "1 while the check passes but has failed so often in the last minutes that fit nodes have \
             precedence",
            ["address", "check"],
            of_parts(shown, |vip| vip.checks.iter().map(|check| (&check.name, check.is_proving))),
        ),
        gauges(
            "windlass_vip_backend_up",
            "1 while the backend is healthy, if `windlass vip` balances connections",
            ["address", "backend"],
            of_parts(shown, |vip| vip.backends.iter().map(|(backend, is_well)| (backend, *is_well))),
        ),
    ]
}

/// Returns the samples of the checks or backends of these virtual IPs. Two checks of one name, as with different intervals, have one: that
/// of the last.
fn of_parts<'a, P: Iterator<Item = (&'a String, bool)>>(
    shown: &'a [Shown],
    parts: impl Fn(&'a Shown) -> P,
) -> BTreeMap<[String; 2], i64> {
    let labels = |vip: &Shown, name: &String| [vip.address.clone(), name.clone()];
    let of_vip = |vip| parts(vip).map(move |(name, holds)| (labels(vip, name), holds.into()));
    shown.iter().flat_map(of_vip).collect()
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
                ShownCheck { name: "exec:/bin/true".to_owned(), ..ShownCheck::default() },
                ShownCheck { name: "exec:/bin/true".to_owned(), is_passing: true, is_proving: true },
            ],
            backends: vec![("192.0.2.11:6443".to_owned(), true)],
            standing: Some(Standing::Degraded),
            obstacle: Some("interface eth0 is down".to_owned()),
        }
    }

    #[test]
    fn what_is_shown_is_in_the_registry_and_no_longer_when_it_is_gone() {
        let (registry, display) = (Registry::new(), Display::default());
        display.register(&registry).unwrap();
        display.set(vec![shown()], Vec::new());
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "windlass_vip_active{address=\"192.0.2.100\",interface=\"eth0\"} 1",
            "windlass_vip_became_active_total{address=\"192.0.2.100\",interface=\"eth0\"} 2",
            "windlass_vip_priority{address=\"192.0.2.100\",interface=\"eth0\"} 203",
            "windlass_vip_route{address=\"192.0.2.100\",interface=\"eth0\"} 1",
            "windlass_vip_vrid{address=\"192.0.2.100\",interface=\"eth0\"} 7",
            "windlass_vip_check_passing{address=\"192.0.2.100\",check=\"tcp://127.0.0.1:6443\"} 0",
            "windlass_vip_check_proving{address=\"192.0.2.100\",check=\"tcp://127.0.0.1:6443\"} 0",
            "windlass_vip_check_proving{address=\"192.0.2.100\",check=\"exec:/bin/true\"} 1",
            "windlass_vip_backend_up{address=\"192.0.2.100\",backend=\"192.0.2.11:6443\"} 1",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
        }
        assert_eq!(text.matches("check=\"exec:/bin/true\"").count(), 2, "one sample of each metric: {text}");
        display.set(Vec::new(), Vec::new());
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        assert!(!text.contains("192.0.2.100"), "{text}");
    }

    #[test]
    fn the_process_is_ready_unless_an_address_cannot_be_announced() {
        let display = Display::default();
        display.set(vec![Shown { obstacle: None, ..shown() }], Vec::new());
        assert_eq!(display.readiness(), Ok(()));
        display.set(vec![shown(), Shown { obstacle: None, ..shown() }], vec!["BGP".to_owned()]);
        assert_eq!(display.readiness(), Err("192.0.2.100: interface eth0 is down; BGP".to_owned()));
    }
}
