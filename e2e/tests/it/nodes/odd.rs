//! Nonsense that kubelets and hands may write to Nodes, as far as the API server takes it.

use std::{collections::BTreeMap, net::IpAddr};

use anyhow::ensure;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use windlass_e2e::Lab;

use super::{UNINITIALIZED, annotated, await_initialized, await_told, look, make, nodes};

const FAILED: &str = "SyncNodeFailed";
/// The last second that an API server can hold, which no clock of ours can.
const LAST: &str = "9999-12-31T23:59:59Z";

/// A Node with this address for whose kubelet `--node-ip` says these.
fn addressed(ips: &str, address: &str) -> Value {
    let mut node = annotated(ips);
    node["status"]["addresses"] = json!([{"type": "InternalIP", "address": address}]);
    node
}

/// Nodes that cannot be initialized: name, body, and what the event on them says.
fn refused(vip: &str) -> Vec<(&'static str, Value, Vec<&str>)> {
    vec![
        (
            "garbage",
            annotated("garbage"),
            vec!["no address of node garbage", "\"garbage\"", "correct --node-ip"],
        ),
        (
            "huge",
            annotated(&"x".repeat(200_000)),
            vec!["no address of node huge", "\"xxx", "correct --node-ip"],
        ),
        (
            "garbage-beside-address",
            addressed("garbage", "192.0.2.60"),
            vec!["node \"garbage-beside-address\"", "\"garbage\" is not an IP address", "--node-ip"],
        ),
        (
            "three-ips",
            annotated("192.0.2.61,2001:db8::61,192.0.2.62"),
            vec!["node \"three-ips\"", "names 3 addresses", "--node-ip"],
        ),
        (
            "one-family",
            annotated("192.0.2.61,192.0.2.62"),
            vec!["node \"one-family\"", "two addresses of one family", "--node-ip"],
        ),
        // As kubelet itself writes it.
        (
            "vip",
            addressed(vip, vip),
            vec!["no address of node vip", vip, "Service default/web", "set --node-ip"],
        ),
    ]
}

/// Nodes that are odd, and are initialized all the same.
fn odd(vip: &str) -> Vec<(&'static str, Value)> {
    let mut labels = annotated("192.0.2.63");
    let all: BTreeMap<_, _> = (0..200).map(|n| (format!("example.com/label-{n}"), "x".repeat(63))).collect();
    labels["metadata"]["labels"] = json!(all);
    let mut taints = annotated("192.0.2.64");
    let all = (0..500).map(|n| json!({"key": format!("example.com/taint-{n}"), "effect": "NoExecute"}));
    let ours = json!({"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"});
    taints["spec"]["taints"] = all.chain([ours]).collect();
    let all: Vec<_> = (0..1000)
        .map(|n| json!({"type": "InternalIP", "address": format!("10.9.{}.{}", n / 250, n % 250)}))
        .collect();
    let mut late = annotated("192.0.2.65");
    late["spec"]["taints"] =
        json!([{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule", "timeAdded": LAST}]);
    late["status"]["conditions"] = json!([
        {"type": "Ready", "status": "True", "lastHeartbeatTime": LAST, "lastTransitionTime": LAST},
    ]);
    let mut foreign = annotated("192.0.2.66");
    foreign["spec"]["providerID"] = "aws:///eu-west-1a/i-0123456789".into();
    vec![
        ("good-1", annotated("192.0.2.51")),
        ("good-2", annotated("192.0.2.52,2001:db8::52")),
        ("labels", labels),
        ("taints", taints),
        ("addresses", json!({"status": {"addresses": all}})),
        ("year-9999", late),
        ("foreign", foreign),
        ("vip-beside-address", addressed(vip, "192.0.2.69")),
    ]
}

/// Makes them all, and checks what becomes of each.
pub(super) async fn all(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    let vip = vip.to_string();
    let refused = refused(&vip);
    for (name, body, _) in &refused {
        make(lab, name, body).await?;
    }
    vanishing(lab).await?;
    let odd = odd(&vip);
    for (name, body) in &odd {
        make(lab, name, body).await?;
    }
    let count = |value: &Value| value.as_array().map_or(0, Vec::len);
    for (name, body) in &odd {
        let node = await_initialized(lab, name).await?;
        let expected =
            body["spec"]["providerID"].as_str().map_or(format!("windlass://{name}"), str::to_owned);
        ensure!(node["spec"]["providerID"] == expected, "{name}: {}", node["spec"]["providerID"]);
        for (label, value) in body["metadata"]["labels"].as_object().into_iter().flatten() {
            ensure!(node["metadata"]["labels"][label] == *value, "{name} lost label {label}");
        }
        let (taints, made) = (count(&node["spec"]["taints"]), count(&body["spec"]["taints"]));
        ensure!(taints == made.saturating_sub(1), "{name} was made with {made} taints and has {taints}");
        let (addresses, made) = (count(&node["status"]["addresses"]), count(&body["status"]["addresses"]));
        ensure!(addresses > made, "{name} was made with {made} addresses and has {addresses}, with its name");
        ensure!(!node["status"].to_string().contains(&vip), "{name} has the VIP {vip}: {}", node["status"]);
    }
    let why = [vip.as_str(), "node vip-beside-address", "Service default/web", "set --node-ip"];
    await_told(lab, "vip-beside-address", "NodeIPRefused", &why).await?;
    for (name, _, words) in &refused {
        await_told(lab, name, FAILED, words).await?;
        let node = look(lab, name).await?.unwrap_or_default();
        ensure!(super::has_taint(&node, UNINITIALIZED), "{name} lost its taint: {node}");
    }
    // Who corrects it, helps.
    let (api, _) = nodes(lab);
    let correct = kube::api::Patch::Merge(annotated("192.0.2.68"));
    api.patch("garbage", &kube::api::PatchParams::default(), &correct).await?;
    await_initialized(lab, "garbage").await?;
    Ok(())
}

/// Nodes that go while they are initialized, some of which come back under their name.
async fn vanishing(lab: &Lab) -> anyhow::Result<()> {
    let (api, _) = nodes(lab);
    for round in 0..20 {
        let name = format!("vanishing-{}", round % 4);
        make(lab, &name, &annotated("192.0.2.67")).await?;
        if round % 3 == 0 {
            await_initialized(lab, &name).await?;
        }
        api.delete(&name, &DeleteParams::default()).await?;
    }
    make(lab, "vanishing-0", &annotated("192.0.2.67")).await?;
    await_initialized(lab, "vanishing-0").await?;
    let left = api.list(&ListParams::default()).await?.items;
    let left: Vec<_> = left.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
    ensure!(left.iter().filter(|name| name.starts_with("vanishing")).count() == 1, "Nodes: {left:?}");
    Ok(())
}
