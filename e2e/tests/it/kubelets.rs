//! Windlass as the cloud provider of real kubelets, of which some know their addresses (`--node-ip`) and some do not: they
//! start in a cluster where nothing works yet, join, leave, are drained, change address; and Windlass itself is updated under load.

mod drained;
mod rolling;

use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use windlass_api::{NodeNetwork, VirtualRouter};
use windlass_e2e::{Lab, await_that, scenario};

use crate::setup::{await_answer, install_by_page};

/// How long a step may take on a busy machine: pods start and end in it.
const LIMIT: Duration = Duration::from_mins(3);
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

// shows: ccm-contract K-01 to K-05, N-03 to N-05, N-10; field-reports F-15, F-72, F-73
#[test]
fn nodes_start_join_leave_are_drained_and_move_and_windlass_is_updated_under_load() -> anyhow::Result<()> {
    let builder =
        Lab::builder().nodes(3).client("c1").late(&["n3"]).late_proxies().without_node_ip(&["n2", "n3"]);
    scenario("kubelets", builder, async |lab| {
        first_nodes(lab).await?;
        join(lab).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        lab.backend("web", &["n3"]).await?;
        lab.load_balancer("web", |_| ()).await?;
        let vip = lab.ingress("web", LIMIT).await?;
        await_answer(lab, vip).await?;
        rolling::controller(lab, vip).await?;
        rolling::agents(lab, vip).await?;
        drained::node(lab, vip).await?;
        drained::shut_down(lab, vip).await?;
        moved(lab, &vip.to_string()).await?;
        deleted(lab).await?;
        lab.await_owner("c1", vip).await?;
        await_answer(lab, vip).await
    })
}

/// Nodes without addresses, kube-proxy and DNS get addresses and lose their taint; only then can kube-proxy start.
async fn first_nodes(lab: &Lab) -> anyhow::Result<()> {
    for name in ["n1", "n2"] {
        let node = nodes(lab).get(name).await?;
        ensure!(tainted(&node), "{name} is not tainted");
        let by_kubelet = if name == "n1" { vec!["192.0.2.11", "2001:db8::11", "n1"] } else { vec!["n2"] };
        ensure!(addresses(&node) == by_kubelet, "kubelet gave {name} {:?}", addresses(&node));
    }
    install_by_page(lab, "192.0.2.10").await?;
    await_node(lab, "n1", "windlass://n1", &["192.0.2.11", "2001:db8::11", "n1"]).await?;
    await_node(lab, "n2", "windlass://n2", &["192.0.2.12", "2001:db8::12", "n2"]).await?;
    lab.await_windlass_pods().await?;
    let events = Api::<Event>::all(lab.client());
    for name in ["n1", "n2"] {
        let about = format!("involvedObject.kind=Node,involvedObject.name={name},reason=Synced");
        await_that(&format!("{name} is told to be initialised"), LIMIT, async || {
            let synced = events.list(&ListParams::default().fields(&about)).await?.items;
            ensure!(synced.len() == 1, "events: {synced:?}");
            Ok(Some(()))
        })
        .await?;
    }
    lab.start_kube_proxies(&["n1", "n2"]).await
}

/// A node that comes later gets its agent, addresses and a place; the provider ID that it brings is kept.
async fn join(lab: &Lab) -> anyhow::Result<()> {
    lab.join("n3", &["--provider-id=metal3://host-3"]).await?;
    await_node(lab, "n3", "metal3://host-3", &["192.0.2.13", "2001:db8::13", "n3"]).await?;
    lab.start_kube_proxies(&["n3"]).await?;
    lab.await_windlass_pods().await
}

/// The machines of a node with and of one without `--node-ip` get other addresses; a VIP on the interface is none.
async fn moved(lab: &Lab, vip: &str) -> anyhow::Result<()> {
    let n2 = lab.node("n2")?;
    let bound = format!("{vip}/32");
    n2.bind(&bound, true)?;
    let networks: Api<NodeNetwork> = Api::all(lab.client());
    let reports = async |address: &str| {
        await_that(&format!("the agent of n2 reports {address}"), LIMIT, async || {
            let interfaces = networks.get("n2").await?.spec.interfaces;
            let all: Vec<_> = interfaces.into_iter().flat_map(|interface| interface.addresses).collect();
            ensure!(all.iter().any(|one| one == address), "it reports {all:?}");
            Ok(Some(()))
        })
        .await
    };
    reports(&bound).await?;
    n2.readdress(n2.address(), "192.0.2.42".parse()?)?;
    reports("192.0.2.42/24").await?;
    await_node(lab, "n2", "windlass://n2", &["192.0.2.42", "2001:db8::12", "n2"]).await?;
    n2.bind(&bound, false)?;

    let n1 = lab.node("n1")?;
    n1.readdress(n1.address(), "192.0.2.41".parse()?)?;
    lab.restart_kubelet("n1", &["--node-ip=192.0.2.41,2001:db8::11"]).await?;
    await_node(lab, "n1", "windlass://n1", &["192.0.2.41", "2001:db8::11", "n1"]).await
}

/// A Node that is deleted while its kubelet runs comes back with that kubelet's restart, as new.
async fn deleted(lab: &Lab) -> anyhow::Result<()> {
    let before = nodes(lab).get("n2").await?.uid();
    nodes(lab).delete("n2", &DeleteParams::default()).await?;
    let routers: Api<VirtualRouter> = Api::all(lab.client());
    await_that("n2 is a candidate no more", LIMIT, async || {
        for router in routers.list(&ListParams::default()).await?.items {
            let named = serde_json::to_string(&router.spec)?;
            ensure!(!named.contains("\"n2\""), "{named}");
        }
        Ok(Some(()))
    })
    .await?;
    lab.restart_kubelet("n2", &[]).await?;
    await_node(lab, "n2", "windlass://n2", &["192.0.2.42", "2001:db8::12", "n2"]).await?;
    let (node, networks) = (nodes(lab).get("n2").await?, Api::<NodeNetwork>::all(lab.client()));
    ensure!(node.uid() != before, "n2 was not made anew");
    await_that("the network of the new n2 is reported", LIMIT, async || {
        let owners = networks.get("n2").await?.metadata.owner_references.unwrap_or_default();
        ensure!(owners.iter().any(|owner| Some(&owner.uid) == node.metadata.uid.as_ref()), "{owners:?}");
        Ok(Some(()))
    })
    .await?;
    lab.await_windlass_pods().await
}

/// Waits until the node has lost its taint, and has this provider ID and these addresses, in order. Whoever sees it without
/// its taint must see them too.
async fn await_node(lab: &Lab, name: &str, provider_id: &str, expected: &[&str]) -> anyhow::Result<()> {
    await_that(&format!("{name} is initialised with {provider_id}, {expected:?}"), LIMIT, async || {
        let node = nodes(lab).get(name).await?;
        ensure!(!tainted(&node), "it is tainted, its addresses are {:?}", addresses(&node));
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
        ensure!(id == Some(provider_id), "its provider ID is {id:?}");
        ensure!(addresses(&node) == expected, "its addresses are {:?}", addresses(&node));
        Ok(Some(()))
    })
    .await
}

fn nodes(lab: &Lab) -> Api<Node> {
    Api::all(lab.client())
}

fn tainted(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == UNINITIALIZED)
}

/// In order, whatever their types: addresses are internal ones, a name is the host's.
fn addresses(node: &Node) -> Vec<&str> {
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    addresses
        .filter(|one| (one.type_ == "InternalIP") == one.address.parse::<std::net::IpAddr>().is_ok())
        .map(|one| one.address.as_str())
        .collect()
}
