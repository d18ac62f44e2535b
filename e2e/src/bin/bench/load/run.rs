//! All phases of one system, under load.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use anyhow::{Context as _, ensure};
use tokio::time::Instant;
use windlass_e2e::{CrowdOptions, Lab, SERVICE_PORT, await_that};

use crate::load::{
    phases::{self, Phase},
    report::{Row, pooled},
    system::{NODES, System},
};

/// Hosts of the clients.
pub(crate) const CLIENTS: [&str; 4] = ["c1", "c2", "c3", "c4"];
/// The shortest a phase may be: as long as clients think at most, so that each asks in each.
const LENGTH: Duration = Duration::from_secs(10);
/// How long a change may take to come about: a check that failed counts for a minute.
const LIMIT: Duration = Duration::from_mins(3);

/// Runs them and returns a row for each kind.
pub(crate) async fn run(lab: &Lab, system: System, options: CrowdOptions) -> anyhow::Result<Vec<Row>> {
    let addresses = system.start(lab).await?;
    let homes = homes(lab, &addresses).await?;
    let crowd = lab.crowd(&CLIENTS, &addresses, SERVICE_PORT, options)?;
    // Until each has asked once: what they see before is of no phase.
    tokio::time::sleep(options.most_thought).await;
    let phases = phases::all(&NODES);
    for phase in &phases {
        println!("bench: {}: {} {}", system.name(), phase.name(), phase.node().unwrap_or_default());
        crowd.begin_phase();
        let begin = Instant::now();
        pass(lab, system, *phase, &homes).await.with_context(|| format!("{}: {phase:?}", system.name()))?;
        tokio::time::sleep_until(begin + LENGTH).await;
    }
    let tallies = crowd.stop()?;
    let rows = pooled(system.name(), phases.into_iter().zip(tallies.into_iter().skip(1)));
    for row in &rows {
        row.print();
    }
    Ok(rows)
}

/// Does what the phase begins with and waits until it has come about.
async fn pass(
    lab: &Lab,
    system: System,
    phase: Phase,
    homes: &BTreeMap<String, Vec<IpAddr>>,
) -> anyhow::Result<()> {
    match phase {
        Phase::Steady => Ok(()),
        Phase::Down(fault, node) => {
            system.take_down(lab, fault, node).await?;
            for address in &homes[node] {
                lab.await_owner_other_than(CLIENTS[0], *address, node).await?;
            }
            Ok(())
        }
        Phase::Back(fault, node) => {
            system.bring_back(lab, fault, node).await?;
            for address in &homes[node] {
                await_home(lab, *address, node).await?;
            }
            Ok(())
        }
    }
}

async fn await_home(lab: &Lab, address: IpAddr, node: &str) -> anyhow::Result<()> {
    await_that(&format!("{node} has {address}"), LIMIT, async || {
        let owner = lab.await_owner(CLIENTS[0], address).await?;
        ensure!(owner == node, "{owner} has it");
        Ok(Some(()))
    })
    .await
}

/// The addresses of each node while all is well, once they answer: each has some, or taking it down would show nothing.
async fn homes(lab: &Lab, addresses: &[IpAddr]) -> anyhow::Result<BTreeMap<String, Vec<IpAddr>>> {
    await_that("each node has addresses, and all answer", LIMIT, async || {
        let mut homes: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        for address in addresses {
            homes.entry(lab.await_owner(CLIENTS[0], *address).await?).or_default().push(*address);
            lab.curl(CLIENTS[0], *address, SERVICE_PORT).await?;
        }
        ensure!(NODES.iter().all(|node| homes.contains_key(*node)), "they are at {homes:?}");
        Ok(Some(homes))
    })
    .await
}
