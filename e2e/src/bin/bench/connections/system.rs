//! Who has the addresses, and which of them run beside each other.

use std::net::IpAddr;

use windlass_e2e::{Lab, LabBuilder};

use crate::connections::{
    fault::{Family, Fault},
    keepalived::Keepaliveds,
    windlass,
};

/// A system that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// Windlass, with `connections: Replicate`.
    Windlass,
    /// With the default.
    Forward,
    Keepalived,
    Conntrackd,
    /// The same where kube-proxy's masquerading is taken from it: backends answer to the address, as with Windlass.
    ConntrackdVip,
}

/// Systems that run in one lab at the same time, with an address each, so that one fault befalls them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    Windlass,
    Keepalived,
    /// Apart from the one without: conntrackd tells of all connections to a node.
    Conntrackd,
}

impl System {
    pub(crate) const ALL: [Self; 5] =
        [Self::Windlass, Self::Forward, Self::Keepalived, Self::Conntrackd, Self::ConntrackdVip];

    /// As `SYSTEMS` has it.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Forward => "forward",
            Self::Keepalived => "keepalived",
            Self::Conntrackd => "conntrackd",
            Self::ConntrackdVip => "conntrackd-vip",
        }
    }

    /// As the rows have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Forward => "windlass forward",
            Self::Keepalived => "keepalived",
            Self::Conntrackd => "keepalived + conntrackd",
            Self::ConntrackdVip => "keepalived + conntrackd, source VIP",
        }
    }

    /// Where it runs.
    pub(crate) fn site(self) -> Site {
        match self {
            Self::Windlass | Self::Forward => Site::Windlass,
            Self::Keepalived => Site::Keepalived,
            Self::Conntrackd | Self::ConntrackdVip => Site::Conntrackd,
        }
    }
}

impl Site {
    pub(crate) const ALL: [Self; 3] = [Self::Windlass, Self::Keepalived, Self::Conntrackd];

    /// Of its lab.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Keepalived => "keepalived",
            Self::Conntrackd => "conntrackd",
        }
    }

    /// Starts those of its systems; the address of each.
    pub(crate) async fn start(
        self,
        lab: &Lab,
        family: Family,
        systems: &[System],
    ) -> anyhow::Result<Started> {
        match self {
            Self::Windlass => windlass::start(lab, family, systems).await.map(Started::Windlass),
            Self::Keepalived | Self::Conntrackd => {
                Keepaliveds::start(lab, family, systems).await.map(Started::Keepalived)
            }
        }
    }

    /// What it runs in.
    pub(crate) fn lab() -> LabBuilder {
        Lab::builder().nodes(3).client("c1").light().interactive()
    }
}

/// Systems that have been started.
pub(crate) enum Started {
    Windlass(Vec<(System, IpAddr)>),
    Keepalived(Keepaliveds),
}

impl Started {
    /// The systems with their addresses.
    pub(crate) fn addresses(&self) -> &[(System, IpAddr)] {
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

    /// Does what the fault is, to its node.
    pub(crate) async fn inflict(&self, lab: &Lab, fault: Fault) -> anyhow::Result<()> {
        match self {
            Self::Windlass(_) => windlass::inflict(lab, fault).await,
            Self::Keepalived(keepaliveds) => keepaliveds.inflict(lab, fault).await,
        }
    }

    /// Undoes it.
    pub(crate) async fn undo(&self, lab: &Lab, fault: Fault) -> anyhow::Result<()> {
        match self {
            Self::Windlass(_) => windlass::undo(lab, fault).await,
            Self::Keepalived(keepaliveds) => keepaliveds.undo(lab, fault),
        }
    }
}
