//! The node that announces is cordoned and drained: it still forwards to pods elsewhere, and nothing moves. Its machine goes down in
//! an orderly way: its kubelet ends the agent, which hands over.

use std::net::IpAddr;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::ListParams};
use windlass_e2e::{Lab, LoadOptions, Protocol, SERVICE_PORT, Signal, await_that};

use super::{LIMIT, nodes};
use crate::setup::{await_answer, moves};

/// `kubectl cordon` and `kubectl drain`, while clients of a Service with `externalTrafficPolicy: Cluster` go on.
pub(super) async fn node(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    // Not the node of the only backend, which ends with its pod.
    lab.node("n3")?.exclude(true).await?;
    let owner = lab.await_owner_other_than("c1", vip, "n3").await?;
    await_answer(lab, vip).await?;
    let before = moves(lab, vip).await?;
    let clients = LoadOptions { connections: 20, requests_per_second: 50 };
    let clients = lab.load("c1", vip, SERVICE_PORT, clients).await?;
    let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, super::rolling::PACE)?;

    lab.kubectl(&["cordon", &owner]).await?;
    lab.kubectl(&["drain", &owner, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=50s"]).await?;
    let node = nodes(lab).get(&owner).await?;
    ensure!(node.spec.and_then(|spec| spec.unschedulable) == Some(true), "{owner} is not cordoned");
    let of_node = ListParams::default().fields(&format!("spec.nodeName={owner}"));
    await_that(&format!("only the agent is left on {owner}"), LIMIT, async || {
        let pods: Vec<Pod> = Api::all(lab.client()).list(&of_node).await?.items;
        let names: Vec<String> = pods.iter().map(ResourceExt::name_any).collect();
        ensure!(names.iter().all(|name| name.starts_with("windlass-agent-")), "{names:?}");
        Ok(Some(()))
    })
    .await?;
    // Whoever leads now has heard of the drain.
    lab.load_balancer("drained", |_| ()).await?;
    lab.ingress("drained", LIMIT).await?;
    ensure!(lab.await_owner("c1", vip).await? == owner, "{vip} has left {owner}");
    ensure!(moves(lab, vip).await? == before, "{vip} has moved and come back");

    let seen = clients.stop()?;
    let outcome = probe.stop()?;
    println!("drained: {seen:?}; {} of {} answered", outcome.answered, outcome.sent);
    ensure!(seen.failed == 0 && seen.broken == 0, "the drain broke connections: {seen:?}");
    lab.kubectl(&["uncordon", &owner]).await?;
    lab.node("n3")?.exclude(false).await?;
    lab.await_windlass_pods().await
}

/// Kubelet's graceful node shutdown, in which the machine never comes to its end.
pub(super) async fn shut_down(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    lab.node("n3")?.exclude(true).await?;
    let owner = lab.await_owner_other_than("c1", vip, "n3").await?;
    await_answer(lab, vip).await?;
    let clients = LoadOptions { connections: 20, requests_per_second: 50 };
    let clients = lab.load("c1", vip, SERVICE_PORT, clients).await?;
    let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, super::rolling::PACE)?;
    lab.prepare_for_shutdown(&owner, true)?;
    lab.await_owner_other_than("c1", vip, &owner).await?;
    await_that(&format!("the agent of {owner} has ended"), LIMIT, async || {
        Ok(lab.node(&owner)?.signal_agent(Signal::SIGCONT).is_err().then_some(()))
    })
    .await?;
    let heir = lab.await_owner_other_than("c1", vip, &owner).await?;
    await_answer(lab, vip).await?;
    let outcome = probe.stop()?;
    let seen = clients.stop()?;
    println!(
        "shut down, {owner} to {heir}: {seen:?}; {} of {} answered, {} ms at most without an answer",
        outcome.answered,
        outcome.sent,
        outcome.longest_gap.as_millis()
    );
    ensure!(seen.failed == 0 && seen.broken == 0, "the shutdown broke connections: {seen:?}");
    lab.prepare_for_shutdown(&owner, false)?;
    lab.node("n3")?.exclude(false).await?;
    lab.await_windlass_pods().await
}
