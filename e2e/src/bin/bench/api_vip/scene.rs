//! Faults under one holder, one after the other.

use std::{net::IpAddr, time::Duration};

use anyhow::Context as _;
use windlass_e2e::{ApiConnections, ApiOutcome, Lab, WatchOutcome};

use super::{fault::Fault, holder::Holder};

/// Time of requests before the fault.
const BEFORE: Duration = Duration::from_secs(1);
/// Time of requests after the VIP is answered again: what comes late is to be seen, too.
const AFTER: Duration = Duration::from_secs(4);
/// Until those that came back have been checked, and have taken back what is theirs.
const SETTLE: Duration = Duration::from_secs(4);

/// Results of the clients by one fault.
pub(crate) struct Sample {
    pub(crate) holder: Holder,
    pub(crate) fault: Fault,
    pub(crate) requests: ApiOutcome,
    pub(crate) watch: WatchOutcome,
}

pub(crate) async fn run(
    lab: &Lab,
    holder: Holder,
    faults: &[Fault],
    rounds: usize,
    samples: &mut Vec<Sample>,
) -> anyhow::Result<()> {
    for node in lab.control_plane_nodes() {
        holder.start(lab, node.name())?;
    }
    for round in 1..=rounds {
        for &fault in faults {
            let sample = measure(lab, holder, fault).await.with_context(|| fault.name().to_owned())?;
            println!("bench: round {round}: {sample}");
            samples.push(sample);
        }
    }
    for node in lab.control_plane_nodes() {
        holder.stop(lab, node.name()).await?;
        // What one of them leaves for connections that go on would serve the next one's clients.
        lab.exec(node.name(), &["nft", "flush", "ruleset"]).await?;
    }
    Ok(())
}

async fn measure(lab: &Lab, holder: Holder, fault: Fault) -> anyhow::Result<Sample> {
    let vip = holder.vip(lab);
    let owner = await_calm(lab, vip).await?;
    let other = lab.control_plane_nodes().find(|node| node.name() != owner);
    let other = other.context("a control plane of one node")?.name().to_owned();
    lab.lead_etcd(if fault == Fault::LeaderCable { &owner } else { &other }).await?;

    let inflict = async || fault.inflict(lab, holder, &owner).await;
    let (requests, watch) = observe(lab, vip, &other, inflict).await?;
    fault.repair(lab, &owner).await?;
    Ok(Sample { holder, fault, requests, watch })
}

/// Lets clients use the VIP before, during and after a fault, and returns their results. What they watch is written at the API server of
/// node `writer`.
pub(crate) async fn observe(
    lab: &Lab,
    vip: IpAddr,
    writer: &str,
    inflict: impl AsyncFnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<(ApiOutcome, WatchOutcome)> {
    let client = lab.api_probe("c1", vip, ApiConnections::New)?;
    let watch = lab.api_watch("c2", vip, writer)?;
    tokio::time::sleep(BEFORE).await;
    inflict().await?;
    lab.await_api_server_at(vip).await?;
    tokio::time::sleep(AFTER).await;
    Ok((client.stop()?, watch.stop()?))
}

/// Waits until all is in order; the node that has the VIP.
async fn await_calm(lab: &Lab, vip: IpAddr) -> anyhow::Result<String> {
    for node in lab.control_plane_nodes() {
        lab.await_api_server_of(node.name()).await?;
    }
    tokio::time::sleep(SETTLE).await;
    lab.await_api_server_at(vip).await?;
    lab.await_owner("c1", vip).await
}
