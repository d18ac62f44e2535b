//! Faults that overlap, from a seed: storms, and between them calms in which all has to be in order.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::{
    FaultRow,
    bound::{self, Deaf},
    clients::Clients,
    kind::{Fault, Kind},
    scene::{NODES, Scene},
};
use crate::{
    Answering,
    soak::{Random, journal::Journal},
};

/// Shortest storm, in seconds; the longest is twice as long.
const STORM: u64 = 6;
/// Largest number of simultaneous faults.
const AT_ONCE: usize = 4;
/// The longest time until something else breaks or is mended.
const PAUSE_MS: u64 = 1200;

struct Storms<'a> {
    scene: &'a Scene<'a>,
    /// Sampler of this storm.
    answering: Answering,
    journal: Journal,
    random: Random,
    /// Present faults, each with its start.
    broken: Vec<(Fault, Instant)>,
    /// Kinds of fault in this storm.
    kinds: Vec<Kind>,
    /// Past times in which nodes did not receive each other's adverts.
    deaf: Vec<Deaf>,
}

/// Runs storms that follow from `seed`, each with a calm after it, for so many `seconds` at least, and hands the row of each to
/// `tell`, also that of one that failed.
///
/// # Errors
/// What was not in order at a calm, or two nodes that answered for an address for too long.
pub async fn storms(
    scene: &Scene<'_>,
    seed: u64,
    seconds: u64,
    mut tell: impl FnMut(FaultRow),
) -> anyhow::Result<()> {
    let lab = scene.lab;
    let mut storms = Storms {
        scene,
        answering: lab.answering("c1", scene.vips())?,
        journal: Journal::new("chaos", &lab.folder().join(format!("operations-{seed}.log")))?,
        random: Random(seed),
        broken: Vec::new(),
        kinds: Vec::new(),
        deaf: Vec::new(),
    };
    scene.await_calm(&storms.answering).await?;
    let first = Instant::now();
    let (mut count, mut outcome) = (0, Ok(()));
    while outcome.is_ok() && first.elapsed() < Duration::from_secs(seconds) {
        count += 1;
        let storm = format!("storm {count} of seed {seed}");
        let row;
        (row, outcome) = storms.measured(&storm).await.with_context(|| storm.clone())?;
        outcome = outcome.context(storm);
        tell(row);
    }
    let Storms { journal, .. } = &storms;
    println!("chaos: seed {seed}: {count} storms, {} faults: {}", journal.operations(), journal.kinds());
    if let Err(error) = &outcome {
        journal.tell(&format!("{error:#}"));
    }
    outcome.with_context(|| format!("what was done is in {}", journal.path().display()))
}

impl Storms<'_> {
    /// A storm and the calm after it, with what clients saw.
    async fn measured(&mut self, storm: &str) -> anyhow::Result<(FaultRow, anyhow::Result<()>)> {
        let lab = self.scene.lab;
        self.journal.note(storm);
        self.kinds.clear();
        self.answering = lab.answering("c1", self.scene.vips())?;
        let clients = Clients::start(lab, &self.scene.target()?.vips).await?;
        let outcome = self.storm_and_calm().await;
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
        let fault = format!("{storm}: {}", kinds.join(", "));
        let (calm, outcome) = match outcome {
            Ok(calm) => (calm, Ok(())),
            Err(error) => (Duration::ZERO, Err(error)),
        };
        Ok((clients.stop(fault, &self.answering.seen()?, calm)?, outcome))
    }

    /// Runs a storm and waits for the calm; returns the time that the calm took to come.
    async fn storm_and_calm(&mut self) -> anyhow::Result<Duration> {
        let end = Instant::now() + Duration::from_secs(STORM + self.random.below(STORM));
        while Instant::now() < end {
            self.step().await?;
            self.judge()?;
            tokio::time::sleep(Duration::from_millis(self.random.below(PAUSE_MS))).await;
        }
        while !self.broken.is_empty() {
            self.mend().await?;
        }
        self.journal.note("calm");
        let begin = Instant::now();
        self.scene.await_calm(&self.answering).await?;
        let calm = begin.elapsed();
        self.judge()?;
        Ok(calm)
    }

    /// Breaks something, or mends what is broken.
    async fn step(&mut self) -> anyhow::Result<()> {
        let is_enough = self.broken.len() >= AT_ONCE || self.random.once_in(3);
        if is_enough && !self.broken.is_empty() {
            return self.mend().await;
        }
        let fault = Fault { kind: self.random.one_of(&Kind::ALL), node: self.random.one_of(&NODES) };
        if self.kinds.iter().any(|kind| fault.kind.is_apart_from(*kind)) {
            return Ok(());
        }
        let is_possible = self.broken.iter().all(|(other, _)| fault.goes_with(*other));
        if !is_possible {
            return Ok(());
        }
        self.kinds.push(fault.kind);
        self.journal.note(&format!("{}: {} begins", fault.node, fault.kind.name()));
        self.journal.count(fault.kind.name());
        // Before it: it may take a while, and what it does begins at once.
        self.broken.push((fault, Instant::now()));
        fault.begin(self.scene).await.with_context(|| format!("{fault:?}"))
    }

    async fn mend(&mut self) -> anyhow::Result<()> {
        let index = self.random.index(self.broken.len());
        let (fault, begin) = self.broken.swap_remove(index);
        fault.end(self.scene).await.with_context(|| format!("mending {fault:?}"))?;
        self.journal.note(&format!("{}: {} ended", fault.node, fault.kind.name()));
        if fault.kind.deafens() {
            self.deaf.push(Deaf { begin, end: Some(Instant::now()) });
        }
        Ok(())
    }

    /// Fails if several nodes answered for an address for longer than they may.
    fn judge(&self) -> anyhow::Result<()> {
        let now = self.broken.iter().filter(|(fault, _)| fault.kind.deafens());
        let now = now.map(|(_, begin)| Deaf { begin: *begin, end: None });
        let deaf: Vec<Deaf> = self.deaf.iter().copied().chain(now).collect();
        let seen = self.answering.seen()?;
        let unexplained: Vec<String> = bound::unexplained(&seen.doubled, &deaf)
            .into_iter()
            .map(|one| format!("{:?} for {} ms for {}", one.nodes, one.length().as_millis(), one.address))
            .collect();
        ensure!(unexplained.is_empty(), "several nodes answered: {}", unexplained.join("; "));
        Ok(())
    }
}
