//! `windlass vip`: a VIP of API servers, or of any service of hosts, that is held without an API server.

mod balanced;
mod faults;
mod hosts;
mod kubelet;
mod life;
mod neighbours;
mod racks;
mod settings;

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use serde_json::json;
use windlass_e2e::{Answering, ApiVipHolder, Lab, LabBuilder, SERVICE_PORT, await_that};

use crate::setup::LIMIT;

const API_SERVER: &str = "kube-apiserver";
/// Whoever answers alone for so long has the address.
const SETTLED: Duration = Duration::from_millis(300);
/// So many questions in a row one node has to answer, alone: five seconds.
const KEPT: u64 = 500;
/// The highest priority of a node that is not fit.
const FIT_ABOVE: u8 = 100;
/// Port of the servers of hosts; `/hostname` names them.
const PORT: u16 = 8080;
/// What `windlass vip` asks of such a server.
const CHECK: &str = "http://127.0.0.1:8080/hostname";

/// Three nodes of a control plane, two clients, and `windlass vip` with these flags beside the usual ones.
fn control_plane(flags: &[&str]) -> LabBuilder {
    let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
    let holder = ApiVipHolder::Windlass(flags);
    Lab::builder().control_plane_nodes(3).client("c1").client("c2").light().api_vip(holder)
}

/// Waits until one node alone answers for the address, one that is `meant`, and returns it.
async fn await_alone(
    answering: &Answering,
    vip: IpAddr,
    is_meant: impl Fn(&str) -> bool,
) -> anyhow::Result<String> {
    await_that(&format!("one node alone answers for {vip}"), LIMIT, async || {
        let seen = answering.seen()?;
        let alone = seen.alone.get(&vip).with_context(|| format!("{:?} answer", seen.last.get(&vip)))?;
        ensure!(is_meant(&alone.node), "it is {}", alone.node);
        Ok((alone.since.elapsed() >= SETTLED).then(|| alone.node.clone()))
    })
    .await
}

/// Waits until one node has answered for the address, alone, for five seconds from now on.
async fn await_kept(answering: &Answering, vip: IpAddr) -> anyhow::Result<()> {
    let before = answering.seen()?.owners.get(&vip).cloned();
    await_that(&format!("one node has {vip}, and keeps it"), LIMIT, async || {
        let seen = answering.seen()?;
        let owner = seen.owners.get(&vip).context("nobody has it")?;
        let before = before.as_ref().filter(|before| before.node == owner.node);
        let since = owner.answered.saturating_sub(before.map_or(0, |before| before.answered));
        ensure!(since >= KEPT, "{owner:?}, {since} of the questions since {before:?}");
        Ok(Some(()))
    })
    .await
}

/// Waits until the `windlass vip` of each of these nodes holds a fit candidate for its VIPs.
async fn await_fit(lab: &Lab, nodes: &[&str]) -> anyhow::Result<()> {
    for node in nodes {
        await_that(&format!("windlass vip on {node} is ready, and its node fit"), LIMIT, async || {
            lab.ask_vip(node, "/readyz").await?;
            let priorities = priorities(lab, node).await?;
            let fit = !priorities.is_empty() && priorities.iter().all(|priority| *priority > FIT_ABOVE);
            ensure!(fit, "its priorities are {priorities:?}");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}

/// Waits until the checks of the `windlass vip` of a node have made it unfit.
async fn await_unfit(lab: &Lab, node: &str) -> anyhow::Result<()> {
    await_that(&format!("windlass vip on {node} finds its node unfit"), LIMIT, async || {
        let priorities = priorities(lab, node).await?;
        let unfit =
            !priorities.is_empty() && priorities.iter().all(|priority| (1..=FIT_ABOVE).contains(priority));
        ensure!(unfit, "its priorities are {priorities:?}");
        Ok(Some(()))
    })
    .await
}

/// The priorities of a node for its VIPs, by its own metrics.
async fn priorities(lab: &Lab, node: &str) -> anyhow::Result<Vec<u8>> {
    of_vips(lab, node, "windlass_vip_priority").await
}

/// The VRID of the only VIP of a node, by its own metrics.
async fn vrid(lab: &Lab, node: &str) -> anyhow::Result<u8> {
    let vrids = of_vips(lab, node, "windlass_vip_vrid").await?;
    let &[vrid] = vrids.as_slice() else { anyhow::bail!("{node} has VRIDs {vrids:?}") };
    Ok(vrid)
}

/// The values of a metric of a node, one for each of its VIPs.
async fn of_vips(lab: &Lab, node: &str, metric: &str) -> anyhow::Result<Vec<u8>> {
    let metrics = lab.ask_vip(node, "/metrics").await?;
    let of_vips = metrics.lines().filter(|line| line.starts_with(&format!("{metric}{{")));
    let values = of_vips.map(|line| line.rsplit(' ').next().unwrap_or_default().parse());
    values.collect::<Result<_, _>>().with_context(|| format!("{node} tells {metrics}"))
}

/// Waits until one line of the log of the `windlass vip` of a node says all of `words`.
async fn await_said(lab: &Lab, node: &str, words: &[&str]) -> anyhow::Result<()> {
    let file = lab.logs().join(format!("{node}-vip.log"));
    await_that(&format!("windlass vip on {node} says {words:?}"), LIMIT, async || {
        let said = String::from_utf8_lossy(&std::fs::read(&file)?).into_owned();
        let told = said.lines().any(|line| words.iter().all(|word| line.contains(word)));
        ensure!(told, "it says {said}");
        Ok(Some(()))
    })
    .await
}

/// Waits until a server of these nodes answers at the address, and returns the node.
async fn await_served(lab: &Lab, vip: IpAddr, nodes: &[&str]) -> anyhow::Result<String> {
    await_that(&format!("{vip} is answered by one of {nodes:?}"), LIMIT, async || {
        let answer = lab.curl("c1", vip, PORT).await?;
        let node = answer.rsplit_once('-').map_or(&*answer, |(_, node)| node);
        ensure!(nodes.contains(&node), "{answer} answers");
        Ok(Some(node.to_owned()))
    })
    .await
}

/// kubectl makes a Service of this name, and Windlass gives it an address. Whoever asked the API server that had the VIP before asks again.
async fn serve_anew(lab: &Lab, name: &str) -> anyhow::Result<()> {
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": SERVICE_PORT}]},
    });
    let service = format!("{service:#}");
    let began = Instant::now();
    await_that("kubectl makes a Service", LIMIT, async || lab.apply(&service).await.map(Some)).await?;
    let address = lab.ingress(name, LIMIT).await?;
    println!("{}: {name} has {address} after {} ms", lab.name(), began.elapsed().as_millis());
    Ok(())
}

fn address(text: &str) -> anyhow::Result<IpAddr> {
    text.parse().with_context(|| text.to_owned())
}
