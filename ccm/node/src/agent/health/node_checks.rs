//! Checks of Announcements, their due times and results. Pure: it stores the request of each check, and sends none.
//!
//! All nodes may check the same target, such as the gateway. If it dies, the nodes detect it within a period of each other, and no address
//! is to move meanwhile. A failure therefore counts one run later where this node is Active, and ends sooner there: the Active fails last
//! and recovers first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use windlass_api::NodeCheck;

use super::check::{Check, Finding, Patience};
use super::failed::FailedNodeCheck;
use super::request::CheckRequest;

/// Reason of a check that failed before this agent started and has not passed since.
const FAILED_BEFORE: &str = "it failed before this agent was started";

/// Checks that this node runs.
#[derive(Debug, Default)]
pub(super) struct NodeChecks {
    known: BTreeMap<NodeCheck, Known>,
}

/// State of one check.
#[derive(Debug)]
struct Known {
    due: Instant,
    /// `None` while the check runs.
    request: Option<CheckRequest>,
    /// Judgement where this node is Active.
    active: Check,
    /// Judgement where it is not.
    backup: Check,
}

impl Known {
    fn new(check: &NodeCheck, failed_before: bool, now: Instant) -> Self {
        let NodeCheck { period_seconds, timeout_seconds, failure_threshold: times, .. } = check;
        let longest_period = Duration::from_secs((*period_seconds.max(timeout_seconds)).into());
        let begin = |patience| {
            if failed_before { Check::failing(patience, FAILED_BEFORE, now) } else { Check::new(patience) }
        };
        Self {
            due: now,
            request: Some(CheckRequest::new(check)),
            active: begin(Patience::times(times.saturating_add(1), Duration::ZERO)),
            // In a common fault the Active may count the first failure a period later, one failure more, and run the check a period after
            // it could have passed.
            backup: begin(Patience::times(*times, longest_period * 3)),
        }
    }

    fn note(&mut self, finding: Finding, now: Instant) {
        self.active.note(finding.clone(), now);
        self.backup.note(finding, now);
    }

    /// Returns the failure. A check that fails only where this node is Active fails in Backup too: otherwise it would take over only to
    /// give up.
    fn failure(&self) -> Option<FailedNodeCheck> {
        let reason = self.backup.failure()?.to_owned();
        Some(FailedNodeCheck { reason, spares_active: self.active.failure().is_none() })
    }
}

impl NodeChecks {
    /// Sets the checks to run. New ones are due immediately; of these the ones in `failed_before` count as failed until they pass.
    pub(super) fn want(
        &mut self,
        wanted: &BTreeSet<NodeCheck>,
        failed_before: &BTreeSet<NodeCheck>,
        now: Instant,
    ) {
        self.known.retain(|check, _| wanted.contains(check));
        for check in wanted {
            if !self.known.contains_key(check) {
                let known = Known::new(check, failed_before.contains(check), now);
                self.known.insert(check.clone(), known);
            }
        }
    }

    /// Returns the check that has been due longest, if any, and its request. The request and its finding are to be passed to
    /// [`Self::note`].
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(NodeCheck, CheckRequest)> {
        let waiting = self.known.iter_mut().filter(|(_, known)| known.request.is_some() && known.due <= now);
        let (check, known) = waiting.min_by_key(|(_, known)| known.due)?;
        known.due = now + Duration::from_secs(check.period_seconds.into());
        Some((check.clone(), known.request.take()?))
    }

    /// Makes the requests anew that were taken and will not come back.
    pub(super) fn renew_requests(&mut self) {
        for (check, known) in &mut self.known {
            known.request.get_or_insert_with(|| CheckRequest::new(check));
        }
    }

    /// Returns the next due time.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.known.values().filter(|known| known.request.is_some()).map(|known| known.due).min()
    }

    /// Records a finding at `now`, and stores the request for the next run.
    pub(super) fn note(&mut self, check: &NodeCheck, request: CheckRequest, finding: Finding, now: Instant) {
        if let Some(known) = self.known.get_mut(check) {
            known.request = Some(request);
            known.note(finding, now);
        }
    }

    /// Returns the checks that fail.
    pub(super) fn failed(&self) -> BTreeMap<NodeCheck, FailedNodeCheck> {
        self.known.iter().filter_map(|(check, known)| Some((check.clone(), known.failure()?))).collect()
    }
}
