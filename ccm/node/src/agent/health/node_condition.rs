//! Pod network of this node, judged by its Node: after a boot the CNI plugin may start later than kube-proxy, and a node that takes its
//! addresses back before has no route to pods. Signs of a missing network:
//! - the condition `NetworkUnavailable`,
//! - a condition `Ready` in which the kubelet reports that it has no CNI plugin, or that is older than the boot,
//! - the taint of a plugin whose agent is not ready.
//!
//! The agent reads the Node when it starts and every few seconds until no sign is left for the first time. It is not read again: some
//! plugins set the condition while they are updated, although the node's pod network keeps working (Calico: `CalicoIsDown`).

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_ccm::apiserver::call_within;
use windlass_ccm::lenient::{self, Lenient};

use super::change;
use super::check::{Check, Finding, Patience};
use super::failed::FailedChecks;

#[cfg(test)]
mod tests;

const CONDITION: &str = "NetworkUnavailable";
const READY: &str = "Ready";
/// Text in the message of a condition `Ready` that is `False`: the container runtime has no CNI plugin to assign pod addresses.
const NO_PLUGIN: [&str; 2] = ["NetworkReady=false", "NetworkPluginNotReady"];
/// Taints by which a plugin keeps pods off a node until its agent there is ready.
const TAINTS: [&str; 1] = ["node.cilium.io/agent-not-ready"];
/// Reasons of the plugins that write the condition each time they start, so that an older one is from before the boot.
const WRITTEN_AT_EACH_START: [&str; 2] = ["CalicoIsUp", "FlannelIsUp"];
/// Time after the boot for which the agent waits for a plugin to start.
const LONGEST_BOOT: Duration = Duration::from_mins(5);
/// Period while the network is not available, or the API server does not answer.
const EVERY: Duration = Duration::from_secs(5);

/// A boot of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Boot {
    at: Timestamp,
    ago: Duration,
}

impl Boot {
    /// Reads the boot's time by today's clock from `/proc/stat`.
    fn read(now: Timestamp) -> Option<Self> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        let at = Timestamp::from_second(seconds).ok()?;
        let ago = Duration::try_from(now.duration_since(at)).unwrap_or_default();
        Some(Self { at, ago })
    }
}

/// Function that reads this node's Node.
pub(crate) type ReadNode = Box<dyn Fn() -> BoxFuture<'static, Option<Node>> + Send + Sync>;

/// Judges the node by the signs that its pod network is not there yet. Pure.
fn finding(node: &Node, boot: Option<Boot>) -> Finding {
    let boot = boot.filter(|boot| boot.ago < LONGEST_BOOT);
    let condition = |kind: &str| {
        let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.find(|one| one.type_ == kind)
    };
    let unavailable = condition(CONDITION).and_then(|one| unavailable(one, boot));
    let sign = unavailable
        .or_else(|| condition(READY).and_then(|one| not_ready(one, boot)))
        .or_else(|| tainted(node));
    sign.map_or(Finding::Passed, Finding::Failed)
}

/// The sign in the condition `NetworkUnavailable`, which plugins write.
fn unavailable(condition: &NodeCondition, boot: Option<Boot>) -> Option<String> {
    let reason = condition.reason.as_deref().unwrap_or_default();
    if condition.status == "True" {
        return Some(format!(
            "the Node's condition {CONDITION} is True ({reason}). Wait for the CNI plugin, or see why its pod on this node does not start"
        ));
    }
    (WRITTEN_AT_EACH_START.contains(&reason) && is_older(condition, boot)).then(|| {
        format!(
            "the CNI plugin ({reason}) has not reported since this machine was started. Wait for it, or see why its pod on this \
             node does not start"
        )
    })
}

/// The sign in the condition `Ready`, which the kubelet writes each time it starts.
fn not_ready(condition: &NodeCondition, boot: Option<Boot>) -> Option<String> {
    let message = condition.message.as_deref().unwrap_or_default();
    if condition.status == "False" && NO_PLUGIN.iter().any(|words| message.contains(words)) {
        return Some(
            "the kubelet says that the CNI plugin is not ready (condition Ready of the Node). Wait for the plugin, or see why its pod on \
             this node does not start"
                .to_owned(),
        );
    }
    is_older(condition, boot).then(|| {
        "the kubelet has not reported since this machine was started. Wait for it, or see its log".to_owned()
    })
}

/// The sign in the Node's taints.
fn tainted(node: &Node) -> Option<String> {
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let taint = taints.find(|taint| TAINTS.contains(&taint.key.as_str()))?;
    Some(format!(
        "the Node has the taint {}. Wait for the CNI plugin, which removes it, or see why its pod on this node does not start",
        taint.key
    ))
}

/// Returns true for a condition that was last written before this boot.
fn is_older(condition: &NodeCondition, boot: Option<Boot>) -> bool {
    boot.is_some_and(|boot| written(condition).is_some_and(|written| written < boot.at))
}

fn written(condition: &NodeCondition) -> Option<Timestamp> {
    condition.last_heartbeat_time.iter().chain(&condition.last_transition_time).map(|time| time.0).max()
}

/// Reads the Node and publishes that its pod network is not there yet.
pub(super) struct NodeConditionMonitor {
    check: Check,
    sender: Arc<watch::Sender<FailedChecks>>,
}

impl NodeConditionMonitor {
    pub(super) fn new(sender: Arc<watch::Sender<FailedChecks>>) -> Self {
        Self { check: Check::new(Patience::times(1, Duration::ZERO)), sender }
    }

    /// Reads this Node until its network is available, or `token` is cancelled.
    pub(super) async fn run(&mut self, read: &ReadNode, token: &CancellationToken) {
        let mut ticks = crate::every(EVERY);
        let mut is_available = false;
        while !is_available || self.check.failure().is_some() {
            tokio::select! {
                _ = ticks.tick() => {}
                () = token.cancelled() => return,
            }
            let finding = if is_available {
                Finding::Passed
            } else {
                let Some(node) = read().await else { continue };
                finding(&node, Boot::read(Timestamp::now()))
            };
            is_available = finding == Finding::Passed;
            self.check.note(finding, Instant::now());
            let why = self.check.failure().map(str::to_owned);
            change(&self.sender, |failed| failed.network = why);
        }
    }
}

/// Reads the Node of this name; `None`: the API server does not answer.
pub(crate) fn reader(client: Client, name: String) -> ReadNode {
    let nodes: Api<Lenient<Node>> = Api::all(client);
    Box::new(move || {
        let (nodes, name) = (nodes.clone(), name.clone());
        async move {
            match call_within(EVERY, lenient::read(nodes.get(&name))).await {
                Ok(node) => Some(node),
                Err(error) => {
                    tracing::debug!(%error, "cannot read this node's conditions");
                    None
                }
            }
        }
        .boxed()
    })
}
