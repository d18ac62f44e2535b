//! Faults of a node, a rack, a server or a router.

use windlass_e2e::{Detection, Lab, Signal};

use super::System;

const API_SERVER: &str = "kube-apiserver";
/// The last node, which is alone in its rack, and the rack's router.
const ALONE: usize = 2;
const ALONE_LEAF: &str = "leaf2";

/// Fault, with the detection of dead peers by nodes and their routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Case {
    /// A node dies, and BFD finds it.
    Node,
    /// The same with the shortest intervals.
    NodeFast,
    /// The same without BFD.
    NodeHoldTime,
    /// The rack of the last node is cut off.
    Rack,
    /// An API server hangs: connections are accepted and nothing is answered.
    Hangs,
    /// The BGP speaker of the first rack's router is restarted.
    Router,
    /// The program that announces the VIP is restarted on all nodes, one after the other.
    Upgrade,
}

impl Case {
    /// Name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Node => "node dies, BFD 300 ms x 3",
            Self::NodeFast => "node dies, BFD 50 ms x 3",
            Self::NodeHoldTime => "node dies, hold time 3 s",
            Self::Rack => "rack cut off",
            Self::Hangs => "API server hangs",
            Self::Router => "router restarted",
            Self::Upgrade => "all nodes upgraded",
        }
    }

    pub(super) fn detection(self) -> Detection {
        match self {
            Self::NodeFast => Detection::Bfd(50),
            Self::NodeHoldTime => Detection::HoldTime(3),
            Self::Node | Self::Rack | Self::Hangs | Self::Router | Self::Upgrade => Detection::Bfd(300),
        }
    }

    /// The node to which it happens.
    pub(super) fn victim(self, nodes: &[String], round: usize) -> String {
        let number = if self == Self::Rack { ALONE } else { round % nodes.len() };
        nodes[number].clone()
    }

    /// Lets it happen, and waits until the routers have seen it.
    pub(super) async fn inflict(self, lab: &Lab, system: System, victim: &str) -> anyhow::Result<()> {
        match self {
            Self::Node | Self::NodeFast | Self::NodeHoldTime => {
                lab.node(victim)?.take_cable()?.pull()?;
                lab.await_avoided(victim).await
            }
            Self::Rack => {
                lab.cut_rack(ALONE_LEAF, true)?;
                lab.await_avoided(ALONE_LEAF).await
            }
            Self::Hangs => {
                lab.signal_process(victim, API_SERVER, Signal::SIGSTOP)?;
                match system {
                    System::Windlass => lab.await_avoided(victim).await,
                    // It never sees it.
                    System::Frr => Ok(()),
                }
            }
            Self::Router => {
                lab.restart_bgp("leaf1").await?;
                lab.await_racks().await
            }
            Self::Upgrade => {
                for node in lab.control_plane_nodes() {
                    system.restart(lab, node.name()).await?;
                    lab.await_racks().await?;
                }
                Ok(())
            }
        }
    }

    /// Takes it back.
    pub(super) fn repair(self, lab: &Lab, victim: &str) -> anyhow::Result<()> {
        match self {
            Self::Node | Self::NodeFast | Self::NodeHoldTime => lab.node(victim)?.plug_cable(),
            Self::Rack => lab.cut_rack(ALONE_LEAF, false),
            Self::Hangs => lab.signal_process(victim, API_SERVER, Signal::SIGCONT),
            Self::Router | Self::Upgrade => Ok(()),
        }
    }
}
