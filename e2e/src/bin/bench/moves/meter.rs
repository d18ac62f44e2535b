//! A client before, during and after a move.

use std::{fmt, net::IpAddr, time::Duration};

use anyhow::Context as _;
use serde::Serialize;
use windlass_e2e::{Lab, LoadOptions, LoadOutcome, SERVICE_PORT, statistics::whole_milliseconds};

use crate::{results::Errors, system::CLIENT};

/// Time of requests before the move.
const BEFORE: Duration = Duration::from_secs(1);
/// Time of requests after its end: what breaks late is to be seen, too.
const AFTER: Duration = Duration::from_secs(2);
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
                clients.push(self.lab.load(CLIENT, *address, SERVICE_PORT, share).await?);
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
        println!("bench: {row}{}", Errors(&seen.errors));
        self.rows.push(row);
        Ok(())
    }
}

/// Losses of a client by one move.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    system: &'static str,
    r#move: &'static str,
    /// Requests on connections of their own, and those without an answer.
    requests: u64,
    failed: u64,
    /// Connections that were kept, and those that ended.
    connections: u64,
    broken: u64,
    slowest_ms: u64,
}

impl Row {
    fn new(system: &'static str, kind: &'static str, seen: &LoadOutcome) -> Self {
        let LoadOutcome { requests, failed, connections, broken, slowest, .. } = *seen;
        let slowest_ms = whole_milliseconds(slowest);
        Self { system, r#move: kind, requests, failed, connections, broken, slowest_ms }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { system, r#move: kind, requests, failed, connections, broken, slowest_ms } = self;
        write!(
            f,
            "{system:27} {kind:15} {requests:8} {failed:7} {connections:11} {broken:7} {slowest_ms:7} ms"
        )
    }
}
