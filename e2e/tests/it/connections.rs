//! Established connections and the death of the node that announces their address.

use std::net::IpAddr;

use anyhow::{Context as _, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
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
        let told = connections_condition(lab, vip).await?;
        ensure!(told.is_none(), "nobody asked for it: {told:?}");
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
    await_connections(lab, vip, "True", connections_replicated::REPLICATED, &[node]).await
}

/// Waits until the address says so of its connections, with all of these words.
async fn await_connections(
    lab: &Lab,
    vip: IpAddr,
    status: &str,
    reason: &str,
    words: &[&str],
) -> anyhow::Result<()> {
    await_that(&format!("the connections to {vip} are {reason}, {words:?}"), LIMIT, async || {
        let told = connections_condition(lab, vip).await?.context("nothing is told of connections")?;
        let is_told = (told.status.as_str(), told.reason.as_str()) == (status, reason)
            && words.iter().all(|word| told.message.contains(word));
        ensure!(is_told, "{told:?}");
        Ok(Some(()))
    })
    .await
}

/// What the address says of its connections.
async fn connections_condition(lab: &Lab, vip: IpAddr) -> anyhow::Result<Option<Condition>> {
    let conditions = lab.virtual_ip(vip).await?.and_then(|vip| vip.status).unwrap_or_default().conditions;
    Ok(conditions.into_iter().find(|one| one.type_ == CONDITION_CONNECTIONS_REPLICATED))
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

/// A tunnel between the nodes as flannel lays it, with its masquerade rules. Pods of other nodes are reached by it.
const FLANNEL: &str = r#"
    set -e
    ip link add flannel.1 type vxlan id 1 local "$own" dev eth0 dstport 8472 nolearning
    ip link set flannel.1 address "02:00:00:00:00:$n"
    ip addr add "203.0.113.$range/32" dev flannel.1
    ip link set flannel.1 up
    for other in 1 2 3; do
      if [ "$other" != "$n" ]; then
        range=$((other * 32 - 32))
        ip neigh add "203.0.113.$range" lladdr "02:00:00:00:00:$other" dev flannel.1 nud permanent
        bridge fdb add "02:00:00:00:00:$other" dev flannel.1 dst "192.0.2.1$other"
        ip route replace "203.0.113.$range/27" via "203.0.113.$range" dev flannel.1 onlink
      fi
    done
    echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
    nft -f - <<END
    table ip flannel {
      chain postrtg {
        type nat hook postrouting priority srcnat;
        meta mark & 0x4000 != 0 return
        ip saddr $pods ip daddr 203.0.113.0/24 return
        ip saddr 203.0.113.0/24 ip daddr $pods return
        ip saddr != $pods ip daddr $pods return
        ip saddr 203.0.113.0/24 masquerade fully-random
        ip saddr != 203.0.113.0/24 ip daddr 203.0.113.0/24 masquerade fully-random
      }
    }
END
"#;

async fn lay_flannel(lab: &Lab) -> anyhow::Result<()> {
    for n in 1..=3 {
        let range = n * 32 - 32;
        let variables = format!("n={n} own=192.0.2.1{n} range={range} pods=203.0.113.{range}/27");
        lab.exec(&format!("n{n}"), &["sh", "-c", &format!("{variables}\n{FLANNEL}")]).await?;
    }
    Ok(())
}

/// Sets the reverse-path filters of a node.
async fn filter(lab: &Lab, node: &str, value: u8) -> anyhow::Result<()> {
    for interface in ["eth0", "flannel.1"] {
        let set = format!("echo {value} >/proc/sys/net/ipv4/conf/{interface}/rp_filter");
        lab.exec(node, &["sh", "-c", &set]).await?;
    }
    Ok(())
}

/// Pods by VXLAN: with strict filters it is told, and all is as ever; where they let answers pass, connections go on.
#[test]
fn connections_across_vxlan_outlive_the_active_once_its_agent_has_found_that_answers_arrive()
-> anyhow::Result<()> {
    scenario("connections-vxlan", lab(), async |lab| {
        lay_flannel(lab).await?;
        for node in ["n1", "n2", "n3"] {
            filter(lab, node, 1).await?;
        }
        lab.install_manifests().await?;
        lab.announcement("kept", json!({ "connections": "Replicate" })).await?;
        let vip = served(lab).await?;
        let words = ["net.ipv4.conf.eth0.rp_filter", "set 2 for eth0 and flannel.1"];
        await_connections(lab, vip, "False", connections_replicated::NO_WAY_BACK, &words).await?;
        // Of the nodes that may announce.
        for node in ["n1", "n2"] {
            filter(lab, node, 2).await?;
        }
        let words = ["n2", "203.0.113.64/27 (by flannel.1)", "net.ipv4.conf.flannel/1.rp_filter"];
        let owner = lab.await_owner("c1", vip).await?;
        let words = words.map(|word| if word == "n2" { other(&owner) } else { word });
        await_connections(lab, vip, "True", connections_replicated::REPLICATED, &words).await?;
        let left_out = lab.load("c1", vip, SERVICE_PORT, CLIENTS).await?.stop()?;
        ensure!(left_out.broken == 0, "backends that are left out are served: {left_out:?}");
        filter(lab, "n3", 2).await?;
        await_that("no backend is left out", LIMIT, async || {
            let told = connections_condition(lab, vip).await?.context("none")?;
            ensure!(told.status == "True" && !told.message.contains("but for"), "{told:?}");
            Ok(Some(()))
        })
        .await?;
        let told = async || await_told(lab, &owner).await;
        let seen = through_the_death_of(lab, vip, &owner, told, async || Ok(())).await?;
        ensure!(seen.broken == 0 && seen.connections == 20, "{seen:?}");
        Ok(())
    })
}
