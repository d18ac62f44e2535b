//! Real kubelets, and pods of Windlass, that know the API servers by their VIP alone, on nodes that have VIPs.

use std::net::IpAddr;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use windlass_e2e::{ApiVipHolder, Lab, LoadOptions, SERVICE_PORT, Signal, await_that, scenario};

use super::{address, hosts::await_web, serve_anew};
use crate::setup::{LIMIT, install_by_page};

/// The kubelet's own health, which its node's VIP is of here.
const CHECK: &str = "http://127.0.0.1:10248/healthz";
/// Comes before the node's own address in every order by number.
const VIP: &str = "192.0.2.3";
const CLIENT: LoadOptions = LoadOptions { connections: 10, requests_per_second: 20 };

// shows: field-reports F-67
#[test]
fn kubelet_and_pods_of_windlass_follow_the_vip_of_the_api_servers_and_no_vip_is_taken_for_the_nodes_address()
-> anyhow::Result<()> {
    let holder = ApiVipHolder::Windlass(Vec::new());
    let builder = Lab::builder().control_plane_nodes(3).nodes(1).client("c1").api_vip(holder);
    let builder = builder.late(&["n1"]).without_node_ip(&["n1"]);
    scenario("vip-kubelet", builder, async |lab| {
        let vip = address(VIP)?;
        // Without a cloud provider a kubelet chooses the address itself.
        let flags = ["--cloud-provider="];
        lab.start_vip("n1", &["--address", VIP, "--check", CHECK])?;
        lab.await_owner("c1", vip).await?;
        lab.join("n1", &flags).await?;
        own_address(lab).await.context("nothing is bound")?;

        lab.stop_vip("n1", Signal::SIGTERM).await?;
        lab.start_vip("n1", &["--address", VIP, "--check", CHECK, "--bind"])?;
        await_that("n1 has the VIP bound", LIMIT, async || {
            let shown = lab.exec("n1", &["ip", "-4", "-o", "address", "show", "dev", "eth0"]).await?;
            ensure!(shown.contains(&format!(" {VIP}/32 ")), "it has {shown}");
            Ok(Some(()))
        })
        .await?;
        lab.restart_kubelet("n1", &flags).await?;
        own_address(lab).await.context("the VIP is bound")?;

        deploy_windlass(lab).await?;
        lab.start_kube_proxies(&["n1"]).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.209"]).await?;
        let service = served(lab).await?;
        own_address(lab).await.context("an agent runs beside windlass vip")?;
        only_the_vip_is_asked(lab).await?;

        // The API servers' VIP moves. The kubelet goes on telling its node's state, the Service keeps its address, and another one gets one.
        let client = lab.load("c1", service, SERVICE_PORT, CLIENT).await?;
        let owner = lab.await_owner("c1", lab.api_vip()).await?;
        let before = heartbeat(lab).await?;
        lab.node(&owner)?.power_off().await?;
        lab.await_owner_other_than("c1", lab.api_vip(), &owner).await?;
        await_that("the kubelet renews its lease", LIMIT, async || {
            Ok((heartbeat(lab).await? != before).then_some(()))
        })
        .await?;
        serve_anew(lab, "other").await?;
        only_the_vip_is_asked(lab).await?;
        ensure!(lab.ingress("web", LIMIT).await? == service, "web has another address than {service}");
        let seen = client.stop()?;
        println!("{}: clients of the Service: {seen:?}", lab.name());
        ensure!(seen.failed == 0 && seen.broken == 0, "clients of the Service: {seen:?}");
        Ok(())
    })
}

/// Installs Windlass as its page says where kube-proxy comes later, with the VIP as the address of the API server.
async fn deploy_windlass(lab: &Lab) -> anyhow::Result<()> {
    install_by_page(lab, &lab.api_vip().to_string()).await?;
    // The host's network has one port for it.
    lab.kubectl(&["-n", "windlass-system", "scale", "deployment/windlass-controller", "--replicas=1"])
        .await?;
    lab.await_windlass_pods().await
}

/// The Service `web`, with its pod on n1, gets an address, which is answered.
async fn served(lab: &Lab) -> anyhow::Result<IpAddr> {
    lab.backend("web", &["n1"]).await?;
    lab.load_balancer("web", |_| ()).await?;
    let address = lab.ingress("web", LIMIT).await?;
    await_web(lab, address).await?;
    Ok(address)
}

/// Kubelet, kube-proxy, controller and agent of n1 have connections to the API server, all of them by the VIP.
async fn only_the_vip_is_asked(lab: &Lab) -> anyhow::Result<()> {
    let list =
        ["ss", "--no-header", "--tcp", "--numeric", "--processes", "state", "established", "dport = :6443"];
    let list = lab.exec("n1", &list).await?;
    let vip = format!(" {}:6443 ", lab.api_vip());
    for program in ["kubelet", "kube-proxy", "windlass"] {
        ensure!(list.contains(&format!("\"{program}\"")), "{program} has no connection of {list}");
    }
    ensure!(list.lines().all(|line| line.contains(&vip)), "connections go elsewhere than to{vip}: {list}");
    Ok(())
}

/// The Node has one InternalIP of IPv4: its own.
async fn own_address(lab: &Lab) -> anyhow::Result<()> {
    let own = lab.node("n1")?.address().to_string();
    let node = Api::<Node>::all(lab.client()).get("n1").await?;
    let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
    let internal: Vec<&str> = addresses
        .iter()
        .filter(|address| address.type_ == "InternalIP" && !address.address.contains(':'))
        .map(|address| address.address.as_str())
        .collect();
    println!("{}: InternalIP {internal:?}", lab.name());
    ensure!(internal == [own.as_str()], "the kubelet says {addresses:?}, not {own}");
    Ok(())
}

/// When the kubelet renewed its Node's lease last.
async fn heartbeat(lab: &Lab) -> anyhow::Result<String> {
    let words = ["get", "lease", "n1", "--namespace=kube-node-lease", "--output=jsonpath={.spec.renewTime}"];
    lab.kubectl(&words).await
}
