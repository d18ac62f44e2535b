//! keepalived's side, alone and with conntrackd: adverts as often as Windlass' are.

use std::net::IpAddr;

use windlass_e2e::{Keepalived, Lab, await_that};

use super::{
    place::{FIRST, Family, LIMIT, Place, SECOND, offer},
    setup::{Setup, Site},
};
use crate::settings;

/// VRID of the first setup; those of the others follow.
const FIRST_VRID: u8 = 240;
const FIRST_ADDRESS: u8 = 180;
/// With conntrackd, how long a node that comes back leaves its addresses where they are, so that it has been told the connections.
/// Without, it knows none in any case.
const RESYNC_SECONDS: u32 = 2;

/// The setups that run.
pub(crate) struct Keepaliveds {
    addresses: Vec<(Setup, IpAddr)>,
    site: Site,
}

impl Keepaliveds {
    pub(crate) async fn start(lab: &Lab, family: Family, setups: &[Setup]) -> anyhow::Result<Self> {
        let mut addresses = Vec::new();
        let mut site = Site::Keepalived;
        for (&setup, end) in setups.iter().zip(FIRST_ADDRESS..) {
            let address = family.address(end)?;
            for place in Place::ALL {
                let name = format!("{}-{}", settings::key(&setup), place.backend());
                lab.foreign_service_with(&name, place.backend(), address, |service| {
                    offer(service, family, place);
                })
                .await?;
            }
            addresses.push((setup, address));
            site = setup.site();
        }
        let keepaliveds = Self { addresses, site };
        for node in [FIRST, SECOND] {
            keepaliveds.start_on(lab, node).await?;
        }
        Ok(keepaliveds)
    }

    pub(crate) fn addresses(&self) -> &[(Setup, IpAddr)] {
        &self.addresses
    }

    /// Starts all on a node whose kernel knows nothing of them.
    pub(crate) async fn start_on(&self, lab: &Lab, node: &str) -> anyhow::Result<()> {
        for (_, address) in self.addresses.iter().filter(|(setup, _)| *setup == Setup::ConntrackdVip) {
            answer_to(lab, node, *address).await?;
        }
        if self.site == Site::Conntrackd {
            lab.start_conntrackd(node, other(node))?;
            self.await_conntrackd(lab, node).await?;
        }
        self.start_keepalived(lab, node)
    }

    /// Starts keepalived on a node.
    pub(crate) fn start_keepalived(&self, lab: &Lab, node: &str) -> anyhow::Result<()> {
        let priority = if node == FIRST { 254 } else { 253 };
        let interval_ms = windlass_api::DEFAULT_ADVERTISEMENT_INTERVAL_MS;
        let routers: Vec<Keepalived> = (FIRST_VRID..)
            .zip(&self.addresses)
            .map(|(vrid, (_, address))| Keepalived { vrid, priority, interval_ms, address: *address })
            .collect();
        match self.site {
            Site::Conntrackd => lab.start_keepalived_telling(node, &routers, RESYNC_SECONDS),
            Site::Keepalived | Site::Windlass => lab.start_keepalived_of(node, &routers),
        }
    }

    async fn await_conntrackd(&self, lab: &Lab, node: &str) -> anyhow::Result<()> {
        await_that(&format!("conntrackd on {node} answers"), LIMIT, async || {
            lab.conntrackd_counts(node).await.map(|_| Some(()))
        })
        .await
    }

    /// conntrackd does not say whether all is told.
    pub(crate) async fn await_ready(&self, lab: &Lab) -> anyhow::Result<()> {
        if self.site == Site::Conntrackd {
            self.await_conntrackd(lab, SECOND).await?;
        }
        Ok(())
    }
}

/// Gives packets that kube-proxy would masquerade with the node's address the VIP as their source, before kube-proxy decides (its
/// chain is at priority 100, its mark 0x4000): else backends answer to the node that is dead, whatever the next one knows.
async fn answer_to(lab: &Lab, node: &str, vip: IpAddr) -> anyhow::Result<()> {
    let family = if vip.is_ipv4() { "ip" } else { "ip6" };
    let rule = format!(
        "table {family} bench {{ chain movable {{ type nat hook postrouting priority 90; \
         ct original {family} daddr {vip} meta mark & 0x4000 == 0x4000 snat to {vip} fully-random; }}; }}"
    );
    lab.exec(node, &["nft", &rule]).await.map(drop)
}

fn other(node: &str) -> &'static str {
    if node == FIRST { SECOND } else { FIRST }
}
