//! Node ports and the health check's node port, through the changes of the type.

use std::net::IpAddr;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use windlass_e2e::{Lab, ProxyMode, SERVICE_PORT, await_that, scenario};

use super::{
    client::{Transport, await_answered, await_refused},
    watched::await_untouched,
};
use crate::{
    addresses::await_withdrawn,
    setup::{LIMIT, lab, services},
};

/// Of the Service `web`, and of its health check.
const HEALTH_PORT: u16 = 32_123;

#[test]
fn health_check_port_follows_the_type_beside_kube_proxy_in_nftables_mode() -> anyhow::Result<()> {
    scenario("health-port-nft", lab(), async |lab| local_and_back(lab).await)
}

#[test]
fn health_check_port_follows_the_type_beside_kube_proxy_in_iptables_mode() -> anyhow::Result<()> {
    scenario("health-port-ipt", lab().proxy_mode(ProxyMode::Iptables), async |lab| local_and_back(lab).await)
}

/// `LoadBalancer` with `externalTrafficPolicy: Local`, `ClusterIP`, and the first again.
async fn local_and_back(lab: &Lab) -> anyhow::Result<()> {
    lab.deploy_windlass(&["n1", "n2"]).await?;
    lab.announcement("alone", json!({"loadSharing": "None"})).await?;
    lab.pool_with("default", &["192.0.2.200-192.0.2.250"], json!({"quarantineSeconds": 600})).await?;
    // Whichever node has the address, it has an endpoint; n3 has none.
    lab.backend("web", &["n1", "n2"]).await?;
    let local = |spec: &mut ServiceSpec| {
        spec.external_traffic_policy = Some("Local".into());
        spec.health_check_node_port = Some(HEALTH_PORT.into());
    };
    let made = lab.load_balancer("web", |service| local(service.spec.get_or_insert_default())).await?;
    let node_port = node_port(&made)?;
    let vip = lab.ingress("web", LIMIT).await?;
    serves_locally(lab, vip).await?;

    change(lab, "web", json!({"type": "ClusterIP"})).await?;
    await_untouched(lab, "web").await?;
    await_withdrawn(lab, vip).await?;
    for node in lab.nodes() {
        await_refused(lab, Transport::Tcp, node.address().into(), HEALTH_PORT).await?;
        await_refused(lab, Transport::Tcp, node.address().into(), node_port).await?;
    }
    // Within the cluster it is answered as before. Both its node ports can be another's, and its address cannot.
    let cluster_ip = spec(lab, "web").await?.cluster_ip.context("no cluster address")?;
    lab.curl("n3", cluster_ip.parse::<IpAddr>()?, SERVICE_PORT).await?;
    lab.same_backend("heir", "web")?;
    lab.load_balancer("heir", |service| {
        let spec = service.spec.get_or_insert_default();
        local(spec);
        spec.ports.iter_mut().flatten().for_each(|port| {
            port.node_port = (port.protocol.as_deref() == Some("TCP")).then_some(node_port.into());
        });
    })
    .await?;
    let heirs = lab.ingress("heir", LIMIT).await?;
    ensure!(heirs != vip, "heir got {vip}, which is kept back for web");
    serves_locally(lab, heirs).await?;
    answers_at_a_node(lab, "n1", node_port).await?;
    change(lab, "heir", json!({"type": "ClusterIP"})).await?;
    await_untouched(lab, "heir").await?;

    let again =
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": HEALTH_PORT});
    change(lab, "web", again).await?;
    ensure!(lab.ingress("web", LIMIT).await? == vip, "web did not get {vip} back");
    serves_locally(lab, vip).await?;

    // Of all that, the policy alone goes.
    change(lab, "web", json!({"externalTrafficPolicy": "Cluster"})).await?;
    for node in lab.nodes() {
        await_refused(lab, Transport::Tcp, node.address().into(), HEALTH_PORT).await?;
    }
    lab.curl("c1", vip, SERVICE_PORT).await?;
    ensure!(lab.ingress("web", LIMIT).await? == vip, "web lost {vip} with its policy");
    Ok(())
}

/// The owner's own endpoint answers, and the health check's port says which node has one: at the nodes, not at the address.
async fn serves_locally(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    await_that(&format!("the endpoint of the owner answers at {vip}"), LIMIT, async || {
        let owner = lab.await_owner("c1", vip).await?;
        let answer = lab.curl("c1", vip, SERVICE_PORT).await?;
        ensure!(answer == format!("web-{owner}"), "{owner} has it, {answer} answers");
        Ok(Some(()))
    })
    .await?;
    for (node, expected) in [("n1", "200 1"), ("n2", "200 1"), ("n3", "503 0")] {
        await_that(&format!("kube-proxy of {node} says {expected}"), LIMIT, async || {
            let said = health(lab, node).await?;
            ensure!(said == expected, "it says {said}");
            Ok(Some(()))
        })
        .await?;
    }
    await_refused(lab, Transport::Tcp, vip, HEALTH_PORT).await
}

/// What kube-proxy answers the client at the health check's port of a node: status, and endpoints on the node.
async fn health(lab: &Lab, node: &str) -> anyhow::Result<String> {
    let url = format!("http://{}:{HEALTH_PORT}/healthz", lab.node(node)?.address());
    let words = ["curl", "-sS", "--noproxy", "*", "--max-time", "2", "-w", "\n%{http_code}", &url];
    let said = lab.exec("c1", &words).await?;
    let (text, code) = said.trim_end().rsplit_once('\n').context("no status")?;
    let text: Value = serde_json::from_str(text)?;
    Ok(format!("{code} {}", text["localEndpoints"]))
}

#[test]
fn node_port_outlives_the_load_balancer_that_a_service_was_for_a_while() -> anyhow::Result<()> {
    scenario("node-port", lab(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.pool_with("default", &["192.0.2.200-192.0.2.250"], json!({"quarantineSeconds": 600})).await?;
        lab.backend("web", &["n3"]).await?;
        let made = lab
            .load_balancer("web", |service| {
                service.spec.get_or_insert_default().type_ = Some("NodePort".into());
            })
            .await?;
        let port = node_port(&made)?;
        answers_at_a_node(lab, "n1", port).await?;
        let mut address = None;
        for _ in 0..2 {
            change(lab, "web", json!({"type": "LoadBalancer"})).await?;
            let vip = lab.ingress("web", LIMIT).await?;
            ensure!(*address.get_or_insert(vip) == vip, "web had {address:?} and got {vip}");
            await_answered(lab, Transport::Tcp, vip, SERVICE_PORT, "web-n3").await?;
            answers_at_a_node(lab, "n1", port).await?;
            // The node's port is not the address'.
            await_refused(lab, Transport::Tcp, vip, port).await?;

            change(lab, "web", json!({"type": "NodePort"})).await?;
            await_untouched(lab, "web").await?;
            await_withdrawn(lab, vip).await?;
            ensure!(node_port(&services(lab, "default").get("web").await?)? == port, "another node port");
            answers_at_a_node(lab, "n1", port).await?;
        }
        Ok(())
    })
}

#[test]
fn service_without_node_ports_is_answered_and_can_have_and_lose_them() -> anyhow::Result<()> {
    scenario("no-node-ports", lab(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.pool_with("default", &["192.0.2.200-192.0.2.250"], json!({"quarantineSeconds": 600})).await?;
        lab.backend("web", &["n3"]).await?;
        lab.load_balancer("web", |service| {
            service.spec.get_or_insert_default().allocate_load_balancer_node_ports = Some(false);
        })
        .await?;
        let vip = lab.ingress("web", LIMIT).await?;
        let answered = async || {
            for transport in [Transport::Tcp, Transport::Udp] {
                await_answered(lab, transport, vip, SERVICE_PORT, "web-n3").await?;
            }
            ensure!(lab.ingress("web", LIMIT).await? == vip, "web lost {vip}");
            anyhow::Ok(())
        };
        answered().await?;
        let ports = spec(lab, "web").await?.ports.unwrap_or_default();
        ensure!(ports.iter().all(|port| port.node_port.is_none()), "node ports were given: {ports:?}");

        change(lab, "web", json!({"allocateLoadBalancerNodePorts": true})).await?;
        let port = node_port(&services(lab, "default").get("web").await?)?;
        answers_at_a_node(lab, "n1", port).await?;
        answered().await?;

        change(lab, "web", json!({"allocateLoadBalancerNodePorts": false, "ports": ports})).await?;
        await_refused(lab, Transport::Tcp, lab.node("n1")?.address().into(), port).await?;
        answered().await?;
        // What was let go another Service can have.
        lab.same_backend("heir", "web")?;
        lab.load_balancer("heir", |service| {
            let spec = service.spec.get_or_insert_default();
            spec.type_ = Some("NodePort".into());
            spec.ports.iter_mut().flatten().take(1).for_each(|own| own.node_port = Some(port.into()));
        })
        .await?;
        answers_at_a_node(lab, "n1", port).await?;
        await_untouched(lab, "heir").await?;

        // As a Service of another type and back.
        change(lab, "web", json!({"type": "ClusterIP"})).await?;
        await_untouched(lab, "web").await?;
        await_withdrawn(lab, vip).await?;
        change(lab, "web", json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false})).await?;
        answered().await
    })
}

async fn answers_at_a_node(lab: &Lab, node: &str, port: u16) -> anyhow::Result<()> {
    let address = lab.node(node)?.address();
    await_that(&format!("node port {port} is answered at {node}"), LIMIT, async || {
        lab.curl("c1", address, port).await?;
        Ok(Some(()))
    })
    .await
}

async fn change(lab: &Lab, name: &str, spec: Value) -> anyhow::Result<()> {
    let change = Patch::Merge(json!({"spec": spec}));
    let changed = services(lab, "default").patch(name, &PatchParams::default(), &change).await;
    changed.with_context(|| format!("changing {name} to {spec}")).map(drop)
}

async fn spec(lab: &Lab, name: &str) -> anyhow::Result<ServiceSpec> {
    services(lab, "default").get(name).await?.spec.context("no spec")
}

/// The node port of the Service's first port.
fn node_port(service: &Service) -> anyhow::Result<u16> {
    let port = service.spec.as_ref().and_then(|spec| spec.ports.as_ref()?.first()?.node_port);
    Ok(port.context("no node port")?.try_into()?)
}
