//! Measures what faults cost clients.

use std::{net::IpAddr, time::Duration};

use super::FaultRow;
use crate::{
    Answers, Doubled, Lab, Load, LoadOptions, Probe, Protocol, SERVICE_PORT, statistics::whole_milliseconds,
};

const LOAD: LoadOptions = LoadOptions { connections: 20, requests_per_second: 50 };
/// From one question to the next of the client that measures the outage.
const QUESTION: Duration = Duration::from_millis(2);

/// Clients of some addresses.
pub(super) struct Clients {
    vips: Vec<IpAddr>,
    running: Vec<(Load, Probe)>,
}

impl Clients {
    /// Returns when their connections are open.
    pub(super) async fn start(lab: &Lab, vips: &[IpAddr]) -> anyhow::Result<Self> {
        let mut running = Vec::new();
        for vip in vips {
            let load = lab.load("c1", *vip, SERVICE_PORT, LOAD).await?;
            running.push((load, lab.probe("c1", Protocol::Udp, *vip, SERVICE_PORT, QUESTION)?));
        }
        Ok(Self { vips: vips.to_vec(), running })
    }

    /// Stops the clients, and returns their results and those of the sampler for their addresses.
    pub(super) fn stop(self, fault: String, answers: &Answers, calm: Duration) -> anyhow::Result<FaultRow> {
        let is_theirs = |vip: &IpAddr| self.vips.contains(vip);
        let doubled = answers.doubled.iter().filter(|doubled| is_theirs(&doubled.address));
        let most = answers.most.iter().filter(|(vip, _)| is_theirs(vip));
        let mut row = FaultRow {
            fault,
            max_answering: most.map(|(_, most)| *most).max().unwrap_or(0),
            doubled_ms: whole_milliseconds(doubled.map(Doubled::length).max().unwrap_or_default()),
            calm_ms: whole_milliseconds(calm),
            ..FaultRow::default()
        };
        for (load, probe) in self.running {
            let (asked, probed) = (load.stop()?, probe.stop()?);
            row.outage_ms = row.outage_ms.max(whole_milliseconds(probed.longest_gap));
            row.requests += asked.requests;
            row.failed += asked.failed;
            row.connections += asked.connections;
            row.broken += asked.broken;
        }
        Ok(row)
    }
}
