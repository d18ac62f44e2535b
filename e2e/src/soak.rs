//! Everything that breaks, at once, and everything that people and machines do to Services, pools and claims: storms of
//! random operations, and between them calms in which all has to be in order. The oracle: no Service that is left alone
//! ever shows another address, and no address is on two Services that do not share it.
//!
//! The tests and `make soak` run the same: a seed determines all operations, but not when the cluster handles them.

mod cast;
mod claims;
mod edits;
mod faults;
pub(crate) mod journal;
mod oracle;
mod pools;
mod random;
mod services;
mod status;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, join, stream};
use k8s_openapi::{api::core::v1::Service, jiff::Timestamp};
use kube::{Api, api::ListParams};
use serde::Serialize;

use crate::{Hopeless, Lab, LabBuilder, Picture, await_that};

pub use cast::{Key, STEADY};
pub use edits::Edits;
pub use oracle::Oracle;
pub use random::Random;

/// Shortest storm, in seconds; the longest is twice as long.
const STORM: u64 = 10;
/// Limit of a full recovery, which includes the expiry of a killed controller's lease.
const CALM: Duration = Duration::from_mins(2);
/// Limit of an operation that takes a fraction of a second in a healthy cluster.
const LIMIT: Duration = Duration::from_mins(1);
/// Interval between two looks at the Services.
const LOOK: Duration = Duration::from_millis(100);

/// Returns a seed from the clock, or `WINDLASS_NEW_SEED`.
///
/// # Errors
/// The machine's clock is before 1970, or the variable is not a number.
pub fn new_seed() -> anyhow::Result<u64> {
    if let Ok(seed) = std::env::var("WINDLASS_NEW_SEED") {
        return seed.parse().with_context(|| format!("WINDLASS_NEW_SEED={seed}: give a whole number"));
    }
    Ok(u64::from(SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_nanos()))
}

/// Result of a soak; a row of `target/bench/soak.json`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// Seed of the whole run.
    pub seed: u64,
    /// Length of the run: as requested, and at its end as it was.
    pub seconds: u64,
    /// Number of edits and faults.
    pub operations: u64,
    /// Number of times that a Service that was left alone showed another address.
    pub moved: usize,
    /// Number of times that two Services that do not share showed one address.
    pub doubled: usize,
    /// Number of times that a Service that was left alone was without its address.
    pub lost: usize,
}

/// State shared by the edits, the faults and the oracle.
pub struct Scene<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) oracle: RefCell<Oracle>,
    pub(crate) journal: journal::Journal,
    over: Cell<bool>,
}

/// The lab it takes; `seconds` is how long it is to last.
pub fn lab(seconds: u64) -> LabBuilder {
    let limit = Duration::from_secs(4 * seconds) + Duration::from_mins(10);
    Lab::builder().nodes(2).client("c1").light().limit(limit)
}

/// Runs it as `row` says, and writes into it what came of it, also where it fails.
///
/// # Errors
/// What moved, was doubled or lost, or was not in order at a calm.
pub async fn soak(lab: &Lab, row: &mut Row) -> anyhow::Result<()> {
    let (seed, seconds) = (row.seed, row.seconds);
    let begin = Instant::now();
    lab.install_manifests().await?;
    faults::CONTROLLERS.into_iter().try_for_each(|controller| faults::start(lab, controller))?;
    faults::AGENTS.into_iter().try_for_each(|node| lab.start_agent(node))?;
    let scene = Scene::new(lab)?;
    let mut edits = Edits::new(&scene, seed);
    edits.set_the_stage().await?;
    let mut faults = faults::Faults::new(&scene, seed.wrapping_add(1));
    let storms = Instant::now();
    let mut outcome = Ok(());
    let mut calms = 0;
    while outcome.is_ok() && storms.elapsed() < Duration::from_secs(seconds) {
        let storm = Box::pin(storm(&scene, &mut edits, &mut faults));
        outcome = scene.watched(storm).await.with_context(|| format!("in storm {calms}"));
        if outcome.is_ok() {
            let calm = Box::pin(calm(&scene, &mut edits, &mut faults));
            outcome = scene.watched(calm).await.with_context(|| format!("after storm {calms}"));
        }
        calms += 1;
    }
    let (moved, doubled, lost) = scene.oracle.borrow().counts();
    let operations = scene.journal.operations();
    *row = Row { seed, seconds: begin.elapsed().as_secs(), operations, moved, doubled, lost };
    println!("soak: seed {seed}: {calms} storms, {operations} operations: {}", scene.journal.kinds());
    outcome.with_context(|| format!("seed {seed}; what was done is in {}", scene.journal.path().display()))
}

async fn storm(
    scene: &Scene<'_>,
    edits: &mut Edits<'_>,
    faults: &mut faults::Faults<'_>,
) -> anyhow::Result<()> {
    let length = Duration::from_secs(STORM + faults.random.below(STORM));
    scene.over.set(false);
    let (made, (), ()) = join!(faults.make_until_over(), edits.make_until_over(), async {
        let end = Instant::now() + length;
        while !scene.is_over() {
            tokio::time::sleep(LOOK).await;
            scene.over.set(Instant::now() >= end);
        }
    });
    made?;
    scene.oracle.borrow().verdict()
}

async fn calm(
    scene: &Scene<'_>,
    edits: &mut Edits<'_>,
    faults: &mut faults::Faults<'_>,
) -> anyhow::Result<()> {
    faults.heal().await?;
    edits.tidy().await?;
    let picture = scene.await_order(CALM).await?;
    // (A stranger's entry is nobody's to answer for.)
    let claimed = picture.virtual_ips.iter().filter(|claim| claim.spec.quarantine.is_none());
    let claimed: BTreeSet<IpAddr> = claimed.map(|claim| claim.spec.address).collect();
    let shown: BTreeSet<IpAddr> = picture.services.iter().flat_map(crate::shown).collect();
    let shown: BTreeSet<IpAddr> = shown.intersection(&claimed).copied().collect();
    // The client has an address of the pools, so that one there is taken.
    let hosts: BTreeSet<IpAddr> = scene.lab.hosts.iter().map(|host| host.address.into()).collect();
    let asked = shown.difference(&hosts).map(async |address| {
        let Err(silent) = scene.lab.await_owner("c1", *address).await else { return Ok(()) };
        // A Service that is not left alone may have let go of it since.
        let picture = scene.lab.picture().await?;
        let is_shown = picture.services.iter().any(|service| crate::shown(service).contains(address));
        if is_shown { Err(silent) } else { Ok(()) }
    });
    stream::iter(asked).buffer_unordered(8).try_collect().await
}

impl<'a> Scene<'a> {
    /// In this lab.
    pub fn new(lab: &'a Lab) -> anyhow::Result<Self> {
        let journal = journal::Journal::new("soak", &lab.folder().join("operations.log"))?;
        Ok(Self { lab, oracle: RefCell::default(), journal, over: Cell::new(false) })
    }

    /// Returns true if the storm is over: its time has passed, or the oracle has found a violation.
    pub(crate) fn is_over(&self) -> bool {
        self.over.get() || self.oracle.borrow().verdict().is_err()
    }

    /// Lets the oracle look all the time while something is done.
    pub async fn watched<T>(&self, doing: impl Future<Output = T>) -> T {
        let looking = async {
            let api: Api<Service> = Api::all(self.lab.client());
            loop {
                // (The API server is away from time to time.)
                if let Ok(all) = api.list(&ListParams::default()).await {
                    let found = self.oracle.borrow_mut().look(&all.items);
                    for finding in found {
                        self.journal.tell(&finding);
                    }
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            done = doing => done,
            never = looking => never,
        }
    }

    /// Waits until all is in order and every Service that is left alone shows what it had.
    ///
    /// # Errors
    /// What is not, and what [`Self::watched`] found before.
    pub async fn await_order(&self, limit: Duration) -> anyhow::Result<Picture> {
        let mut last: Option<Picture> = None;
        let ordered = await_that("the addresses of all Services are in order", limit, async || {
            self.oracle.borrow().verdict().context(Hopeless)?;
            let picture = last.insert(self.lab.picture().await?);
            let mut wrong = picture.wrong(Timestamp::now());
            wrong.extend(self.oracle.borrow().displaced(&picture.services));
            ensure!(wrong.is_empty(), "wrong is: {}", wrong.join("; "));
            Ok(Some(()))
        })
        .await;
        // (Nobody looked where all was lost before.)
        let found = last.as_ref().map(|picture| self.oracle.borrow_mut().calm(&picture.services));
        for finding in found.into_iter().flatten() {
            self.journal.tell(&finding);
        }
        ordered?;
        self.oracle.borrow().verdict()?;
        last.context("nobody looked")
    }

    /// Records what the Services that are left alone show now, as what they have to show from now on.
    pub(crate) async fn remember(&self) -> anyhow::Result<()> {
        let services = self.lab.picture().await?.services;
        let had = STEADY.iter().map(|steady| {
            let key = steady.key();
            let service = services.iter().find(|service| Key::of(service) == key);
            let shown = service.map(crate::shown).unwrap_or_default();
            ensure!(!shown.is_empty(), "{key} shows no address");
            let inherited = steady.inherits.map(str::parse).transpose()?;
            let is_heir = inherited.is_none_or(|address: IpAddr| shown == [address].into());
            ensure!(is_heir, "{key} had {inherited:?} of a predecessor and shows {shown:?}");
            Ok((key, shown))
        });
        let had: BTreeMap<Key, BTreeSet<IpAddr>> = had.collect::<anyhow::Result<_>>()?;
        self.journal.note(&format!("had: {had:?}"));
        *self.oracle.borrow_mut() = Oracle::new(had);
        Ok(())
    }
}
