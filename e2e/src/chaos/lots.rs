//! Addresses that the nodes share: their state after recovery.

use std::{collections::BTreeMap, net::IpAddr};

use anyhow::{Context as _, ensure};
use windlass_api::{LOTS, SharingNode};

use super::scene::{CALM, NODES, Scene};
use crate::{SERVICE_PORT, await_that};

/// New connections to an address. Less than one draw in a million misses a third of the lots.
const CONNECTIONS: usize = 40;

impl Scene<'_> {
    /// Waits until each lot of a shared address is of a node with a pod, at the address that the node has, and new connections of all lots
    /// succeed.
    pub(super) async fn await_served_lots(&self, vip: IpAddr) -> anyhow::Result<()> {
        await_that(
            &format!("all new connections to {vip} succeed, of lots of nodes with pods"),
            CALM,
            async || {
                self.lots_of(vip).await?;
                Ok(Some(self.lab.curl_each("c1", vip, SERVICE_PORT, CONNECTIONS, &[]).await.map(drop)?))
            },
        )
        .await
    }

    /// Waits until all nodes have equal numbers of the lots of each shared address. Those that fail have none.
    pub(super) async fn await_equal_lots(&self) -> anyhow::Result<()> {
        for vip in self.shared_vips() {
            await_that(&format!("all nodes have equal parts of {vip}"), CALM, async || {
                let lots = self.lots_of(*vip).await?;
                let is_equal =
                    lots.len() == NODES.len() && lots.values().all(|lots| lots * NODES.len() == LOTS);
                ensure!(is_equal, "{lots:?}");
                Ok(Some(()))
            })
            .await?;
        }
        Ok(())
    }

    /// Returns the number of lots of each node, each of which has the address that is written there.
    async fn lots_of(&self, vip: IpAddr) -> anyhow::Result<BTreeMap<&'static str, usize>> {
        let shared = self.lab.virtual_ip(vip).await?.and_then(|vip| vip.spec.load_sharing);
        let shared = shared.with_context(|| format!("{vip} has no lots"))?;
        let mut numbers = BTreeMap::new();
        for index in shared.table()?.lots {
            let SharingNode { name, address, .. } = &shared.nodes[usize::from(index)];
            let node =
                NODES.into_iter().find(|node| node == name).with_context(|| format!("{name} has lots"))?;
            let is_its_own = vip.is_ipv6() || *address == self.lab.node(node)?.address();
            ensure!(is_its_own, "{name} has lots at {address}");
            *numbers.entry(node).or_default() += 1;
        }
        Ok(numbers)
    }
}
