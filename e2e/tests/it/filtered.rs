//! The LAN loses the multicast of VRRP between the nodes, and nothing else.

use std::net::IpAddr;

use anyhow::ensure;
use kube::Api;
use serde_json::json;
use windlass_api::{CONDITION_MULTICAST_HEARD, NodeNetwork, multicast_heard};
use windlass_e2e::{Lab, Signal, await_that, scenario};

use crate::setup::{LIMIT, await_answer, await_event_on, await_ingresses, dual_stack, lab, other, router_of};

const NODES: [&str; 2] = ["n1", "n2"];

// shows: field-reports F-56
#[test]
fn where_multicast_is_lost_one_node_answers_and_both_say_so_until_it_passes_again() -> anyhow::Result<()> {
    scenario("filtered", lab(), async |lab| {
        let vips = dual(lab).await?;
        let mut owners = Vec::new();
        for vip in &vips {
            owners.push(lab.await_owner("c1", *vip).await?);
        }
        let stay = async |when: &str| {
            for (vip, owner) in vips.iter().zip(&owners) {
                let now = lab.await_owner("c1", *vip).await?;
                ensure!(now == *owner, "{when}: {vip} went from {owner} to {now}");
            }
            await_answer(lab, vips[0]).await
        };
        for node in NODES {
            filter(lab, node).await?;
        }
        for (vip, owner) in vips.iter().zip(&owners) {
            await_condition(lab, *vip, "False", multicast_heard::UNICAST_FALLBACK, other(owner)).await?;
        }
        await_networks(lab, true).await?;
        for node in NODES {
            await_event_on(lab, "Node", node, "WithoutMulticast", &["on eth0", "unicast takes its place"])
                .await?;
        }
        stay("filtered").await?;

        // Who starts where it hears nobody finds who announces.
        let late = other(&owners[0]);
        lab.stop_agent(late, Signal::SIGKILL).await?;
        lab.start_agent(late)?;
        await_networks(lab, true).await?;
        for vip in &vips {
            lab.await_owner("c1", *vip).await?;
        }
        await_answer(lab, vips[0]).await?;

        for node in NODES {
            lab.exec(node, &["nft", "delete table inet filtered"]).await?;
        }
        await_networks(lab, false).await?;
        for vip in &vips {
            await_condition(lab, *vip, "True", multicast_heard::HEARD, "").await?;
            lab.await_owner("c1", *vip).await?;
        }
        await_answer(lab, vips[0]).await
    })
}

#[test]
fn without_unicast_fallback_two_nodes_answer_where_multicast_is_lost() -> anyhow::Result<()> {
    scenario("filtered-alone", lab(), async |lab| {
        lab.install_manifests().await?;
        lab.announcement("lan", json!({"vrrp": {"unicastFallback": false}})).await?;
        let vip = dual(lab).await?[0];
        for node in NODES {
            filter(lab, node).await?;
        }
        await_that(&format!("two nodes answer for {vip}"), LIMIT, async || {
            let answered = lab.neighbours("c1", vip).await?;
            ensure!(answered.len() == 2, "{answered:?} answered");
            Ok(Some(()))
        })
        .await?;
        lab.change_announcement("lan", json!({"vrrp": {"unicastFallback": true}})).await?;
        lab.await_owner("c1", vip).await?;
        await_networks(lab, true).await
    })
}

/// Windlass on two nodes, and the Service `web` with an address of each family, IPv4 first.
async fn dual(lab: &Lab) -> anyhow::Result<Vec<IpAddr>> {
    lab.deploy_windlass(&NODES).await?;
    lab.pool("default", &["192.0.2.200-192.0.2.250", "2001:db8::200-2001:db8::250"]).await?;
    lab.backend("web", &["n3"]).await?;
    lab.load_balancer("web", dual_stack).await?;
    let vips = await_ingresses(lab, "web", 2).await?;
    await_answer(lab, vips[0]).await?;
    Ok(vips)
}

/// The node hears no multicast of VRRP any more.
async fn filter(lab: &Lab, node: &str) -> anyhow::Result<()> {
    let rules = "add table inet filtered; \
                 add chain inet filtered in { type filter hook input priority 0; }; \
                 add rule inet filtered in ip daddr 224.0.0.18 drop; \
                 add rule inet filtered in ip6 daddr ff02::12 drop";
    lab.exec(node, &["nft", rules]).await.map(drop)
}

/// Waits until the virtual router of `vip` has the condition so, with a message that names `node`.
async fn await_condition(
    lab: &Lab,
    vip: IpAddr,
    status: &str,
    reason: &str,
    node: &str,
) -> anyhow::Result<()> {
    await_that(&format!("multicast for {vip} is {reason}"), LIMIT, async || {
        let conditions = router_of(lab, vip).await?.status.unwrap_or_default().conditions;
        let is_told = conditions.iter().any(|one| {
            one.type_ == CONDITION_MULTICAST_HEARD
                && (one.status.as_str(), one.reason.as_str()) == (status, reason)
                && one.message.contains(node)
        });
        ensure!(is_told, "its conditions are {conditions:?}");
        Ok(Some(()))
    })
    .await
}

/// Waits until both nodes say, in their NodeNetworks and in their metrics, that multicast does not pass between them, or that it does.
async fn await_networks(lab: &Lab, filtered: bool) -> anyhow::Result<()> {
    let networks: Api<NodeNetwork> = Api::all(lab.client());
    for node in NODES {
        await_that(&format!("{node} knows whether multicast passes"), LIMIT, async || {
            let said = networks.get(node).await?.spec.without_multicast;
            let is_told = if filtered {
                said.len() == 2 && said.iter().all(|peer| peer.node == other(node))
            } else {
                said.is_empty()
            };
            ensure!(is_told, "its NodeNetwork says {said:?}");
            let metrics = lab.agent_metrics(node).await?;
            let of = "windlass_vrrp_peers_without_multicast{";
            let peers: Vec<&str> = metrics.lines().filter(|line| line.starts_with(of)).collect();
            let counts = peers.iter().any(|line| line.ends_with(" 1"));
            ensure!(counts == filtered, "its metrics say {peers:?}");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}
