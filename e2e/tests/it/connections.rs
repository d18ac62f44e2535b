//! Established connections and the death of the node that announces their address.

use std::net::IpAddr;

use anyhow::{Context as _, ensure};
use serde_json::json;
use windlass_api::{CONDITION_CONNECTIONS_REPLICATED, connections_replicated};
use windlass_e2e::{Lab, LoadOptions, LoadOutcome, ProxyMode, SERVICE_PORT, await_that, scenario};

use crate::setup::{LIMIT, lab, other, served};

const CLIENTS: LoadOptions = LoadOptions { connections: 20, requests_per_second: 10 };

#[test]
fn connections_to_a_third_nodes_backend_outlive_the_active_with_kube_proxy_in_nftables_mode()
-> anyhow::Result<()> {
    outlive_the_active("connections-nftables", ProxyMode::Nftables)
}

#[test]
fn connections_to_a_third_nodes_backend_outlive_the_active_with_kube_proxy_in_iptables_mode()
-> anyhow::Result<()> {
    outlive_the_active("connections-iptables", ProxyMode::Iptables)
}

fn outlive_the_active(name: &str, mode: ProxyMode) -> anyhow::Result<()> {
    scenario(name, lab().proxy_mode(mode), async |lab| {
        lab.install_manifests().await?;
        lab.announcement("kept", json!({ "connections": "Replicate" })).await?;
        let vip = served(lab).await?;
        let owner = lab.await_owner("c1", vip).await?;
        await_replicated(lab, vip, other(&owner)).await?;
        // It takes the address back, with what it knows of the connections from before.
        let back = async || {
            lab.node(&owner)?.plug_cable()?;
            await_owner(lab, vip, &owner).await
        };
        let told = async || await_told(lab, &owner).await;
        let seen = through_the_death_of(lab, vip, &owner, told, back).await?;
        ensure!(seen.broken == 0 && seen.connections == 20, "{seen:?}");
        Ok(())
    })
}

#[test]
fn connections_end_with_the_active_by_default() -> anyhow::Result<()> {
    scenario("connections-forward", lab(), async |lab| {
        let vip = served(lab).await?;
        let owner = lab.await_owner("c1", vip).await?;
        let seen = through_the_death_of(lab, vip, &owner, async || Ok(()), async || Ok(())).await?;
        ensure!(seen.broken == 20, "{seen:?}");
        let conditions = lab.virtual_ip(vip).await?.and_then(|vip| vip.status).unwrap_or_default().conditions;
        let is_told = conditions.iter().any(|one| one.type_ == CONDITION_CONNECTIONS_REPLICATED);
        ensure!(!is_told, "nobody asked for it: {conditions:?}");
        Ok(())
    })
}

/// What clients see whose connections were there when the cable of the Active was pulled, once that is `ready`, until another has the address
/// and what comes `back` is.
async fn through_the_death_of(
    lab: &Lab,
    vip: IpAddr,
    owner: &str,
    ready: impl AsyncFnOnce() -> anyhow::Result<()>,
    back: impl AsyncFnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<LoadOutcome> {
    let clients = lab.load("c1", vip, SERVICE_PORT, CLIENTS).await?;
    ready().await?;
    lab.node(owner)?.pull_cable()?;
    await_owner(lab, vip, other(owner)).await?;
    back().await?;
    let seen = clients.stop()?;
    println!("{seen:?}");
    Ok(seen)
}

async fn await_owner(lab: &Lab, vip: IpAddr, node: &str) -> anyhow::Result<()> {
    await_that(&format!("{node} has {vip}"), LIMIT, async || {
        let owner = lab.await_owner("c1", vip).await?;
        ensure!(owner == node, "{owner} has it");
        Ok(Some(()))
    })
    .await
}

/// Waits until the address says that `node` has its connections.
async fn await_replicated(lab: &Lab, vip: IpAddr, node: &str) -> anyhow::Result<()> {
    await_that(&format!("connections to {vip} are replicated"), LIMIT, async || {
        let conditions = lab.virtual_ip(vip).await?.and_then(|vip| vip.status).unwrap_or_default().conditions;
        let is_told = conditions.iter().any(|one| {
            one.type_ == CONDITION_CONNECTIONS_REPLICATED
                && (one.status.as_str(), one.reason.as_str()) == ("True", connections_replicated::REPLICATED)
                && one.message.contains(node)
        });
        ensure!(is_told, "its conditions are {conditions:?}");
        Ok(Some(()))
    })
    .await
}

/// Waits until the agent of `owner` has told all connections that are kept.
async fn await_told(lab: &Lab, owner: &str) -> anyhow::Result<()> {
    await_that("the connections are told", LIMIT, async || {
        let metrics = lab.agent_metrics(owner).await?;
        let value = |name: &str| -> anyhow::Result<f64> {
            let line = metrics.lines().find(|line| line.split(' ').next() == Some(name));
            let value = line.and_then(|line| line.split(' ').nth(1));
            value.with_context(|| format!("{name} is not shown"))?.parse().context("a number")
        };
        let (told, peers) =
            (value("windlass_replicated_connections")?, value("windlass_replication_peers_in_sync")?);
        ensure!(told >= 20.0 && peers >= 1.0, "{told} connections, {peers} peers in sync");
        Ok(Some(()))
    })
    .await
}
