//! flannel as the pod network: its daemon on each node, and the CNI configuration that its own plugin makes of what the daemon reports.

use std::fs;

use anyhow::Context as _;
use serde_json::json;

use super::settings;
use crate::{
    cni::FlannelBackend, control_plane::READY, lab::Lab, node::Node, tools, topology::POD_RANGES,
    wait::await_that,
};

const FLANNELD: &str = "flanneld";

impl Lab {
    /// Starts flannel on a node whose Node has the addresses of its pods, and writes the CNI configuration.
    pub(super) async fn start_flannel(
        &self,
        node: Node<'_>,
        pods: &[String; 2],
        backend: FlannelBackend,
        nftables: bool,
    ) -> anyhow::Result<()> {
        let name = node.name();
        let folder = format!("/run/lab/{name}");
        let (configuration, subnet) = (format!("{folder}/net-conf.json"), format!("{folder}/subnet.env"));
        self.write(&configuration, &net_conf(backend, nftables)?)?;
        let command = vec![
            format!("NODE_NAME={name}"),
            tools::flanneld()?.display().to_string(),
            "--kube-subnet-mgr".into(),
            format!("--kubeconfig-file={}", self.kubeconfig("admin").display()),
            format!("--net-config-path={configuration}"),
            format!("--subnet-file={subnet}"),
            "--ip-masq".into(),
            "--iface=eth0".into(),
        ];
        self.start_on_node(name, FLANNELD, command)?;
        let mtu = await_that(&format!("flannel on {name} has written {subnet}"), READY, async || {
            self.daemons.check(&self.sandbox, self.logs(), name, FLANNELD)?;
            let text = fs::read_to_string(self.sandbox.path(&subnet))?;
            let mtu = text.lines().find_map(|line| line.strip_prefix("FLANNEL_MTU="));
            Ok(Some(mtu.with_context(|| format!("no MTU in {text:?}"))?.parse()?))
        })
        .await?;
        self.write_cni(name, pods, mtu)
    }

    /// Writes the CNI configuration of a node.
    pub(super) fn write_cni(&self, node: &str, pods: &[String; 2], mtu: u16) -> anyhow::Result<()> {
        let folder = format!("/run/lab/{node}");
        self.write(&format!("{folder}/cni/10-lab.conflist"), &settings::cni(&folder, pods, mtu))
    }
}

fn net_conf(backend: FlannelBackend, nftables: bool) -> anyhow::Result<String> {
    let (v4, v6) = POD_RANGES.split_once(',').context("pods have one family")?;
    let configuration = json!({
        "Network": v4,
        "EnableIPv6": true,
        "IPv6Network": v6,
        "EnableNFTables": nftables,
        "Backend": {"Type": backend.as_str()},
    });
    Ok(configuration.to_string())
}
