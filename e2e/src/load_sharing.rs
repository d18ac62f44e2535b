//! Addresses that several nodes serve together: which nodes do, and which of them has a connection.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use kube::{Api, api::ListParams};
use windlass_api::{CONDITION_LOAD_SHARED, VirtualIP, load_shared};

use crate::{backend::BACKEND_HTTP, lab::Lab, service::SERVICE_PORT, wait::await_that};

/// Number of new connections in a row that have to succeed. Each lot of a third of them is missed by less than one draw in a million.
pub const IN_A_ROW: usize = 40;

impl Lab {
    /// Waits until the condition `LoadShared` of an address has this reason; returns its message.
    pub async fn await_load_shared(
        &self,
        vip: IpAddr,
        reason: &str,
        limit: Duration,
    ) -> anyhow::Result<String> {
        await_that(&format!("LoadShared of {vip} has the reason {reason}"), limit, async || {
            let condition = self.condition(vip, CONDITION_LOAD_SHARED).await?;
            let condition = condition.context("there is no such condition")?;
            ensure!(condition.reason == reason, "{condition:?}");
            Ok(Some(condition.message))
        })
        .await
    }

    /// Waits until these nodes have lots of an address of backend `web`, and no others, and new connections from host `client` go to these.
    pub async fn await_shared(
        &self,
        client: &str,
        vip: IpAddr,
        nodes: &[&str],
        limit: Duration,
    ) -> anyhow::Result<()> {
        let pods: BTreeSet<String> = nodes.iter().map(|node| format!("web-{node}")).collect();
        await_that(&format!("{vip} is shared by {nodes:?}"), limit, async || {
            let message = self.await_load_shared(vip, load_shared::SHARED, limit).await?;
            ensure!(servers(&message) == nodes, "{message}");
            let servers = self.curl_each(client, vip, SERVICE_PORT, IN_A_ROW, &[]).await?;
            ensure!(servers == pods, "{servers:?} answer");
            Ok(Some(()))
        })
        .await
    }

    /// Waits until exactly these nodes have lots of each of so many addresses, by the condition `LoadShared`.
    pub async fn await_all_shared(
        &self,
        count: usize,
        nodes: &[&str],
        limit: Duration,
    ) -> anyhow::Result<()> {
        let vips: Api<VirtualIP> = Api::all(self.client());
        await_that(&format!("{count} addresses are shared by {nodes:?}"), limit, async || {
            let list = vips.list(&ListParams::default()).await?;
            let conditions =
                list.iter().filter_map(|vip| vip.status.as_ref()).flat_map(|status| &status.conditions);
            let shared = conditions
                .filter(|one| one.type_ == CONDITION_LOAD_SHARED && one.reason == load_shared::SHARED)
                .filter(|one| servers(&one.message) == nodes)
                .count();
            ensure!(shared == count, "{shared} are");
            Ok(Some(()))
        })
        .await
    }

    /// Light only: returns the clients of the established connections of backend `web`'s server on this node.
    pub async fn served_by(&self, node: &str) -> anyhow::Result<BTreeSet<SocketAddr>> {
        let (pod, port) = (format!("--net=/run/netns/web-{node}"), format!("sport = :{BACKEND_HTTP}"));
        let list =
            ["nsenter", &pod, "ss", "--no-header", "--tcp", "--numeric", "state", "established", &port];
        let list = self.exec(node, &list).await?;
        let client = |line: &str| {
            let peer: SocketAddr = line.split_whitespace().nth(3)?.parse().ok()?;
            Some(SocketAddr::new(peer.ip().to_canonical(), peer.port()))
        };
        list.lines().map(|line| client(line).with_context(|| format!("no client in {line:?}"))).collect()
    }
}

/// The nodes with lots by the message of `LoadShared`, which begins as `n1 60, n2 60 of 120 lots`.
fn servers(message: &str) -> Vec<&str> {
    let shares = message.split_once(" of ").map_or("", |(shares, _)| shares);
    shares.split(", ").filter_map(|share| share.split(' ').next()).collect()
}
