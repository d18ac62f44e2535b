//! What the tests of this folder look at: the guard's table, and what is left of a Service that is no load balancer.

use std::{collections::BTreeSet, net::IpAddr};

use anyhow::{Context as _, ensure};
use kube::ResourceExt as _;
use serde_json::Value;
use windlass_e2e::{Lab, await_that};

use super::client::Transport;
use crate::setup::{LIMIT, services};

/// Waits until the node's guard restricts these ports of the address for this protocol, and no others.
pub(super) async fn await_guarded(
    lab: &Lab,
    node: &str,
    vip: IpAddr,
    transport: Transport,
    ports: &[u16],
) -> anyhow::Result<()> {
    let wanted: BTreeSet<u16> = ports.iter().copied().collect();
    let set = if vip.is_ipv4() { "restricted4" } else { "restricted6" };
    let what = format!("{node} guards {} {transport:?} ports of {vip}", wanted.len());
    await_that(&what, LIMIT, async || {
        let said = lab.exec(node, &["nft", "-n", "-j", "list", "set", "inet", "windlass", set]).await?;
        let said: Value = serde_json::from_str(&said)?;
        let objects = said["nftables"].as_array().context("no objects")?;
        let elements = objects.iter().filter_map(|object| object["set"]["elem"].as_array()).flatten();
        let of_vip = elements.filter_map(|element| element["concat"].as_array());
        let of_vip = of_vip.filter(|parts| parts[0] == vip.to_string() && parts[1] == transport.number());
        let found: BTreeSet<u16> = of_vip.filter_map(|parts| parts[2].as_u64()?.try_into().ok()).collect();
        ensure!(found == wanted, "it guards {found:?}: {said}");
        Ok(Some(()))
    })
    .await
}

/// Waits until nothing of ours is on the Service: no finalizer, no entry of the status, no condition.
pub(super) async fn await_untouched(lab: &Lab, name: &str) -> anyhow::Result<()> {
    await_that(&format!("nothing of ours is on Service {name}"), LIMIT, async || {
        let service = services(lab, "default").get(name).await?;
        ensure!(service.finalizers().is_empty(), "its finalizers are {:?}", service.finalizers());
        let status = serde_json::to_value(service.status)?;
        let bare = status.is_null() || status == serde_json::json!({"loadBalancer": {}});
        ensure!(bare, "its status is {status}");
        Ok(Some(()))
    })
    .await
}
