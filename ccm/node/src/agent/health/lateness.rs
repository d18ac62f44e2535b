//! Lateness of the engine. An Active whose adverts are late is replaced although it is alive, and takes its place back, again and again: it
//! has to resign in an orderly way before.
//!
//! Backups wait for two advert intervals beyond the one that is due. A second counts as late if half of that has passed. One late second
//! has no effect: a virtual machine that stood still for a moment keeps its addresses. A delay that affects all nodes alike moves no
//! address, by two rules. A Backup counts lateness from a quarter of an interval less, because its timer may have been due so much later.
//! It counts half as many seconds, because two of the Active's may be one of its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::change;
use super::check::{Check, Finding, Patience};
use super::failed::{FailedChecks, FailedNodeCheck};
use crate::agent::desired::Desired;

#[cfg(test)]
mod tests;

/// Sampling period: each sample is one of the seconds that are counted.
const EVERY: Duration = Duration::from_secs(1);
/// Rule where this node is Active.
const ACTIVE: Rule = Rule { quarters: 4, seconds: 6, window: Duration::from_secs(10), extra: Duration::ZERO };
/// Rule where it is not. A failure lasts longer than one that began later on an Active.
const BACKUP: Rule =
    Rule { quarters: 3, seconds: 3, window: Duration::from_secs(12), extra: Duration::from_mins(1) };

/// Conditions under which lateness counts as a failure.
#[derive(Debug, Clone, Copy)]
struct Rule {
    /// Threshold, in quarters of the advert interval.
    quarters: u32,
    /// Number of late seconds
    seconds: usize,
    /// within this window.
    window: Duration,
    /// Extra time for which a failure lasts.
    extra: Duration,
}

/// One rule and its results so far.
#[derive(Debug)]
struct Judge {
    rule: Rule,
    /// Last late seconds.
    late: VecDeque<Instant>,
    check: Check,
}

impl Judge {
    fn new(rule: Rule) -> Self {
        Self { rule, late: VecDeque::new(), check: Check::new(Patience::times(1, rule.extra)) }
    }

    /// Records the lateness in the second that ends now, for this advert interval.
    fn note(&mut self, interval: Duration, lateness: Duration, now: Instant) {
        let Rule { quarters, seconds, window, .. } = self.rule;
        if lateness > interval * quarters / 4 {
            self.late.push_back(now);
        }
        while self.late.len() > seconds
            || self.late.front().is_some_and(|at| now.duration_since(*at) >= window)
        {
            self.late.pop_front();
        }
        let finding = if self.late.len() < seconds {
            Finding::Passed
        } else {
            Finding::Failed(format!(
                "it was {} ms late, and too late in {seconds} of {} seconds: see to it that the agent gets processor time",
                lateness.as_millis(),
                window.as_secs()
            ))
        };
        self.check.note(finding, now);
    }
}

/// Judges of each advert interval in milliseconds. Pure.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    known: BTreeMap<u32, [Judge; 2]>,
}

impl Lateness {
    /// Records the engine's lateness in the second that ends now. `intervals`: the advert intervals of its virtual routers.
    pub(super) fn note(&mut self, intervals: &BTreeSet<u32>, lateness: Duration, now: Instant) {
        self.known.retain(|interval, _| intervals.contains(interval));
        for interval in intervals {
            let judges = self.known.entry(*interval).or_insert_with(|| [ACTIVE, BACKUP].map(Judge::new));
            for judge in judges {
                judge.note(Duration::from_millis((*interval).into()), lateness, now);
            }
        }
    }

    /// Returns the advert intervals for which the engine is too late.
    pub(super) fn failed(&self) -> BTreeMap<u32, FailedNodeCheck> {
        let failed = |(interval, [active, backup]): (&u32, &[Judge; 2])| {
            let reason = backup.check.failure()?.to_owned();
            Some((*interval, FailedNodeCheck { reason, spares_active: active.check.failure().is_none() }))
        };
        self.known.iter().filter_map(failed).collect()
    }
}

/// Samples the engine's lateness, judges it and publishes failures.
pub(super) struct LatenessMonitor {
    lateness: Lateness,
    sender: Arc<watch::Sender<FailedChecks>>,
}

impl LatenessMonitor {
    pub(super) fn new(sender: Arc<watch::Sender<FailedChecks>>) -> Self {
        Self { lateness: Lateness::default(), sender }
    }

    /// Samples once a second until `token` is cancelled.
    pub(super) async fn run(
        &mut self,
        desired: &watch::Receiver<Option<Arc<Desired>>>,
        take: impl Fn() -> Duration,
        token: &CancellationToken,
    ) {
        let mut ticks = crate::every(EVERY);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = token.cancelled() => return,
            }
            let intervals = desired.borrow().as_deref().map(intervals).unwrap_or_default();
            self.lateness.note(&intervals, take(), Instant::now());
            change(&self.sender, |failed| failed.late = self.lateness.failed());
        }
    }
}

fn intervals(desired: &Desired) -> BTreeSet<u32> {
    desired.assignments.iter().map(|one| one.interval_milliseconds).collect()
}
