//! `make bench-dataplane`: cost of the guard's table for each packet that a node forwards, with kube-proxy's rules alone beside it.
//!
//! A client, a node and a pod are namespaces, connected by veth pairs. The node has the rules of kube-proxy's nftables mode, and the table
//! that the agent's guard makes on the node that is Active for all VIPs:
//!
//! | system | table |
//! |---|---|
//! | `kube-proxy` | kube-proxy's rules alone |
//! | `guard` | the guard as well, with the ports of all VIPs |
//! | `guard-forwarding` | the guard while another node has handed all VIPs over: unknown connections are forwarded |
//! | `guard-replicate` | the guard with the events of replicated connections, and the VIP as the source of translated packets |
//! | `sharing` | the guard, and the table that directs all packets for VIPs to another node, which is the pod (UDP, 1,000 VIPs at most) |
//!
//! A case is named after path, protocol and number of VIPs: `service-udp-1000` goes to VIPs and is translated, `pod-udp-1000` goes to the
//! pod's own address. With `-sources`, each port of each VIP has two source ranges, of which one admits the client.
//!
//! - **UDP**: 16 flows that were answered before, the smallest frames, one direction. `packets_s`: packets that the pod receives.
//! - **TCP**: eight threads open connections, the pod closes them immediately. `packets_s`: packets that the node receives, both directions.
//! - **`us_per_packet`**: CPU time of this process and of ksoftirqd for each of these packets. It includes sending and receiving, which are
//!   the same for all systems. The scheduler's count of nanoseconds does not grow with other work.
//! - **`more_percent`**: growth of that over `kube-proxy` in the same round, null without it. The aim for the guard is at most 3 % for Services
//!   and at most 1 % for pods.
//! - **`sharing`**: a packet takes a second wire instead of translation: back to the client's, on which the pod is a host, too.
//!
//! The client's threads are pinned to the first processor, the pod's to the last. A veth pair hands a packet to the softirq of the processor
//! that sent it, so the node forwards on the client's processor, and answers on the pod's. The client never waits: that processor is the
//! limit of the UDP cases.
//!
//! In each round all systems take the same case one after the other. Settings (environment): ROUNDS (5), SECONDS (2, of each measurement),
//! CASES and SYSTEMS (names as above; all).
//!
//! The case `table` needs no packets: `target/bench/distribution.json` gets the memory of the table of 1,000 addresses that ten nodes share,
//! the time of its installation, and that of a change of six lots of one address.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "it ends at the first thing that is not as it should be, like a test"
)]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

#[path = "../../tests/it/lab.rs"]
#[allow(dead_code, reason = "made for the tests")]
mod lab;
#[path = "../../tests/it/interop/process.rs"]
#[allow(dead_code, reason = "made for the tests")]
mod process;
#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "shared by benches")]
mod shared;

mod rules;
mod scene;
mod sharing;
mod traffic;

use scene::{Path, Scene, Setup, System};
use shared::{setting, spread, tenth, wanted};
use traffic::Figures;

/// Module of processes at the place where the tests have it.
mod interop {
    pub(crate) use crate::process;
}

const SETUPS: [Setup; 4] = [
    Setup { vips: 1, has_sources: false },
    Setup { vips: 1000, has_sources: false },
    Setup { vips: 10_000, has_sources: false },
    Setup { vips: 1000, has_sources: true },
];

type Measure = fn(&Scene, Path, Duration) -> Figures;

/// Traffic of the cases, by the first part of their names.
const LOADS: [(&str, Path, Measure); 4] = [
    ("service-udp", Path::Service, traffic::udp),
    ("service-tcp", Path::Service, traffic::tcp),
    ("pod-udp", Path::Pod, traffic::udp),
    ("pod-tcp", Path::Pod, traffic::tcp),
];

fn main() -> ExitCode {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("runs by `make bench-dataplane` (cargo bench --bench dataplane)");
        return ExitCode::SUCCESS;
    }
    if !lab::require_root() {
        return ExitCode::FAILURE;
    }
    let (rounds, seconds) = (setting("ROUNDS", 5), setting("SECONDS", 2));
    if wanted("CASES", "table") {
        let row = sharing::table(rounds);
        println!("{row}");
        let file = shared::write("distribution.json", vec![row], |row| row["case"] == "table");
        println!("bench: {}", file.display());
    }
    let mut rows = Vec::new();
    for setup in SETUPS {
        for row in measure(setup, rounds, seconds) {
            println!("{row}");
            rows.push(row);
        }
    }
    let id = |row: &Value| (row["system"].clone(), row["case"].clone());
    let measured: Vec<_> = rows.iter().map(id).collect();
    let file = shared::write("dataplane.json", rows, |row| measured.contains(&id(row)));
    println!("\nbench: {}", file.display());
    ExitCode::SUCCESS
}

/// Measures the cases of these VIPs, and returns a row for each case and system.
fn measure(setup: Setup, rounds: u32, seconds: u32) -> Vec<Value> {
    let name =
        |load: &str| format!("{load}-{}{}", setup.vips, if setup.has_sources { "-sources" } else { "" });
    let loads = LOADS.map(|(load, path, measure)| (name(load), path, measure));
    let loads: Vec<_> = loads.into_iter().filter(|(case, ..)| wanted("CASES", case)).collect();
    if loads.is_empty() {
        return Vec::new();
    }
    let systems =
        System::ALL.into_iter().filter(|system| wanted("SYSTEMS", system.name()) && system.takes(setup));
    let scenes: Vec<_> = systems.map(|system| (system, Scene::new(system, setup))).collect();
    let mut figures: BTreeMap<(usize, System), Vec<Figures>> = BTreeMap::new();
    for _ in 0..rounds {
        for (load, (case, path, measure)) in loads.iter().enumerate() {
            for (system, scene) in &scenes {
                // Its connections would be answered by another way.
                if scene.is_director && case.starts_with("service-tcp") {
                    continue;
                }
                let one = measure(scene, *path, Duration::from_secs(seconds.into()));
                figures.entry((load, *system)).or_default().push(one);
            }
        }
    }
    let rows = figures.iter().map(|(&(load, system), measured)| {
        let alone = figures.get(&(load, System::KubeProxy));
        row(system, &loads[load].0, seconds, measured, alone)
    });
    rows.collect()
}

/// Returns the row of a case and system, beside the figures of kube-proxy alone in the same rounds.
fn row(
    system: System,
    case: &str,
    seconds: u32,
    measured: &[Figures],
    alone: Option<&Vec<Figures>>,
) -> Value {
    let of = |field: &dyn Fn(&Figures) -> f64| spread(measured.iter().map(field).collect());
    let connections: Option<Vec<f64>> = measured.iter().map(|figures| figures.connections_s).collect();
    let more = alone.map(|alone| {
        let percent = |(with, without): (&Figures, &Figures)| {
            (with.us_per_packet / without.us_per_packet - 1.0) * 100.0
        };
        spread(measured.iter().zip(alone).map(percent).collect())
    });
    json!({
        "system": system.name(),
        "case": case,
        "rounds": measured.len(),
        "seconds": seconds,
        "packets_s": min_to_max(of(&|figures| figures.packets_s).map(f64::round)),
        "connections_s": connections.map(|values| min_to_max(spread(values).map(f64::round))),
        "us_per_packet": min_to_max(of(&|figures| figures.us_per_packet).map(|value| (value * 100.0).round() / 100.0)),
        "more_percent": more.map(|values| min_to_max(values.map(tenth))),
    })
}

fn min_to_max([min, median, max]: [f64; 3]) -> Value {
    json!({"min": min, "median": median, "max": max})
}
