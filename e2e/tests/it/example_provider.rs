//! `ccm/examples/static_provider.rs`, the provider that shows how to write one, as a process on a real API server.

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use windlass_e2e::{Lab, Signal, await_that, scenario, target};

use crate::setup::{LIMIT, await_event, await_ingresses, dual_stack, ingresses, services};

// shows: ccm-contract E-12
#[test]
fn example_provider_serves_services_and_nodes_and_leaves_its_lease_when_asked_to_stop() -> anyhow::Result<()>
{
    scenario("example-provider", Lab::builder().light().without_proxy(), async |lab| {
        start(lab)?;
        initialises(lab).await?;

        lab.load_balancer("web", dual_stack).await?;
        let given = await_ingresses(lab, "web", 2).await?;
        ensure!(
            given.iter().map(ToString::to_string).eq(["192.0.2.201", "2001:db8::201"]),
            "web got {given:?}"
        );
        let status =
            services(lab, "default").get("web").await?.status.and_then(|status| status.load_balancer);
        let shown = serde_json::to_value(status)?;
        let ports = json!([{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]);
        ensure!(
            shown["ingress"][0]["ports"] == ports && shown["ingress"][0]["ipMode"] == "VIP",
            "it shows {shown}"
        );

        // There is no other: the second waits until the first lets go of it.
        lab.load_balancer("next", |_| ()).await?;
        await_event(lab, "next", "SyncLoadBalancerFailed", &["no IPv4 address is free"]).await?;
        services(lab, "default").delete("web", &DeleteParams::default()).await?;
        await_that("web is gone", LIMIT, async || {
            let left = services(lab, "default").get_opt("web").await?;
            ensure!(left.is_none(), "its finalizers are {:?}", left.map(|left| left.finalizers().to_vec()));
            Ok(Some(()))
        })
        .await?;
        let address = lab.ingress("next", LIMIT).await?;

        let first = holder(lab).await?.context("nobody leads")?;
        lab.end_process("cp", "example", Signal::SIGTERM).await?;
        ensure!(holder(lab).await?.is_none(), "the lease is still held by {:?}", holder(lab).await?);
        let version = services(lab, "default").get("next").await?.resource_version();
        start(lab)?;
        await_that("the next process leads", LIMIT, async || {
            Ok(holder(lab).await?.filter(|holder| *holder != first).map(drop))
        })
        .await?;
        // One that only the new process can serve, when it knows all the others.
        lab.load_balancer("six", |service| {
            let spec = service.spec.get_or_insert_default();
            spec.ip_families = Some(vec!["IPv6".into()]);
        })
        .await?;
        lab.ingress("six", LIMIT).await?;
        let next = services(lab, "default").get("next").await?;
        ensure!(next.resource_version() == version, "the new process wrote {next:?}");
        ensure!(ingresses(lab, "next").await? == [address], "the address {address} is not kept");
        Ok(())
    })
}

fn start(lab: &Lab) -> anyhow::Result<()> {
    let (program, kubeconfig) = (program()?.display().to_string(), lab.kubeconfig("admin"));
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let command =
        [&*program, &*kubeconfig, "--addresses=192.0.2.201,2001:db8::201", "--bind-address=127.0.0.1"];
    lab.start_process("cp", "example", &command)
}

/// A node that registers itself gets its provider ID and loses its taint.
async fn initialises(lab: &Lab) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(lab.client());
    let node = serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "fresh"},
        "spec": {"taints": [
            {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
            {"key": "example.com/kept", "effect": "NoSchedule"},
        ]},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.30"}]},
    }))?;
    nodes.create(&PostParams::default(), &node).await?;
    await_that("the fresh node is initialised", LIMIT, async || {
        let spec = nodes.get("fresh").await?.spec.unwrap_or_default();
        let taints: Vec<_> = spec.taints.iter().flatten().map(|taint| &*taint.key).collect();
        ensure!(taints == ["example.com/kept"], "its taints are {taints:?}");
        ensure!(spec.provider_id.as_deref() == Some("static://fresh"), "{:?}", spec.provider_id);
        Ok(Some(()))
    })
    .await
}

/// Who holds the lease; nobody after it was released.
async fn holder(lab: &Lab) -> anyhow::Result<Option<String>> {
    let leases: Api<Lease> = Api::namespaced(lab.client(), "kube-system");
    let spec = leases.get("cloud-controller-manager").await?.spec.unwrap_or_default();
    Ok(spec.holder_identity.filter(|holder| !holder.is_empty()))
}

/// Where cargo has put the example.
fn program() -> anyhow::Result<PathBuf> {
    let program = target().join("debug/examples/static_provider");
    if !program.is_file() {
        bail!("no {}: run 'cargo build --workspace --examples'", program.display());
    }
    Ok(program)
}
