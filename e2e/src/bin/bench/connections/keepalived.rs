//! keepalived's side, alone and with conntrackd: adverts as often as Windlass' are.

use std::net::IpAddr;

use windlass_e2e::{Keepalived, Lab, Signal, await_that};

use crate::connections::{
    fault::{FIRST, Family, Fault, Place, SECOND},
    scene::{LIMIT, offer, start_servers_again},
    system::{Site, System},
};

/// Of the first system; those of the others follow.
const FIRST_VRID: u8 = 240;
const FIRST_ADDRESS: u8 = 180;
/// With conntrackd, how long a node that comes back leaves its addresses where they are, so that it has been told the connections.
/// Without, it knows none in any case.
const RESYNC_SECONDS: u32 = 2;

/// The systems that run.
pub(crate) struct Keepaliveds {
    addresses: Vec<(System, IpAddr)>,
    site: Site,
}

impl Keepaliveds {
    pub(crate) async fn start(lab: &Lab, family: Family, systems: &[System]) -> anyhow::Result<Self> {
        let mut addresses = Vec::new();
        let mut site = Site::Keepalived;
        for (&system, end) in systems.iter().zip(FIRST_ADDRESS..) {
            let address = family.address(end)?;
            for place in Place::ALL {
                let name = format!("{}-{}", system.key(), place.backend());
                lab.foreign_service_with(&name, place.backend(), address, |service| {
                    offer(service, family, place);
                })
                .await?;
            }
            addresses.push((system, address));
            site = system.site();
        }
        let keepaliveds = Self { addresses, site };
        for node in [FIRST, SECOND] {
            keepaliveds.start_on(lab, node).await?;
        }
        Ok(keepaliveds)
    }

    pub(crate) fn addresses(&self) -> &[(System, IpAddr)] {
        &self.addresses
    }

    /// Starts all on a node whose kernel knows nothing of them.
    async fn start_on(&self, lab: &Lab, node: &str) -> anyhow::Result<()> {
        for (_, address) in self.addresses.iter().filter(|(system, _)| *system == System::ConntrackdVip) {
            answer_to(lab, node, *address).await?;
        }
        if self.site == Site::Conntrackd {
            lab.start_conntrackd(node, other(node))?;
            self.await_conntrackd(lab, node).await?;
        }
        self.start_keepalived(lab, node)
    }

    fn start_keepalived(&self, lab: &Lab, node: &str) -> anyhow::Result<()> {
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

    pub(crate) async fn inflict(&self, lab: &Lab, fault: Fault) -> anyhow::Result<()> {
        let node = lab.node(FIRST)?;
        match fault {
            Fault::Cable => node.pull_cable(),
            Fault::Frozen => lab.signal_keepalived(FIRST, Signal::SIGSTOP),
            Fault::Drain => lab.stop_keepalived(FIRST).await,
            Fault::Killed => node.kill_all().await,
            Fault::Back => {
                node.power_on().await?;
                start_servers_again(lab)?;
                self.start_on(lab, FIRST).await
            }
        }
    }

    pub(crate) fn undo(&self, lab: &Lab, fault: Fault) -> anyhow::Result<()> {
        let node = lab.node(FIRST)?;
        match fault {
            Fault::Cable => node.plug_cable(),
            Fault::Frozen => lab.signal_keepalived(FIRST, Signal::SIGCONT),
            Fault::Drain => self.start_keepalived(lab, FIRST),
            // It stays off until it comes back; and what came back has come back.
            Fault::Killed => node.pull_cable(),
            Fault::Back => Ok(()),
        }
    }
}

/// What kube-proxy would masquerade with the node's address gets the VIP as its source, before kube-proxy decides (its chain is at
/// priority 100, its mark 0x4000): else backends answer to the node that is dead, whatever the next one knows.
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
