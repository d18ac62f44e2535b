//! Windlass' side, with and without forwarding.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use windlass_api::{Transport, VirtualRouter};
use windlass_e2e::{
    ControllerOptions,
    EndpointState::{Ready, Starting, Terminating},
    IN_A_ROW, Keepalived, Lab, SERVICE_PORT, Signal, await_that,
};

use super::meter::Meter;
use crate::system::{CLIENT, System, await_answer, await_owner};

pub(crate) const AGENTS: [&str; 2] = ["n1", "n2"];
const SYSTEM: &str = System::Windlass.name();
const SYSTEM_WITHOUT: &str = "windlass without forwarding";
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
const LIMIT: Duration = Duration::from_mins(1);
/// Addresses of which a node that joins is given its share.
const SHARED: usize = 6;

/// A pool and a Service before n3's backend, and every move that there is.
pub(crate) async fn measure(lab: &Lab, meter: &mut Meter<'_>) -> anyhow::Result<()> {
    lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
    lab.backend("web", &["n3"]).await?;
    lab.load_balancer("web", |_| ()).await?;
    let vip = lab.ingress("web", LIMIT).await?;
    await_answer(lab, vip).await?;
    // Asks twice for the owner, as a move would.
    let still = async || await_owner(lab, vip, &lab.await_owner(CLIENT, vip).await?).await;
    meter.measure(SYSTEM, "none", vip, still).await?;
    planned(lab, meter, SYSTEM, vip, &[]).await?;
    let owner = lab.await_owner(CLIENT, vip).await?;
    let (away, back) = (|| await_owner(lab, vip, other(&owner)), || await_owner(lab, vip, &owner));
    let drain = async || {
        taint(lab, &owner, true).await?;
        away().await
    };
    meter.measure(SYSTEM, "drain by taint", vip, drain).await?;
    taint(lab, &owner, false).await?;
    back().await?;

    meter.measure(SYSTEM, "VRID change", vip, async || stranger(lab, vip).await).await?;
    lab.stop_keepalived(CLIENT).await?;
    back().await?;
    meter.measure(SYSTEM, "Announcement change", vip, async || announce(lab, vip).await).await?;
    rollout(lab, meter).await?;

    let reboot = async || {
        lab.stop_agent(&owner, Signal::SIGTERM).await?;
        power_cycle(lab, &owner, away).await?;
        lab.start_agent(&owner)?;
        back().await
    };
    meter.measure(SYSTEM, "node reboot", vip, reboot).await?;
    // Connections that ended with their node's reboot are gone, and their clients may use the same ports again.
    let drain = async || {
        lab.node(&owner)?.exclude(true).await?;
        away().await
    };
    meter.measure(SYSTEM, "drain, rebooted", vip, drain).await?;
    lab.node(&owner)?.exclude(false).await?;
    back().await
}

/// The moves that forwarding is for, by agents that forward nothing.
pub(crate) async fn measure_without_forwarding(lab: &Lab, meter: &mut Meter<'_>) -> anyhow::Result<()> {
    let flags = ["--forwarding-window-seconds=0"];
    restart_agents(lab, &flags).await?;
    let vip = lab.ingress("web", LIMIT).await?;
    await_answer(lab, vip).await?;
    planned(lab, meter, SYSTEM_WITHOUT, vip, &flags).await
}

/// A node joins those that have addresses, and is given its share of them. It has to be ready for five seconds, not five minutes.
pub(crate) async fn measure_rebalance(lab: &Lab, meter: &mut Meter<'_>) -> anyhow::Result<()> {
    lab.stop_controller("controller", Signal::SIGTERM).await?;
    let flags = vec!["--rebalance-settle-seconds=5".to_owned()];
    lab.start_controller(ControllerOptions { flags, ..ControllerOptions::default() })?;
    restart_agents(lab, &[]).await?;
    let mut vips = vec![lab.ingress("web", LIMIT).await?];
    for number in 1..SHARED {
        let name = format!("web-{number}");
        lab.same_backend(&name, "web")?;
        lab.load_balancer(&name, |_| ()).await?;
        vips.push(lab.ingress(&name, LIMIT).await?);
    }
    for vip in &vips {
        await_answer(lab, *vip).await?;
        await_preferred(lab, *vip).await?;
    }
    let join = async || {
        lab.start_agent("n3")?;
        await_that("n3 has three quarters of its share", LIMIT, async || {
            let mut owned = 0;
            for vip in &vips {
                let active = router_of(lab, *vip).await?.status.and_then(|status| status.active_node);
                owned += usize::from(active.as_deref() == Some("n3"));
            }
            ensure!(4 * owned * (AGENTS.len() + 1) >= 3 * vips.len(), "it has {owned}");
            Ok(Some(()))
        })
        .await
    };
    meter.measure_all(SYSTEM, "rebalance", &vips, join).await
}

/// Starts the agents anew, with these flags, while no connection is known to their nodes.
async fn restart_agents(lab: &Lab, flags: &[&str]) -> anyhow::Result<()> {
    for node in AGENTS {
        lab.stop_agent(node, Signal::SIGTERM).await?;
        // What was forwarded before is no matter of what comes.
        lab.exec(node, &["conntrack", "--flush"]).await?;
        lab.start_agent_with(node, flags)?;
    }
    Ok(())
}

/// Drain, fail-back and upgrade.
async fn planned(
    lab: &Lab,
    meter: &mut Meter<'_>,
    system: &'static str,
    vip: IpAddr,
    flags: &[&str],
) -> anyhow::Result<()> {
    let owner = await_preferred(lab, vip).await?;
    let (away, back) = (|| await_owner(lab, vip, other(&owner)), || await_owner(lab, vip, &owner));
    let drain = async || {
        lab.node(&owner)?.exclude(true).await?;
        away().await
    };
    meter.measure(system, "drain", vip, drain).await?;
    let fail_back = async || {
        lab.node(&owner)?.exclude(false).await?;
        back().await
    };
    meter.measure(system, "fail-back", vip, fail_back).await?;
    let upgrade = async || {
        lab.stop_agent(&owner, Signal::SIGTERM).await?;
        // A kubelet takes about as long until the next pod runs.
        away().await?;
        lab.start_agent_with(&owner, flags)?;
        back().await
    };
    meter.measure(system, "agent upgrade", vip, upgrade).await
}

/// Does to connections what a reboot does, and waits for `away` meanwhile: no link, and an empty connection table afterwards.
pub(crate) async fn power_cycle<F>(lab: &Lab, node: &str, away: impl FnOnce() -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    lab.node(node)?.pull_cable()?;
    lab.exec(node, &["conntrack", "--flush"]).await.context("forgetting the connections")?;
    away().await?;
    lab.node(node)?.plug_cable()
}

/// An Announcement comes that wants what a virtual router cannot change to while it runs.
async fn announce(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    lab.announcement("unicast", json!({"vrrp": {"transport": "Unicast"}})).await?;
    await_that(&format!("{vip} is announced by unicast"), LIMIT, async || {
        let router = router_of(lab, vip).await?;
        let active = router.status.and_then(|status| status.active_node);
        ensure!(router.spec.transport == Transport::Unicast && active.is_some(), "{:?}", router.spec);
        Ok(Some(()))
    })
    .await
}

/// keepalived takes the VRID, until the address has another one.
async fn stranger(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    let vrid = router_of(lab, vip).await?.spec.vrid;
    let address = "192.0.2.191".parse()?;
    lab.start_keepalived(CLIENT, Keepalived { vrid, priority: 255, interval_ms: 100, address })?;
    await_that(&format!("{vip} leaves VRID {vrid}"), LIMIT, async || {
        let router = router_of(lab, vip).await?;
        let active = router.status.and_then(|status| status.active_node);
        ensure!(
            router.spec.vrid != vrid && active.is_some(),
            "it is on {}, {active:?} is Active",
            router.spec.vrid
        );
        Ok(Some(()))
    })
    .await
}

/// One pod goes from n1 to n2 as a Deployment with `maxSurge: 1` does it. The old one serves its connections until it has ended,
/// which is after the move.
async fn rollout(lab: &Lab, meter: &mut Meter<'_>) -> anyhow::Result<()> {
    lab.backend("local", &AGENTS).await?;
    let local = |service: &mut Service| {
        service.spec.get_or_insert_default().external_traffic_policy = Some("Local".into());
    };
    let service = lab.load_balancer("local", local).await?;
    let (from, to) = ("n1", "n2");
    lab.write_pods(&service, &[(from, Ready)]).await?;
    let vip = lab.ingress("local", LIMIT).await?;
    await_served_by(lab, vip, from).await?;
    let roll = async || {
        lab.write_pods(&service, &[(from, Ready), (to, Starting)]).await?;
        lab.write_pods(&service, &[(from, Ready), (to, Ready)]).await?;
        lab.write_pods(&service, &[(from, Terminating), (to, Ready)]).await?;
        await_served_by(lab, vip, to).await?;
        lab.write_pods(&service, &[(to, Ready)]).await
    };
    meter.measure(SYSTEM, "local rollout", vip, roll).await?;
    lab.remove_service("local").await
}

/// Waits until this node's pod has all new connections, whichever node has the address.
async fn await_served_by(lab: &Lab, vip: IpAddr, node: &str) -> anyhow::Result<()> {
    await_that(&format!("{node}'s pod answers at {vip}"), LIMIT, async || {
        let servers = lab.curl_each(CLIENT, vip, SERVICE_PORT, IN_A_ROW, &[]).await?;
        ensure!(servers == [format!("local-{node}")].into(), "{servers:?} answer");
        Ok(Some(()))
    })
    .await
}

/// The node that the address is to be on, once it is there.
async fn await_preferred(lab: &Lab, vip: IpAddr) -> anyhow::Result<String> {
    let nodes = router_of(lab, vip).await?.spec.nodes;
    let preferred = nodes.iter().max_by_key(|node| node.priority).context("no candidates")?.name.clone();
    await_owner(lab, vip, &preferred).await?;
    Ok(preferred)
}

async fn router_of(lab: &Lab, vip: IpAddr) -> anyhow::Result<VirtualRouter> {
    let name = lab.virtual_ip(vip).await?.and_then(|vip| vip.spec.virtual_router);
    let routers: Api<VirtualRouter> = Api::all(lab.client());
    Ok(routers.get(&name.with_context(|| format!("{vip} is on no virtual router"))?).await?)
}

/// As the cluster autoscaler does to a node that it is about to delete.
async fn taint(lab: &Lab, node: &str, tainted: bool) -> anyhow::Result<()> {
    let taint = json!({"key": TO_BE_DELETED, "value": "1", "effect": "NoSchedule"});
    let taints: Vec<Value> = tainted.then_some(taint).into_iter().collect();
    let change = Patch::Merge(json!({"spec": {"taints": taints}}));
    Api::<Node>::all(lab.client()).patch(node, &PatchParams::default(), &change).await?;
    Ok(())
}

fn other(node: &str) -> &'static str {
    if node == AGENTS[0] { AGENTS[1] } else { AGENTS[0] }
}
