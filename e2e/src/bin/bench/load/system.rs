//! What has the addresses: Windlass or keepalived.

use std::net::IpAddr;

use anyhow::Context as _;
use windlass_e2e::Lab;

use crate::load::{keepalived, phases::Fault, windlass};

/// The nodes that share the addresses.
pub(crate) const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// The node of the backend.
pub(crate) const BACKEND: &str = "n4";
/// Services, all before the same backend; the first has its name. Two for each node.
pub(crate) const SERVICES: [&str; 6] = ["web", "web2", "web3", "web4", "web5", "web6"];

/// A system that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    Windlass,
    Keepalived,
}

impl System {
    const ALL: [Self; 2] = [Self::Windlass, Self::Keepalived];

    /// Those that the environment names, as `SYSTEMS=windlass`, or all.
    pub(crate) fn wanted() -> anyhow::Result<Vec<Self>> {
        let Ok(names) = std::env::var("SYSTEMS") else { return Ok(Self::ALL.into()) };
        let find = |name: &str| Self::ALL.into_iter().find(|system| system.name() == name);
        let systems = names.split_whitespace().map(|name| {
            find(name)
                .with_context(|| format!("SYSTEMS={names:?}: {name} is neither windlass nor keepalived"))
        });
        systems.collect()
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Keepalived => "keepalived",
        }
    }

    /// Starts it on all nodes; the address of each Service.
    pub(crate) async fn start(self, lab: &Lab) -> anyhow::Result<Vec<IpAddr>> {
        match self {
            Self::Windlass => windlass::start(lab).await,
            Self::Keepalived => keepalived::start(lab).await,
        }
    }

    /// Takes a node down.
    pub(crate) async fn take_down(self, lab: &Lab, fault: Fault, node: &str) -> anyhow::Result<()> {
        match (fault, self) {
            (Fault::Cable, _) => lab.node(node)?.pull_cable(),
            (Fault::Host, _) => lab.node(node)?.power_off().await,
            (Fault::Drain, Self::Windlass) => lab.node(node)?.exclude(true).await,
            (Fault::Drain, Self::Keepalived) => lab.stop_keepalived(node).await,
        }
    }

    /// Brings it back.
    pub(crate) async fn bring_back(self, lab: &Lab, fault: Fault, node: &str) -> anyhow::Result<()> {
        match (fault, self) {
            (Fault::Cable, _) => lab.node(node)?.plug_cable(),
            (Fault::Host, _) => {
                lab.node(node)?.power_on().await?;
                match self {
                    Self::Windlass => lab.start_agent(node),
                    Self::Keepalived => keepalived::start_on(lab, node),
                }
            }
            (Fault::Drain, Self::Windlass) => lab.node(node)?.exclude(false).await,
            (Fault::Drain, Self::Keepalived) => keepalived::start_on(lab, node),
        }
    }
}
