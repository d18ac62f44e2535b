//! The API servers of all nodes behind VIPs of both families. The nodes name each other as peers: the LAN loses all multicast of VRRP.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context as _, ensure};
use windlass_e2e::{Answering, ApiConnections, ApiWatch, Lab, Signal, await_that, scenario};

use super::{
    API_SERVER, await_alone, await_fit,
    hosts::{start_with, write_config},
};
use crate::setup::LIMIT;

const NODES: [&str; 3] = ["cp1", "cp2", "cp3"];
const API_PORT: u16 = 6443;
/// What the client asks, and nobody else does.
const PAGE: &str = "/livez";
/// Number of answers that a client has before shares are looked at.
const ASKED: u64 = 300;
/// So many events a watch shows after each step.
const EVENTS: u64 = 10;

#[test]
fn all_api_servers_that_are_well_share_what_comes_for_vips_of_both_families_and_watches_stay_with_theirs()
-> anyhow::Result<()> {
    let builder = Lab::builder().control_plane_nodes(3).client("c1").client("c2").light();
    scenario("api-vip-balanced", builder, async |lab| {
        lab.filter_multicast(true)?;
        let vips = [lab.api_vip(), lab.api_vip_of_ipv6()];
        for node in NODES {
            start_with(lab, node, &config(lab, "Masquerade")?)?;
        }
        let answering = lab.answering("c1", &vips)?;
        await_fit(lab, &NODES).await?;
        await_well(lab, &NODES, &NODES).await?;
        for vip in vips {
            let owner = await_alone(&answering, vip, |_| true).await?;
            share(lab, vip, &NODES).await?;
            ensure!(!is_seen(lab, vip, &owner).await?, "{vip}: other nodes than {owner} see the client");
        }

        killed_one_by_one(lab, &answering).await?;
        let hanging = await_alone(&answering, vips[0], |_| true).await?;
        hangs(lab, &answering, &hanging).await?;

        // From now on servers see who asks.
        for node in NODES {
            write_config(lab, node, &config(lab, "Keep")?)?;
        }
        for vip in vips {
            await_that(&format!("other nodes than its own see who asks {vip}"), LIMIT, async || {
                let owner = await_alone(&answering, vip, |_| true).await?;
                share(lab, vip, &NODES).await?;
                Ok(is_seen(lab, vip, &owner).await?.then_some(()))
            })
            .await?;
        }
        cut_off(lab, &answering).await
    })
}

/// API servers die, at last all but one: what comes goes to those that are left, and a watch stays with its own, even when the VIP moves.
async fn killed_one_by_one(lab: &Lab, answering: &Answering) -> anyhow::Result<()> {
    let [vip, vip_of_ipv6] = [lab.api_vip(), lab.api_vip_of_ipv6()];
    let owner = await_alone(answering, vip, |_| true).await?;
    let others: Vec<&str> = NODES.into_iter().filter(|node| *node != owner).collect();
    let &[watched, other] = others.as_slice() else { anyhow::bail!("{others:?}") };
    let watch = watch_at(lab, watched, &owner).await?;

    lab.node(other)?.kill(API_SERVER).await?;
    await_well(lab, &NODES, &[&owner, watched]).await?;
    share(lab, vip, &[&owner, watched]).await?;
    watch.await_events(EVENTS).await?;
    start_again(lab, &[other]).await?;

    lab.node(&owner)?.kill(API_SERVER).await?;
    for vip in [vip, vip_of_ipv6] {
        await_alone(answering, vip, |node| node != owner).await?;
    }
    await_well(lab, &NODES, &[watched, other]).await?;
    share(lab, vip, &[watched, other]).await?;
    watch.await_events(EVENTS).await?;
    let seen = watch.stop()?;
    println!("{}: the watch at {watched}: {seen:?}", lab.name());
    ensure!(seen.broken == 0, "the watch at {watched}: {seen:?}");

    lab.node(other)?.kill(API_SERVER).await?;
    await_well(lab, &NODES, &[watched]).await?;
    for vip in [vip, vip_of_ipv6] {
        await_alone(answering, vip, |node| node == watched).await?;
        share(lab, vip, &[watched]).await?;
    }
    start_again(lab, &[&owner, other]).await
}

/// The API server of a node takes connections and answers nothing: it is asked no more, and the VIPs leave its node.
async fn hangs(lab: &Lab, answering: &Answering, hanging: &str) -> anyhow::Result<()> {
    let others: Vec<&str> = NODES.into_iter().filter(|node| *node != hanging).collect();
    lab.signal_process(hanging, API_SERVER, Signal::SIGSTOP)?;
    await_well(lab, &NODES, &others).await?;
    for vip in [lab.api_vip(), lab.api_vip_of_ipv6()] {
        await_alone(answering, vip, |node| node != hanging).await?;
        share(lab, vip, &others).await?;
    }
    lab.signal_process(hanging, API_SERVER, Signal::SIGCONT)?;
    lab.await_api_server_of(hanging).await?;
    await_well(lab, &NODES, &NODES).await?;
    await_fit(lab, &[hanging]).await
}

/// The node that has the VIP loses its cable, which is plugged in again.
async fn cut_off(lab: &Lab, answering: &Answering) -> anyhow::Result<()> {
    let vips = [lab.api_vip(), lab.api_vip_of_ipv6()];
    let owner = await_alone(answering, vips[0], |_| true).await?;
    let others: Vec<&str> = NODES.into_iter().filter(|node| *node != owner).collect();
    lab.lead_etcd(others[0]).await?;
    lab.node(&owner)?.pull_cable()?;
    for vip in vips {
        await_alone(answering, vip, |node| node != owner).await?;
    }
    await_well(lab, &others, &others).await?;
    for vip in vips {
        share(lab, vip, &others).await?;
    }
    lab.node(&owner)?.plug_cable()?;
    await_well(lab, &NODES, &NODES).await?;
    for vip in vips {
        await_alone(answering, vip, |_| true).await?;
        share(lab, vip, &NODES).await?;
    }
    Ok(())
}

async fn start_again(lab: &Lab, nodes: &[&str]) -> anyhow::Result<()> {
    for node in nodes {
        lab.node(node)?.start_again(API_SERVER)?;
    }
    for node in nodes {
        lab.await_api_server_of(node).await?;
    }
    await_well(lab, &NODES, &NODES).await?;
    await_fit(lab, nodes).await
}

/// A client of the VIP loses no request, and each of these API servers answers at least half of its share.
async fn share(lab: &Lab, vip: IpAddr, servers: &[&str]) -> anyhow::Result<()> {
    let counts = async || {
        let mut counts = Vec::new();
        for server in servers {
            counts.push(lab.api_requests(server, PAGE).await?);
        }
        anyhow::Ok(counts)
    };
    let before = counts().await?;
    let client = lab.api_probe_of(PAGE, "c1", vip, ApiConnections::New)?;
    client.await_answers(ASKED).await?;
    let seen = client.stop()?;
    let shares: Vec<u64> =
        counts().await?.iter().zip(before).map(|(after, before)| after.saturating_sub(before)).collect();
    println!("{}: {vip}: {servers:?} answer {shares:?} of {}", lab.name(), seen.requests);
    ensure!(seen.failed == 0, "{vip}, of {servers:?}: {seen:?}");
    let least = ASKED / u64::try_from(servers.len() * 2)?;
    ensure!(shares.iter().all(|share| *share >= least), "{vip}: {servers:?} answer {shares:?}");
    Ok(())
}

/// Whether the client's own address was seen by all nodes but the owner of the VIP, of which it asked; false: by none of them.
async fn is_seen(lab: &Lab, vip: IpAddr, owner: &str) -> anyhow::Result<bool> {
    let client = address_of(lab, "c1", vip)?;
    let mut seen = Vec::new();
    for node in NODES.into_iter().filter(|node| *node != owner) {
        let clients = lab.tracked_clients(node, address_of(lab, node, vip)?).await?;
        seen.push(clients.contains(&client));
    }
    ensure!(seen.iter().all(|one| *one == seen[0]), "{seen:?} of the nodes beside {owner} see {client}");
    Ok(seen[0])
}

/// A watch at the VIP, which the node that has it has given to the API server of this one.
async fn watch_at(lab: &Lab, node: &str, owner: &str) -> anyhow::Result<ApiWatch> {
    let vip = lab.api_vip();
    let (client, server) = (address_of(lab, "c2", vip)?, address_of(lab, node, vip)?);
    await_that(&format!("a watch is at {node}"), LIMIT, async || {
        let watch = lab.api_watch("c2", vip, node)?;
        watch.await_events(EVENTS).await?;
        let servers = lab.tracked_servers(owner, client, vip).await?;
        if servers == [server].into() {
            return Ok(Some(watch));
        }
        watch.stop()?;
        anyhow::bail!("it is at {servers:?}")
    })
    .await
}

/// Waits until the `windlass vip` of each of these nodes finds just these API servers well, by both families.
async fn await_well(lab: &Lab, nodes: &[&str], servers: &[&str]) -> anyhow::Result<()> {
    for node in nodes {
        await_that(&format!("{node} finds the API servers of {servers:?} well"), LIMIT, async || {
            let metrics = lab.ask_vip(node, "/metrics").await?;
            for vip in [lab.api_vip(), lab.api_vip_of_ipv6()] {
                for server in NODES {
                    let backend = SocketAddr::new(address_of(lab, server, vip)?, API_PORT);
                    let well = u8::from(servers.contains(&server));
                    let line =
                        format!("windlass_vip_backend_up{{address=\"{vip}\",backend=\"{backend}\"}} {well}");
                    ensure!(metrics.lines().any(|one| one == line), "no {line} in {metrics}");
                }
            }
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}

/// The address of a host, of the family of `vip`.
fn address_of(lab: &Lab, host: &str, vip: IpAddr) -> anyhow::Result<IpAddr> {
    let host = lab.host(host)?;
    Ok(if vip.is_ipv4() { host.address.into() } else { host.ipv6().into() })
}

/// The same file for all nodes.
fn config(lab: &Lab, source: &str) -> anyhow::Result<String> {
    let ca = lab.folder().join("pki/ca.crt");
    let ca = ca.to_str().context("a path that is no UTF-8")?;
    let quoted = |words: Vec<String>| format!("[\"{}\"]", words.join("\", \""));
    let one = |vip| {
        let nodes: anyhow::Result<Vec<_>> = NODES.iter().map(|node| address_of(lab, node, vip)).collect();
        let nodes = nodes?;
        let peers = quoted(nodes.iter().map(IpAddr::to_string).collect());
        let backends =
            quoted(nodes.iter().map(|node| SocketAddr::new(*node, API_PORT).to_string()).collect());
        Ok(format!(
            "- address: {vip}\n  \
             peers: {peers}\n  \
             checks:\n  \
             - https: {{url: \"https://127.0.0.1:{API_PORT}/readyz\", caFile: {ca}}}\n  \
             balance:\n    \
             backends: {backends}\n    \
             source: {source}\n    \
             check: {{https: {{path: /readyz, caFile: {ca}}}}}\n"
        ))
    };
    let vips: anyhow::Result<String> = [lab.api_vip(), lab.api_vip_of_ipv6()].into_iter().map(one).collect();
    Ok(format!("vips:\n{}", vips?))
}
