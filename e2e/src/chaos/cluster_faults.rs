//! Faults in the cluster's objects and its leader election, as an admin, an upgrade or a partition of the control plane causes them.

use std::{collections::BTreeSet, fmt::Debug, fs, time::Duration};

use anyhow::Context as _;
use k8s_openapi::{ClusterResourceScope, api::core::v1::Node};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use nix::sys::signal::Signal;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_api::{NodeNetwork, VirtualRouter};

use super::scene::{ANNOUNCEMENTS, CONTROLLER, LIMIT, NODES, Scene, next, start_controller};
use crate::{
    EndpointState::{self, Ready, Starting, Terminating},
    Lab, await_that,
};

/// Name and port of the controller that leads while the other one is frozen.
const SECOND: (&str, u16) = ("second", 10268);
/// Time for which both controllers run; one of them may not know yet that it has lost the lease.
const TOGETHER: Duration = Duration::from_secs(1);
/// Time for which a pod serves after its termination began, by a `preStop` hook: longer than the minimum of three seconds.
const LAST_SERVICE: Duration = Duration::from_secs(5);
/// Name of the server that is checked, and its port.
const CHECKED: &str = "checked";
const PORT: &str = "8404";

/// Freezes the leader, and starts another controller.
pub(super) fn begin_two_controllers(lab: &Lab) -> anyhow::Result<()> {
    // (It may just have ended by itself.)
    if lab.controller_runs(CONTROLLER.0)? {
        lab.signal_controller(CONTROLLER.0, Signal::SIGSTOP)?;
    }
    start_controller(lab, SECOND)
}

/// Lets the frozen one go on beside the other, which then ends.
pub(super) async fn end_two_controllers(scene: &Scene<'_>) -> anyhow::Result<()> {
    let lab = scene.lab;
    if lab.controller_runs(CONTROLLER.0)? {
        lab.signal_controller(CONTROLLER.0, Signal::SIGCONT)?;
    }
    tokio::time::sleep(TOGETHER).await;
    end_controller(lab, SECOND.0, Signal::SIGTERM).await?;
    scene.revive_controller()
}

/// Ends a controller, unless it has just ended by itself.
pub(super) async fn end_controller(lab: &Lab, name: &str, signal: Signal) -> anyhow::Result<()> {
    let ended = lab.stop_controller(name, signal).await;
    if ended.is_err() && !lab.controller_runs(name)? { Ok(()) } else { ended }
}

/// Drains a node by the label that excludes it from load balancers, or ends the drain.
pub(super) async fn exclude(lab: &Lab, node: &str, excluded: bool) -> anyhow::Result<()> {
    patiently("the node is labelled", async || lab.node(node)?.exclude(excluded).await).await
}

/// Sets or removes the taint that the cluster autoscaler sets on a node that it is about to delete.
pub(super) async fn taint(lab: &Lab, node: &str, tainted: bool) -> anyhow::Result<()> {
    let taint = json!({"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"});
    let taints: Vec<Value> = tainted.then_some(taint).into_iter().collect();
    change_node(lab, node, "the node is tainted", json!({"taints": taints})).await
}

/// Cordons or uncordons a node, as `kubectl` does.
pub(super) async fn cordon(lab: &Lab, node: &str, cordoned: bool) -> anyhow::Result<()> {
    change_node(lab, node, "the node is cordoned", json!({"unschedulable": cordoned})).await
}

async fn change_node(lab: &Lab, node: &str, what: &str, spec: Value) -> anyhow::Result<()> {
    let change = Patch::Merge(json!({"spec": spec}));
    let nodes: Api<Node> = Api::all(lab.client());
    patiently(what, async || {
        nodes.patch(node, &PatchParams::default(), &change).await.map(drop)?;
        Ok(())
    })
    .await
}

/// Deletes a Node and its agent's NodeNetwork. In a full cluster the garbage collector deletes the latter; a light lab has none.
pub(super) async fn delete_node(lab: &Lab, node: &str) -> anyhow::Result<()> {
    delete::<Node>(lab, node).await?;
    delete::<NodeNetwork>(lab, node).await
}

async fn delete<K>(lab: &Lab, name: &str) -> anyhow::Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::all(lab.client());
    let what = format!("there is no {} {name}", K::kind(&()));
    await_that(&what, LIMIT, async || {
        Ok(match api.delete(name, &DeleteParams::default()).await {
            // (It had been deleted by a request whose answer was lost.)
            Err(kube::Error::Api(status)) if status.code == 404 => Some(()),
            deleted => deleted.map(|_| None)?,
        })
    })
    .await
}

/// Writes the Node if it is missing, as the kubelet does.
pub(super) async fn write_node(lab: &Lab, node: &str) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(lab.client());
    patiently("the Node is written", async || {
        let exists = nodes.get_opt(node).await?.is_some();
        if exists { Ok(()) } else { lab.write_node(node).await }
    })
    .await
}

/// Starts a pod on the next node and waits until it is ready beside the old one, as with `maxSurge: 1`.
pub(super) async fn begin_rollout(scene: &Scene<'_>) -> anyhow::Result<()> {
    let from = scene.pod_on.get();
    write_pods(scene, &[(from, Ready), (next(from), Starting)]).await?;
    write_pods(scene, &[(from, Ready), (next(from), Ready)]).await
}

/// Terminates the old pod, which serves for a while longer and ends.
pub(super) async fn end_rollout(scene: &Scene<'_>) -> anyhow::Result<()> {
    let from = scene.pod_on.get();
    write_pods(scene, &[(from, Terminating), (next(from), Ready)]).await?;
    tokio::time::sleep(LAST_SERVICE).await;
    scene.pod_on.set(next(from));
    write_pods(scene, &[(next(from), Ready)]).await
}

/// Lets the pod of the shared Service on this node terminate, which serves on, or be ready again.
pub(super) async fn end_shared_pod(scene: &Scene<'_>, node: &str, terminates: bool) -> anyhow::Result<()> {
    let state = |on: &str| Some(if terminates && on == node { Terminating } else { Ready });
    patiently("the pods are written", async || scene.lab.write_endpoints(&scene.shared, state).await).await
}

async fn write_pods(scene: &Scene<'_>, pods: &[(&str, EndpointState)]) -> anyhow::Result<()> {
    let state = |node: &str| pods.iter().find(|(on, _)| *on == node).map(|(_, state)| *state);
    patiently("the pods are written", async || scene.lab.write_endpoints(&scene.local, state).await).await
}

/// Another transport of the adverts.
pub(super) async fn announce_by(lab: &Lab, transport: &str) -> anyhow::Result<()> {
    change_announcement(lab, json!({"vrrp": {"transport": transport}})).await
}

/// Changes the key as an admin does: all nodes get a new one, the Announcement names it, and keys that no node signs with
/// any more are removed.
pub(super) async fn change_key(scene: &Scene<'_>) -> anyhow::Result<()> {
    let lab = scene.lab;
    let (old, new) = (scene.key.get(), scene.key.get() % 200 + 1);
    let routers: Api<VirtualRouter> = Api::all(lab.client());
    let routers = await_that("the virtual routers are known", LIMIT, async || {
        Ok(Some(routers.list(&ListParams::default()).await?))
    });
    let in_use = routers.await?.into_iter().filter_map(|router| Some(router.spec.authentication?.key_id));
    let in_use: BTreeSet<u8> = in_use.chain([old]).collect();
    for number in (1..=u8::MAX).filter(|number| !in_use.contains(number)) {
        let file = scene.key_file(number);
        if file.exists() {
            fs::remove_file(&file).with_context(|| format!("removing key {number}"))?;
        }
    }
    fs::write(scene.key_file(new), format!("hex:{}", format!("{new:02x}").repeat(32)))
        .with_context(|| format!("writing key {new}"))?;
    scene.key.set(new);
    change_announcement(lab, json!({"vrrp": {"authentication": {"keyId": new}}})).await
}

/// Lets all nodes be checked; the check of this one passes for a second, and fails for one and a half.
pub(super) async fn begin_checks(lab: &Lab, toggling: &str) -> anyhow::Result<()> {
    let agnhost = lab.tool("agnhost");
    let server = format!("{agnhost} netexec --http-port={PORT} --udp-port=8405");
    for node in NODES {
        let script = if node == toggling {
            format!("while :; do timeout 1 {server}; sleep 1.5; done")
        } else {
            format!("exec {server}")
        };
        lab.start_process(node, CHECKED, &["sh", "-c", &script])?;
    }
    let check = json!({"httpGet": {"port": PORT.parse::<u16>()?, "path": "/healthz"}, "failureThreshold": 1});
    change_announcement(lab, json!({"checks": [check]})).await
}

/// Checks nothing any more.
pub(super) async fn end_checks(lab: &Lab) -> anyhow::Result<()> {
    change_announcement(lab, json!({"checks": null})).await?;
    for node in NODES {
        lab.end_process(node, CHECKED, Signal::SIGKILL).await?;
    }
    Ok(())
}

async fn change_announcement(lab: &Lab, spec: Value) -> anyhow::Result<()> {
    for name in ANNOUNCEMENTS {
        let change = async || lab.change_announcement(name, spec.clone()).await.map(drop);
        patiently("the Announcement is changed", change).await?;
    }
    Ok(())
}

/// Does what the API server may refuse or not answer while other things are broken.
async fn patiently(what: &str, act: impl AsyncFn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    await_that(what, LIMIT, async || act().await.map(Some)).await
}
