//! `externalTrafficPolicy: Local`: the address is where the pods are.

mod pods;

use std::{net::IpAddr, time::Duration};

use anyhow::ensure;
use k8s_openapi::api::core::v1::Service;
use serde_json::json;
use windlass_e2e::{
    EndpointState::{Ready, Starting, Terminating},
    Lab, Pods, Protocol, ProxyMode, SERVICE_PORT, await_that, scenario,
};

use crate::setup::{LIMIT, lab, router_of, services};

// shows: field-reports F-38
#[test]
fn the_address_follows_a_pod_that_is_rolled_out_beside_kube_proxy_in_nftables_mode() -> anyhow::Result<()> {
    scenario("local-nft", lab(), async |lab| rollout(lab).await)
}

#[test]
fn the_address_follows_a_pod_that_is_rolled_out_beside_kube_proxy_in_iptables_mode() -> anyhow::Result<()> {
    scenario("local-ipt", lab().proxy_mode(ProxyMode::Iptables), async |lab| rollout(lab).await)
}

/// One replica goes from node to node, as a Deployment with `maxSurge: 1` does it: the next one is ready before the last one ends,
/// which serves for a while meanwhile.
async fn rollout(lab: &Lab) -> anyhow::Result<()> {
    let (service, vip) = served_locally(lab, &[("n2", Ready)]).await?;
    await_served_by(lab, vip, "n2").await?;
    let probe = lab.probe("c1", Protocol::Tcp, vip, SERVICE_PORT, Duration::from_millis(5))?;
    for (from, to) in [("n2", "n3"), ("n3", "n1"), ("n1", "n2")] {
        let steps: [Pods<'_>; 3] = [
            &[(from, Ready), (to, Starting)],
            &[(from, Ready), (to, Ready)],
            &[(from, Terminating), (to, Ready)],
        ];
        for pods in steps {
            lab.write_pods(&service, pods).await?;
        }
        // As long as it takes until the pod that ends is gone: that is the workload's grace period.
        await_served_by(lab, vip, to).await?;
        lab.write_pods(&service, &[(to, Ready)]).await?;
    }
    let outcome = probe.stop()?;
    println!(
        "a rollout: {} of {} requests lost, {} ms without an answer",
        outcome.sent - outcome.answered,
        outcome.sent,
        outcome.longest_gap.as_millis()
    );
    ensure!(outcome.by_server.len() == 3, "not every pod served: {outcome:?}");
    // One may be under way at each move, and its connection breaks; on top of that the machine may be slow now and then. An address
    // that moved too soon or too late would lose a hundred.
    ensure!(outcome.sent - outcome.answered <= 10, "requests were lost: {outcome:?}");
    Ok(())
}

#[test]
fn a_node_with_a_pod_takes_over_from_a_dead_one_without_the_api_server() -> anyhow::Result<()> {
    scenario("local-dead", lab(), async |lab| {
        let (_, vip) = served_locally(lab, &[("n1", Ready), ("n3", Ready)]).await?;
        let owner = lab.await_owner("c1", vip).await?;
        let other = if owner == "n1" { "n3" } else { "n1" };
        await_served_by(lab, vip, &owner).await?;
        lab.stop_api_server().await?;
        lab.node(&owner)?.power_off().await?;
        await_served_by(lab, vip, other).await
    })
}

// shows: field-reports F-41
/// Connection tracking keeps a UDP flow for as long as packets come: one that it knows without a pod would never get one.
#[test]
fn a_udp_flow_that_began_while_there_was_no_pod_is_answered_once_there_is_one() -> anyhow::Result<()> {
    scenario("local-udp", lab(), async |lab| {
        let (service, vip) = served_locally(lab, &[("n3", Ready)]).await?;
        await_served_by(lab, vip, "n3").await?;
        lab.write_pods(&service, &[]).await?;
        await_that("nobody answers", LIMIT, async || {
            Ok(lab.curl("c1", vip, SERVICE_PORT).await.is_err().then_some(()))
        })
        .await?;
        let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(5))?;
        // A few hundred packets of the flow.
        ensure!(lab.curl("c1", vip, SERVICE_PORT).await.is_err(), "somebody answers");
        lab.write_pods(&service, &[("n1", Ready)]).await?;
        await_served_by(lab, vip, "n1").await?;
        let outcome = probe.stop()?;
        ensure!(outcome.last_server.as_deref() == Some("web-n1"), "the flow was never answered: {outcome:?}");
        Ok(())
    })
}

// shows: field-reports F-39
#[test]
fn the_address_moves_with_the_policy_of_its_service() -> anyhow::Result<()> {
    scenario("local-policy", lab(), async |lab| {
        let (service, vip) = served_locally(lab, &[("n3", Ready)]).await?;
        await_served_by(lab, vip, "n3").await?;
        for policy in ["Cluster", "Local"] {
            let change = serde_json::json!({"spec": {"externalTrafficPolicy": policy}});
            let params = kube::api::PatchParams::default();
            services(lab, "default").patch("web", &params, &kube::api::Patch::Merge(change)).await?;
            await_that(&format!("the virtual router of {vip} is for {policy}"), LIMIT, async || {
                let said = router_of(lab, vip).await?.spec.external_traffic_policy;
                ensure!(said.is_cluster() == (policy == "Cluster"), "it says {said:?}");
                Ok(Some(()))
            })
            .await?;
            await_that(&format!("the pod answers at {vip}"), LIMIT, async || {
                let answer = lab.curl("c1", vip, SERVICE_PORT).await?;
                ensure!(answer == "web-n3", "{answer} answers");
                Ok(Some(()))
            })
            .await?;
        }
        await_served_by(lab, vip, "n3").await?;
        // Nobody has a pod any more: the address stays where it is, and comes back to life there.
        lab.write_pods(&service, &[]).await?;
        lab.await_owner("c1", vip).await?;
        lab.write_pods(&service, &[("n3", Ready)]).await?;
        await_served_by(lab, vip, "n3").await
    })
}

/// Windlass on every node, and the Service `web` with a server on each, of which these are pods.
pub(crate) async fn served_locally(lab: &Lab, pods: Pods<'_>) -> anyhow::Result<(Service, IpAddr)> {
    lab.deploy_windlass(&["n1", "n2", "n3"]).await?;
    // One node serves all, and the address follows the pods.
    lab.announcement("alone", json!({"loadSharing": "None"})).await?;
    lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
    lab.backend("web", &["n1", "n2", "n3"]).await?;
    let local = |service: &mut Service| {
        service.spec.get_or_insert_default().external_traffic_policy = Some("Local".into());
    };
    let service = lab.load_balancer("web", local).await?;
    lab.write_pods(&service, pods).await?;
    Ok((service, lab.ingress("web", LIMIT).await?))
}

/// Waits until the node has the address, and its pod answers there.
pub(crate) async fn await_served_by(lab: &Lab, vip: IpAddr, node: &str) -> anyhow::Result<()> {
    await_that(&format!("{node} serves {vip}"), LIMIT, async || {
        let owner = lab.await_owner("c1", vip).await?;
        ensure!(owner == node, "{owner} has it");
        let answer = lab.curl("c1", vip, SERVICE_PORT).await?;
        ensure!(answer == format!("web-{node}"), "{answer} answers");
        Ok(Some(()))
    })
    .await
}
