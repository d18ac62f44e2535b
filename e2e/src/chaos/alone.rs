//! Each fault alone.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::{
    FaultRow,
    bound::{self, Deaf},
    faults::{Fault, Kind},
    milliseconds,
    scene::{NODES, Scene},
};
use crate::{Lab, LoadOptions, Protocol, SERVICE_PORT};

const LOAD: LoadOptions = LoadOptions { connections: 20, requests_per_second: 50 };
/// How long the client asks before a fault.
const BEFORE: Duration = Duration::from_secs(1);
/// And after the calm that follows it.
const AFTER: Duration = Duration::from_secs(1);

/// Inflicts each fault on the node that has the client's address, and hands each row to `tell`.
///
/// # Errors
/// What was not in order after a fault, or two nodes that answered for an address for too long.
pub async fn alone(lab: &Lab, mut tell: impl FnMut(FaultRow)) -> anyhow::Result<()> {
    let scene = Scene::set(lab).await?;
    for kind in Kind::ALL {
        tell(one(&scene, kind).await.with_context(|| kind.name())?);
    }
    Ok(())
}

async fn one(scene: &Scene<'_>, kind: Kind) -> anyhow::Result<FaultRow> {
    let lab = scene.lab;
    let vip = scene.vips[0];
    let answering = lab.answering("c1", &scene.vips)?;
    let owner = scene.await_calm(&answering).await?;
    let node = NODES.into_iter().find(|node| *node == owner).context("a node without an agent answers")?;
    let fault = Fault { kind, node };
    let client = lab.load("c1", vip, SERVICE_PORT, LOAD).await?;
    let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(2))?;
    tokio::time::sleep(BEFORE).await;
    let begin = Instant::now();
    fault.begin(scene).await?;
    tokio::time::sleep(kind.length()).await;
    fault.end(scene).await?;
    let deaf = Deaf { begin, end: Some(Instant::now()) };
    scene.await_calm(&answering).await?;
    tokio::time::sleep(AFTER).await;
    let (probed, asked, answers) = (probe.stop()?, client.stop()?, answering.stop()?);
    let deaf = if kind.deafens() { vec![deaf] } else { vec![] };
    let unexplained = bound::unexplained(&answers.doubled, &deaf);
    ensure!(unexplained.is_empty(), "two nodes answered: {unexplained:?}");
    Ok(FaultRow {
        fault: kind.name(),
        outage_ms: milliseconds(probed.longest_gap),
        max_answering: answers.most.values().copied().max().unwrap_or(0),
        doubled_ms: milliseconds(answers.longest_doubled()),
        requests: asked.requests,
        failed: asked.failed,
        connections: asked.connections,
        broken: asked.broken,
    })
}
