//! All phases of one system, under load.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use anyhow::{Context as _, ensure};
use tokio::time::Instant;
use windlass_e2e::{CrowdOptions, Lab, SERVICE_PORT, await_that};

use super::{
    LIMIT, NODES, keepalived,
    phases::{self, Fault, Phase},
    report::{Row, pooled},
    windlass,
};
use crate::{
    results::Errors,
    system::{CLIENT, System, await_owner},
};

/// Hosts of the clients.
pub(crate) const HOSTS: [&str; 4] = [CLIENT, "c2", "c3", "c4"];
/// The shortest a phase may be: as long as clients think at most, so that each asks in each.
const LENGTH: Duration = Duration::from_secs(10);

/// Runs them and returns a row for each kind.
pub(crate) async fn run(lab: &Lab, system: System, options: CrowdOptions) -> anyhow::Result<Vec<Row>> {
    let addresses = match system {
        System::Windlass | System::Forward | System::Sharing => windlass::start(lab, system).await?,
        System::Keepalived => keepalived::start(lab).await?,
    };
    let homes = homes(lab, &addresses).await?;
    let crowd = lab.crowd(&HOSTS, &addresses, SERVICE_PORT, options)?;
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
        println!("bench: {row}{}", Errors(row.errors()));
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
        Phase::Steady => {}
        Phase::Down(fault, node) => {
            take_down(lab, system, fault, node).await?;
            for address in &homes[node] {
                lab.await_owner_other_than(CLIENT, *address, node).await?;
            }
        }
        Phase::Back(fault, node) => {
            bring_back(lab, system, fault, node).await?;
            for address in &homes[node] {
                await_owner(lab, *address, node).await?;
            }
            for address in homes.values().flatten() {
                windlass::await_ready(lab, system, *address).await?;
            }
        }
    }
    Ok(())
}

async fn take_down(lab: &Lab, system: System, fault: Fault, node: &str) -> anyhow::Result<()> {
    match (fault, system) {
        (Fault::Cable, _) => lab.node(node)?.pull_cable(),
        (Fault::Host, _) => lab.node(node)?.power_off().await,
        (Fault::Drain, System::Windlass | System::Forward | System::Sharing) => {
            lab.node(node)?.exclude(true).await
        }
        (Fault::Drain, System::Keepalived) => lab.stop_keepalived(node).await,
    }
}

async fn bring_back(lab: &Lab, system: System, fault: Fault, node: &str) -> anyhow::Result<()> {
    match (fault, system) {
        (Fault::Cable, _) => lab.node(node)?.plug_cable(),
        (Fault::Host, System::Windlass | System::Forward | System::Sharing) => {
            lab.node(node)?.power_on().await?;
            windlass::start_on(lab, system, node)
        }
        (Fault::Host, System::Keepalived) => {
            lab.node(node)?.power_on().await?;
            keepalived::start_on(lab, node)
        }
        (Fault::Drain, System::Windlass | System::Forward | System::Sharing) => {
            lab.node(node)?.exclude(false).await
        }
        (Fault::Drain, System::Keepalived) => keepalived::start_on(lab, node),
    }
}

/// The addresses of each node while all is well, once they answer: each has some, or taking it down would show nothing.
async fn homes(lab: &Lab, addresses: &[IpAddr]) -> anyhow::Result<BTreeMap<String, Vec<IpAddr>>> {
    await_that("each node has addresses, and all answer", LIMIT, async || {
        let mut homes: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        for address in addresses {
            homes.entry(lab.await_owner(CLIENT, *address).await?).or_default().push(*address);
            lab.curl(CLIENT, *address, SERVICE_PORT).await?;
        }
        ensure!(NODES.iter().all(|node| homes.contains_key(*node)), "they are at {homes:?}");
        Ok(Some(homes))
    })
    .await
}
