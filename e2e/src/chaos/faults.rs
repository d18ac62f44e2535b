//! What breaks, and how it is mended.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use anyhow::ensure;
use nix::sys::signal::Signal;

use super::scene::{CONTROLLER, Scene, state_folder};
use crate::{Direction, Keepalived};

/// Processes that leave others little of a processor, on the whole machine: four for each of two.
const BUSY: usize = 8;
const LOOP: &str = "while :; do :; done";
/// The stranger.
const STRANGER: &str = "c2";

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    CablePulled,
    CableFlapping,
    LossIncoming,
    LossOutgoing,
    /// The node is cut off from all others.
    Alone,
    /// The node is cut off with the client and the backend; the other nodes and the API server are together.
    WithClient,
    AgentKilled,
    AgentStopped,
    AgentFrozen,
    /// Its threads, real-time ones too, share a processor with one of a higher real-time priority that never pauses.
    AgentStarved,
    ProcessorsBusy,
    ApiServerStopped,
    ApiServerFrozen,
    ControllerKilled,
    DiskFull,
    Readdressed,
    StrangerHasAddress,
    StrangerHasVrid,
    KubeProxyKilled,
}

impl Kind {
    pub(super) const ALL: [Self; 19] = [
        Self::CablePulled,
        Self::CableFlapping,
        Self::LossIncoming,
        Self::LossOutgoing,
        Self::Alone,
        Self::WithClient,
        Self::AgentKilled,
        Self::AgentStopped,
        Self::AgentFrozen,
        Self::AgentStarved,
        Self::ProcessorsBusy,
        Self::ApiServerStopped,
        Self::ApiServerFrozen,
        Self::ControllerKilled,
        Self::DiskFull,
        Self::Readdressed,
        Self::StrangerHasAddress,
        Self::StrangerHasVrid,
        Self::KubeProxyKilled,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CablePulled => "cable pulled",
            Self::CableFlapping => "cable flapping",
            Self::LossIncoming => "one-way loss, what it is sent",
            Self::LossOutgoing => "one-way loss, what it sends",
            Self::Alone => "partition, client on the other side",
            Self::WithClient => "partition, client on its side",
            Self::AgentKilled => "agent killed (SIGKILL)",
            Self::AgentStopped => "agent stopped (SIGTERM)",
            Self::AgentFrozen => "agent frozen (SIGSTOP)",
            Self::AgentStarved => "agent without a processor",
            Self::ProcessorsBusy => "all processors busy",
            Self::ApiServerStopped => "API server stopped",
            Self::ApiServerFrozen => "API server frozen",
            Self::ControllerKilled => "controller killed",
            Self::DiskFull => "disk of the state full, agent killed",
            Self::Readdressed => "node re-addressed",
            Self::StrangerHasAddress => "a stranger takes the address",
            Self::StrangerHasVrid => "a stranger takes the VRID",
            Self::KubeProxyKilled => "kube-proxy killed",
        }
    }

    /// Two faults of one place are never at once.
    fn place(self) -> &'static str {
        match self {
            Self::CablePulled | Self::CableFlapping => "cable",
            Self::LossIncoming => "incoming",
            Self::LossOutgoing => "outgoing",
            Self::Alone | Self::WithClient => "LAN",
            Self::AgentKilled
            | Self::AgentStopped
            | Self::AgentFrozen
            | Self::AgentStarved
            | Self::DiskFull => "agent",
            Self::ProcessorsBusy => "processors",
            Self::ApiServerStopped | Self::ApiServerFrozen => "API server",
            Self::ControllerKilled => "controller",
            Self::Readdressed => "address",
            Self::StrangerHasAddress => "stranger's address",
            Self::StrangerHasVrid => "stranger's VRID",
            Self::KubeProxyKilled => "kube-proxy",
        }
    }

    /// Whether there is one such place, not one on each node.
    fn is_of_all(self) -> bool {
        match self {
            Self::Alone
            | Self::WithClient
            | Self::AgentStarved
            | Self::ProcessorsBusy
            | Self::ApiServerStopped
            | Self::ApiServerFrozen
            | Self::ControllerKilled
            | Self::StrangerHasAddress
            | Self::StrangerHasVrid => true,
            Self::CablePulled
            | Self::CableFlapping
            | Self::LossIncoming
            | Self::LossOutgoing
            | Self::AgentKilled
            | Self::AgentStopped
            | Self::AgentFrozen
            | Self::DiskFull
            | Self::Readdressed
            | Self::KubeProxyKilled => false,
        }
    }

    /// Whether nodes that live may not hear each other meanwhile, so that two may have an address.
    pub(super) fn deafens(self) -> bool {
        matches!(
            self,
            Self::CablePulled
                | Self::CableFlapping
                | Self::LossIncoming
                | Self::LossOutgoing
                | Self::Alone
                | Self::WithClient
        )
    }

    /// Whether the nodes have to be told of another VRID or another address of one of them.
    fn changes_routers(self) -> bool {
        matches!(self, Self::Readdressed | Self::StrangerHasVrid)
    }

    /// Whether both may be in one storm. A node that is cut off while a virtual router changes may go on with what it knew when it
    /// is back, beside the node that was told, until the API server tells it, too: seeds 404 and 505 showed it, before these two
    /// were kept apart.
    pub(super) fn is_in_storm_with(self, other: Self) -> bool {
        !(self.changes_routers() && other.deafens() || self.deafens() && other.changes_routers())
    }

    /// How long it has to last until all has come of it.
    pub(super) fn length(self) -> Duration {
        Duration::from_secs(match self {
            // The node gives up on it after 15 s.
            Self::KubeProxyKilled => 20,
            Self::AgentStarved => 2,
            _ => 3,
        })
    }
}

/// A fault, on a node where there is one of its place on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    pub(super) node: &'static str,
}

impl Fault {
    /// Whether both may be at once.
    pub(super) fn goes_with(self, other: Self) -> bool {
        for (one, two) in [(self.kind, other.kind), (other.kind, self.kind)] {
            // (An API server needs minutes to start without a processor.)
            if one == Kind::ProcessorsBusy && two == Kind::ApiServerStopped {
                return false;
            }
        }
        let is_apart = self.node != other.node && !self.kind.is_of_all() && !other.kind.is_of_all();
        self.kind.place() != other.kind.place() || is_apart
    }

    pub(super) async fn begin(self, scene: &Scene<'_>) -> anyhow::Result<()> {
        let lab = scene.lab;
        let node = lab.node(self.node)?;
        match self.kind {
            Kind::CablePulled => node.pull_cable(),
            Kind::CableFlapping => {
                for _ in 0..5 {
                    node.pull_cable()?;
                    tokio::time::sleep(Duration::from_millis(150)).await;
                    node.plug_cable()?;
                    tokio::time::sleep(Duration::from_millis(150)).await;
                }
                Ok(())
            }
            Kind::LossIncoming => node.lose(Direction::Incoming, 100),
            Kind::LossOutgoing => node.lose(Direction::Outgoing, 100),
            Kind::Alone => lab.partition(&[self.node]),
            Kind::WithClient => lab.partition(&["c1", "n4", self.node]),
            Kind::AgentKilled => lab.stop_agent(self.node, Signal::SIGKILL).await,
            Kind::AgentStopped => lab.stop_agent(self.node, Signal::SIGTERM).await,
            Kind::AgentFrozen => node.freeze_agent(),
            Kind::AgentStarved => {
                let agent = lab.process_id(self.node, "agent")?;
                pin(agent, "0").await?;
                let greedy = ["taskset", "--cpu-list", "0", "chrt", "--fifo", "50", "sh", "-c", LOOP];
                lab.start_process(self.node, "greedy", &greedy)
            }
            Kind::ProcessorsBusy => (0..BUSY).try_for_each(|number| {
                lab.start_process("cp", &busy(number), &["nice", "--adjustment=-20", "sh", "-c", LOOP])
            }),
            Kind::ApiServerStopped => lab.stop_api_server().await,
            Kind::ApiServerFrozen => lab.signal_process("cp", "kube-apiserver", Signal::SIGSTOP),
            Kind::ControllerKilled => {
                // (It may just have ended by itself.)
                if lab.controller_runs(CONTROLLER)? {
                    lab.stop_controller(CONTROLLER, Signal::SIGKILL).await?;
                }
                Ok(())
            }
            Kind::DiskFull => {
                let folder = state_folder(self.node);
                lab.sandbox.script(&format!("cat /dev/zero >{folder}/filler 2>/dev/null || true"))?;
                lab.stop_agent(self.node, Signal::SIGKILL).await?;
                lab.start_agent(self.node)
            }
            Kind::Readdressed => node.readdress(node.address(), other_address(node.address())),
            Kind::StrangerHasAddress => {
                for vip in scene.target()?.vips {
                    let (length, nodad) = if vip.is_ipv4() { (32, "") } else { (128, "nodad") };
                    lab.sandbox
                        .script(&format!("ip -n {STRANGER} addr add {vip}/{length} dev eth0 {nodad}"))?;
                    lab.claim(STRANGER, vip).await?;
                }
                Ok(())
            }
            Kind::StrangerHasVrid => {
                let [v4, v6] = scene.target()?.vrids;
                let router =
                    |vrid, address: IpAddr| Keepalived { vrid, priority: 255, interval_ms: 100, address };
                let routers = [router(v4, "192.0.2.190".parse()?), router(v6, "2001:db8::190".parse()?)];
                lab.start_keepalived_of(STRANGER, &routers)
            }
            Kind::KubeProxyKilled => node.kill("kube-proxy").await,
        }
    }

    pub(super) async fn end(self, scene: &Scene<'_>) -> anyhow::Result<()> {
        let lab = scene.lab;
        let node = lab.node(self.node)?;
        match self.kind {
            Kind::CablePulled => node.plug_cable(),
            Kind::CableFlapping => Ok(()),
            Kind::LossIncoming => node.lose_nothing(Direction::Incoming),
            Kind::LossOutgoing => node.lose_nothing(Direction::Outgoing),
            Kind::Alone | Kind::WithClient => lab.heal(),
            Kind::AgentKilled | Kind::AgentStopped => lab.start_agent(self.node),
            Kind::AgentFrozen => node.thaw_agent(),
            Kind::AgentStarved => {
                lab.end_process(self.node, "greedy", Signal::SIGKILL).await?;
                pin(lab.process_id(self.node, "agent")?, "0-1").await
            }
            Kind::ProcessorsBusy => {
                for number in 0..BUSY {
                    lab.end_process("cp", &busy(number), Signal::SIGKILL).await?;
                }
                Ok(())
            }
            Kind::ApiServerStopped => lab.start_api_server().await,
            Kind::ApiServerFrozen => lab.signal_process("cp", "kube-apiserver", Signal::SIGCONT),
            Kind::ControllerKilled => scene.revive_controller(),
            Kind::DiskFull => {
                lab.sandbox.script(&format!("rm -f {}/filler", state_folder(self.node))).map(drop)
            }
            Kind::Readdressed => node.readdress(other_address(node.address()), node.address()),
            Kind::StrangerHasAddress => {
                for vip in scene.target()?.vips {
                    let length = if vip.is_ipv4() { 32 } else { 128 };
                    lab.sandbox.script(&format!("ip -n {STRANGER} addr del {vip}/{length} dev eth0"))?;
                }
                Ok(())
            }
            Kind::StrangerHasVrid => lab.stop_keepalived(STRANGER).await,
            Kind::KubeProxyKilled => node.start_again("kube-proxy"),
        }
    }
}

/// Binds all threads of a process to these processors.
async fn pin(pid: i32, processors: &str) -> anyhow::Result<()> {
    let arguments = ["--all-tasks", "--pid", "--cpu-list", processors, &pid.to_string()];
    let output = tokio::process::Command::new("taskset").args(arguments).output().await?;
    ensure!(output.status.success(), "taskset: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

fn busy(number: usize) -> String {
    format!("busy-{number}")
}

/// A node's address when it is not its own: 192.0.2.61 for 192.0.2.11.
fn other_address(own: Ipv4Addr) -> Ipv4Addr {
    let [a, b, c, d] = own.octets();
    Ipv4Addr::new(a, b, c, d + 50)
}
