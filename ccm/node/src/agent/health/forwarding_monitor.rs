//! Checks once a second that the kernel forwards packets for the virtual IPs of this node.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_engine::{Engine, Family, HostRoute, LinkKind};

use super::change;
use super::check::{Check, Finding, Patience};
use super::failed::FailedChecks;
use super::forwarding::{self, SETTINGS, Segment};
use crate::agent::desired::Desired;
use crate::agent::service_proxy::ServiceProxy;
use crate::parts::blocking;

/// Period of the check.
const EVERY: Duration = Duration::from_secs(1);
/// Patience of the check: the second failure in a row counts, as a program that loads settings writes some of them twice.
pub(super) const FORWARDING: Patience = Patience::times(2, Duration::ZERO);

/// Checks the forwarding of each segment and publishes those that fail.
pub(super) struct ForwardingMonitor {
    checks: BTreeMap<Segment, Check>,
    sender: Arc<watch::Sender<FailedChecks>>,
}

impl ForwardingMonitor {
    pub(super) fn new(sender: Arc<watch::Sender<FailedChecks>>) -> Self {
        Self { checks: BTreeMap::new(), sender }
    }

    /// Runs the check until `token` is cancelled. Programs at the interfaces (eBPF) forward by themselves, whatever the kernel's settings
    /// are.
    pub(super) async fn run(
        &mut self,
        desired: &watch::Receiver<Option<Arc<Desired>>>,
        proxy: &watch::Receiver<ServiceProxy>,
        token: &CancellationToken,
    ) {
        let mut ticks = crate::every(EVERY);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = token.cancelled() => return,
            }
            let proxy = *proxy.borrow();
            let desired = match proxy {
                ServiceProxy::Programs { .. } | ServiceProxy::Switched { .. } => None,
                ServiceProxy::Unknown
                | ServiceProxy::Nftables
                | ServiceProxy::Iptables
                | ServiceProxy::Ipvs => desired.borrow().clone(),
            };
            let desired = desired.unwrap_or_default();
            if desired.assignments.is_empty() && self.checks.is_empty() {
                continue;
            }
            let looked = blocking(move || {
                // Without nf_tables there is no such chain.
                let dropping = windlass_engine::chains_that_drop_all().unwrap_or_default();
                // IPVS takes packets after the bridge.
                let is_translated = proxy != ServiceProxy::Ipvs;
                let bridged = is_translated.then(|| routes_by_bridges(&desired)).and_then(Result::ok);
                let segments = forwarding::segments(&desired);
                forwarding::findings(Path::new(SETTINGS), segments, &dropping, &bridged.unwrap_or_default())
            });
            if let Some(findings) = looked.await {
                self.judge(findings, Instant::now());
            }
        }
    }

    pub(super) fn judge(&mut self, findings: BTreeMap<Segment, Finding>, now: Instant) {
        self.checks.retain(|segment, _| findings.contains_key(segment));
        for (segment, finding) in findings {
            self.checks.entry(segment).or_insert_with(|| Check::new(FORWARDING)).note(finding, now);
        }
        let failing = self
            .checks
            .iter()
            .filter_map(|(segment, check)| Some((segment.clone(), check.failure()?.to_owned())));
        let failing = failing.collect();
        change(&self.sender, |failed| failed.forwarding = failing);
    }
}

/// Reads the routes to other candidates by interfaces of virtual routers that are bridges, if packets of bridges pass rules.
fn routes_by_bridges(desired: &Desired) -> io::Result<Vec<HostRoute>> {
    let settings = Path::new(SETTINGS);
    if ![Family::V4, Family::V6].into_iter().any(|family| forwarding::filters_bridged(settings, family)) {
        return Ok(Vec::new());
    }
    let is_used = |link: &LinkKind| desired.assignments.iter().any(|one| one.interface == link.name);
    let links = Engine::link_kinds()?.into_iter();
    let bridges = links.filter(|link| link.kind.as_deref() == Some("bridge") && is_used(link));
    let bridges: BTreeSet<String> = bridges.map(|link| link.name).collect();
    if bridges.is_empty() {
        return Ok(Vec::new());
    }
    let is_candidate = |address| desired.assignments.iter().any(|one| one.peers.contains(&address));
    let mut routes = Engine::routes()?;
    routes.retain(|route| bridges.contains(&route.interface) && route.gateway.is_some_and(is_candidate));
    Ok(routes)
}
