//! A client before, during and after a move.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, ensure};
use windlass_e2e::{Lab, LoadOptions, LoadOutcome, SERVICE_PORT, await_that};

use crate::moves::report::Row;

/// How long the client asks before the move.
const BEFORE: Duration = Duration::from_secs(1);
/// And after its end: what breaks late is to be seen, too.
const AFTER: Duration = Duration::from_secs(2);
/// How long a move may take: a check that failed counts for a minute.
const LIMIT: Duration = Duration::from_mins(3);

/// Measures moves, one after the other.
pub(crate) struct Meter<'a> {
    lab: &'a Lab,
    load: LoadOptions,
    rows: Vec<Row>,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(lab: &'a Lab, load: LoadOptions) -> Self {
        Self { lab, load, rows: Vec::new() }
    }

    pub(crate) fn into_rows(self) -> Vec<Row> {
        self.rows
    }

    /// Makes a move of `address` while clients keep their connections and open new ones.
    pub(crate) async fn measure(
        &mut self,
        system: &'static str,
        kind: &'static str,
        address: IpAddr,
        act: impl AsyncFnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.measure_all(system, kind, &[address], act).await
    }

    /// The same of several addresses, of which each has its share of the connections and requests.
    pub(crate) async fn measure_all(
        &mut self,
        system: &'static str,
        kind: &'static str,
        addresses: &[IpAddr],
        act: impl AsyncFnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let LoadOptions { connections, requests_per_second } = self.load;
        let share = LoadOptions {
            connections: connections.div_ceil(addresses.len()),
            requests_per_second: requests_per_second.div_ceil(u32::try_from(addresses.len())?),
        };
        let measured = async {
            let mut clients = Vec::new();
            for address in addresses {
                clients.push(self.lab.load("c1", *address, SERVICE_PORT, share).await?);
            }
            tokio::time::sleep(BEFORE).await;
            act().await?;
            tokio::time::sleep(AFTER).await;
            let mut seen = LoadOutcome::default();
            for client in clients {
                seen.merge(client.stop()?);
            }
            anyhow::Ok(seen)
        };
        let seen = measured.await.with_context(|| format!("{system}: {kind}"))?;
        let row = Row::new(system, kind, &seen);
        println!("bench: {row}");
        for (error, count) in &seen.errors {
            println!("bench:     {count} times: {error}");
        }
        self.rows.push(row);
        Ok(())
    }
}

/// Waits until this node alone answers for the address.
pub(crate) async fn await_owner(lab: &Lab, address: IpAddr, node: &str) -> anyhow::Result<()> {
    await_that(&format!("{node} has {address}"), LIMIT, async || {
        let owner = lab.await_owner("c1", address).await?;
        ensure!(owner == node, "{owner} has it");
        Ok(Some(()))
    })
    .await
}

/// Waits until the client gets an answer.
pub(crate) async fn await_answer(lab: &Lab, address: IpAddr) -> anyhow::Result<()> {
    await_that(&format!("{address} answers"), LIMIT, async || {
        Ok(Some(lab.curl("c1", address, SERVICE_PORT).await.map(drop)?))
    })
    .await
}
