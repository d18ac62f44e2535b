//! Established connections and the death of the node that announces their address.

mod faults;
mod flannel;
mod kubelets;
mod late;
mod limits;
mod programs;
mod restrictions;
mod scene;

use std::net::IpAddr;

use anyhow::{Context as _, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;
use windlass_api::CONDITION_CONNECTIONS_REPLICATED;
use windlass_e2e::{Lab, LoadOptions, SERVICE_PORT, await_that, scenario};

use crate::setup::{LIMIT, lab, other, served};

#[test]
fn connections_end_with_a_dead_active_where_they_are_forwarded() -> anyhow::Result<()> {
    scenario("connections-forward", lab(), async |lab| {
        lab.install_manifests().await?;
        lab.announcement("forward", json!({"connections": "Forward"})).await?;
        let vip = served(lab).await?;
        let owner = lab.await_owner("c1", vip).await?;
        let clients = LoadOptions { connections: 20, requests_per_second: 10 };
        let clients = lab.load("c1", vip, SERVICE_PORT, clients).await?;
        lab.node(&owner)?.pull_cable()?;
        await_owner(lab, &[vip], other(&owner)).await?;
        let seen = clients.stop()?;
        ensure!(seen.broken == 20, "{seen:?}");
        let told = connections_condition(lab, vip).await?;
        ensure!(told.is_none(), "nobody asked for it: {told:?}");
        Ok(())
    })
}

/// Has connections replicated, and addresses announced by the first of these nodes that lives.
async fn replicate(lab: &Lab, nodes: &[&str]) -> anyhow::Result<()> {
    let preferred: Vec<_> = nodes
        .iter()
        .zip([100, 50, 20])
        .map(|(node, weight)| {
            json!({"weight": weight, "selector": {"matchLabels": {"kubernetes.io/hostname": node}}})
        })
        .collect();
    let selector = json!({"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": nodes},
    ]});
    let wanted =
        json!({"connections": "Replicate", "nodeSelectors": [selector], "preferredNodes": preferred});
    lab.install_manifests().await?;
    lab.announcement("kept", wanted).await.map(drop)
}

/// Waits until this node, which the Announcement prefers, has the addresses. On a busy machine it may be late, and rank lower for a minute longer.
async fn await_owner(lab: &Lab, vips: &[IpAddr], node: &str) -> anyhow::Result<()> {
    await_that(&format!("{node} has {vips:?}"), LIMIT * 3, async || {
        let owners = vips.iter().map(|vip| lab.await_owner("c1", *vip));
        let owners = futures::future::try_join_all(owners).await?;
        ensure!(owners.iter().all(|owner| owner == node), "{owners:?} have them");
        Ok(Some(()))
    })
    .await
}

/// What the address says of its connections.
async fn connections_condition(lab: &Lab, vip: IpAddr) -> anyhow::Result<Option<Condition>> {
    lab.condition(vip, CONDITION_CONNECTIONS_REPLICATED).await
}

/// Waits until the addresses say so of their connections: `True Replicated`, with these words.
async fn await_condition(lab: &Lab, vips: &[IpAddr], verdict: &str, words: &[&str]) -> anyhow::Result<()> {
    for vip in vips {
        await_that(&format!("connections to {vip} are {verdict} {words:?}"), LIMIT, async || {
            let told = connections_condition(lab, *vip).await?.context("nothing is told of connections")?;
            let is_told = format!("{} {}", told.status, told.reason) == verdict
                && words.iter().all(|word| told.message.contains(word));
            ensure!(is_told, "{told:?}");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}

/// Waits until `node` announces the addresses, and `heir` has their connections, as both say.
async fn await_replicated(lab: &Lab, vips: &[IpAddr], node: &str, heir: &str) -> anyhow::Result<()> {
    await_owner(lab, vips, node).await?;
    await_condition(lab, vips, "True Replicated", &[heir, &format!("if node {node} dies")]).await
}

/// The value of a metric of the agent of `node`.
async fn metric(lab: &Lab, node: &str, name: &str) -> anyhow::Result<f64> {
    let metrics = lab.agent_metrics(node).await?;
    let line = metrics.lines().find(|line| line.split(' ').next() == Some(name));
    let value = line.and_then(|line| line.split(' ').nth(1));
    value.with_context(|| format!("{name} is not shown"))?.parse().context("a number")
}
