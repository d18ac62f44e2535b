//! Kubelets that come, go and change what they say of their node, and kube-proxies that come late.

use std::sync::PoisonError;

use anyhow::{Context as _, ensure};
use nix::sys::signal::Signal;

use super::settings;
use crate::{lab::Lab, logind::Logind, node::Node};

impl Lab {
    /// Starts the kubelet of a node, with further flags.
    pub(super) fn start_kubelet(&self, node: Node<'_>, flags: &[&str]) -> anyhow::Result<()> {
        let (name, address, ipv6) = (node.name(), node.address(), node.host.ipv6());
        let folder = format!("/run/lab/{name}");
        self.write(&format!("{folder}/kubelet.json"), &settings::kubelet(&folder))?;
        let mut command = self.kubernetes("kubelet");
        command.extend([
            format!("--config={folder}/kubelet.json"),
            format!("--kubeconfig={}", self.kubeconfig(name).display()),
            format!("--root-dir={folder}/kubelet"),
            format!("--cert-dir={folder}/kubelet-certs"),
            format!("--hostname-override={name}"),
        ]);
        if !self.options.kubelets.without_cloud_provider {
            command.push("--cloud-provider=external".into());
        }
        if !self.options.kubelets.without_node_ip.iter().any(|without| without == name) {
            command.push(format!("--node-ip={address},{ipv6}"));
        }
        command.extend(flags.iter().map(|&flag| flag.to_owned()));
        // Never the machine's own: it would be held up by the lab.
        command.insert(0, format!("DBUS_SYSTEM_BUS_ADDRESS=unix:path={folder}/bus"));
        self.start_logind(name, &format!("{folder}/bus"))?;
        self.start_on_node(name, "kubelet", command)
    }

    fn start_logind(&self, node: &str, socket: &str) -> anyhow::Result<()> {
        let mut all = self.logind.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(node) {
            all.insert(node.to_owned(), Logind::listen(&self.sandbox.path(socket))?);
        }
        Ok(())
    }

    /// With kubelets: the machine of a node begins to go down in an orderly way, which is told to its kubelet, or does not go down
    /// after all. Nothing else is ended: what the kubelet does is to be seen.
    pub fn prepare_for_shutdown(&self, node: &str, active: bool) -> anyhow::Result<()> {
        let all = self.logind.lock().unwrap_or_else(PoisonError::into_inner);
        let logind = all.get(node).with_context(|| format!("no kubelet was started on {node}"))?;
        logind.prepare_for_shutdown(active)
    }

    /// Lets a late node join the cluster, its kubelet with further flags, and waits until it is ready. With kubelets, its
    /// kube-proxy is started by [`Self::start_kube_proxies`].
    pub async fn join(&self, node: &str, flags: &[&str]) -> anyhow::Result<()> {
        let node = self.node(node)?;
        if self.options.light {
            ensure!(flags.is_empty(), "a light lab has no kubelets");
            self.start_light_node(node.host).await?;
            return self.await_light_proxies(std::iter::once(node)).await;
        }
        self.start_kubelet(node, flags)?;
        self.await_node(node).await
    }

    /// With kubelets: ends the kubelet of a node and starts it with further flags, of which the last of a name counts.
    /// Containers live on.
    pub async fn restart_kubelet(&self, node: &str, flags: &[&str]) -> anyhow::Result<()> {
        self.end_process(node, "kubelet", Signal::SIGTERM).await?;
        let node = self.node(node)?;
        self.start_kubelet(node, flags)?;
        self.await_node(node).await
    }

    /// With kubelets: starts the kube-proxies of these nodes and waits until they are healthy.
    pub async fn start_kube_proxies(&self, nodes: &[&str]) -> anyhow::Result<()> {
        for node in nodes {
            self.start_kube_proxy(self.host(node)?)?;
        }
        self.await_kube_proxies(self.nodes().filter(|node| nodes.contains(&node.name()))).await
    }
}
