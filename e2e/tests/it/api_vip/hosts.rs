//! VIPs of plain servers of hosts: one, two and five candidates; a node that has Services' addresses, too.

use std::{fs, net::IpAddr, path::PathBuf};

use anyhow::{Context as _, ensure};
use windlass_e2e::{Lab, LoadOptions, SERVICE_PORT, Signal, await_that, scenario};

use super::{CHECK, PORT, address, await_alone, await_fit, await_served};
use crate::setup::LIMIT;

const CLIENT: LoadOptions = LoadOptions { connections: 10, requests_per_second: 40 };
/// A port that no VIP has, but on which each node listens on all its addresses: kube-proxy's health.
const HOST_PORT: u16 = 10256;

// shows: field-reports F-69
#[test]
fn one_two_and_five_candidates_serve_while_one_of_them_does_and_ports_that_are_not_named_are_refused()
-> anyhow::Result<()> {
    let builder = Lab::builder().nodes(5).client("c1").light();
    scenario("vip-hosts", builder, async |lab| {
        let nodes = ["n1", "n2", "n3", "n4", "n5"];
        let vips = [address("192.0.2.201")?, address("192.0.2.202")?, address("192.0.2.205")?];
        let candidates = [&nodes[..1], &nodes[..2], &nodes[..]];
        lab.host_backend("api", &nodes).await?;
        let answering = lab.answering("c1", &vips)?;
        for node in nodes {
            let of_node = vips.iter().zip(candidates).filter(|(_, candidates)| candidates.contains(&node));
            let config = config(of_node.map(|(vip, _)| *vip));
            start_with(lab, node, &config)?;
        }
        for (vip, candidates) in vips.iter().zip(candidates) {
            await_served(lab, *vip, candidates).await?;
            guarded(lab, *vip).await?;
        }
        // One server after the other ends: the address goes where one is left, and in the end nowhere.
        let (vip, mut left) = (vips[2], nodes.to_vec());
        while left.len() > 1 {
            let owner = await_alone(&answering, vip, |node| left.contains(&node)).await?;
            lab.node(&owner)?.kill("netexec").await?;
            left.retain(|node| *node != owner);
            await_served(lab, vip, &left).await?;
        }
        let last = left[0];
        lab.node(last)?.kill("netexec").await?;
        // Nobody is better: it stays, and serves again.
        lab.start_host_server_again(last)?;
        await_served(lab, vip, &[last]).await?;
        for node in nodes.iter().filter(|node| **node != last) {
            lab.start_host_server_again(node)?;
        }
        for (vip, candidates) in vips.iter().zip(candidates) {
            await_served(lab, *vip, candidates).await?;
        }
        Ok(())
    })
}

// shows: field-reports F-66
#[test]
fn an_agent_and_windlass_vip_on_the_same_nodes_leave_each_others_addresses_alone() -> anyhow::Result<()> {
    let builder = Lab::builder().nodes(2).client("c1").light();
    scenario("vip-and-agent", builder, async |lab| {
        let nodes = ["n1", "n2"];
        let vip = address("192.0.2.240")?;
        lab.host_backend("api", &nodes).await?;
        for node in nodes {
            lab.start_vip(node, &["--address", "192.0.2.240", "--check", CHECK])?;
        }
        await_served(lab, vip, &nodes).await?;
        lab.deploy_windlass(&nodes).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.209"]).await?;
        lab.backend("web", &nodes).await?;
        lab.load_balancer("web", |_| ()).await?;
        let service = lab.ingress("web", LIMIT).await?;
        await_web(lab, service).await?;

        for node in nodes {
            // What one of them does is nothing to the other one's clients, nor is an orderly restart to its own.
            let clients = [
                lab.load("c1", service, SERVICE_PORT, CLIENT).await?,
                lab.load("c1", vip, PORT, CLIENT).await?,
            ];
            lab.stop_vip(node, Signal::SIGTERM).await?;
            lab.start_vip_again(node)?;
            await_fit(lab, &[node]).await?;
            await_served(lab, vip, &nodes).await?;
            lab.stop_agent(node, Signal::SIGTERM).await?;
            lab.start_agent(node)?;
            await_web(lab, service).await?;
            for client in clients {
                let seen = client.stop()?;
                println!("{}: restarts on {node}: {seen:?}", lab.name());
                ensure!(seen.failed == 0, "restarts on {node}: {seen:?}");
            }
        }
        // Where both have the same node, both leave it when it dies.
        for address in [service, vip] {
            guarded_by(lab, address).await?;
        }
        let owner = lab.await_owner("c1", vip).await?;
        lab.node(&owner)?.power_off().await?;
        lab.await_owner_other_than("c1", vip, &owner).await?;
        lab.await_owner_other_than("c1", service, &owner).await?;
        let other: Vec<&str> = nodes.into_iter().filter(|node| *node != owner).collect();
        await_served(lab, vip, &other).await.map(drop)
    })
}

/// Waits until a pod of the Service answers.
pub(super) async fn await_web(lab: &Lab, service: IpAddr) -> anyhow::Result<()> {
    await_that(&format!("web answers at {service}"), LIMIT, async || {
        let answer = lab.curl("c1", service, SERVICE_PORT).await?;
        ensure!(answer.starts_with("web-"), "{answer} answers");
        Ok(Some(()))
    })
    .await
}

/// Starts `windlass vip` on a node with this file.
pub(super) fn start_with(lab: &Lab, node: &str, config: &str) -> anyhow::Result<()> {
    let file = write_config(lab, node, config)?;
    lab.start_vip(node, &["--config", file.to_str().context("a path that is no UTF-8")?])
}

/// Writes the file of a node, in one step, as an editor or a configuration management does.
pub(super) fn write_config(lab: &Lab, node: &str, config: &str) -> anyhow::Result<PathBuf> {
    let (new, file) = (lab.folder().join("new.yaml"), lab.folder().join(format!("vip-{node}.yaml")));
    fs::write(&new, config)?;
    fs::rename(&new, &file).with_context(|| format!("writing {}", file.display()))?;
    Ok(file)
}

/// The file of these VIPs, all else being default.
pub(super) fn config(vips: impl IntoIterator<Item = IpAddr>) -> String {
    let one = |vip| format!("- address: {vip}\n  checks:\n  - http: {{url: \"{CHECK}\"}}\n");
    let all: String = vips.into_iter().map(one).collect();
    format!("vips:\n{all}")
}

/// Ping is answered, and ports that are not named are refused at once, also one on which the node listens.
async fn guarded(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    guarded_by(lab, vip).await?;
    refused(lab, vip, HOST_PORT).await
}

async fn guarded_by(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    let text = vip.to_string();
    await_that(&format!("{vip} answers ping"), LIMIT, async || {
        lab.exec("c1", &["ping", "-n", "-c", "1", "-W", "1", &text]).await?;
        Ok(Some(()))
    })
    .await?;
    refused(lab, vip, PORT + 1).await
}

async fn refused(lab: &Lab, vip: IpAddr, port: u16) -> anyhow::Result<()> {
    let refused = format!(
        "curl -sS --noproxy '*' --max-time 2 http://{vip}:{port}/ 2>&1; [ $? -eq 7 ] && echo refused"
    );
    await_that(&format!("{vip}:{port} is refused at once"), LIMIT, async || {
        let said = lab.exec("c1", &["sh", "-c", &refused]).await?;
        ensure!(said.contains("refused"), "curl says {said:?}");
        Ok(Some(()))
    })
    .await
}
