//! Begins and ends each kind of fault.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use anyhow::ensure;
use nix::sys::signal::Signal;

use super::{
    cluster_faults as cluster,
    kind::{Fault, Kind},
    scene::{CONTROLLER, LOCAL, NODES, Scene, next},
};
use crate::{Direction, Keepalived, state_folder};

/// Processes that leave others little of a processor, on the whole machine: four for each of two.
const BUSY: usize = 8;
const LOOP: &str = "while :; do :; done";
/// Lets a process stand still for four fifths of the time.
const SLOW: &str = "while :; do kill -STOP $0; sleep 0.4; kill -CONT $0; sleep 0.1; done";
/// Name of the foreign host.
const STRANGER: &str = "c2";
/// Name of a node's interface, and its name while it is renamed.
const INTERFACE: [&str; 2] = ["eth0", "lan0"];

impl Fault {
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
            Kind::MulticastFiltered => lab.filter_multicast(true),
            Kind::MulticastUnheard => {
                let others = NODES.iter().filter(|other| **other != self.node);
                let ways: Vec<(&str, &str)> = others.map(|other| (self.node, *other)).collect();
                lab.filter_multicast_on(&ways)
            }
            Kind::MulticastLostBetweenTwo => {
                let other = next(self.node);
                lab.filter_multicast_on(&[(self.node, other), (other, self.node)])
            }
            Kind::AgentKilled => lab.stop_agent(self.node, Signal::SIGKILL).await,
            Kind::AgentStopped => lab.stop_agent(self.node, Signal::SIGTERM).await,
            Kind::AgentFrozen => node.freeze_agent(),
            Kind::AgentStarved => {
                let agent = lab.process_id(self.node, "agent")?;
                pin(agent, "0").await?;
                let greedy = ["taskset", "--cpu-list", "0", "chrt", "--fifo", "50", "sh", "-c", LOOP];
                lab.start_process(self.node, "greedy", &greedy)
            }
            Kind::HostKilled => node.kill_all().await,
            Kind::NodePoweredOff => node.power_off().await,
            Kind::ProcessorsBusy => (0..BUSY).try_for_each(|number| {
                lab.start_process("cp", &busy(number), &["nice", "--adjustment=-20", "sh", "-c", LOOP])
            }),
            Kind::ApiServerStopped => lab.stop_api_server().await,
            Kind::ApiServerFrozen => lab.signal_process("cp", "kube-apiserver", Signal::SIGSTOP),
            Kind::ApiServerSlow => {
                let id = lab.inner_process_id("cp", "kube-apiserver")?.to_string();
                lab.start_process("cp", "slow", &["sh", "-c", SLOW, &id])
            }
            Kind::EtcdStopped => lab.stop_etcd().await,
            Kind::EtcdFrozen => lab.signal_process("cp", "etcd", Signal::SIGSTOP),
            Kind::ControllerKilled => cluster::end_controller(lab, CONTROLLER.0, Signal::SIGKILL).await,
            Kind::TwoControllers => cluster::begin_two_controllers(lab),
            Kind::DiskFull => {
                let folder = state_folder(self.node);
                lab.sandbox.script(&format!("cat /dev/zero >{folder}/filler 2>/dev/null || true"))?;
                lab.stop_agent(self.node, Signal::SIGKILL).await?;
                scene.start_agent(self.node)
            }
            Kind::StateCorrupted => self.ruin_state(scene, "head --bytes=300 /dev/urandom >").await,
            Kind::Readdressed => node.readdress(node.address(), other_address(node.address())),
            Kind::InterfaceRenamed => node.rename_interface(INTERFACE[0], INTERFACE[1]),
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
            Kind::NodeExcluded => cluster::exclude(lab, self.node, true).await,
            Kind::NodeTainted => cluster::taint(lab, self.node, true).await,
            Kind::NodeCordoned => cluster::cordon(lab, self.node, true).await,
            Kind::NodeDeleted => cluster::delete_node(lab, self.node).await,
            Kind::NodeJoins => {
                lab.stop_agent(self.node, Signal::SIGTERM).await?;
                cluster::delete_node(lab, self.node).await
            }
            Kind::LocalRollout => cluster::begin_rollout(scene).await,
            Kind::SharedPodEnds => cluster::end_shared_pod(scene, self.node, true).await,
            Kind::AnnouncementChanged => cluster::announce_by(lab, "Unicast").await,
            Kind::KeysChanged => cluster::change_key(scene).await,
            Kind::KeysGone => scene.delete_keys(),
            Kind::CheckToggles => cluster::begin_checks(lab, self.node).await,
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
            Kind::MulticastFiltered | Kind::MulticastUnheard | Kind::MulticastLostBetweenTwo => {
                lab.filter_multicast(false)
            }
            Kind::AgentKilled | Kind::AgentStopped => scene.start_agent(self.node),
            Kind::AgentFrozen => node.thaw_agent(),
            Kind::AgentStarved => {
                lab.end_process(self.node, "greedy", Signal::SIGKILL).await?;
                pin(lab.process_id(self.node, "agent")?, "0-1").await
            }
            Kind::HostKilled => {
                node.start_again("kube-proxy")?;
                lab.start_server_again(LOCAL, self.node)?;
                scene.start_agent(self.node)
            }
            Kind::NodePoweredOff => {
                node.power_on().await?;
                lab.start_server_again(LOCAL, self.node)?;
                scene.start_agent(self.node)
            }
            Kind::ProcessorsBusy => {
                for number in 0..BUSY {
                    lab.end_process("cp", &busy(number), Signal::SIGKILL).await?;
                }
                Ok(())
            }
            Kind::ApiServerStopped => lab.start_api_server().await,
            Kind::ApiServerFrozen => lab.signal_process("cp", "kube-apiserver", Signal::SIGCONT),
            Kind::ApiServerSlow => {
                lab.end_process("cp", "slow", Signal::SIGKILL).await?;
                lab.signal_process("cp", "kube-apiserver", Signal::SIGCONT)
            }
            Kind::EtcdStopped => lab.start_etcd().await,
            Kind::EtcdFrozen => lab.signal_process("cp", "etcd", Signal::SIGCONT),
            Kind::ControllerKilled => scene.revive_controller(),
            Kind::TwoControllers => cluster::end_two_controllers(scene).await,
            Kind::DiskFull => {
                lab.sandbox.script(&format!("rm -f {}/filler", state_folder(self.node))).map(drop)
            }
            Kind::StateCorrupted => self.ruin_state(scene, "truncate --size=40").await,
            Kind::Readdressed => node.readdress(other_address(node.address()), node.address()),
            Kind::InterfaceRenamed => node.rename_interface(INTERFACE[1], INTERFACE[0]),
            Kind::StrangerHasAddress => {
                for vip in scene.target()?.vips {
                    let length = if vip.is_ipv4() { 32 } else { 128 };
                    lab.sandbox.script(&format!("ip -n {STRANGER} addr del {vip}/{length} dev eth0"))?;
                }
                Ok(())
            }
            Kind::StrangerHasVrid => lab.stop_keepalived(STRANGER).await,
            Kind::KubeProxyKilled => node.start_again("kube-proxy"),
            Kind::NodeExcluded => cluster::exclude(lab, self.node, false).await,
            Kind::NodeTainted => cluster::taint(lab, self.node, false).await,
            Kind::NodeCordoned => cluster::cordon(lab, self.node, false).await,
            Kind::NodeDeleted => cluster::write_node(lab, self.node).await,
            Kind::NodeJoins => {
                cluster::write_node(lab, self.node).await?;
                scene.start_agent(self.node)
            }
            Kind::LocalRollout => cluster::end_rollout(scene).await,
            Kind::SharedPodEnds => cluster::end_shared_pod(scene, self.node, false).await,
            Kind::AnnouncementChanged => cluster::announce_by(lab, "Multicast").await,
            Kind::KeysChanged => cluster::change_key(scene).await,
            Kind::KeysGone => scene.put_keys_back(),
            Kind::CheckToggles => cluster::end_checks(lab).await,
        }
    }

    /// Kills the agent, does this to the file of its state, and starts it.
    async fn ruin_state(self, scene: &Scene<'_>, ruin: &str) -> anyhow::Result<()> {
        scene.lab.stop_agent(self.node, Signal::SIGKILL).await?;
        scene.lab.sandbox.script(&format!("{ruin} {}/state.json", state_folder(self.node)))?;
        scene.start_agent(self.node)
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
