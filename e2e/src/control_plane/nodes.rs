//! A control plane with nodes of its own, each with a member of etcd and an API server behind one VIP.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use anyhow::{Context as _, ensure};
use kube::api::{GetParams, Request};

use super::{API_SERVER, LEADERS, READY, client, etcd};
use crate::{
    builder::ApiVipHolder,
    lab::Lab,
    node::Node,
    topology::{self, Host},
    wait::await_that,
};

impl Lab {
    /// The address at which clients find the API servers of a control plane that has nodes of its own.
    pub fn api_vip(&self) -> IpAddr {
        self.options.api_vip_address().into()
    }

    /// An address of IPv6 that the API servers answer for as well, for scenarios that let somebody hold it.
    pub fn api_vip_of_ipv6(&self) -> IpAddr {
        topology::ipv6_of(topology::api_vip(self.options.cluster)).into()
    }

    /// Returns the number of requests for this page, as `/livez`, that the API server of a control plane node has answered with success.
    pub async fn api_requests(&self, node: &str, page: &str) -> anyhow::Result<u64> {
        let metrics = Request::new("").get("metrics", &GetParams::default())?;
        let metrics = self.client_at(node).await?.request_text(metrics).await?;
        counted(&metrics, page).with_context(|| format!("metrics of the API server of {node}"))
    }

    /// Returns a client with all rights that talks to the API server of one control plane node, whichever node holds the VIP.
    pub async fn client_at(&self, node: &str) -> anyhow::Result<kube::Client> {
        client(&self.kubeconfig_at(node)?).await
    }

    /// The admin's kubeconfig for the API server of one node of the control plane.
    pub(crate) fn kubeconfig_at(&self, node: &str) -> anyhow::Result<PathBuf> {
        self.kubeconfig_for(self.host(node)?.address.into())
    }

    /// The same for this address of API servers.
    pub(crate) fn kubeconfig_for(&self, address: IpAddr) -> anyhow::Result<PathBuf> {
        self.pki.admin_at(&format!("admin-{address}"), &SocketAddr::new(address, 6443).to_string())
    }

    pub(super) async fn start_control_plane_nodes(&self) -> anyhow::Result<()> {
        let nobody = self.options.api_vip == ApiVipHolder::Nobody;
        ensure!(
            !nobody || self.options.nodes == 0,
            "Nodes are written at the VIP of the API servers: somebody has to hold it"
        );
        let hosts: Vec<&Host> = self.first_control_plane_nodes().map(|node| node.host).collect();
        let cluster = etcd::cluster(hosts.iter().copied());
        for host in &hosts {
            self.start_on_node(&host.name, "etcd", etcd::member(host, &cluster, "new"))?;
            self.start_control_plane_node(host)?;
        }
        for host in &hosts {
            self.await_api_server_of(&host.name).await?;
        }
        if nobody {
            return Ok(());
        }
        self.await_api_server_at_vip().await
    }

    /// The nodes of the control plane that are there from the beginning.
    fn first_control_plane_nodes(&self) -> impl Iterator<Item = Node<'_>> {
        let late = |node: &Node<'_>| self.options.kubelets.late.iter().any(|late| late == node.name());
        self.control_plane_nodes().filter(move |node| !late(node))
    }

    /// Starts what a node of the control plane runs beside etcd.
    fn start_control_plane_node(&self, host: &Host) -> anyhow::Result<()> {
        let name = &*host.name;
        self.start_on_node(name, API_SERVER, self.kube_apiserver(host))?;
        if !self.options.light {
            for leader in LEADERS {
                self.start_on_node(name, leader, self.leader(leader, true))?;
            }
        }
        match &self.options.api_vip {
            ApiVipHolder::Nobody => Ok(()),
            ApiVipHolder::Windlass(flags) => {
                let vip = self.api_vip();
                self.start_api_vip(name, vip, &flags.iter().map(String::as_str).collect::<Vec<_>>())
            }
            ApiVipHolder::Keepalived => self.start_api_keepalived(name),
        }
    }

    /// Lets a node join the control plane, a late one or one that was powered off and comes back with an empty disk, and waits until its
    /// API server is ready. `through` is a node of the control plane that runs.
    pub async fn join_control_plane(&self, node: &str, through: &str) -> anyhow::Result<()> {
        let node = self.node(node)?;
        node.forget()?;
        node.plug_cable()?;
        let cluster = self.add_etcd_member(node.host, through).await?;
        self.start_on_node(node.name(), "etcd", etcd::member(node.host, &cluster, "existing"))?;
        self.start_control_plane_node(node.host)?;
        self.await_api_server_of(node.name()).await
    }

    /// Waits until the API server of a node of the control plane calls itself ready, asked there.
    pub async fn await_api_server_of(&self, node: &str) -> anyhow::Result<()> {
        await_that(&format!("the API server of {node} is ready"), READY, async || {
            for name in ["etcd", API_SERVER] {
                self.daemons.check(&self.sandbox, self.logs(), node, name)?;
            }
            let url = "https://127.0.0.1:6443/readyz";
            // The body of a refusal says which check failed.
            let words = ["curl", "-sSk", "--noproxy", "*", "--fail-with-body", "--max-time", "3", url];
            self.exec(node, &words).await?;
            Ok(Some(()))
        })
        .await
    }

    /// Waits until an API server answers at the VIP, asked from `cp`.
    pub async fn await_api_server_at_vip(&self) -> anyhow::Result<()> {
        self.await_api_server_at(self.api_vip()).await
    }

    /// The same at another address.
    pub async fn await_api_server_at(&self, address: IpAddr) -> anyhow::Result<()> {
        let url = format!("https://{}/readyz", SocketAddr::new(address, 6443));
        await_that(&format!("{url} answers"), READY, async || {
            let words = ["curl", "-sSk", "--noproxy", "*", "--fail-with-body", "--max-time", "1", &url];
            self.exec("cp", &words).await.context("the VIP of the API servers")?;
            Ok(Some(()))
        })
        .await
    }
}

/// Answers 200 to requests for a page, by the metrics of an API server.
fn counted(metrics: &str, page: &str) -> anyhow::Result<u64> {
    let label = format!("subresource=\"{page}\"");
    let of_page = |line: &&str| {
        line.starts_with("apiserver_request_total{") && line.contains(&label) && line.contains("code=\"200\"")
    };
    let values = metrics.lines().filter(of_page).map(|line| {
        let value = line.rsplit(' ').next().and_then(|value| value.parse::<u64>().ok());
        value.with_context(|| format!("no whole number in {line:?}"))
    });
    values.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_page_and_failures_are_none() {
        let line = |code: u16, page: &str, value: &str| {
            format!(
                "apiserver_request_total{{code=\"{code}\",component=\"\",group=\"\",subresource=\"{page}\",verb=\"GET\"}} {value}\n"
            )
        };
        let metrics = [
            "# TYPE apiserver_request_total counter\n".to_owned(),
            line(200, "/livez", "41"),
            line(500, "/livez", "7"),
            line(200, "/readyz", "5"),
        ]
        .concat();
        assert_eq!(counted(&metrics, "/livez").unwrap(), 41);
        assert_eq!(counted(&metrics, "/healthz").unwrap(), 0);
        assert!(counted(&line(200, "/livez", "many"), "/livez").is_err());
    }
}
