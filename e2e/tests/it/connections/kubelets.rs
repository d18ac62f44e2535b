//! The same with real kubelets, pods, and Windlass as pods: the node that announces is killed whole.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context as _, ensure};
use serde_json::json;
use windlass_api::ANNOTATION_SHARING_KEY;
use windlass_e2e::{BACKEND_HTTP, Lab, Protocol, Talk, await_that, scenario};

use super::{
    await_owner,
    scene::{Backend, Scene},
};
use crate::setup::{LIMIT, annotate};

/// Of the API server behind the address.
const API: u16 = 6443;
/// Where the forwarded port is on the client.
const FORWARDED: u16 = 7000;

#[test]
fn connections_to_pods_outlive_a_node_that_is_killed_whole_a_websocket_among_them() -> anyhow::Result<()> {
    scenario("connections-kubelets", Lab::builder().nodes(3).client("c1"), async |lab| {
        let scene = Scene::start(lab, &["n1", "n2"], "n3").await?;
        let vip = scene.vips[0];
        serve_api(lab, vip).await?;
        let clients = scene.clients(lab, &Backend::ALL).await?;
        let _forwarder = forward(lab, vip).await?;
        clients.await_known(lab, &["n2"]).await?;
        await_known(lab, vip).await?;
        lab.node("n1")?.power_off().await?;
        await_owner(lab, &scene.vips, "n2").await?;
        clients.stop("n1 killed whole", &[Backend::Active], &[])?;
        through_websocket(lab).await.context("n1 is dead")
    })
}

/// Has the API server reached by the address, too: what it does over a WebSocket is forwarding ports of pods.
async fn serve_api(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    let server = lab.host("cp")?.address;
    let ports = json!([{"name": "api", "protocol": "TCP", "port": API}]);
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "api", "namespace": "default", "labels": {"kubernetes.io/service-name": "api"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [server]}],
        "ports": ports,
    });
    lab.apply(serde_json::to_string_pretty(&slice)?).await?;
    let ports = serde_json::from_value(ports)?;
    lab.load_balancer("api", |service| {
        annotate(service, ANNOTATION_SHARING_KEY, "one");
        let spec = service.spec.get_or_insert_default();
        (spec.selector, spec.ports) = (None, Some(ports));
    })
    .await?;
    let address = lab.ingress("api", LIMIT).await?;
    ensure!(address == vip, "the API server is at {address}, not {vip}");
    Ok(())
}

/// Forwards a port of the client to the pod on `n3`, by way of the address.
async fn forward(lab: &Lab, vip: IpAddr) -> anyhow::Result<Talk> {
    let (kubectl, config) = (lab.tool("kubectl"), lab.kubeconfig("admin").display().to_string());
    let (server, ports) = (format!("https://{vip}:{API}"), format!("{FORWARDED}:{BACKEND_HTTP}"));
    let name = "--tls-server-name=kubernetes.default.svc";
    let to_api =
        [&*kubectl, "--kubeconfig", &config, "--server", &server, name, "--cache-dir=/run/lab/kubectl"];
    let what = ["port-forward", "deployment/third-n3", &ports];
    let forwarder = await_that("the port is forwarded", LIMIT, async || {
        let forwarder = lab.talk("c1", "port-forward", &[&to_api[..], &what].concat())?;
        await_that("the pod answers", LIMIT / 4, async || through_websocket(lab).await.map(Some)).await?;
        Ok(Some(forwarder))
    });
    forwarder.await
}

/// Asks the pod over the WebSocket that is open.
async fn through_websocket(lab: &Lab) -> anyhow::Result<()> {
    let answer = lab.curl("c1", Ipv4Addr::LOCALHOST, FORWARDED).await?;
    ensure!(answer == "third-n3", "{answer:?} answers");
    Ok(())
}

/// Waits until `n2` knows all connections to the API server, the WebSocket among them.
async fn await_known(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    await_that("n2 knows the connections to the API server", LIMIT, async || {
        let open = lab.open_ports("c1", vip, API).await?;
        let known = lab.tracked("n2", Protocol::Tcp, vip).await?;
        ensure!(!open.is_empty() && open.is_subset(&known), "{open:?} are open, {known:?} known");
        Ok(Some(()))
    })
    .await
}
