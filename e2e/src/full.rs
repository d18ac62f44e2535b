//! Nodes with a real kubelet, containerd, runc and CNI.

mod flannel;
mod images;
mod kubelet;
mod settings;

use std::{fs, path::PathBuf};

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node as NodeObject};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{
    backend::{BACKEND_HTTP, BACKEND_UDP},
    cni::Cni,
    control_plane::READY,
    lab::Lab,
    node::Node,
    service::Network,
    wait::await_that,
    windlass::state_folder,
};

/// State folder of the agents in the manifests: a folder of the node, and all nodes are one machine here.
const STATE: &str = "/var/lib/windlass";

impl Lab {
    /// Starts containerd on each node and gives it the images. Needs no control plane.
    pub(crate) async fn start_containerds(&self) -> anyhow::Result<()> {
        // Kubelets, containerd and CNI write to fixed places under /var, which is to stay as it is on the host. What kubelets mount
        // from then on their containerds are to see.
        self.sandbox
            .script(&format!(
                "mount --make-rshared /
                mount -t overlay windlass-lab -o lowerdir=/var,upperdir=/run/lab/var,workdir=/run/lab/var-work /var
                mkdir -p {STATE}"
            ))
            .context("laying a private layer over /var")?;
        let images = images::archives(&self.tools)?;
        for node in self.nodes() {
            let folder = format!("/run/lab/{}", node.name());
            let state = state_folder(node.name());
            self.sandbox.script(&format!("mkdir -p {folder}/cni {state}"))?;
            if self.options.cni == Cni::Routed {
                let pods = node.host.pod_cidrs().context("a node without pod addresses")?;
                self.write_cni(node.name(), &pods, 0)?;
            }
            self.write(&format!("{folder}/containerd.toml"), &settings::containerd(&folder))?;
            // Its pods see their own node's.
            let bound = format!("mount --bind {state} {STATE}; exec env \"$@\"");
            let unshare =
                ["unshare", "--mount", "--propagation=slave", "--", "sh", "-ec", &bound, "containerd"];
            let mut command: Vec<String> = unshare.map(Into::into).into();
            // containerd looks for its shim in PATH.
            let path = std::env::var("PATH").unwrap_or_default();
            command.push(format!("PATH={}:{path}", self.tools.folder().display()));
            command.extend(self.kubernetes("containerd"));
            command.extend(["--config".into(), format!("{folder}/containerd.toml")]);
            self.start_on_node(node.name(), "containerd", command)?;
        }
        try_join_all(self.nodes().map(async |node| self.import(node, &images).await)).await?;
        Ok(())
    }

    async fn import(&self, node: Node<'_>, images: &[PathBuf]) -> anyhow::Result<()> {
        let (name, ctr) = (node.name(), self.tools.path("ctr"));
        let socket = format!("/run/lab/{name}/containerd.sock");
        let ctr = [&*ctr, "--address", &*socket, "--namespace", "k8s.io"];
        await_that(&format!("containerd on {name} answers"), READY, async || {
            self.daemons.check(&self.sandbox, self.logs(), name, "containerd")?;
            self.exec(name, &[&ctr[..], &["version"]].concat()).await?;
            Ok(Some(()))
        })
        .await?;
        for image in images {
            let image = image.display().to_string();
            self.exec(name, &[&ctr[..], &["images", "import", &image]].concat()).await?;
        }
        Ok(())
    }

    /// Starts kubelet and kube-proxy on each node that is there from the beginning and waits until the Nodes are ready.
    pub(crate) async fn start_full_nodes(&self) -> anyhow::Result<()> {
        for node in self.first_nodes() {
            self.start_kubelet(node, &[])?;
            if !self.options.kubelets.late_proxies {
                self.start_kube_proxy(node.host)?;
            }
        }
        try_join_all(self.first_nodes().map(async |node| self.await_node(node).await)).await?;
        if self.options.kubelets.late_proxies {
            return Ok(());
        }
        self.await_kube_proxies(self.first_nodes()).await
    }

    /// Waits for the Node of a kubelet, tells it the addresses of its pods, and waits until it is ready.
    pub(crate) async fn await_node(&self, node: Node<'_>) -> anyhow::Result<()> {
        let (name, pods) = (node.name(), node.host.pod_cidrs().context("a node without pod addresses")?);
        let api: Api<NodeObject> = Api::all(self.client());
        await_that(&format!("Node {name} is registered"), READY, async || {
            self.daemons.check(&self.sandbox, self.logs(), name, "kubelet")?;
            let cidrs = json!({"spec": {"podCIDR": pods[0], "podCIDRs": pods}});
            api.patch(name, &PatchParams::default(), &Patch::Merge(cidrs)).await?;
            Ok(Some(()))
        })
        .await?;
        if let Cni::Flannel { backend, nftables } = self.options.cni {
            self.start_flannel(node, &pods, backend, nftables).await?;
        }
        await_that(&format!("Node {name} is Ready"), READY, async || {
            self.daemons.check(&self.sandbox, self.logs(), name, "kubelet")?;
            let conditions = api.get(name).await?.status.and_then(|status| status.conditions);
            let ready =
                conditions.unwrap_or_default().into_iter().find(|condition| condition.type_ == "Ready");
            let ready = ready.context("no condition Ready")?;
            ensure!(ready.status == "True", "{}", ready.message.unwrap_or_default());
            Ok(Some(()))
        })
        .await
    }

    /// Starts the backend's pods, one Deployment per node so that each pod's name tells its node.
    pub(crate) async fn start_backend_pods(
        &self,
        network: Network,
        name: &str,
        nodes: &[&str],
    ) -> anyhow::Result<()> {
        let api: Api<Deployment> = Api::default_namespaced(self.client());
        for node in nodes {
            let deployment = backend_deployment(network, name, node)?;
            let made = api.create(&PostParams::default(), &deployment).await;
            made.with_context(|| format!("making Deployment {name}-{node}"))?;
        }
        for node in nodes {
            await_that(&format!("the pod of Deployment {name}-{node} is ready"), READY, async || {
                let status = api.get(&format!("{name}-{node}")).await?.status;
                Ok(status.and_then(|status| status.ready_replicas).filter(|ready| *ready == 1).map(drop))
            })
            .await?;
        }
        Ok(())
    }

    /// Writes a file into the lab's memory.
    pub(crate) fn write(&self, path: &str, text: &str) -> anyhow::Result<()> {
        fs::write(self.sandbox.path(path), text).with_context(|| format!("writing {path} in the lab"))
    }
}

fn backend_deployment(network: Network, name: &str, node: &str) -> anyhow::Result<Deployment> {
    let labels = json!({"app": name, "node": node});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": format!("{name}-{node}"), "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "hostname": format!("{name}-{node}"),
                    "hostNetwork": network == Network::Host,
                    "nodeSelector": {"kubernetes.io/hostname": node},
                    "tolerations": [
                        {"key": "node.cloudprovider.kubernetes.io/uninitialized", "operator": "Exists"},
                    ],
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{
                        "name": "netexec",
                        "image": images::AGNHOST,
                        "imagePullPolicy": "Never",
                        "args": ["netexec"],
                        "ports": [
                            {"containerPort": BACKEND_HTTP, "protocol": "TCP"},
                            {"containerPort": BACKEND_UDP, "protocol": "UDP"},
                        ],
                        "readinessProbe": {"periodSeconds": 1, "httpGet": {"path": "/hostname", "port": BACKEND_HTTP}},
                    }],
                },
            },
        },
    });
    Ok(serde_json::from_value(deployment)?)
}
