//! Each fault alone.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};

use super::{
    FaultRow,
    bound::{self, Deaf},
    faults::{Fault, Kind},
    milliseconds,
    scene::{Scene, Target},
};
use crate::{Doubled, Lab, LoadOptions, Protocol, SERVICE_PORT};

const LOAD: LoadOptions = LoadOptions { connections: 20, requests_per_second: 50 };
/// How long the client asks before a fault.
const BEFORE: Duration = Duration::from_secs(1);
/// And after the calm that follows it.
const AFTER: Duration = Duration::from_secs(1);

/// Inflicts each fault on the node that has the clients' addresses, and hands each row to `tell`.
///
/// # Errors
/// What was not in order after a fault, or two nodes that answered for an address for too long.
pub async fn alone(lab: &Lab, mut tell: impl FnMut(FaultRow)) -> anyhow::Result<()> {
    let scene = Scene::set(lab).await?;
    for kind in Kind::ALL {
        one(&scene, kind).await.with_context(|| kind.name())?.into_iter().for_each(&mut tell);
    }
    Ok(())
}

/// A row of each family.
async fn one(scene: &Scene<'_>, kind: Kind) -> anyhow::Result<Vec<FaultRow>> {
    let lab = scene.lab;
    let answering = lab.answering("c1", &scene.vips)?;
    let Target { node, vips, vrids: _ } = scene.await_calm(&answering).await?;
    let fault = Fault { kind, node };
    let mut clients = Vec::new();
    for vip in vips {
        let client = lab.load("c1", vip, SERVICE_PORT, LOAD).await?;
        let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(2))?;
        clients.push((vip, client, probe));
    }
    tokio::time::sleep(BEFORE).await;
    let begin = Instant::now();
    fault.begin(scene).await?;
    tokio::time::sleep(kind.length()).await;
    fault.end(scene).await?;
    let deaf = Deaf { begin, end: Some(Instant::now()) };
    scene.await_calm(&answering).await?;
    tokio::time::sleep(AFTER).await;
    let mut rows = Vec::new();
    for (vip, client, probe) in clients {
        let (probed, asked) = (probe.stop()?, client.stop()?);
        rows.push(FaultRow {
            fault: kind.name(),
            family: family(vip),
            outage_ms: milliseconds(probed.longest_gap),
            requests: asked.requests,
            failed: asked.failed,
            connections: asked.connections,
            broken: asked.broken,
            ..FaultRow::default()
        });
    }
    let answers = answering.stop()?;
    let deaf = if kind.deafens() { vec![deaf] } else { vec![] };
    let unexplained = bound::unexplained(&answers.doubled, &deaf);
    ensure!(unexplained.is_empty(), "two nodes answered: {unexplained:?}");
    for row in &mut rows {
        let is_its = |vip: &IpAddr| family(*vip) == row.family;
        let most = answers.most.iter().filter(|(vip, _)| is_its(vip));
        let doubled = answers.doubled.iter().filter(|doubled| is_its(&doubled.address));
        let (most, doubled) = (most.map(|(_, most)| *most).max(), doubled.map(Doubled::length).max());
        row.max_answering = most.unwrap_or(0);
        row.doubled_ms = milliseconds(doubled.unwrap_or_default());
    }
    Ok(rows)
}

fn family(vip: IpAddr) -> &'static str {
    if vip.is_ipv4() { "IPv4" } else { "IPv6" }
}
