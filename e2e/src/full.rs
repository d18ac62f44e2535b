//! Nodes with a real kubelet, containerd, runc and CNI.

use crate::lab::Lab;

impl Lab {
    /// Starts containerd, kubelet and kube-proxy on each node and waits until the Nodes are ready.
    pub(crate) async fn start_full_nodes(&self) -> anyhow::Result<()> {
        anyhow::bail!("nodes with kubelets are not in this version yet: use .light()")
    }

    /// Starts the backend's pods.
    pub(crate) async fn start_backend_pods(&self, _name: &str, _nodes: &[&str]) -> anyhow::Result<()> {
        anyhow::bail!("nodes with kubelets are not in this version yet: use .light()")
    }
}
