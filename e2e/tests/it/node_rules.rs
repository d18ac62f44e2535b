//! What becomes of a node's addresses when its Node is cordoned, not ready, out of service or deleted, and when it is off.

use std::net::IpAddr;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use windlass_e2e::{Lab, LoadOptions, SERVICE_PORT, await_that, scenario};

use crate::setup::{LIMIT, await_answer, lab, moves, other, router_of, served};

const CLIENT: LoadOptions = LoadOptions { connections: 10, requests_per_second: 40 };

// shows: field-reports F-08
#[test]
fn what_is_said_of_a_node_moves_nothing_while_it_serves_and_nothing_more_once_it_is_dead()
-> anyhow::Result<()> {
    scenario("node-rules", lab(), async |lab| {
        let vip = served(lab).await?;
        let owner = lab.await_owner("c1", vip).await?;
        let heir = other(&owner);
        let before = moves(lab, vip).await?;

        // As kubelet's silence and `kubectl drain` leave it, while the agent lives.
        let client = lab.load("c1", vip, SERVICE_PORT, CLIENT).await?;
        let (not_ready, unreachable) = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable");
        ready(lab, &owner, "False").await?;
        taint(lab, &owner, &[(not_ready, "NoExecute")]).await?;
        lab.kubectl(&["cordon", &owner]).await?;
        await_heard(lab, vip, heir).await?;
        ready(lab, &owner, "Unknown").await?;
        taint(lab, &owner, &[(unreachable, "NoExecute"), (unreachable, "NoSchedule")]).await?;
        await_heard(lab, vip, heir).await?;
        ensure!(lab.await_owner("c1", vip).await? == owner, "{vip} has left {owner}");
        ensure!(moves(lab, vip).await? == before, "{vip} has moved and come back");
        let seen = client.stop()?;
        ensure!(seen.failed == 0 && seen.broken == 0, "{seen:?}");

        // It dies; what the admin says of it then, and that it goes, is no news to the others.
        lab.node(&owner)?.power_off().await?;
        lab.await_owner_other_than("c1", vip, &owner).await?;
        await_answer(lab, vip).await?;
        let client = lab.load("c1", vip, SERVICE_PORT, CLIENT).await?;
        await_that(&format!("{heir} is said to be Active"), LIMIT, async || {
            let active = router_of(lab, vip).await?.status.and_then(|status| status.active_node);
            ensure!(active.as_deref() == Some(heir), "{active:?} is");
            Ok(Some(()))
        })
        .await?;
        let before = moves(lab, vip).await?;
        let out_of_service = "node.kubernetes.io/out-of-service";
        taint(lab, &owner, &[(unreachable, "NoExecute"), (out_of_service, "NoExecute")]).await?;
        await_heard(lab, vip, heir).await?;
        lab.kubectl(&["delete", "node", &owner]).await?;
        await_that(&format!("{owner} is no candidate any more"), LIMIT, async || {
            let nodes = router_of(lab, vip).await?.spec.nodes;
            ensure!(nodes.iter().all(|node| node.name != owner), "{nodes:?}");
            Ok(Some(()))
        })
        .await?;
        ensure!(lab.await_owner("c1", vip).await? == heir, "{vip} has left {heir}");
        ensure!(moves(lab, vip).await? == before, "{vip} has moved and come back");
        let seen = client.stop()?;
        ensure!(seen.failed == 0 && seen.broken == 0, "{seen:?}");
        Ok(())
    })
}

/// Says whether the Node is ready.
async fn ready(lab: &Lab, node: &str, status: &str) -> anyhow::Result<()> {
    let now = "2026-01-02T00:00:00Z";
    let condition = json!({
        "type": "Ready", "status": status, "reason": "WrittenByTheLab", "message": "written by the lab",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    let change = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    Api::<Node>::all(lab.client()).patch_status(node, &PatchParams::default(), &change).await?;
    Ok(())
}

/// Gives the Node these taints and no others, by key and effect.
async fn taint(lab: &Lab, node: &str, taints: &[(&str, &str)]) -> anyhow::Result<()> {
    let taints: Vec<Value> =
        taints.iter().map(|(key, effect)| json!({"key": key, "effect": effect})).collect();
    let change = Patch::Merge(json!({"spec": {"taints": taints}}));
    Api::<Node>::all(lab.client()).patch(node, &PatchParams::default(), &change).await?;
    Ok(())
}

/// Waits until the controller has heard of all that was said of Nodes so far: of what is said of this one now, too.
async fn await_heard(lab: &Lab, vip: IpAddr, node: &str) -> anyhow::Result<()> {
    for excluded in [true, false] {
        lab.node(node)?.exclude(excluded).await?;
        await_that(&format!("{node} is ranked as excluded or not, {excluded}"), LIMIT, async || {
            let nodes = router_of(lab, vip).await?.spec.nodes;
            let ranked = nodes.iter().find(|one| one.name == node).with_context(|| format!("{nodes:?}"))?;
            ensure!((ranked.priority <= 60) == excluded, "{ranked:?}");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}
