//! `loadSharing`: several nodes serve one address together.

mod rules;

use std::{collections::BTreeSet, net::IpAddr};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Service;
use serde_json::json;
use windlass_api::load_shared;
use windlass_e2e::{
    EndpointState::{Ready, Terminating},
    IN_A_ROW, Lab, Load, LoadOptions, LoadOutcome, Pods, SERVICE_PORT, await_that, scenario,
};

use crate::setup::{LIMIT, await_ingresses, dual_stack, lab};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const ANNOUNCEMENT: &str = "shared";
pub(crate) const CONNECTIONS: usize = 60;
/// Clients of one address. New connections are requests.
const CLIENTS: LoadOptions = LoadOptions { connections: CONNECTIONS, requests_per_second: 50 };
/// Fewest connections of a node. Twenty are expected, and less than one draw in a million has a node with fewer.
pub(crate) const FEWEST: usize = 4;

#[test]
fn connections_to_a_shared_address_break_only_with_the_nodes_of_their_pods() -> anyhow::Result<()> {
    scenario("sharing", lab(), async |lab| {
        let (service, vips) = served(lab, "None", &[("n1", Ready), ("n2", Ready)]).await?;
        let before = clients(lab, &vips).await?;
        share(lab, "Local").await?;
        await_shared(lab, &vips, &["n1", "n2"]).await?;
        // The former server n3, which has no endpoint, is asked about connections as well.
        for nodes in [&NODES[..], &NODES[..2]] {
            let pods: Vec<_> = nodes.iter().map(|node| (*node, Ready)).collect();
            lab.write_pods(&service, &pods).await?;
            await_shared(lab, &vips, nodes).await?;
        }
        let after = clients(lab, &vips).await?;
        roll_and_drain(lab, &service, &vips).await?;
        for (what, clients) in [("before it was shared", before), ("of two nodes", after)] {
            let seen = results(clients)?;
            println!("connections that began {what}: {seen:?}");
            ensure!(seen.broken == 0 && seen.failed == 0, "connections that began {what}: {seen:?}");
        }
        nodes_die(lab, &vips).await
    })
}

/// Pods are rolled with `maxSurge: 1`, a node is drained, and sharing ends and begins again. Each pod serves until the end.
async fn roll_and_drain(lab: &Lab, service: &Service, vips: &[IpAddr]) -> anyhow::Result<()> {
    let rollout: [(Pods<'_>, &[&str]); 3] = [
        (&[("n1", Ready), ("n2", Ready), ("n3", Ready)], &NODES),
        (&[("n1", Terminating), ("n2", Ready), ("n3", Ready)], &["n2", "n3"]),
        (&[("n1", Ready), ("n2", Ready), ("n3", Ready)], &NODES),
    ];
    for (pods, nodes) in rollout {
        lab.write_pods(service, pods).await?;
        await_shared(lab, vips, nodes).await?;
    }
    for (is_excluded, nodes) in [(true, &["n1", "n3"][..]), (false, &NODES)] {
        lab.node("n2")?.exclude(is_excluded).await?;
        await_shared(lab, vips, nodes).await?;
    }
    share(lab, "None").await?;
    for vip in vips {
        lab.await_load_shared(*vip, load_shared::ONE_SERVER, LIMIT).await?;
        // The nodes follow: else those that are to share it anew might not have stopped.
        await_that(&format!("one node serves {vip}"), LIMIT, async || {
            let servers = answers(lab, *vip, &[]).await?;
            ensure!(servers.len() == 1, "{servers:?} answer");
            Ok(Some(()))
        })
        .await?;
    }
    share(lab, "Local").await?;
    await_shared(lab, vips, &NODES).await
}

/// A server dies, then a director, without the API server.
async fn nodes_die(lab: &Lab, vips: &[IpAddr]) -> anyhow::Result<()> {
    let clients = clients(lab, vips).await?;
    let mut directors = BTreeSet::new();
    for vip in vips {
        directors.insert(lab.await_owner("c1", *vip).await?);
    }
    let server = NODES.into_iter().find(|node| !directors.contains(*node)).context("each node directs")?;
    let director = directors.first().context("no director")?;
    let mut of_dead = 0;
    for node in NODES {
        let peers = lab.served_by(node).await?;
        for (vip, load) in vips.iter().zip(&clients) {
            let client: IpAddr = match vip {
                IpAddr::V4(_) => lab.host("c1")?.address.into(),
                IpAddr::V6(_) => lab.host("c1")?.ipv6().into(),
            };
            // The pod sees the client's address.
            let kept =
                load.ports().into_iter().filter(|port| peers.contains(&(client, *port).into())).count();
            ensure!(kept >= FEWEST, "{node} has {kept} of {CONNECTIONS} connections to {vip}");
            of_dead += if node == server || node == director { kept } else { 0 };
        }
    }
    lab.stop_api_server().await?;
    for node in [server, director] {
        lab.node(node)?.power_off().await?;
        for vip in vips {
            await_that(&format!("all new connections to {vip} succeed without {node}"), LIMIT, async || {
                let servers = answers(lab, *vip, &[]).await?;
                ensure!(!servers.contains(&format!("web-{node}")), "{servers:?} answer");
                Ok(Some(()))
            })
            .await?;
        }
    }
    let seen = results(clients)?;
    println!("two nodes died: {seen:?}");
    ensure!(seen.broken == of_dead as u64, "{of_dead} connections were on {server} and {director}: {seen:?}");
    Ok(())
}

/// Windlass on every node, and the Service `web` with an address of each family, `externalTrafficPolicy: Local` and these pods.
async fn served(lab: &Lab, load_sharing: &str, pods: Pods<'_>) -> anyhow::Result<(Service, Vec<IpAddr>)> {
    lab.deploy_windlass(&NODES).await?;
    lab.announcement(ANNOUNCEMENT, json!({"loadSharing": load_sharing})).await?;
    lab.pool("default", &["192.0.2.200-192.0.2.250", "2001:db8::200-2001:db8::250"]).await?;
    lab.backend("web", &NODES).await?;
    let service = lab.load_balancer("web", |service| {
        dual_stack(service);
        service.spec.get_or_insert_default().external_traffic_policy = Some("Local".into());
    });
    let service = service.await?;
    lab.write_pods(&service, pods).await?;
    let vips = await_ingresses(lab, "web", 2).await?;
    for vip in &vips {
        await_that(&format!("a pod answers at {vip}"), LIMIT, async || {
            answers(lab, *vip, &[]).await.map(Some)
        })
        .await?;
    }
    Ok((service, vips))
}

async fn share(lab: &Lab, load_sharing: &str) -> anyhow::Result<()> {
    lab.change_announcement(ANNOUNCEMENT, json!({"loadSharing": load_sharing})).await.map(drop)
}

async fn clients(lab: &Lab, vips: &[IpAddr]) -> anyhow::Result<Vec<Load>> {
    let mut clients = Vec::new();
    for vip in vips {
        clients.push(lab.load("c1", *vip, SERVICE_PORT, CLIENTS).await?);
    }
    Ok(clients)
}

fn results(clients: Vec<Load>) -> anyhow::Result<LoadOutcome> {
    clients.iter().for_each(Load::end);
    let mut all = LoadOutcome::default();
    for client in clients {
        all.merge(client.stop()?);
    }
    Ok(all)
}

/// Sends [`IN_A_ROW`] new connections from `c1`, which all have to be answered; returns the servers. `flags`: further ones of curl.
async fn answers(lab: &Lab, vip: IpAddr, flags: &[&str]) -> anyhow::Result<BTreeSet<String>> {
    lab.curl_each("c1", vip, SERVICE_PORT, IN_A_ROW, flags).await
}

/// Waits until these nodes have lots of each address, and no others, and new connections go to these.
async fn await_shared(lab: &Lab, vips: &[IpAddr], nodes: &[&str]) -> anyhow::Result<()> {
    for vip in vips {
        lab.await_shared("c1", *vip, nodes, LIMIT).await?;
    }
    Ok(())
}
