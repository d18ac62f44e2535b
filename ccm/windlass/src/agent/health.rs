//! Whether this node can serve, judged from the node itself: what needs neither the API server nor the controller.
//!
//! kube-proxy is asked once a second: whether it keeps its rules up to date, and whether nodes with a pod of a Service with
//! `externalTrafficPolicy: Local` still have one. [`check`] judges the answers, [`kube_proxy`] remembers whether there is a kube-proxy,
//! [`request`] asks. A node that fails takes part with a priority below all that pass, and serves if all fail
//! ([`priorities`](crate::priorities)).

mod check;
mod kube_proxy;
mod request;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::check::{Check, Finding, Patience};
use self::kube_proxy::KubeProxyMemory;
use super::desired::{Assignment, Desired};
use crate::priorities;

#[cfg(test)]
mod tests;

/// How often everything is asked.
const EVERY: Duration = Duration::from_secs(1);
/// Health checks that are told one by one: a node without pods of hundreds of `Local` Services fails as many.
const MOST_TOLD: usize = 32;
/// Questions at the same time.
const PARALLEL: usize = 16;

/// kube-proxy says itself that it is behind, or that the node is about to be deleted: that is believed at once. One that says
/// nothing may be restarting, as its DaemonSet is rolled; its rules stay in the kernel meanwhile.
const KUBE_PROXY: Patience = Patience { failed: Duration::ZERO, silent: Duration::from_secs(15) };
/// The controller knows of the pods too, and moves the address in the better order: it does not have to be forestalled.
const ENDPOINTS: Patience = Patience { failed: Duration::from_secs(5), silent: Duration::from_secs(15) };

/// What does not work on this node, and why, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FailedChecks {
    /// Of the node: it concerns every virtual router.
    pub(crate) kube_proxy: Option<String>,
    /// Of a Service, by its health check's node port.
    pub(crate) endpoints: BTreeMap<u16, String>,
}

impl FailedChecks {
    /// This node's priority for a virtual router, as things are.
    pub(crate) fn priority(&self, assignment: &Assignment) -> u8 {
        let fails = self.kube_proxy.is_some()
            || assignment.health_check_node_ports.iter().any(|port| self.endpoints.contains_key(port));
        let unfit = priorities::unfit(assignment.before.into());
        if fails { assignment.priority.min(unfit) } else { assignment.priority }
    }

    /// One sentence for each, for people: of many health checks the first are told, and how many more there are.
    pub(crate) fn sentences(&self) -> impl Iterator<Item = String> {
        let endpoints =
            self.endpoints.iter().map(|(port, why)| format!("the health check on node port {port}: {why}"));
        let more = self.endpoints.len().saturating_sub(MOST_TOLD);
        let more = (more > 0).then(|| format!("{more} further health checks"));
        let kube_proxy = self.kube_proxy.iter().map(|why| format!("kube-proxy: {why}"));
        kube_proxy.chain(endpoints.take(MOST_TOLD)).chain(more)
    }
}

/// Asks, judges and tells.
pub(crate) struct HealthMonitor {
    kube_proxy: Option<(SocketAddr, Check, KubeProxyMemory)>,
    endpoints: BTreeMap<u16, Check>,
    /// Where kube-proxy answered of a Service: it may listen on some of the node's addresses only.
    answered_at: Option<IpAddr>,
    sender: watch::Sender<FailedChecks>,
}

impl HealthMonitor {
    /// What is known at the start of a node's kube-proxy, asked at `kube_proxy` if there is to be one. `folder` is that of the state.
    pub(crate) fn new(
        kube_proxy: Option<SocketAddr>,
        folder: &Path,
        now: Instant,
    ) -> (Self, watch::Receiver<FailedChecks>) {
        let kube_proxy = kube_proxy.map(|address| {
            let memory = KubeProxyMemory::open(folder);
            (address, memory.check(KUBE_PROXY, now), memory)
        });
        let (sender, receiver) = watch::channel(FailedChecks::default());
        let monitor = Self { kube_proxy, endpoints: BTreeMap::new(), answered_at: None, sender };
        monitor.tell();
        (monitor, receiver)
    }

    /// Asks until `token` is cancelled.
    pub(crate) async fn run(
        mut self,
        desired: watch::Receiver<Option<Arc<Desired>>>,
        token: CancellationToken,
    ) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = token.cancelled() => return,
            }
            let known = desired.borrow().as_deref().map(|desired| (ports(desired), sources(desired)));
            let (ports, own) = known.unwrap_or_default();
            let answers = tokio::select! {
                answers = self.ask(&ports, &own) => answers,
                () = token.cancelled() => return,
            };
            self.judge(answers, Instant::now());
        }
    }

    async fn ask(&self, ports: &BTreeSet<u16>, own: &BTreeSet<IpAddr>) -> Answers {
        let kube_proxy = async {
            let (address, _, _) = self.kube_proxy.as_ref()?;
            Some(request::health(*address).await)
        };
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let known = self.answered_at.into_iter();
        let addresses: Vec<IpAddr> = known.chain(loopback).chain(own.iter().copied()).collect();
        let of_port = async |port: &u16| (*port, request::first_answer(&addresses, *port).await);
        let endpoints = stream::iter(ports).map(of_port).buffer_unordered(PARALLEL).collect();
        let (kube_proxy, endpoints): (_, Vec<_>) = tokio::join!(kube_proxy, endpoints);
        Answers { kube_proxy, endpoints }
    }

    fn judge(&mut self, answers: Answers, now: Instant) {
        let Answers { kube_proxy, endpoints } = answers;
        if let (Some((_, check, memory)), Some(finding)) = (&mut self.kube_proxy, kube_proxy) {
            if finding == Finding::Passed {
                memory.note_answer();
            }
            check.note(finding, now);
        }
        let asked: BTreeSet<u16> = endpoints.iter().map(|(port, _)| *port).collect();
        self.endpoints.retain(|port, _| asked.contains(port));
        for (port, (finding, at)) in endpoints {
            self.answered_at = at.or(self.answered_at);
            self.endpoints.entry(port).or_insert_with(|| Check::new(ENDPOINTS)).note(finding, now);
        }
        self.tell();
    }

    /// Tells what changed, and logs it.
    fn tell(&self) {
        let reason = |check: &Check| check.failure().map(str::to_owned);
        let new = FailedChecks {
            kube_proxy: self.kube_proxy.as_ref().and_then(|(_, check, _)| reason(check)),
            endpoints: self
                .endpoints
                .iter()
                .filter_map(|(port, check)| Some((*port, reason(check)?)))
                .collect(),
        };
        self.sender.send_if_modified(|known| {
            if *known == new {
                return false;
            }
            let (was, is): (BTreeSet<_>, BTreeSet<_>) =
                (known.sentences().collect(), new.sentences().collect());
            for why in is.difference(&was) {
                tracing::warn!(%why, "a check of this node fails: it ranks below all nodes that pass");
            }
            for why in was.difference(&is) {
                tracing::info!(check = %why, "a check of this node fails no more");
            }
            *known = new;
            true
        });
    }
}

/// What was answered in one round.
struct Answers {
    kube_proxy: Option<Finding>,
    /// By port, with the address that answered.
    endpoints: Vec<(u16, (Finding, Option<IpAddr>))>,
}

/// The health check ports of what this node is believed to serve: where it is not, nothing can get worse.
fn ports(desired: &Desired) -> BTreeSet<u16> {
    let served = desired.assignments.iter().filter(|one| priorities::is_good(one.priority));
    served.flat_map(|one| &one.health_check_node_ports).copied().collect()
}

/// This node's addresses on the segments of its virtual routers, where kube-proxy may listen.
fn sources(desired: &Desired) -> BTreeSet<IpAddr> {
    let all = desired.assignments.iter().map(|one| one.source);
    all.filter(|source| !matches!(source, IpAddr::V6(source) if source.is_unicast_link_local())).collect()
}
