//! What the thread of connections costs where nothing happens: two nodes with 10,000 VIPs, each a process of its own.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cost::Used;
use crate::interop::process::TempDir;
use crate::lab::Lan;
use crate::replica::{Routers, known, start};
use crate::shared::{setting, spread, tenth};

const ROUTERS: Routers = Routers { count: 250, vips: 40 };
/// Until all is announced.
const LIMIT: Duration = Duration::from_mins(2);
const SETTLED: Duration = Duration::from_secs(10);

/// As the kernel cuts the thread's name.
pub(crate) fn is_thread(name: &str) -> bool {
    name.starts_with("windlass-connec")
}

pub(crate) fn all() -> Vec<Value> {
    let (rounds, seconds) = (setting("ROUNDS", 5), setting("REST", 5));
    let (lan, scratch) = (Lan::new(2), TempDir::new());
    let nodes = [0, 1].map(|node: usize| start(&lan.hosts[node], &scratch, ROUTERS, node));
    let begin = Instant::now();
    while known(&scratch, 1) != Some(0) {
        assert!(begin.elapsed() < LIMIT, "the second node is not in sync");
        thread::sleep(Duration::from_millis(100));
    }
    thread::sleep(SETTLED);
    let mut figures: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for _ in 0..rounds {
        let used = || [0, 1].map(|node: usize| Used::by_threads(nodes[node].pid(), is_thread));
        let before = used();
        thread::sleep(Duration::from_secs(seconds.into()));
        for ((name, after), before) in ["Active", "Backup"].into_iter().zip(used()).zip(before) {
            figures.entry(name).or_default().push(after.percent_since(before) * 10.0);
        }
    }
    figures
        .into_iter()
        .map(|(node, values)| {
            let [least, middle, most] = spread(values).map(tenth);
            json!({"what": "rest_permille", "node": node, "vips": ROUTERS.count * ROUTERS.vips, "rounds": rounds,
                   "min": least, "median": middle, "max": most})
        })
        .collect()
}
