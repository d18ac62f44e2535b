//! Rules of a Service that each node obeys by itself: session affinity, source ranges, UDP flows; and lots that an admin wrote.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use anyhow::{Context as _, ensure};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use windlass_api::{VirtualIP, load_shared, virtual_ip_name};
use windlass_ccm::service::ANNOTATION_SOURCE_RANGES;
use windlass_e2e::{
    ControllerOptions, EndpointState::Ready, IN_A_ROW, Lab, Protocol, ProxyMode, SERVICE_PORT, Signal,
    await_that, scenario,
};

use super::{NODES, answers, await_shared, served};
use crate::setup::{LIMIT, lab, services};

/// Clients of c1, each with an address of its own. Less than one draw in a million has all of their lots on one node.
const CLIENTS: std::ops::Range<u8> = 150..164;
/// UDP flows to each address.
const FLOWS: usize = 12;

#[test]
fn session_affinity_source_ranges_and_udp_flows_hold_at_a_shared_address_whatever_lots_are_written()
-> anyhow::Result<()> {
    scenario("sharing-rules", lab().client("c2").proxy_mode(ProxyMode::Iptables), async |lab| {
        let (_, vips) = served(lab, "Local", &NODES.map(|node| (node, Ready))).await?;
        await_shared(lab, &vips, &NODES).await?;
        udp_flows_stay(lab, &vips).await?;
        switch_affinity(lab, vips[0]).await?;
        restrict(lab, vips[0]).await?;
        write_lots(lab, vips[0]).await
    })
}

/// Lots move, and each flow keeps its pod.
async fn udp_flows_stay(lab: &Lab, vips: &[IpAddr]) -> anyhow::Result<()> {
    let mut flows = Vec::new();
    for vip in vips {
        for _ in 0..FLOWS {
            flows.push(lab.probe("c1", Protocol::Udp, *vip, SERVICE_PORT, Duration::from_millis(100))?);
        }
    }
    for (is_excluded, nodes) in [(true, &["n1", "n3"][..]), (false, &NODES)] {
        lab.node("n2")?.exclude(is_excluded).await?;
        await_shared(lab, vips, nodes).await?;
    }
    let mut servers = BTreeSet::new();
    for flow in flows {
        let seen = flow.stop()?;
        // The last datagram may be under way.
        let is_whole = seen.by_server.len() == 1 && seen.answered + 1 >= seen.sent;
        ensure!(is_whole, "{seen:?}");
        servers.extend(seen.last_server);
    }
    ensure!(servers.len() == NODES.len(), "{servers:?} served");
    Ok(())
}

// As upstream's e2e spec "should be able to switch session affinity for LoadBalancer service with Local traffic policy".
async fn switch_affinity(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    for last in CLIENTS {
        lab.exec("c1", &["ip", "address", "add", &format!("192.0.2.{last}/24"), "dev", "eth0"]).await?;
    }
    for (affinity, of_client) in [("ClientIP", 1), ("None", NODES.len())] {
        edit(lab, json!({"spec": {"sessionAffinity": affinity}})).await?;
        let what = format!("{of_client} pods serve each client, with sessionAffinity {affinity}");
        await_that(&what, LIMIT, async || {
            let mut all = BTreeSet::new();
            for last in CLIENTS {
                let client = format!("192.0.2.{last}");
                let servers = answers(lab, vip, &["--interface", &client]).await?;
                ensure!(servers.len() == of_client, "{servers:?} serve {client}");
                all.extend(servers);
            }
            ensure!(all.len() > 1, "{all:?} serve all clients");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}

/// Each node keeps out the clients that its Service excludes, by the annotation that kube-proxy does not read.
async fn restrict(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    let only = format!("{}/32", lab.host("c1")?.address);
    edit(lab, json!({"metadata": {"annotations": {ANNOTATION_SOURCE_RANGES: only}}})).await?;
    await_that("each node drops what c2 sends", LIMIT, async || {
        let url = format!("http://{vip}/hostname?[1-{IN_A_ROW}]");
        let at_once = IN_A_ROW.to_string();
        let command =
            ["curl", "-s", "--noproxy", "*", "--max-time", "1", "--parallel", "--parallel-immediate"];
        let own =
            ["--parallel-max", &at_once, "--header", "Connection: close", "--write-out", "%{exitcode}\n"];
        let script = format!("\"$@\" '{url}' || true");
        let shell = ["sh", "-c", &*script, "curl"];
        let ends = lab.exec("c2", &[&shell[..], &command, &own].concat()).await?;
        // 28: the time is over.
        ensure!(ends.lines().count() == IN_A_ROW && ends.lines().all(|end| end == "28"), "{ends:?}");
        Ok(Some(()))
    })
    .await?;
    let servers = answers(lab, vip, &[]).await?;
    ensure!(servers.len() == NODES.len(), "{servers:?} serve c1");
    edit(lab, json!({"metadata": {"annotations": {ANNOTATION_SOURCE_RANGES: null}}})).await?;
    await_that("c2 is served again", LIMIT, async || {
        lab.curl_each("c2", vip, SERVICE_PORT, IN_A_ROW, &[]).await.map(Some)
    })
    .await
    .map(drop)
}

/// Lots of a node that does not exist, and of keys of no node, cost no new connection, and are named.
async fn write_lots(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    lab.stop_controller("controller", Signal::SIGKILL).await?;
    let api: Api<VirtualIP> = Api::all(lab.client());
    let spec = api.get(&virtual_ip_name(vip)).await?.spec.load_sharing.context("it has no lots")?;
    let ghost = json!({"key": "z", "name": "ghost", "address": "192.0.2.77"});
    let nodes: Vec<Value> = serde_json::from_value(json!(spec.nodes))?;
    let key = nodes.iter().find(|node| node["name"] == "n3").context("n3 has no lots")?["key"].clone();
    let lots = spec.lots.replace(key.as_str().context("no text")?, "z");
    let tables = [
        ([&nodes[..], &[ghost]].concat(), load_shared::SHARED, "ghost never answered"),
        (nodes, load_shared::NOT_SUPPORTED, "'z' of lot "),
    ];
    for (nodes, reason, words) in tables {
        let change = json!({"spec": {"loadSharing": {"nodes": nodes, "lots": lots}}});
        api.patch(&virtual_ip_name(vip), &PatchParams::default(), &Patch::Merge(change)).await?;
        await_that(&format!("LoadShared of {vip} contains {words:?}"), LIMIT, async || {
            let message = lab.await_load_shared(vip, reason, LIMIT).await?;
            ensure!(message.contains(words), "{message}");
            Ok(Some(()))
        })
        .await?;
        answers(lab, vip, &[]).await.with_context(|| format!("with {words:?}"))?;
    }
    lab.start_controller(ControllerOptions::default())?;
    await_shared(lab, &[vip], &NODES).await
}

async fn edit(lab: &Lab, change: Value) -> anyhow::Result<()> {
    let api = services(lab, "default");
    api.patch("web", &PatchParams::default(), &Patch::Merge(change)).await.map(drop)?;
    Ok(())
}
