//! Fitness of this node to serve, judged from the node itself: checks that need neither the API server nor the controller.
//!
//! | part | does |
//! |---|---|
//! | [`check`] | judges one check over time (pure) |
//! | [`request`] | asks by [`crate::checks`] |
//! | [`forwarding_monitor`], [`forwarding`] | whether the kernel forwards packets to pods, once a second (pure: [`forwarding`]) |
//! | [`node_condition`] | whether the CNI plugin is there after a boot, by the Node's condition |
//! | [`links`] | judges the node's links (pure), and looks at them |
//! | [`kube_proxy_monitor`], [`kube_proxy`] | kube-proxy, once a second: whether it keeps its rules up to date, and whether the Services with `externalTrafficPolicy: Local` have a pod here; remembers whether there is a kube-proxy |
//! | [`node_check_monitor`], [`node_checks`], [`failed_memory`] | what Announcements have checked; when each is due and what became of it (pure); remembers what failed |
//! | [`lateness`] | whether the engine is too late, again and again, for its adverts (pure), once a second |
//! | [`failed`] | what fails, and what that makes of priorities (pure) |
//!
//! A node that fails takes part with a priority below all that pass, and serves if all fail ([`priorities`](windlass_common::priorities)).

mod check;
mod failed;
mod failed_memory;
mod forwarding;
mod forwarding_monitor;
mod kube_proxy;
mod kube_proxy_monitor;
mod lateness;
mod links;
mod node_check_monitor;
mod node_checks;
mod node_condition;
pub(crate) mod request;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use self::failed::FailedChecks;
#[cfg(test)]
pub(crate) use self::failed::FailedNodeCheck;
use self::forwarding_monitor::ForwardingMonitor;
use self::kube_proxy_monitor::KubeProxyMonitor;
use self::lateness::LatenessMonitor;
use self::node_check_monitor::NodeCheckMonitor;
use self::node_condition::NodeConditionMonitor;
pub(crate) use self::node_condition::{ReadNode, reader as node_reader};
use super::desired::Desired;
use super::service_proxy::ServiceProxy;
use super::tasks::Tasks;

#[cfg(test)]
mod tests;

/// Largest number of concurrent requests of each kind.
const PARALLEL: usize = 16;

/// Runs the node's checks, judges them and publishes the failures.
pub(crate) struct HealthMonitor {
    kube_proxy: KubeProxyMonitor,
    lateness: LatenessMonitor,
    forwarding: ForwardingMonitor,
    node_condition: NodeConditionMonitor,
    node_checks: NodeCheckMonitor,
}

impl HealthMonitor {
    /// Creates the monitors and the receiver of failures. `kube_proxy` is the address of kube-proxy's health check, if there is to be one.
    /// Remembered results are read from `folder`, that of the state.
    pub(crate) fn new(
        kube_proxy: Option<SocketAddr>,
        folder: &Path,
        now: Instant,
    ) -> (Self, watch::Receiver<FailedChecks>) {
        let (sender, receiver) = watch::channel(FailedChecks::default());
        let sender = Arc::new(sender);
        let kube_proxy = KubeProxyMonitor::new(kube_proxy, folder, Arc::clone(&sender), now);
        let lateness = LatenessMonitor::new(Arc::clone(&sender));
        let forwarding = ForwardingMonitor::new(Arc::clone(&sender));
        let node_condition = NodeConditionMonitor::new(Arc::clone(&sender));
        let node_checks = NodeCheckMonitor::new(folder, sender, now);
        (Self { kube_proxy, lateness, forwarding, node_condition, node_checks }, receiver)
    }

    /// Starts the checks, which run until `token` is cancelled. Each is a part of its own: while it is away, its last result stays.
    /// `take_lateness` returns the engine's lateness since the last call, `proxy` the program that handles the packets of Services.
    /// `read_node` reads this node's Node.
    pub(super) fn start(
        self,
        desired: &watch::Receiver<Option<Arc<Desired>>>,
        take_lateness: impl Fn() -> Duration + Send + Sync + 'static,
        proxy: watch::Receiver<ServiceProxy>,
        read_node: ReadNode,
        token: &CancellationToken,
        tasks: &mut Tasks,
    ) {
        let Self { mut kube_proxy, mut lateness, mut forwarding, mut node_condition, mut node_checks } = self;
        let of_part = || (desired.clone(), token.clone());
        let (desired, token) = of_part();
        let run = async move || kube_proxy.run(&desired, &token).await;
        tasks.spawn(tasks.kept("agent-check-kube-proxy", run));
        let (desired, token) = of_part();
        let run = async move || lateness.run(&desired, &take_lateness, &token).await;
        tasks.spawn(tasks.kept("agent-check-lateness", run));
        let (desired, token) = of_part();
        let run = async move || forwarding.run(&desired, &proxy, &token).await;
        tasks.spawn(tasks.kept("agent-check-forwarding", run));
        let (_, token) = of_part();
        let run = async move || node_condition.run(&read_node, &token).await;
        tasks.spawn(tasks.kept("agent-check-pod-network", run));
        let (mut desired, token) = of_part();
        let run = async move || node_checks.run(&mut desired, &token).await;
        tasks.spawn(tasks.kept("agent-checks", run));
    }
}

/// Publishes a change, and logs it.
fn change(sender: &watch::Sender<FailedChecks>, change: impl FnOnce(&mut FailedChecks)) {
    sender.send_if_modified(|known| {
        let old = known.clone();
        change(known);
        if *known == old {
            return false;
        }
        let (was, is): (BTreeSet<_>, BTreeSet<_>) = (old.sentences().collect(), known.sentences().collect());
        for why in is.difference(&was) {
            tracing::warn!(%why, "a check of this node fails: it ranks below all nodes that pass");
        }
        for why in was.difference(&is) {
            tracing::info!(check = %why, "a check of this node fails no more");
        }
        true
    });
}

/// Returns this node's addresses on the segments of its virtual routers, where servers may listen that do not on the loopback interface.
fn sources(desired: &Desired) -> BTreeSet<IpAddr> {
    let all = desired.assignments.iter().map(|one| one.source);
    all.filter(|source| !matches!(source, IpAddr::V6(source) if source.is_unicast_link_local())).collect()
}
