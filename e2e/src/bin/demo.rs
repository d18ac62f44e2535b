//! `make demo`: the main job, told as it happens.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::ensure;
use clap::Parser;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _, api::ListParams};
use windlass_e2e::{HostPort, Lab, Protocol, SERVICE_PORT, await_that, command};

/// A real Kubernetes, a Service with an address, a pulled cable.
#[derive(Parser)]
struct Arguments {
    /// Leave the cluster up until Ctrl-C.
    #[arg(long)]
    keep: bool,
}

const LIMIT: Duration = Duration::from_mins(3);
const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// Tells what happens, with the time since the start.
struct Story(Instant);

impl Story {
    fn tell(&self, what: impl AsRef<str>) {
        println!("{:6.1} s  {}", self.0.elapsed().as_secs_f64(), what.as_ref());
    }
}

fn main() -> ExitCode {
    command::run(demo)
}

fn demo() -> anyhow::Result<()> {
    let Arguments { keep } = Arguments::parse();
    let port = HostPort::bind()?;
    let story = Story(Instant::now());
    story.tell("Starting a Kubernetes cluster: a control plane, three nodes, a client, each in a network namespace …");
    Lab::run("demo", Lab::builder().nodes(3).client("c1").interactive(), async |lab| {
        story.tell("The cluster is up. Its kubelets run with --cloud-provider=external and wait for one.");
        tell_taints(lab, &story).await?;
        story.tell("Deploying Windlass: kubectl apply -f manifests/crds; kubectl apply -k manifests …");
        lab.deploy_windlass(&NODES).await?;
        story.tell("Windlass runs: two controllers, one of them leading, and an agent on every node.");
        await_initialized(lab, &story).await?;

        story.tell("A VirtualIPPool with 192.0.2.200-192.0.2.250 and a Service of type LoadBalancer:");
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        lab.load_balancer("web", |_| ()).await?;
        let vip = lab.ingress("web", LIMIT).await?;
        story.tell(format!("Service web has the address {vip}."));
        let owner = lab.await_owner("c1", vip).await?;
        story.tell(format!("{owner} is Active: it alone answers ARP for {vip}."));
        let others: Vec<&str> = NODES.into_iter().filter(|node| *node != owner).collect();
        story.tell(format!(
            "Its web servers go to {}: the fault shall hit the address, not them.",
            others.join(" and ")
        ));
        lab.backend("web", &others).await?;
        story.tell(format!("The client asks http://{vip}: {} answer.", answers(lab, vip).await?));

        fail_over(lab, &story, vip, &owner).await?;
        if keep {
            keep_up(lab, port).await?;
        }
        Ok(())
    })?;
    story.tell("The cluster is gone: no process, no namespace, no mount, no file is left of it.");
    Ok(())
}

async fn fail_over(lab: &Lab, story: &Story, vip: IpAddr, owner: &str) -> anyhow::Result<()> {
    let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(1))?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    story.tell(format!("The client asks every millisecond now. Pulling the cable of {owner} …"));
    lab.node(owner)?.pull_cable()?;
    let successor = lab.await_owner_other_than("c1", vip, owner).await?;
    story.tell(format!("{successor} answers for {vip} now."));
    let outcome = probe.stop()?;
    story.tell(format!("The client was without an answer for {} ms.", outcome.longest_gap.as_millis()));
    story.tell(format!("The client asks again: {} answer.", answers(lab, vip).await?));
    lab.node(owner)?.plug_cable()?;
    let after = lab.await_owner("c1", vip).await?;
    story.tell(format!("The cable is plugged back: exactly one node answers for {vip}, {after}."));
    Ok(())
}

/// Who answers the client over `vip`, in a few requests.
async fn answers(lab: &Lab, vip: IpAddr) -> anyhow::Result<String> {
    let mut seen = BTreeSet::new();
    await_that("two backends have answered the client", LIMIT, async || {
        seen.insert(lab.curl("c1", vip, SERVICE_PORT).await?);
        ensure!(seen.len() >= 2, "only {seen:?}");
        Ok(Some(()))
    })
    .await?;
    Ok(seen.into_iter().collect::<Vec<_>>().join(" and "))
}

async fn tell_taints(lab: &Lab, story: &Story) -> anyhow::Result<()> {
    for node in nodes(lab).await? {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let taints: Vec<String> = taints.into_iter().map(|taint| taint.key).collect();
        story.tell(format!("  {}: tainted {}", node.name_any(), taints.join(", ")));
    }
    Ok(())
}

async fn await_initialized(lab: &Lab, story: &Story) -> anyhow::Result<()> {
    let nodes = await_that("every node is initialized", LIMIT, async || {
        let nodes = nodes(lab).await?;
        for node in &nodes {
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
            ensure!(taints.is_none_or(Vec::is_empty), "{} has taints {taints:?}", node.name_any());
        }
        Ok(Some(nodes))
    })
    .await?;
    for node in nodes {
        let addresses = node.status.as_ref().and_then(|status| status.addresses.clone()).unwrap_or_default();
        let addresses: Vec<String> =
            addresses.into_iter().map(|a| format!("{} {}", a.type_, a.address)).collect();
        let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
        story.tell(format!("  {}: no taint, {provider_id}, {}", node.name_any(), addresses.join(", ")));
    }
    Ok(())
}

async fn nodes(lab: &Lab) -> anyhow::Result<Vec<Node>> {
    Ok(Api::<Node>::all(lab.client()).list(&ListParams::default()).await?.items)
}

async fn keep_up(lab: &Lab, port: HostPort) -> anyhow::Result<()> {
    let kubeconfig = lab.forward_api_server(port)?;
    println!("\nThe cluster stays up until Ctrl-C. Elsewhere:");
    println!("  export KUBECONFIG={}", kubeconfig.display());
    println!("  {} get services,virtualippools,virtualips,virtualrouters", lab.tool("kubectl"));
    println!("  a shell on the client:  nsenter -t {0} -m -p --net=/proc/{0}/root/run/netns/c1", lab.init());
    std::future::pending().await
}
