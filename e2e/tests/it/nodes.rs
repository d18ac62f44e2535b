//! What a kubelet that runs with `--cloud-provider=external` waits for, what it may write, and what the admin says of machines.

mod lists;
mod odd;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, PostParams},
};
use serde_json::{Value, json};
use windlass_e2e::{ControllerOptions, Lab, await_that, scenario};

use crate::setup::LIMIT;

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

#[test]
fn uninitialized_node_gets_addresses_and_provider_id_and_loses_its_taint() -> anyhow::Result<()> {
    scenario("uninitialized", Lab::builder().nodes(2).light().uninitialized(), async |lab| {
        // By name it is the first interface, but not that of the default route.
        let storage =
            "ip link add aaa0 type bridge && ip addr add 192.168.9.1/24 dev aaa0 && ip link set aaa0 up";
        lab.exec("n1", &["sh", "-c", storage]).await?;
        lab.deploy_windlass(&["n1", "n2"]).await?;
        let nodes: Api<Node> = Api::all(lab.client());
        for name in ["n1", "n2"] {
            let address = lab.node(name)?.address().to_string();
            await_that(&format!("{name} is initialized"), LIMIT, async || {
                let node = nodes.get(name).await?;
                let spec = node.spec.unwrap_or_default();
                let taints = spec.taints.unwrap_or_default();
                let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
                // Whoever sees the node without its taint sees its addresses and its provider ID too.
                let initialized = !taints.iter().any(|t| t.key == UNINITIALIZED);
                ensure!(initialized, "taints {taints:?}");
                ensure!(spec.provider_id == Some(format!("windlass://{name}")), "{:?}", spec.provider_id);
                let internal = addresses.iter().find(|a| a.type_ == "InternalIP").map(|a| &a.address);
                ensure!(internal == Some(&address), "addresses {addresses:?}");
                ensure!(addresses.iter().any(|a| a.type_ == "Hostname"), "addresses {addresses:?}");
                Ok(Some(()))
            })
            .await?;
        }
        Ok(())
    })
}

// shows: ccm-contract 174 to 176, 240, 242, L-02 to L-05
#[test]
fn nonsense_on_nodes_harms_nobody_and_only_nodes_that_are_listed_go() -> anyhow::Result<()> {
    scenario("odd-nodes", Lab::builder().nodes(1).light().without_proxy(), async |lab| {
        lab.install_manifests().await?;
        let flags = vec![format!("--cloud-config={}", lists::first(lab)?.display())];
        lab.start_controller(ControllerOptions { flags, ..ControllerOptions::default() })?;
        lab.start_agent("n1")?;
        lab.pool("default", &["192.0.2.200"]).await?;
        lab.load_balancer("web", |_| ()).await?;
        let vip = lab.ingress("web", LIMIT).await?;
        // The time in which listed nodes are watched passes while the others are made.
        lists::begin(lab).await?;
        odd::all(lab, vip).await?;
        lists::end(lab).await?;
        ensure!(lab.ingress("web", LIMIT).await? == vip, "Service web has another address than {vip}");
        make(lab, "late", &annotated("192.0.2.59")).await?;
        await_initialized(lab, "late").await?;
        let log = std::fs::read_to_string(lab.logs().join("cp-controller.log"))?;
        ensure!(!log.contains("panicked"), "{log}");
        Ok(())
    })
}

/// The API of Nodes, for those that the kind's own type could not hold.
fn nodes(lab: &Lab) -> (Api<DynamicObject>, ApiResource) {
    let resource = ApiResource::erase::<Node>(&());
    (Api::all_with(lab.client(), &resource), resource)
}

/// A Node with an annotation as kubelet writes it for `--node-ip`.
fn annotated(ips: &str) -> Value {
    json!({"metadata": {"annotations": {"alpha.kubernetes.io/provided-node-ip": ips}}})
}

/// Makes a Node that waits to be initialized, unless `body` has taints of its own.
async fn make(lab: &Lab, name: &str, body: &Value) -> anyhow::Result<()> {
    let (api, resource) = nodes(lab);
    let mut body = body.clone();
    if body["spec"]["taints"].is_null() {
        body["spec"]["taints"] = json!([{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]);
    }
    let metadata = serde_json::from_value::<Option<_>>(body["metadata"].take())?.unwrap_or_default();
    let mut node = DynamicObject::new(name, &resource).data(body);
    node.metadata = kube::api::ObjectMeta { name: Some(name.to_owned()), ..metadata };
    api.create(&PostParams::default(), &node).await.with_context(|| format!("making Node {name}"))?;
    Ok(())
}

/// The Node as it is; `None`: it is gone.
async fn look(lab: &Lab, name: &str) -> anyhow::Result<Option<Value>> {
    Ok(nodes(lab).0.get_opt(name).await?.map(serde_json::to_value).transpose()?)
}

/// Whether a Node has a taint of this key.
fn has_taint(node: &Value, key: &str) -> bool {
    node["spec"]["taints"].as_array().is_some_and(|taints| taints.iter().any(|taint| taint["key"] == key))
}

/// Waits until the Node has its addresses, its provider ID and no taint of an uninitialized one; returns it.
async fn await_initialized(lab: &Lab, name: &str) -> anyhow::Result<Value> {
    await_that(&format!("Node {name} is initialized"), LIMIT, async || {
        let node = look(lab, name).await?.context("it is gone")?;
        if has_taint(&node, UNINITIALIZED) {
            anyhow::bail!("it is tainted; events: {:?}", lab.events_of("Node", name).await?);
        }
        let addresses = node["status"]["addresses"].as_array().is_some_and(|list| !list.is_empty());
        ensure!(addresses && !node["spec"]["providerID"].is_null(), "it lost its taint too early: {node}");
        Ok(Some(node))
    })
    .await
}

/// Waits until an event on the Node has this reason and says all of `words`.
async fn await_told(lab: &Lab, name: &str, reason: &str, words: &[&str]) -> anyhow::Result<()> {
    await_that(&format!("an event {reason} on Node {name} says {words:?}"), LIMIT * 2, async || {
        let events = lab.events_of("Node", name).await?;
        let of_reason = events.iter().filter_map(|event| event.strip_prefix(reason));
        let told = of_reason.into_iter().any(|said| words.iter().all(|word| said.contains(word)));
        ensure!(told, "events: {events:?}");
        Ok(Some(()))
    })
    .await
}
