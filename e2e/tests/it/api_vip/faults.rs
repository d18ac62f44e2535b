//! Whatever befalls the node that has the VIP of the API servers, another one has it soon whose API server answers. kubectl, kube-proxy and
//! Windlass' own controller and agents know no other address.

use std::net::IpAddr;

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use windlass_e2e::{Answering, ApiConnections, Lab, LoadOptions, SERVICE_PORT, Signal, await_that, scenario};

use super::{API_SERVER, await_alone, await_kept, control_plane, hosts::await_web, serve_anew};
use crate::setup::LIMIT;

/// Number of answers that a client has had when all is well.
const ANSWERS: u64 = 20;
/// Beside the VIP that all use.
const VIP_OF_IPV6: &str = "2001:db8::29";
const NODES: [&str; 2] = ["n1", "n2"];
const CLIENT: LoadOptions = LoadOptions { connections: 10, requests_per_second: 20 };

/// What befalls a node.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Cable,
    PowerOff,
    Frozen,
    Partition,
    VipKilled,
    VipFrozen,
    ApiKilled,
    ApiHangs,
    EtcdKilled,
}

impl Fault {
    const ALL: [Self; 9] = [
        Self::Cable,
        Self::PowerOff,
        Self::Frozen,
        Self::Partition,
        Self::VipKilled,
        Self::VipFrozen,
        Self::ApiKilled,
        Self::ApiHangs,
        Self::EtcdKilled,
    ];

    async fn inflict(self, lab: &Lab, name: &str) -> anyhow::Result<()> {
        let node = lab.node(name)?;
        match self {
            Self::Cable => node.pull_cable(),
            Self::PowerOff => node.power_off().await,
            Self::Frozen => node.freeze(),
            Self::Partition => lab.partition(&[name]),
            Self::VipKilled => lab.stop_vip(name, Signal::SIGKILL).await,
            Self::VipFrozen => lab.signal_vip(name, Signal::SIGSTOP),
            Self::ApiKilled => node.kill(API_SERVER).await,
            Self::ApiHangs => lab.signal_process(name, API_SERVER, Signal::SIGSTOP),
            Self::EtcdKilled => node.kill("etcd").await,
        }
    }

    async fn repair(self, lab: &Lab, name: &str) -> anyhow::Result<()> {
        let node = lab.node(name)?;
        match self {
            Self::Cable => node.plug_cable(),
            Self::PowerOff => node.power_on().await,
            Self::Frozen => node.thaw(),
            Self::Partition => lab.heal(),
            Self::VipKilled => lab.start_vip_again(name),
            Self::VipFrozen => lab.signal_vip(name, Signal::SIGCONT),
            Self::ApiKilled => node.start_again(API_SERVER),
            Self::ApiHangs => lab.signal_process(name, API_SERVER, Signal::SIGCONT),
            Self::EtcdKilled => node.start_again("etcd"),
        }
    }
}

// shows: field-reports F-64
#[test]
fn the_vip_is_soon_on_a_node_whose_api_server_answers_whatever_befalls_the_one_that_has_it()
-> anyhow::Result<()> {
    let builder = control_plane(&["--address", VIP_OF_IPV6]).nodes(2);
    scenario("api-vip-faults", builder, async |lab| {
        let [vip, vip_of_ipv6] = [lab.api_vip(), lab.api_vip_of_ipv6()];
        ensure!(vip_of_ipv6.to_string() == VIP_OF_IPV6, "the API servers answer for {vip_of_ipv6}");
        lab.deploy_windlass(&NODES).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.209"]).await?;
        lab.backend("web", &NODES).await?;
        lab.load_balancer("web", |_| ()).await?;
        let service = lab.ingress("web", LIMIT).await?;
        await_web(lab, service).await?;
        let client = lab.load("c1", service, SERVICE_PORT, CLIENT).await?;

        let answering = lab.answering("c1", &[vip, vip_of_ipv6])?;
        for fault in Fault::ALL {
            survive(lab, &answering, vip, fault).await.with_context(|| format!("{fault:?}"))?;
        }
        for fault in [Fault::Cable, Fault::ApiHangs] {
            let survived = survive(lab, &answering, vip_of_ipv6, fault).await;
            survived.with_context(|| format!("{fault:?}, by IPv6"))?;
        }
        without_quorum(lab, &answering).await?;

        let seen = client.stop()?;
        println!("{}: clients of the Service: {seen:?}", lab.name());
        ensure!(seen.failed == 0 && seen.broken == 0, "clients of the Service: {seen:?}");
        ensure!(lab.ingress("web", LIMIT).await? == service, "web has another address than {service}");
        Ok(())
    })
}

/// Something befalls the node that has this one of the VIPs: both are soon on others.
async fn survive(lab: &Lab, answering: &Answering, vip: IpAddr, fault: Fault) -> anyhow::Result<()> {
    await_in_order(lab, answering).await?;
    let owner = await_alone(answering, vip, |_| true).await?;
    let other = lab.control_plane_nodes().find(|node| node.name() != owner).context("one node")?;
    lab.lead_etcd(other.name()).await?;
    let client = lab.api_probe("c2", vip, ApiConnections::New)?;
    client.await_answers(ANSWERS).await?;
    fault.inflict(lab, &owner).await?;
    let next = await_alone(answering, vip, |node| node != owner).await?;
    for other in [lab.api_vip(), lab.api_vip_of_ipv6()] {
        await_alone(answering, other, |node| node != owner).await?;
    }
    client.await_answers(ANSWERS).await?;
    let seen = client.stop()?;
    println!(
        "{}: {fault:?} of {owner}: {next} has {vip}, {} ms without an answer, {} of {} requests failed: {:?}",
        lab.name(),
        seen.outage.longest.as_millis(),
        seen.failed,
        seen.requests,
        seen.errors
    );
    if vip == lab.api_vip() && matches!(fault, Fault::Cable | Fault::ApiHangs) {
        serve_anew(lab, &format!("made-after-{fault:?}").to_lowercase()).await?;
    }
    fault.repair(lab, &owner).await
}

/// Most of etcd is dead, and no API server is ready: the VIP stays where it is, and is answered when etcd is.
async fn without_quorum(lab: &Lab, answering: &Answering) -> anyhow::Result<()> {
    let vip = lab.api_vip();
    let owner = await_in_order(lab, answering).await?;
    let dead: Vec<_> = lab.control_plane_nodes().filter(|node| node.name() != owner).collect();
    for node in &dead {
        node.kill("etcd").await?;
    }
    for node in lab.control_plane_nodes() {
        await_that(&format!("the API server of {} is not ready", node.name()), LIMIT, async || {
            let words = [
                "curl",
                "-sk",
                "--noproxy",
                "*",
                "--fail",
                "--max-time",
                "5",
                "https://127.0.0.1:6443/readyz",
            ];
            Ok(lab.exec(node.name(), &words).await.is_err().then_some(()))
        })
        .await?;
    }
    for vip in [vip, lab.api_vip_of_ipv6()] {
        await_kept(answering, vip).await?;
    }
    for node in &dead {
        node.start_again("etcd")?;
    }
    lab.await_api_server_at_vip().await?;
    await_in_order(lab, answering).await.map(drop)
}

/// Waits until all API servers are ready and one node has each VIP, which answers. The node that has the VIP that all use.
async fn await_in_order(lab: &Lab, answering: &Answering) -> anyhow::Result<String> {
    let nodes: Vec<String> = lab.control_plane_nodes().map(|node| node.name().to_owned()).collect();
    try_join_all(nodes.iter().map(|node| lab.await_api_server_of(node))).await?;
    let [vip, other] = [lab.api_vip(), lab.api_vip_of_ipv6()];
    for vip in [vip, other] {
        lab.await_api_server_at(vip).await?;
    }
    await_alone(answering, other, |_| true).await?;
    await_alone(answering, vip, |_| true).await
}
