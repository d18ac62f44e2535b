//! Nodes that are only objects, without a machine: a large cluster can be made of them.

use std::net::Ipv4Addr;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::{Capability, NodeNetwork};

use crate::node::EXCLUDE;

/// Nodes on one subnet.
const RACK: u16 = 50;

/// A Node object that no kubelet writes to, initialized, ready, in a rack of its own kind: none of the lab's hosts is on the
/// same subnet, and its interface is called `eth1`.
#[derive(Clone)]
pub struct Bystander {
    name: String,
    address: Ipv4Addr,
    client: Client,
}

impl Bystander {
    /// The one of this number, 0 to 12,799; nothing is written.
    pub fn new(client: &Client, number: u16) -> anyhow::Result<Self> {
        let rack = u8::try_from(number / RACK).with_context(|| format!("there is no bystander {number}"))?;
        let host = u8::try_from(number % RACK + 1)?;
        let address = Ipv4Addr::new(100, 64, rack, host);
        Ok(Self { name: format!("idle-{number:05}"), address, client: client.clone() })
    }

    /// Name of its Node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the Node; `is_known`: with a provider ID.
    pub async fn join(&self, is_known: bool) -> anyhow::Result<()> {
        let Self { name, address, .. } = self;
        let mut node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
                "annotations": {"alpha.kubernetes.io/provided-node-ip": address.to_string()},
            },
            "spec": {},
            "status": {
                "addresses": [
                    {"type": "InternalIP", "address": address},
                    {"type": "Hostname", "address": name},
                ],
                "conditions": [ready(0)],
            },
        });
        if is_known {
            node["spec"]["providerID"] = json!(self.provider_id());
        }
        let node = serde_json::from_value(node)?;
        self.nodes()
            .create(&PostParams::default(), &node)
            .await
            .with_context(|| format!("writing Node {name}"))?;
        Ok(())
    }

    /// Writes its `NodeNetwork`, as its agent would: its address, and further ones of its rack.
    pub async fn report(&self, further: &[u8]) -> anyhow::Result<()> {
        let [a, b, rack, host] = self.address.octets();
        let hosts = std::iter::once(&host).chain(further);
        let addresses: Vec<_> = hosts.map(|host| format!("{a}.{b}.{rack}.{host}/24")).collect();
        let network = json!({
            "apiVersion": "windlass.dev/v1alpha1",
            "kind": "NodeNetwork",
            "metadata": {"name": self.name},
            "spec": {
                "agentVersion": "none",
                "capabilities": Capability::ALL,
                "interfaces": [{"name": "eth1", "mac": "02:00:00:00:00:01", "addresses": addresses}],
            },
        });
        let params = PatchParams::apply("windlass-lab").force();
        let networks: Api<NodeNetwork> = Api::all(self.client.clone());
        networks
            .patch(&self.name, &params, &Patch::Apply(network))
            .await
            .with_context(|| format!("writing NodeNetwork {}", self.name))?;
        Ok(())
    }

    /// Sets a label.
    pub async fn label(&self, key: &str, value: &str) -> anyhow::Result<()> {
        self.patch(&json!({"metadata": {"labels": {key: value}}})).await
    }

    /// Excludes the node from load balancers, as for a drain, or includes it again.
    pub async fn exclude(&self, excluded: bool) -> anyhow::Result<()> {
        self.patch(&json!({"metadata": {"labels": {EXCLUDE: excluded.then_some("")}}})).await
    }

    /// Sets the provider ID of one that joined without.
    pub async fn become_known(&self) -> anyhow::Result<()> {
        self.patch(&json!({"spec": {"providerID": self.provider_id()}})).await
    }

    /// Writes its status as a kubelet does now and then: only the time is another one.
    pub async fn heartbeat(&self, minute: u8) -> anyhow::Result<()> {
        let status = Patch::Strategic(json!({"status": {"conditions": [ready(minute)]}}));
        self.nodes()
            .patch_status(&self.name, &PatchParams::default(), &status)
            .await
            .with_context(|| format!("the heartbeat of {}", self.name))?;
        Ok(())
    }

    /// Deletes the Node.
    pub async fn leave(&self) -> anyhow::Result<()> {
        self.nodes()
            .delete(&self.name, &DeleteParams::default())
            .await
            .with_context(|| format!("deleting Node {}", self.name))?;
        Ok(())
    }

    async fn patch(&self, patch: &Value) -> anyhow::Result<()> {
        self.nodes()
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .with_context(|| format!("changing Node {}", self.name))?;
        Ok(())
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn provider_id(&self) -> String {
        format!("windlass://{}", self.name)
    }
}

/// The condition of a node that is well, as of a minute of an hour.
fn ready(minute: u8) -> Value {
    json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "written by the lab",
        "lastHeartbeatTime": format!("2026-01-01T00:{minute:02}:00Z"),
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}
