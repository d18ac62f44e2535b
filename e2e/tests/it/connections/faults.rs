//! What becomes of connections under each fault, by where their backends are.

use anyhow::Context as _;
use windlass_e2e::{Lab, LabBuilder, ProxyMode, Signal, await_that, scenario};

use super::{
    await_owner, metric,
    scene::{Backend, Scene},
};
use crate::setup::LIMIT;

const ANNOUNCING: [&str; 3] = ["n1", "n2", "n3"];

/// What happens to the node that announces, `n1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    CablePulled,
    /// Each of its processes is killed, and it is cut off.
    NodeKilled,
    /// The agent is stopped by SIGSTOP. The kernel goes on.
    AgentFrozen,
    AgentKilled,
    Drained,
    /// Then that of the next one too.
    TwoCablesPulled,
}

/// With the backends whose connections end, and those whose connections may: the next one goes by whether the kernel of a node that falls
/// silent answers, and on a busy machine it may do so too late.
const FAULTS: [(Fault, &[Backend], &[Backend]); 6] = [
    (Fault::CablePulled, &[Backend::Active], &[]),
    (Fault::AgentFrozen, &[], &[Backend::Active]),
    (Fault::AgentKilled, &[], &[Backend::Active]),
    (Fault::Drained, &[], &[]),
    (Fault::NodeKilled, &[Backend::Active], &[]),
    (Fault::TwoCablesPulled, &[Backend::Active, Backend::Next, Backend::NextHost], &[]),
];

impl Fault {
    async fn begin(self, lab: &Lab, scene: &Scene) -> anyhow::Result<()> {
        let n1 = lab.node("n1")?;
        match self {
            Self::CablePulled => n1.pull_cable()?,
            Self::NodeKilled => n1.power_off().await?,
            Self::AgentFrozen => n1.freeze_agent()?,
            Self::AgentKilled => lab.stop_agent("n1", Signal::SIGKILL).await?,
            Self::Drained => n1.exclude(true).await?,
            Self::TwoCablesPulled => {
                n1.pull_cable()?;
                await_owner(lab, &scene.vips, "n2").await?;
                lab.node("n2")?.pull_cable()?;
            }
        }
        let heir = if self == Self::TwoCablesPulled { "n3" } else { "n2" };
        await_owner(lab, &scene.vips, heir).await
    }

    async fn end(self, lab: &Lab) -> anyhow::Result<()> {
        let n1 = lab.node("n1")?;
        match self {
            Self::CablePulled => n1.plug_cable(),
            Self::NodeKilled => {
                n1.power_on().await?;
                lab.start_server_again("active", "n1")?;
                lab.start_agent("n1")
            }
            Self::AgentFrozen => n1.thaw_agent(),
            Self::AgentKilled => lab.start_agent("n1"),
            Self::Drained => n1.exclude(false).await,
            Self::TwoCablesPulled => {
                lab.node("n2")?.plug_cable()?;
                n1.plug_cable()
            }
        }
    }
}

/// Three nodes that announce, a fourth that does not.
fn four_nodes() -> LabBuilder {
    Lab::builder().nodes(4).client("c1").light()
}

#[test]
fn connections_outlive_each_fault_of_the_active_if_their_backend_does() -> anyhow::Result<()> {
    scenario("connections-faults", four_nodes(), async |lab| {
        let scene = Scene::start(lab, &ANNOUNCING, "n4").await?;
        for (fault, ended, may_end) in FAULTS {
            through(lab, &scene, fault, ended, may_end).await.with_context(|| format!("{fault:?}"))?;
        }
        let ended = [Backend::Active];
        a_node_dies_while_another_one_joins(lab, &scene, "n3", "n2", &Backend::ALL, &ended).await?;
        lab.node("n1")?.plug_cable()?;
        scene.await_ready(lab).await?;
        let elsewhere = [Backend::ThirdNode, Backend::ThirdHost];
        a_node_dies_while_another_one_joins(lab, &scene, "n2", "n3", &elsewhere, &[]).await
    })
}

#[test]
fn connections_outlive_the_active_with_kube_proxy_in_iptables_mode_that_masquerades_by_another_mark()
-> anyhow::Result<()> {
    // The default is bit 14.
    let proxied = four_nodes().proxy_mode(ProxyMode::Iptables).proxy_flag("--iptables-masquerade-bit=13");
    scenario("connections-iptables", proxied, async |lab| {
        let scene = Scene::start(lab, &ANNOUNCING, "n4").await?;
        let (fault, ended, may_end) = FAULTS[0];
        through(lab, &scene, fault, ended, may_end).await
    })
}

async fn through(
    lab: &Lab,
    scene: &Scene,
    fault: Fault,
    ended: &[Backend],
    may_end: &[Backend],
) -> anyhow::Result<()> {
    let clients = scene.clients(lab, &Backend::ALL).await?;
    clients.await_known(lab, &["n2", "n3"]).await?;
    fault.begin(lab, scene).await?;
    clients.stop(&format!("{fault:?}"), ended, may_end)?;
    fault.end(lab).await?;
    scene.await_ready(lab).await
}

/// One of those that are told was rebooted: its kernel knows nothing, and its agent has just begun to hear. It takes nothing over before
/// the one that knows the connections, not even if it comes first by its priority.
async fn a_node_dies_while_another_one_joins(
    lab: &Lab,
    scene: &Scene,
    joining: &str,
    knowing: &str,
    backends: &[Backend],
    ended: &[Backend],
) -> anyhow::Result<()> {
    let node = lab.node(joining)?;
    node.power_off().await?;
    let clients = scene.clients(lab, backends).await?;
    clients.await_known(lab, &[knowing]).await?;
    node.power_on().await?;
    lab.start_agent(joining)?;
    await_that(&format!("the agent of {joining} has begun"), LIMIT, async || {
        metric(lab, joining, "windlass_replication_peers").await.map(Some)
    })
    .await?;
    lab.node("n1")?.pull_cable()?;
    // Where it comes first it has the addresses in the end, once it knows the connections.
    await_owner(lab, &scene.vips, "n2").await?;
    clients.stop(&format!("death while {joining} joins"), ended, &[])
}
