//! False failovers: nothing is wrong, on an idle machine and on a busy one, and adverts are due each 30 ms or each 10 ms.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_engine::Family;

use crate::node::{Node, advertises_from, describe, missing};
use crate::setup::{Group, Stress, System};
use crate::shared::adverts::Adverts;
use crate::shared::load::Load;
use crate::shared::site::Site;
use crate::shared::{real_time, setting, tenth, wanted};

const INTERVALS_MS: [u32; 2] = [30, 10];
/// Above the routers: what it hears late was late.
const WITNESS: &str = "20";

/// All systems and intervals at once under the same load: each is disturbed by the others alike.
pub(crate) fn run() -> Vec<Value> {
    let seconds = setting("FALSE_FAILOVERS", 600);
    if seconds == 0 {
        return Vec::new();
    }
    let systems: Vec<System> = System::ALL
        .into_iter()
        .filter(|system| wanted("SYSTEMS", system.name()) && missing(*system).is_none())
        .collect();
    let mut rows = Vec::new();
    for stress in Stress::ALL.into_iter().filter(|stress| wanted("LOADS", stress.name())) {
        println!("bench: counting false failovers for {seconds} s, {}", stress.name());
        let load = (stress == Stress::Loaded).then(Load::start);
        let intervals = INTERVALS_MS.into_iter().filter(|ms| wanted("INTERVALS", &ms.to_string()));
        let groups = intervals.flat_map(|interval_ms| {
            systems.iter().map(move |&system| Group { system, family: Family::V4, interval_ms })
        });
        let length = Duration::from_secs(seconds.into());
        let running: Vec<_> =
            groups.map(|group| std::thread::spawn(move || watch(group, stress, length))).collect();
        rows.extend(running.into_iter().filter_map(|thread| thread.join().ok()));
        drop(load);
    }
    rows
}

/// Counts the changes of the sender of adverts.
fn watch(group: Group, stress: Stress, length: Duration) -> Value {
    real_time(WITNESS);
    let site = Site::new(3, 1);
    let _nodes = [0, 1].map(|number| Node::start(&site.hosts[number], group, number));
    let adverts = Adverts::on(&site.hosts[2], group.family);
    let settled = Instant::now() + Duration::from_secs(5);
    while adverts.next(settled).is_some() {}

    let end = Instant::now() + length;
    let mut previous = None;
    let (mut adverts_heard, mut changes, mut latest) = (0_u64, 0_u64, Duration::ZERO);
    let mut expected = advertises_from(group, 0);
    while let Some(heard) = adverts.next(end) {
        adverts_heard += 1;
        if heard.source != expected {
            (expected, changes) = (heard.source, changes + 1);
        }
        if let Some(previous) = previous.replace(heard.at) {
            latest = latest.max((heard.at - previous).saturating_sub(group.interval()));
        }
    }
    let row = json!({
        "path": "engine",
        "system": group.system.name(),
        "measure": "false_failovers",
        "interval_ms": group.interval_ms,
        "family": "v4",
        "load": stress.name(),
        "scheduling": "SCHED_FIFO 10",
        "at_once": "all systems and intervals",
        "seconds": length.as_secs(),
        "count": changes,
        "adverts": adverts_heard,
        "max_lateness_ms": tenth(latest.as_secs_f64() * 1000.0),
    });
    println!("bench: {}: {row}", describe(group));
    row
}
