//! Setups that run, of one site.

use std::net::IpAddr;

use windlass_e2e::{Lab, Signal};

use super::{
    fault::Fault,
    keepalived::Keepaliveds,
    place::{FIRST, Family, Place},
    setup::{Setup, Site},
    windlass,
};

/// Setups that have been started.
pub(crate) enum Started {
    Windlass(Vec<(Setup, IpAddr)>),
    Keepalived(Keepaliveds),
}

impl Started {
    /// Starts the setups of a site.
    pub(crate) async fn start(
        lab: &Lab,
        site: Site,
        family: Family,
        setups: &[Setup],
    ) -> anyhow::Result<Self> {
        match site {
            Site::Windlass => windlass::start(lab, family, setups).await.map(Self::Windlass),
            Site::Keepalived | Site::Conntrackd => {
                Keepaliveds::start(lab, family, setups).await.map(Self::Keepalived)
            }
        }
    }

    /// The setups with their addresses.
    pub(crate) fn addresses(&self) -> &[(Setup, IpAddr)] {
        match self {
            Self::Windlass(addresses) => addresses,
            Self::Keepalived(keepaliveds) => keepaliveds.addresses(),
        }
    }

    /// Waits until they could go on without the node that has the addresses, as far as they say it.
    pub(crate) async fn await_ready(&self, lab: &Lab, next: &str) -> anyhow::Result<()> {
        match self {
            Self::Windlass(addresses) => windlass::await_replicated(lab, addresses, next).await,
            Self::Keepalived(keepaliveds) => keepaliveds.await_ready(lab).await,
        }
    }

    /// Inflicts the fault on its node.
    pub(crate) async fn inflict(&self, lab: &Lab, fault: Fault) -> anyhow::Result<()> {
        let node = lab.node(FIRST)?;
        match (fault, self) {
            (Fault::Cable, _) => node.pull_cable(),
            (Fault::Frozen, Self::Windlass(_)) => node.freeze_agent(),
            (Fault::Frozen, Self::Keepalived(_)) => lab.signal_keepalived(FIRST, Signal::SIGSTOP),
            (Fault::Drain, Self::Windlass(_)) => node.exclude(true).await,
            (Fault::Drain, Self::Keepalived(_)) => lab.stop_keepalived(FIRST).await,
            (Fault::Killed, _) => node.kill_all().await,
            (Fault::Back, _) => {
                node.power_on().await?;
                start_servers_again(lab)?;
                match self {
                    Self::Windlass(_) => lab.start_agent(FIRST),
                    Self::Keepalived(keepaliveds) => keepaliveds.start_on(lab, FIRST).await,
                }
            }
        }
    }

    /// Undoes the fault. A node that was killed stays off until it comes back.
    pub(crate) async fn undo(&self, lab: &Lab, fault: Fault) -> anyhow::Result<()> {
        let node = lab.node(FIRST)?;
        match (fault, self) {
            (Fault::Cable, _) => node.plug_cable(),
            (Fault::Frozen, Self::Windlass(_)) => node.thaw_agent(),
            (Fault::Frozen, Self::Keepalived(_)) => lab.signal_keepalived(FIRST, Signal::SIGCONT),
            (Fault::Drain, Self::Windlass(_)) => node.exclude(false).await,
            (Fault::Drain, Self::Keepalived(keepaliveds)) => keepaliveds.start_keepalived(lab, FIRST),
            (Fault::Killed, _) => node.pull_cable(),
            (Fault::Back, _) => Ok(()),
        }
    }
}

/// Starts the servers of the first node again, which were killed with it.
fn start_servers_again(lab: &Lab) -> anyhow::Result<()> {
    let on_first = Place::ALL.into_iter().filter(|place| place.node() == FIRST);
    on_first.map(Place::backend).try_for_each(|backend| lab.start_server_again(backend, FIRST))
}
