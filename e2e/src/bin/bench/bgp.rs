//! `make bench-bgp-racks`: for how long requests to API servers in two racks fail at their VIP, which routers know by BGP, when something
//! happens to a node, a rack, a server or a router: by `windlass vip`, and by FRR on the nodes, which checks nothing, as the floor.
//!
//! A client asks `/readyz` at the VIP each 10 ms, each time on a new connection, and another one watches an object that is written ten times
//! a second. Only those connections suffer that the routers' hash leads to what fails, so that the time is that from the first request that
//! fails to the last one: other requests are answered meanwhile.

mod case;
mod report;

use anyhow::Context as _;
use clap::ValueEnum as _;
use windlass_e2e::{Detection, Lab, Signal};

use self::{case::Case, report::Sample};
use crate::{api_vip::observe, results::publish_beside, settings};

const ROUNDS: usize = 5;

/// Program that announces the VIP on the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum System {
    /// `windlass vip`.
    Windlass,
    /// FRR.
    Frr,
}

impl System {
    /// Name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Frr => "frr",
        }
    }

    async fn start(self, lab: &Lab, node: &str, detection: Detection) -> anyhow::Result<()> {
        match self {
            Self::Windlass => lab.start_api_bgp(node, detection),
            Self::Frr => lab.start_api_frr(node, detection).await,
        }
    }

    async fn stop(self, lab: &Lab, node: &str) -> anyhow::Result<()> {
        match self {
            Self::Windlass => {
                lab.stop_vip(node, Signal::SIGTERM).await?;
                // What it leaves for connections would serve the next one's clients.
                lab.exec(node, &["nft", "flush", "ruleset"]).await.map(drop)
            }
            Self::Frr => lab.stop_api_frr(node).await,
        }
    }

    /// Restarts it in an orderly way.
    async fn restart(self, lab: &Lab, node: &str) -> anyhow::Result<()> {
        match self {
            Self::Windlass => {
                lab.stop_vip(node, Signal::SIGTERM).await?;
                lab.start_vip_again(node)
            }
            Self::Frr => lab.restart_bgp(node).await,
        }
    }
}

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let rounds = settings::number("ROUNDS", ROUNDS, &(1..=1000))?;
    let systems = settings::some_of("SYSTEMS", System::value_variants())?;
    let cases = settings::some_of("CASES", Case::value_variants())?;
    println!("bench: starting the lab");
    let lab = Lab::builder().control_plane_nodes(3).racks().client("c1").client("c2").light().interactive();
    let samples = Lab::run("bench-bgp", lab, async |lab| {
        let mut samples = Vec::new();
        for system in systems {
            for &case in &cases {
                let run = run(lab, system, case, rounds, &mut samples).await;
                run.with_context(|| format!("{}, {}", system.name(), case.name()))?;
            }
        }
        Ok(samples)
    })?;
    let [system, case] = ["system", "case"];
    let title = format!("  {system:9} {case:28}    median       max requests   failed connections broken");
    // The other rows of the file are those of `make bench-bgp`.
    publish_beside("bgp", &title, &report::rows(&samples), |row| row.get("connections").is_some())
}

async fn run(
    lab: &Lab,
    system: System,
    case: Case,
    rounds: usize,
    samples: &mut Vec<Sample>,
) -> anyhow::Result<()> {
    let nodes: Vec<String> = lab.control_plane_nodes().map(|node| node.name().to_owned()).collect();
    for round in 0..rounds {
        // Anew in each round: a check that failed in the last one would have to prove itself, for longer each time.
        for node in &nodes {
            system.start(lab, node, case.detection()).await?;
        }
        let sample = measure(lab, system, case, &nodes, round).await?;
        println!("bench: round {}: {sample}", round + 1);
        samples.push(sample);
        for node in &nodes {
            system.stop(lab, node).await?;
        }
    }
    Ok(())
}

async fn measure(
    lab: &Lab,
    system: System,
    case: Case,
    nodes: &[String],
    round: usize,
) -> anyhow::Result<Sample> {
    for node in nodes {
        lab.await_api_server_of(node).await?;
    }
    lab.await_racks().await?;
    if let Detection::Bfd(_) = case.detection() {
        lab.await_bfd().await?;
    }
    let victim = case.victim(nodes, round);
    let other = nodes.iter().find(|node| **node != victim).context("a control plane of one node")?;
    lab.lead_etcd(other).await?;
    let fault = async || case.inflict(lab, system, &victim).await;
    let (requests, watch) = observe(lab, lab.api_vip(), other, fault).await?;
    case.repair(lab, &victim)?;
    Ok(Sample { system, case, requests, watch })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_systems_and_cases_by_these_keys() {
        assert_eq!(settings::keys::<System>(), ["windlass", "frr"]);
        let cases = settings::keys::<Case>().join(" ");
        assert_eq!(cases, "node node-fast node-hold-time rack hangs router upgrade");
    }
}
