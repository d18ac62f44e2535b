//! Everything that breaks, at once: controllers and agents killed and frozen, cables pulled, the API server away, while
//! Services, pools and claims are edited. At each calm everything has to be in order, and no address has changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use futures::join;
use kube::{Api, api::PostParams};
use serde_json::json;
use windlass_api::VirtualIP;
use windlass_e2e::{ControllerOptions, Lab, Signal, await_that, shown};

use super::crashes::Random;
use super::random_edits::{Edits, STEADY};
use crate::setup::{LIMIT, services};

/// How long it goes on where `WINDLASS_CHAOS_SECONDS` says nothing.
const USUALLY: u64 = 30;
/// How long a storm is, in seconds, at least; at most twice as long.
const STORM: u64 = 10;
/// How long everything may take to be in order again: the lease of a controller that was killed has to run out, too.
const CALM: Duration = Duration::from_mins(2);
const CONTROLLERS: [(&str, u16); 2] = [("controller", 10258), ("second", 10268)];
const AGENTS: [&str; 2] = ["n1", "n2"];

#[test]
fn with_everything_failing_at_once_no_address_changes_and_all_is_in_order_at_each_calm() -> anyhow::Result<()>
{
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seconds = number("WINDLASS_CHAOS_SECONDS").unwrap_or(USUALLY);
    let seed = number("WINDLASS_SEED").unwrap_or(1);
    let limit = Duration::from_secs(2 * seconds) + Duration::from_mins(10);
    let builder = Lab::builder().nodes(2).client("c1").light().limit(limit);
    windlass_e2e::scenario("chaos", builder, async |lab| {
        println!("chaos: WINDLASS_SEED={seed} WINDLASS_CHAOS_SECONDS={seconds}");
        lab.deploy_windlass(&AGENTS).await?;
        start(lab, CONTROLLERS[1])?;
        let mut edits = Edits { lab, random: Random(seed) };
        edits.deal_pools(true).await?;
        for name in STEADY {
            edits.make(name, name.ends_with(['4', '5'])).await?;
            lab.ingress(name, LIMIT).await?;
        }
        let had = steady(lab).await?;
        let mut faults = Faults { lab, random: Random(seed + 1), made: BTreeMap::new() };
        let begin = Instant::now();
        let mut calms = 0;
        while begin.elapsed() < Duration::from_secs(seconds) {
            let storm = Duration::from_secs(STORM + faults.random.below(STORM));
            let over = AtomicBool::new(false);
            let (changed, (), made) = join!(
                changes(lab, &had, &over),
                async {
                    tokio::time::sleep(storm).await;
                    over.store(true, Ordering::Relaxed);
                },
                async { join!(faults.make(&over), edit(&mut edits, &over)) },
            );
            ensure!(changed.is_empty(), "addresses changed in storm {calms}: {changed:?}");
            made.0?;
            faults.heal().await?;
            lab.await_order(CALM).await.with_context(|| format!("after storm {calms}, seed {seed}"))?;
            let now = steady(lab).await?;
            ensure!(now == had, "after storm {calms}, seed {seed}: had {had:?}, has {now:?}");
            for address in now.values().flatten() {
                lab.await_owner("c1", *address).await?;
            }
            calms += 1;
        }
        println!("chaos: {calms} storms, faults {:?}, 0 addresses changed", faults.made);
        Ok(())
    })
}

fn start(lab: &Lab, (name, http_port): (&str, u16)) -> anyhow::Result<()> {
    lab.start_controller(ControllerOptions { name: name.into(), http_port, ..ControllerOptions::default() })
}

/// What the steady Services show.
async fn steady(lab: &Lab) -> anyhow::Result<BTreeMap<&'static str, BTreeSet<IpAddr>>> {
    let mut all = BTreeMap::new();
    for name in STEADY {
        all.insert(name, shown(&services(lab, "default").get(name).await?));
    }
    Ok(all)
}

/// Looks all the time at the steady Services: what they show that they did not have.
async fn changes(lab: &Lab, had: &BTreeMap<&str, BTreeSet<IpAddr>>, over: &AtomicBool) -> BTreeSet<String> {
    let mut changes = BTreeSet::new();
    while !over.load(Ordering::Relaxed) {
        // (The API server is away from time to time.)
        if let Ok(now) = steady(lab).await {
            let others = now.iter().filter(|(name, shown)| had.get(*name) != Some(shown));
            changes.extend(others.map(|(name, shown)| format!("{name} shows {shown:?}")));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    changes
}

/// Edits that the API server may or may not take.
async fn edit(edits: &mut Edits<'_>, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let edit = async { drop(edits.make_one(Edits::ALL_BUT_STATUS).await) };
        drop(tokio::time::timeout(Duration::from_secs(2), edit).await);
        drop(nonsense(edits).await);
        tokio::time::sleep(Duration::from_millis(edits.random.below(200))).await;
    }
}

/// A claim that nobody made sense of, now and then.
async fn nonsense(edits: &mut Edits<'_>) -> anyhow::Result<()> {
    if edits.random.below(10) != 0 {
        return Ok(());
    }
    let address = format!("198.51.100.{}", edits.random.below(200));
    let owners = json!([{"namespace": "No Namespace", "name": "-", "uid": "?"}]);
    let claim: VirtualIP = serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIP", "metadata": {"name": address},
        "spec": {"address": address, "pool": "../..", "owners": owners, "virtualRouter": "nowhere"},
    }))?;
    Api::all(edits.lab.client()).create(&PostParams::default(), &claim).await?;
    Ok(())
}

struct Faults<'a> {
    lab: &'a Lab,
    random: Random,
    /// How many there were of each kind.
    made: BTreeMap<&'static str, u32>,
}

impl Faults<'_> {
    async fn make(&mut self, over: &AtomicBool) -> anyhow::Result<()> {
        while !over.load(Ordering::Relaxed) {
            let lab = self.lab;
            let controller = CONTROLLERS[usize::try_from(self.random.below(2))?];
            let node = lab.node(AGENTS[usize::try_from(self.random.below(2))?])?;
            let pause = Duration::from_millis(self.random.below(2000));
            let what = match self.random.below(8) {
                0 | 1 => {
                    lab.stop_controller(controller.0, Signal::SIGKILL).await?;
                    start(lab, controller)?;
                    "controller killed"
                }
                2 => {
                    lab.signal_controller(controller.0, Signal::SIGSTOP)?;
                    tokio::time::sleep(2 * pause).await;
                    lab.signal_controller(controller.0, Signal::SIGCONT)?;
                    "controller frozen"
                }
                3 => {
                    lab.stop_agent(node.name(), Signal::SIGKILL).await?;
                    tokio::time::sleep(pause).await;
                    lab.start_agent(node.name())?;
                    "agent killed"
                }
                4 => {
                    // (It may just be starting.)
                    await_that("the agent runs", LIMIT, async || Ok(Some(node.freeze_agent()?))).await?;
                    tokio::time::sleep(pause).await;
                    node.thaw_agent()?;
                    "agent frozen"
                }
                5 | 6 => {
                    node.pull_cable()?;
                    tokio::time::sleep(pause).await;
                    node.plug_cable()?;
                    "cable pulled"
                }
                _ => {
                    lab.stop_api_server().await?;
                    tokio::time::sleep(pause).await;
                    lab.start_api_server().await?;
                    "API server stopped"
                }
            };
            *self.made.entry(what).or_default() += 1;
            tokio::time::sleep(Duration::from_millis(self.random.below(500))).await;
        }
        Ok(())
    }

    /// Sees that both controllers run: one that lost its lease has ended, as it has to.
    async fn heal(&self) -> anyhow::Result<()> {
        for controller in CONTROLLERS {
            self.lab.stop_controller(controller.0, Signal::SIGKILL).await?;
            start(self.lab, controller)?;
        }
        Ok(())
    }
}
