//! Faults of the node that has the VIP.

use std::time::Duration;

use windlass_e2e::{Lab, Signal};

use super::holder::Holder;

/// From one node of an upgrade to the next: a kubelet takes longer, and all of them have checked their API server by then.
const BETWEEN: Duration = Duration::from_secs(3);

/// Fault of the node that has the VIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Fault {
    /// Its cable is pulled.
    Cable,
    /// Its cable is pulled, and its etcd led.
    LeaderCable,
    /// All that runs on it is killed; its kernel lives, as do the addresses that it has.
    Killed,
    /// All that runs on it stands still; its kernel lives.
    Frozen,
    /// Its API server is killed.
    ApiKilled,
    /// Its API server hangs: connections are accepted and nothing is answered.
    #[value(name = "hangs")]
    ApiHangs,
    /// Its etcd is killed.
    EtcdKilled,
    /// The program that holds the VIP is ended in an orderly way, and started immediately.
    Restart,
    /// The same on all nodes, one after the other.
    Upgrade,
}

impl Fault {
    /// Name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cable => "cable pulled",
            Self::LeaderCable => "cable pulled, led etcd",
            Self::Killed => "node killed",
            Self::Frozen => "node frozen",
            Self::ApiKilled => "API server killed",
            Self::ApiHangs => "API server hangs",
            Self::EtcdKilled => "etcd killed",
            Self::Restart => "VIP restarted",
            Self::Upgrade => "VIP upgraded on all",
        }
    }

    /// Lets it happen to `node`.
    pub(crate) async fn inflict(self, lab: &Lab, holder: Holder, node: &str) -> anyhow::Result<()> {
        match self {
            Self::Cable | Self::LeaderCable => lab.node(node)?.take_cable()?.pull(),
            Self::Killed => lab.node(node)?.kill_all().await,
            Self::Frozen => lab.node(node)?.freeze(),
            Self::ApiKilled => lab.node(node)?.kill("kube-apiserver").await,
            Self::ApiHangs => lab.signal_process(node, "kube-apiserver", Signal::SIGSTOP),
            Self::EtcdKilled => lab.node(node)?.kill("etcd").await,
            Self::Restart => restart(lab, holder, node).await,
            Self::Upgrade => {
                for node in lab.control_plane_nodes() {
                    restart(lab, holder, node.name()).await?;
                    tokio::time::sleep(BETWEEN).await;
                }
                Ok(())
            }
        }
    }

    /// Takes it back.
    pub(crate) async fn repair(self, lab: &Lab, node: &str) -> anyhow::Result<()> {
        match self {
            Self::Cable | Self::LeaderCable => lab.node(node)?.plug_cable(),
            Self::Killed => lab.node(node)?.power_on().await,
            Self::Frozen => lab.node(node)?.thaw(),
            Self::ApiKilled => lab.node(node)?.start_again("kube-apiserver"),
            Self::ApiHangs => lab.signal_process(node, "kube-apiserver", Signal::SIGCONT),
            Self::EtcdKilled => lab.node(node)?.start_again("etcd"),
            Self::Restart | Self::Upgrade => Ok(()),
        }
    }
}

async fn restart(lab: &Lab, holder: Holder, node: &str) -> anyhow::Result<()> {
    holder.stop(lab, node).await?;
    holder.start(lab, node)
}
