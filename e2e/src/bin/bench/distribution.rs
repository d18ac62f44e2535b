//! `make bench-distribution`: an address that several nodes serve together (`loadSharing: Local`), beside the same address with
//! `loadSharing: None`, which one node serves.
//!
//! - **download**: downloads through the address while each node sends and receives at most 100 Mbit/s, from 1 to 4 nodes with a pod.
//!   keepalived has an address of its own on n1, before the same pods.
//! - **Faults**: a node joins, a pod leaves, two pods are rolled out, a server dies, the director dies. Before each, connections are opened
//!   to pods on two or three nodes, half of them busy and half idle. One is expected to be kept if its pod lives.
//! - **spread**: 10,000 short connections, counted by pod.
//! - **services**: 1,000 Services at once, in a lab of their own.
//!
//! The file has a row of the kernel's table as well, which needs no cluster (`vrrp/engine/benches/dataplane/sharing.rs`).

mod download;
mod fault;
mod report;
mod scene;
mod services;

use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum as _;
use serde_json::Value;
use windlass_e2e::{KeptOptions, Lab, SERVICE_PORT};

use self::{
    fault::Fault,
    report::{FaultRow, Row},
    scene::{NODES, Scene, System},
};
use crate::{results::publish_beside, settings, system::CLIENT};

const ROUNDS: usize = 2;
/// Time of each download.
const SECONDS: u64 = 5;
/// Connections before each fault.
const CONNECTIONS: usize = 120;
/// Interval between the requests of a busy connection.
const PAUSE: Duration = Duration::from_millis(200);
/// Interval between new connections, and the longest wait for an answer: the error of an outage.
const ATTEMPT: Duration = Duration::from_millis(20);
/// Time that clients continue when the address is served again: what breaks late is to be seen, too.
const AFTER: Duration = Duration::from_secs(2);
/// Connections whose pods are counted.
const COUNTED: usize = 10_000;
/// Connections of one run of curl, which may take a minute.
const PART: usize = 2_500;
/// Services that are shared at once.
const SERVICES: usize = 1000;

/// Kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Case {
    Download,
    Join,
    Leave,
    Rollout,
    Server,
    Director,
    Spread,
    Services,
}

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let rounds = settings::number("ROUNDS", ROUNDS, &(1..=1000))?;
    let time = Duration::from_secs(settings::number("SECONDS", SECONDS, &(1..=600))?);
    let connections = settings::number("CONNECTIONS", CONNECTIONS, &(8..=10_000))?;
    let systems = settings::some_of("SYSTEMS", System::value_variants())?;
    let cases = settings::some_of("CASES", Case::value_variants())?;
    let services = settings::number("SERVICES", SERVICES, &(1..=4000))?;
    let kept = KeptOptions { connections, pause: PAUSE };
    let (many, one): (Vec<Case>, Vec<Case>) = cases.into_iter().partition(|case| *case == Case::Services);
    let mut rows = Vec::new();
    if !one.is_empty() {
        println!("bench: starting the lab");
        let lab = Lab::builder().nodes(4).client(CLIENT).light().interactive();
        rows.extend(Lab::run("bench-distribution", lab, async |lab| {
            let scene = Scene::start(lab).await?;
            let mut rows = Vec::new();
            for &system in &systems {
                scene.share(system).await?;
                for &case in &one {
                    let measured = measure(&scene, system, case, rounds, time, kept).await;
                    rows.extend(measured.with_context(|| format!("{}, {case:?}", system.name()))?);
                }
            }
            Ok(rows)
        })?);
    }
    if !many.is_empty() && systems.contains(&System::Windlass) {
        println!("bench: starting the lab of {services} Services");
        let lab = crate::services::lab(3).client(CLIENT);
        rows.extend(Lab::run("bench-distribution", lab, async |lab| services::measure(lab, services).await)?);
    }
    let id = |row: &Value| [row["system"].clone(), row["case"].clone()];
    let measured: Vec<_> =
        rows.iter().map(|row| serde_json::to_value(row).map(|row| id(&row))).collect::<Result<_, _>>()?;
    let title = "Downloads, faults and spread:";
    publish_beside("distribution", title, &rows, |row| measured.contains(&id(row)))
}

async fn measure(
    scene: &Scene<'_>,
    system: System,
    case: Case,
    rounds: usize,
    time: Duration,
    kept: KeptOptions,
) -> anyhow::Result<Vec<Row>> {
    let fault = match (case, system) {
        (Case::Download, _) => return download::measure(scene, system, rounds, time).await,
        (Case::Spread, System::Windlass) => return Ok(vec![spread(scene).await?]),
        (Case::Spread, System::None | System::Keepalived) | (Case::Services, _) | (_, System::Keepalived) => {
            return Ok(Vec::new());
        }
        (Case::Join, _) => Fault::Join,
        (Case::Leave, _) => Fault::Leave,
        (Case::Rollout, _) => Fault::Rollout,
        (Case::Server, _) => Fault::Server,
        (Case::Director, _) => Fault::Director,
    };
    let mut samples = Vec::new();
    for round in 1..=rounds {
        let sample = scene.measure(system, fault, kept).await?;
        println!("bench: round {round}: {}", FaultRow::new(system, fault.name(), &[&sample]));
        samples.push(sample);
    }
    Ok(vec![Row::Fault(FaultRow::new(system, fault.name(), &samples.iter().collect::<Vec<_>>()))])
}

/// Counts the connections of each pod.
async fn spread(scene: &Scene<'_>) -> anyhow::Result<Row> {
    scene.serve(System::Windlass, &NODES).await?;
    let mut counts = [0; NODES.len()];
    for _ in 0..COUNTED / PART {
        let part = scene.lab.curl_counted(CLIENT, scene.vip, SERVICE_PORT, PART, &[]).await?;
        for (count, node) in counts.iter_mut().zip(NODES) {
            *count += part.get(&format!("web-{node}")).copied().unwrap_or(0);
        }
    }
    let row = Row::spread(&counts);
    println!("bench: {row}");
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_systems_and_cases_by_these_keys() {
        assert_eq!(settings::keys::<System>(), ["windlass", "none", "keepalived"]);
        let cases = settings::keys::<Case>().join(" ");
        assert_eq!(cases, "download join leave rollout server director spread services");
    }
}
