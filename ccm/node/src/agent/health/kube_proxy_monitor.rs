//! Queries kube-proxy once a second: are its rules up to date, and do the Services with `externalTrafficPolicy: Local` have a pod here?

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_common::priorities;

use super::check::{Check, Finding, Patience};
use super::failed::FailedChecks;
use super::kube_proxy::KubeProxyMemory;
use super::{PARALLEL, change, request, sources};
use crate::agent::desired::Desired;
use crate::checks::LOOPBACK;

/// Period of all queries.
const EVERY: Duration = Duration::from_secs(1);
/// Patience with kube-proxy. Its report that it is behind, or that the node is about to be deleted, counts immediately. If it does not
/// answer it may be restarting, as its DaemonSet is rolled; its rules stay in the kernel meanwhile.
pub(super) const KUBE_PROXY: Patience = Patience::lasting(Duration::ZERO, Duration::from_secs(15));
/// Patience with a Service's health check. The controller watches the pods too, and moves the address in the better order: this check need
/// not act before it.
pub(super) const ENDPOINTS: Patience = Patience::lasting(Duration::from_secs(5), Duration::from_secs(15));

/// Queries kube-proxy, judges the answers and publishes failures.
pub(super) struct KubeProxyMonitor {
    kube_proxy: Option<(SocketAddr, Check, KubeProxyMemory)>,
    endpoints: BTreeMap<u16, Check>,
    /// Address at which kube-proxy last answered for a Service: it may listen on some of the node's addresses only.
    answered_at: Option<IpAddr>,
    sender: Arc<watch::Sender<FailedChecks>>,
}

impl KubeProxyMonitor {
    /// Creates the monitor. `kube_proxy` is the address of kube-proxy's health check, if there is to be one; `folder` is that of the state.
    pub(super) fn new(
        kube_proxy: Option<SocketAddr>,
        folder: &Path,
        sender: Arc<watch::Sender<FailedChecks>>,
        now: Instant,
    ) -> Self {
        let kube_proxy = kube_proxy.map(|address| {
            let memory = KubeProxyMemory::open(folder);
            (address, memory.check(KUBE_PROXY, now), memory)
        });
        let monitor = Self { kube_proxy, endpoints: BTreeMap::new(), answered_at: None, sender };
        monitor.tell();
        monitor
    }

    /// Runs until `token` is cancelled.
    pub(super) async fn run(
        &mut self,
        desired: &watch::Receiver<Option<Arc<Desired>>>,
        token: &CancellationToken,
    ) {
        let mut ticks = crate::every(EVERY);
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
        let known = self.answered_at.into_iter();
        let addresses: Vec<IpAddr> = known.chain(LOOPBACK).chain(own.iter().copied()).collect();
        let of_port = async |port: &u16| (*port, request::first_health(&addresses, *port).await);
        let endpoints = stream::iter(ports).map(of_port).buffer_unordered(PARALLEL).collect();
        let (kube_proxy, endpoints): (_, Vec<_>) = tokio::join!(kube_proxy, endpoints);
        Answers { kube_proxy, endpoints }
    }

    pub(super) fn judge(&mut self, answers: Answers, now: Instant) {
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

    fn tell(&self) {
        let reason = |check: &Check| check.failure().map(str::to_owned);
        let kube_proxy = self.kube_proxy.as_ref().and_then(|(_, check, _)| reason(check));
        let endpoints = self.endpoints.iter().filter_map(|(port, check)| Some((*port, reason(check)?)));
        let endpoints = endpoints.collect();
        change(&self.sender, |failed| {
            failed.kube_proxy = kube_proxy;
            failed.endpoints = endpoints;
        });
    }
}

/// Answers of one round.
pub(super) struct Answers {
    pub(super) kube_proxy: Option<Finding>,
    /// Results by port, with the address that answered.
    pub(super) endpoints: Vec<(u16, (Finding, Option<IpAddr>))>,
}

/// Returns the health check ports of the virtual routers in which this node's priority is good: in the others it cannot get worse.
pub(super) fn ports(desired: &Desired) -> BTreeSet<u16> {
    let served = desired.assignments.iter().filter(|one| priorities::is_good(one.priority));
    served.flat_map(|one| &one.health_check_node_ports).copied().collect()
}
