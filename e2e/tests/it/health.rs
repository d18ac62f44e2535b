//! A node that cannot serve gives its addresses up by itself: without the controller, and where it can without the API server.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use windlass_api::NodeNetwork;
use windlass_e2e::{
    EndpointState::Ready, Lab, Protocol, SERVICE_PORT, Signal, await_idly, await_that, scenario,
};

use crate::{
    local::{await_served_by, served_locally},
    setup::{LIMIT, await_answer, lab, moves, other, router_of, served, services},
};

/// The nodes that have an agent.
const AGENTS: [&str; 2] = ["n1", "n2"];
/// Name of the process that is checked.
const CHECKED: &str = "checked";

// shows: field-reports F-61; placement P-15
#[test]
fn a_node_whose_kube_proxy_is_dead_gives_its_addresses_up_without_the_api_server() -> anyhow::Result<()> {
    scenario("health-dead", lab(), async |lab| {
        let vip = served(lab).await?;
        let owner = lab.await_owner("c1", vip).await?;
        lab.stop_api_server().await?;
        lab.node(&owner)?.kill("kube-proxy").await?;
        let heir = lab.await_owner_other_than("c1", vip, &owner).await?;
        ensure!(heir == other(&owner), "{heir} has the address");
        await_answer(lab, vip).await?;
        // Of two that are not well the one that has the address keeps it.
        lab.node(&heir)?.kill("kube-proxy").await?;
        lab.start_api_server().await?;
        await_told(lab, &heir, Some("kube-proxy: no answer at http://127.0.0.1:10256/healthz")).await?;
        await_answer(lab, vip).await?;
        lab.node(&owner)?.start_again("kube-proxy")?;
        await_told(lab, &owner, None).await?;
        ensure!(lab.await_owner("c1", vip).await? == owner, "{owner} is well, and has not got {vip}");
        await_answer(lab, vip).await
    })
}

// shows: placement P-06, P-14
#[test]
fn a_node_that_kube_proxy_calls_ineligible_gives_its_addresses_up_at_once() -> anyhow::Result<()> {
    scenario("health-taint", lab(), async |lab| {
        let vip = served(lab).await?;
        let owner = lab.await_owner("c1", vip).await?;
        lab.stop_controller("controller", Signal::SIGKILL).await?;
        let taint = json!([{"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}]);
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(lab.client());
        let change = Patch::Merge(json!({"spec": {"taints": taint}}));
        nodes.patch(&owner, &PatchParams::default(), &change).await?;
        lab.await_owner_other_than("c1", vip, &owner).await?;
        await_told(lab, &owner, Some("kube-proxy: it answers 503")).await?;
        await_answer(lab, vip).await
    })
}

// shows: placement P-21
#[test]
fn a_node_that_loses_its_pod_gives_the_address_to_one_that_has_one_without_the_controller()
-> anyhow::Result<()> {
    scenario("health-pod", lab(), async |lab| {
        let (service, vip) = served_locally(lab, &[("n1", Ready), ("n3", Ready)]).await?;
        let owner = lab.await_owner("c1", vip).await?;
        let other = if owner == "n1" { "n3" } else { "n1" };
        await_served_by(lab, vip, &owner).await?;
        await_ranked(lab, vip).await?;
        lab.stop_controller("controller", Signal::SIGKILL).await?;
        lab.write_pods(&service, &[(other, Ready)]).await?;
        await_served_by(lab, vip, other).await?;
        await_told(lab, &owner, Some("the health check on node port ")).await
    })
}

// shows: field-reports F-60, F-79; placement P-19
#[test]
fn a_node_on_which_a_check_of_an_announcement_fails_gives_its_addresses_up_until_it_passes()
-> anyhow::Result<()> {
    scenario("health-check", lab(), async |lab| {
        let vip = served_with_check(lab).await?;
        let owner = lab.await_owner("c1", vip).await?;
        lab.stop_api_server().await?;
        lab.end_process(&owner, CHECKED, Signal::SIGKILL).await?;
        let heir = lab.await_owner_other_than("c1", vip, &owner).await?;
        ensure!(heir == other(&owner), "{heir} has the address");
        await_answer(lab, vip).await?;
        lab.start_api_server().await?;
        await_told(lab, &owner, Some("the check httpGet http://localhost:8404/healthz: no answer")).await?;
        start_checked(lab, &owner)?;
        await_told(lab, &owner, None).await?;
        ensure!(lab.await_owner_other_than("c1", vip, &heir).await? == owner, "{owner} has not got {vip}");
        await_answer(lab, vip).await?;
        // Nobody has to have it checked that the kernel forwards.
        lab.exec(&owner, &["sysctl", "-qw", "net.ipv4.ip_forward=0"]).await?;
        lab.await_owner_other_than("c1", vip, &owner).await?;
        await_answer(lab, vip).await?;
        await_told(lab, &owner, Some("forwarding of IPv4 from eth0: net/ipv4/ip_forward is 0")).await
    })
}

#[test]
fn a_check_that_fails_on_all_nodes_alike_moves_nothing() -> anyhow::Result<()> {
    scenario("health-check-alike", lab(), async |lab| {
        let vip = served_with_check(lab).await?;
        let owner = lab.await_owner("c1", vip).await?;
        let before = moves(lab, vip).await?;
        for node in AGENTS {
            lab.signal_process(node, CHECKED, Signal::SIGKILL)?;
        }
        for node in AGENTS {
            await_told(lab, node, Some("the check httpGet http://localhost:8404/healthz: no answer")).await?;
        }
        for node in AGENTS {
            start_checked(lab, node)?;
        }
        for node in AGENTS {
            await_told(lab, node, None).await?;
        }
        ensure!(lab.await_owner("c1", vip).await? == owner, "{owner} does not answer for {vip} any more");
        ensure!(moves(lab, vip).await? == before, "{vip} has moved and come back");
        await_answer(lab, vip).await
    })
}

// shows: field-reports F-52, F-84
#[test]
fn a_node_one_of_whose_links_loses_its_carrier_gives_its_addresses_up_until_it_is_back() -> anyhow::Result<()>
{
    scenario("health-link", lab(), async |lab| {
        for node in AGENTS {
            let add = ["ip", "link", "add", "store0", "up", "type", "veth", "peer", "name", "far0"];
            lab.exec(node, &add).await?;
            lab.exec(node, &["ip", "link", "set", "far0", "up"]).await?;
        }
        lab.install_manifests().await?;
        // Each of the two has 10 Gbit/s.
        let links = json!({"interfaces": ["eth0", "store*"], "minimumMegabitsPerSecond": 20_000});
        lab.announcement("linked", json!({"checks": [{"link": links}]})).await?;
        let vip = served(lab).await?;
        let owner = lab.await_owner("c1", vip).await?;
        lab.stop_api_server().await?;
        lab.exec(&owner, &["ip", "link", "set", "far0", "down"]).await?;
        let heir = lab.await_owner_other_than("c1", vip, &owner).await?;
        ensure!(heir == other(&owner), "{heir} has the address");
        await_answer(lab, vip).await?;
        lab.start_api_server().await?;
        let told = "the check link eth0,store*: 1 link has carrier, and 2 are to; not store0";
        await_told(lab, &owner, Some(told)).await?;
        lab.exec(&owner, &["ip", "link", "set", "far0", "up"]).await?;
        await_told(lab, &owner, None).await?;
        ensure!(lab.await_owner_other_than("c1", vip, &heir).await? == owner, "{owner} has not got {vip}");
        await_answer(lab, vip).await?;
        served_while_a_bridge_comes_and_goes(lab, vip, &owner).await?;
        if lab.exec(&owner, &["test", "-e", "/proc/sys/net/bridge"]).await.is_err() {
            println!("not tried: this kernel has no br_netfilter");
            return Ok(());
        }
        given_up_on_a_bridge_that_filters(lab, vip, &owner).await
    })
}

/// Moves the address and the port of the node that announces the VIP to a bridge and back. Each time the VIP has one owner at
/// most, is answered, and comes back to the node on its new interface.
async fn served_while_a_bridge_comes_and_goes(lab: &Lab, vip: IpAddr, owner: &str) -> anyhow::Result<()> {
    let node = lab.node(owner)?;
    let answering = lab.answering("c1", &[vip])?;
    let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(10))?;
    for interface in ["br0", "eth0"] {
        if interface == "br0" {
            node.move_to_bridge("br0")?;
        } else {
            node.move_from_bridge("br0")?;
        }
        await_announced_on(lab, vip, owner, interface).await?;
        await_answer(lab, vip).await?;
    }
    let (seen, outcome) = (answering.stop()?, probe.stop()?);
    println!("longest gap {:?} of {:?}, moves {:?}", outcome.longest_gap, outcome.length, seen.moves);
    ensure!(seen.lasting_doubled().is_empty(), "two answered: {:?}", seen.doubled);
    ensure!(outcome.last_server.as_deref() == Some("web-n3"), "{outcome:?}");
    Ok(())
}

/// Waits until the node announces the VIP on this interface.
async fn await_announced_on(lab: &Lab, vip: IpAddr, owner: &str, interface: &str) -> anyhow::Result<()> {
    await_that(&format!("{owner} announces {vip} on {interface}"), LIMIT, async || {
        let router = router_of(lab, vip).await?;
        let ranked = router.spec.nodes.iter().find(|ranked| ranked.name == owner);
        let is_moved = ranked.is_some_and(|ranked| ranked.interface == interface && !ranked.joining);
        ensure!(is_moved, "its virtual router has {:?}", router.spec.nodes);
        ensure!(lab.await_owner("c1", vip).await? == owner, "{owner} has not got {vip}");
        Ok(Some(()))
    })
    .await
}

/// Moves the node's address to a bridge again. The node gives the VIP up once packets of bridges pass kube-proxy's rules: the kernel drops those
/// to pods of other nodes.
async fn given_up_on_a_bridge_that_filters(lab: &Lab, vip: IpAddr, owner: &str) -> anyhow::Result<()> {
    let node = lab.node(owner)?;
    node.move_to_bridge("br0")?;
    await_announced_on(lab, vip, owner, "br0").await?;
    let ports = services(lab, "default").get("web").await?.spec.and_then(|spec| spec.ports);
    let port = ports.and_then(|ports| ports[0].node_port).context("web has no node port")?.try_into()?;
    let answer = lab.curl("c1", node.address(), port).await?;
    ensure!(answer == "web-n3", "{answer} answers at the node port");
    lab.exec(owner, &["sysctl", "-w", "net.bridge.bridge-nf-call-iptables=1"]).await?;
    let answer = lab.curl("c1", node.address(), port).await;
    ensure!(answer.is_err(), "the kernel forwards from the bridge: {answer:?}");
    let heir = lab.await_owner_other_than("c1", vip, owner).await?;
    ensure!(heir == other(owner), "{heir} has the address");
    await_answer(lab, vip).await?;
    await_told(lab, owner, Some("forwarding of IPv4 from br0: net/bridge/bridge-nf-call-iptables is 1")).await
}

// shows: placement P-20
#[test]
fn a_node_that_is_late_again_and_again_gives_its_addresses_up_before_others_take_them() -> anyhow::Result<()>
{
    scenario("health-late", lab(), async |lab| {
        // Of 400 ms another takes over when an advert is 800 ms late.
        lab.install_manifests().await?;
        lab.announcement("slow", json!({"vrrp": {"advertisementIntervalMilliseconds": 400}})).await?;
        let vip = served(lab).await?;
        let owner = lab.await_owner("c1", vip).await?;
        let _held_up =
            lab.node(&owner)?.hold_up_agent(Duration::from_millis(600), Duration::from_millis(150))?;
        await_told(lab, &owner, Some("the engine, for adverts each 400 ms: it was ")).await?;
        let heir = other(&owner);
        await_that(&format!("{heir} has {vip}"), LIMIT, async || {
            Ok((lab.await_owner("c1", vip).await? == heir).then_some(()))
        })
        .await?;
        // It has them for good: the other goes on to be late.
        await_told(lab, &owner, Some("the engine, ")).await?;
        ensure!(lab.await_owner("c1", vip).await? == heir, "{owner} has taken {vip} back");
        await_answer(lab, vip).await
    })
}

/// As [`served`], with an Announcement that has checked what runs on both nodes.
async fn served_with_check(lab: &Lab) -> anyhow::Result<IpAddr> {
    for node in AGENTS {
        start_checked(lab, node)?;
    }
    lab.install_manifests().await?;
    let check = json!({"httpGet": {"port": 8404, "path": "/healthz"}});
    lab.announcement("checked", json!({"checks": [check]})).await?;
    let vip = served(lab).await?;
    ensure!(router_of(lab, vip).await?.spec.checks.len() == 1, "it has no check");
    Ok(vip)
}

/// Starts what is checked: a server on the node itself.
fn start_checked(lab: &Lab, node: &str) -> anyhow::Result<()> {
    let agnhost = lab.tool("agnhost");
    lab.start_process(node, CHECKED, &[&agnhost, "netexec", "--http-port=8404", "--udp-port=8405"])
}

/// Waits until the virtual router of `vip` has two nodes that can serve it.
async fn await_ranked(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    await_that(&format!("two nodes are good for {vip}"), LIMIT, async || {
        let nodes = router_of(lab, vip).await?.spec.nodes;
        ensure!(nodes.iter().filter(|node| node.priority > 60).count() == 2, "{nodes:?}");
        Ok(Some(()))
    })
    .await
}

/// Waits until the node's `NodeNetwork` begins to tell so, or tells of nothing that fails.
pub(crate) async fn await_told(lab: &Lab, node: &str, words: Option<&str>) -> anyhow::Result<()> {
    let networks: Api<NodeNetwork> = Api::all(lab.client());
    // A check that failed counts for a minute.
    await_idly(&format!("{node} tells of {words:?}"), 2 * LIMIT, async || {
        let network = networks.get(node).await?;
        let said = &network.spec.failed_checks;
        let is_told = match words {
            Some(words) => said.iter().any(|one| one.starts_with(words)),
            None => said.is_empty(),
        };
        ensure!(is_told, "{} says {said:?}", network.name_any());
        Ok(Some(()))
    })
    .await
}
