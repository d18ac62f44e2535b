//! `make bench-moves`: what a client loses while an address is moved on purpose: connections that it keeps and new ones.
//!
//! n1 and n2 take turns in having the address, the only backend is on n3 (but for `local rollout`), so that the move alone is
//! what can break something. In the end n3 joins them and is given its share of six addresses (`rebalance`). For each move:
//! connections are opened, requests begin, and after a second the move is made; two seconds after its end each kept connection is
//! asked once more.
//!
//! keepalived runs beside Windlass, in the same lab and with the same data path behind it; with and without forwarding are two
//! runs of the same agents.

mod keepalived;
mod meter;
mod windlass;

use windlass_e2e::{Lab, LoadOptions};

use self::meter::Meter;
use crate::{results::publish, settings, system::CLIENT};

/// Rate that this machine (2 cores, shared with cluster and client) answers without a failure while nothing is moved.
const REQUESTS_PER_SECOND: u32 = 1000;
const CONNECTIONS: usize = 200;

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let load = LoadOptions {
        connections: settings::number("CONNECTIONS", CONNECTIONS, &(0..=10_000))?,
        requests_per_second: settings::number("REQUESTS_PER_SECOND", REQUESTS_PER_SECOND, &(1..=1000))?,
    };
    println!("bench: starting the lab");
    let lab = Lab::builder().nodes(3).client(CLIENT).light().interactive();
    let rows = Lab::run("bench-moves", lab, async |lab| {
        lab.deploy_windlass(&windlass::AGENTS).await?;
        let mut meter = Meter::new(lab, load);
        windlass::measure(lab, &mut meter).await?;
        keepalived::measure(lab, &mut meter).await?;
        windlass::measure_without_forwarding(lab, &mut meter).await?;
        windlass::measure_rebalance(lab, &mut meter).await?;
        Ok(meter.into_rows())
    })?;
    let [system, kind] = ["system", "move"];
    publish(
        "moves",
        &format!("  {system:27} {kind:15} requests  failed connections  broken    slowest"),
        &rows,
    )
}
