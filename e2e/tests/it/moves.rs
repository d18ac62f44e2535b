//! Addresses that are handed over take their connections with them.

use std::net::IpAddr;

use anyhow::ensure;
use windlass_e2e::{Lab, Load, LoadOptions, ProxyMode, SERVICE_PORT, Signal, await_that, scenario};

use crate::setup::{LIMIT, await_ingresses, dual_stack, lab, other};

const CLIENTS: LoadOptions = LoadOptions { connections: 30, requests_per_second: 100 };

// shows: field-reports F-73, F-75; placement P-10
#[test]
fn no_connection_breaks_when_an_agent_is_stopped_or_killed_with_kube_proxy_in_nftables_mode()
-> anyhow::Result<()> {
    keeps_connections("moves-nftables", ProxyMode::Nftables)
}

#[test]
fn no_connection_breaks_when_an_agent_is_stopped_or_killed_with_kube_proxy_in_iptables_mode()
-> anyhow::Result<()> {
    keeps_connections("moves-iptables", ProxyMode::Iptables)
}

fn keeps_connections(name: &str, mode: ProxyMode) -> anyhow::Result<()> {
    scenario(name, lab().proxy_mode(mode), async |lab| {
        let vips = served_dual(lab).await?;
        let clients = clients(lab, &vips).await?;
        let owner = lab.await_owner("c1", vips[0]).await?;
        // Away and back: as an update of the agents does.
        lab.stop_agent(&owner, Signal::SIGTERM).await?;
        await_owner(lab, &vips, other(&owner)).await?;
        lab.start_agent(&owner)?;
        await_owner(lab, &vips, &owner).await?;
        unbroken(clients)?;
        // As a drain does, with connections that began after the first moves.
        let clients = self::clients(lab, &vips).await?;
        lab.node(&owner)?.exclude(true).await?;
        await_owner(lab, &vips, other(&owner)).await?;
        lab.node(&owner)?.exclude(false).await?;
        await_owner(lab, &vips, &owner).await?;
        unbroken(clients)?;
        // Nobody hands over, but the node lives.
        let clients = self::clients(lab, &vips).await?;
        lab.stop_agent(&owner, Signal::SIGKILL).await?;
        await_owner(lab, &vips, other(&owner)).await?;
        lab.start_agent(&owner)?;
        await_owner(lab, &vips, &owner).await?;
        for client in clients {
            let seen = client.stop()?;
            println!("killed: {seen:?}");
            // The heir waits for the way to them, but not for ever: on a machine without a free processor some are reset.
            ensure!(seen.broken * 10 <= seen.connections && seen.failed == 0, "{seen:?}");
        }
        Ok(())
    })
}

/// Windlass, and a Service of both families on one node.
async fn served_dual(lab: &Lab) -> anyhow::Result<Vec<IpAddr>> {
    lab.deploy_windlass(&["n1", "n2"]).await?;
    lab.pool("default", &["192.0.2.200-192.0.2.250", "2001:db8::200-2001:db8::250"]).await?;
    lab.backend("web", &["n1", "n2", "n3"]).await?;
    lab.load_balancer("web", dual_stack).await?;
    let vips = await_ingresses(lab, "web", 2).await?;
    for vip in &vips {
        lab.await_owner("c1", *vip).await?;
    }
    Ok(vips)
}

async fn clients(lab: &Lab, vips: &[IpAddr]) -> anyhow::Result<Vec<Load>> {
    let mut clients = Vec::new();
    for vip in vips {
        clients.push(lab.load("c1", *vip, SERVICE_PORT, CLIENTS).await?);
    }
    Ok(clients)
}

fn unbroken(clients: Vec<Load>) -> anyhow::Result<()> {
    for client in clients {
        let seen = client.stop()?;
        println!("{seen:?}");
        ensure!(seen.failed == 0 && seen.broken == 0 && seen.connections == 30, "{seen:?}");
    }
    Ok(())
}

async fn await_owner(lab: &Lab, vips: &[IpAddr], node: &str) -> anyhow::Result<()> {
    for vip in vips {
        await_that(&format!("{node} has {vip}"), LIMIT, async || {
            let owner = lab.await_owner("c1", *vip).await?;
            ensure!(owner == node, "{owner} has it");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}
