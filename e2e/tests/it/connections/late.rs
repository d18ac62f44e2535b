//! What nodes tell each other of connections comes late, out of order, twice or not at all.

mod wire;

use anyhow::ensure;
use windlass_e2e::{LoadOptions, Protocol, SERVICE_PORT, await_that, scenario};

use self::wire::BadWire;
use super::{await_owner, await_replicated, replicate};
use crate::setup::{LIMIT, lab, served};

const CLIENTS: LoadOptions = LoadOptions { connections: 40, requests_per_second: 20 };

#[test]
fn connections_outlive_the_active_though_replicas_are_late_reordered_doubled_and_lost() -> anyhow::Result<()>
{
    scenario("connections-late", lab(), async |lab| {
        let wires = [BadWire::from(lab, "n1", "n2").await?, BadWire::from(lab, "n2", "n1").await?];
        replicate(lab, &["n1", "n2"]).await?;
        let vip = served(lab).await?;
        await_replicated(lab, &[vip], "n1", "n2").await?;
        let clients = lab.load("c1", vip, SERVICE_PORT, CLIENTS).await?;
        await_that("n2 knows the connections", LIMIT, async || {
            let known = lab.tracked("n2", Protocol::Tcp, vip).await?;
            let mut unknown = clients.ports();
            unknown.retain(|port| !known.contains(port));
            ensure!(unknown.is_empty(), "it does not know those from {unknown:?}");
            Ok(Some(()))
        })
        .await?;
        lab.node("n1")?.pull_cable()?;
        await_owner(lab, &[vip], "n2").await?;
        let seen = clients.stop()?;
        for wire in wires {
            let carried = wire.end()?;
            println!("between the nodes: {carried:?}");
            ensure!(carried.lost > 0 && carried.overtaken > 0, "the wire was good: {carried:?}");
        }
        println!("{} of {} connections went on", seen.connections - seen.broken, seen.connections);
        ensure!((seen.connections, seen.broken) == (40, 0), "{seen:?}");
        Ok(())
    })
}
