//! Each fault alone.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};

use super::{
    FaultRow,
    bound::{self, Deaf},
    clients::Clients,
    cluster_faults as cluster,
    kind::{Fault, Kind},
    scene::Scene,
};
use crate::Answers;

/// Time that the clients ask before a fault.
const BEFORE: Duration = Duration::from_secs(1);
/// Time that they ask after the calm that follows it.
const AFTER: Duration = Duration::from_secs(1);

/// Inflicts these faults, one after the other, on the node that has the clients' addresses, and hands each row to `tell`.
///
/// # Errors
/// What was not in order after a fault, two nodes that answered for an address for too long, or what a client lost by a fault that
/// is to cost nothing.
pub async fn alone(scene: &Scene<'_>, kinds: &[Kind], mut tell: impl FnMut(FaultRow)) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for kind in kinds {
        let (row, verdict) = one(scene, *kind).await.with_context(|| kind.name())?;
        tell(row);
        wrong.extend(verdict.err().map(|error| format!("{}: {error:#}", kind.name())));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Inflicts one fault; returns its cost, and an error if it cost more than it may.
async fn one(scene: &Scene<'_>, kind: Kind) -> anyhow::Result<(FaultRow, anyhow::Result<()>)> {
    scene.await_fit_nodes().await?;
    scene.await_equal_lots().await?;
    if kind == Kind::KeysGone && scene.key.get() == 0 {
        cluster::change_key(scene).await?;
    }
    let answering = scene.lab.answering("c1", scene.vips())?;
    let target = scene.await_calm(&answering).await?;
    let vips = match kind {
        Kind::LocalRollout => scene.local_vips(),
        Kind::SharedPodEnds => scene.shared_vips(),
        _ => &target.vips,
    };
    let fault = Fault { kind, node: target.node };
    let clients = Clients::start(scene.lab, vips).await?;
    tokio::time::sleep(BEFORE).await;
    let before = answering.seen()?;
    let begin = Instant::now();
    fault.begin(scene).await?;
    tokio::time::sleep(kind.length()).await;
    let toggled = moves(&before, &answering.seen()?, vips);
    fault.end(scene).await?;
    let end = Instant::now();
    scene.await_calm(&answering).await?;
    let calm = end.elapsed();
    if kind.costs_the_share() {
        scene.await_fit_nodes().await?;
        scene.await_shares().await?;
        scene.await_calm(&answering).await?;
    }
    tokio::time::sleep(AFTER).await;
    let answers = answering.seen()?;
    let row = clients.stop(kind.name().to_owned(), &answers, calm)?;
    let deaf = Deaf { begin, end: Some(end) };
    let deaf = if kind.deafens() && !kind.is_harmless() { vec![deaf] } else { vec![] };
    let verdict = judge(kind, &row, &answers, &deaf, toggled);
    Ok((row, verdict))
}

fn judge(
    kind: Kind,
    row: &FaultRow,
    answers: &Answers,
    deaf: &[Deaf],
    toggled: Option<u32>,
) -> anyhow::Result<()> {
    let unexplained = bound::unexplained(&answers.doubled, deaf);
    ensure!(unexplained.is_empty(), "two nodes answered: {unexplained:?}");
    if kind.is_harmless() {
        ensure!(row.failed == 0 && row.broken == 0, "it is to cost no client anything: {row:?}");
    }
    if kind == Kind::CheckToggles {
        // Once at its beginning, and once a minute at most.
        let most = 1 + u32::try_from(kind.length().as_secs() / 60)?;
        let toggled = toggled.unwrap_or(0);
        ensure!((1..=most).contains(&toggled), "an address moved {toggled} times, not 1 to {most} times");
    }
    Ok(())
}

/// Returns the number of moves of the address that moved most; `None` without addresses.
fn moves(before: &Answers, after: &Answers, vips: &[IpAddr]) -> Option<u32> {
    let of = |answers: &Answers, vip| answers.moves.get(vip).copied().unwrap_or(0);
    vips.iter().map(|vip| of(after, vip).saturating_sub(of(before, vip))).max()
}
