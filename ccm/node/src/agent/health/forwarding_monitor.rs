//! Checks once a second that the kernel forwards packets for the virtual IPs of this node.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

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
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = token.cancelled() => return,
            }
            let segments = match *proxy.borrow() {
                ServiceProxy::Programs { .. } | ServiceProxy::Switched { .. } => BTreeSet::new(),
                ServiceProxy::Unknown
                | ServiceProxy::Nftables
                | ServiceProxy::Iptables
                | ServiceProxy::Ipvs => {
                    desired.borrow().as_deref().map(forwarding::segments).unwrap_or_default()
                }
            };
            if segments.is_empty() && self.checks.is_empty() {
                continue;
            }
            let looked = blocking(move || {
                // Without nf_tables there is no such chain.
                let dropping = windlass_engine::chains_that_drop_all().unwrap_or_default();
                forwarding::findings(Path::new(SETTINGS), segments, &dropping)
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
