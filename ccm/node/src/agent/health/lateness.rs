//! How late the engine acts. An Active that speaks too late is replaced although it lives, and takes its place back, again and again: it
//! is to leave it in an orderly way before.
//!
//! Backups wait for two intervals of adverts beyond the one that is due. Half of that has to be gone before a second counts as a late
//! one, and one late second is nothing: a virtual machine that stood still for a moment keeps its addresses. What holds up all nodes
//! alike moves none, by two rules: a Backup counts what is a quarter of an interval less late, because its timer may have been due so much
//! later, and half as many seconds, because two of the Active's may be one of its own.

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

/// How often the engine is asked: these are the seconds that are counted.
const EVERY: Duration = Duration::from_secs(1);
/// Where this node is Active.
const ACTIVE: Rule = Rule { quarters: 4, seconds: 6, window: Duration::from_secs(10), extra: Duration::ZERO };
/// Where it is not. Once it counts it does so for longer than where an Active began to count later.
const BACKUP: Rule =
    Rule { quarters: 3, seconds: 3, window: Duration::from_secs(12), extra: Duration::from_mins(1) };

/// When lateness counts.
#[derive(Debug, Clone, Copy)]
struct Rule {
    /// What is later than so many quarters of the interval of adverts is late.
    quarters: u32,
    /// In so many seconds
    seconds: usize,
    /// of so long.
    window: Duration,
    /// How much longer than others it counts.
    extra: Duration,
}

/// One rule and what became of it so far.
#[derive(Debug)]
struct Judge {
    rule: Rule,
    /// The last seconds that were late.
    late: VecDeque<Instant>,
    check: Check,
}

impl Judge {
    fn new(rule: Rule) -> Self {
        Self { rule, late: VecDeque::new(), check: Check::new(Patience::times(1, rule.extra)) }
    }

    /// Takes in how late it was in the second that ends now, where adverts have this interval.
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

/// What is known for each interval of adverts in milliseconds. Pure.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    known: BTreeMap<u32, [Judge; 2]>,
}

impl Lateness {
    /// Takes in how late the engine was in the second that ends now; these are the intervals of its virtual routers.
    pub(super) fn note(&mut self, intervals: &BTreeSet<u32>, lateness: Duration, now: Instant) {
        self.known.retain(|interval, _| intervals.contains(interval));
        for interval in intervals {
            let judges = self.known.entry(*interval).or_insert_with(|| [ACTIVE, BACKUP].map(Judge::new));
            for judge in judges {
                judge.note(Duration::from_millis((*interval).into()), lateness, now);
            }
        }
    }

    /// The intervals that it is too late for.
    pub(super) fn failed(&self) -> BTreeMap<u32, FailedNodeCheck> {
        let failed = |(interval, [active, backup]): (&u32, &[Judge; 2])| {
            let reason = backup.check.failure()?.to_owned();
            Some((*interval, FailedNodeCheck { reason, spares_active: active.check.failure().is_none() }))
        };
        self.known.iter().filter_map(failed).collect()
    }
}

/// Asks, judges and tells.
pub(super) struct LatenessMonitor {
    lateness: Lateness,
    sender: Arc<watch::Sender<FailedChecks>>,
}

impl LatenessMonitor {
    pub(super) fn new(sender: Arc<watch::Sender<FailedChecks>>) -> Self {
        Self { lateness: Lateness::default(), sender }
    }

    /// Asks once a second until `token` is cancelled.
    pub(super) async fn run(
        mut self,
        desired: watch::Receiver<Option<Arc<Desired>>>,
        mut take: impl FnMut() -> Duration,
        token: CancellationToken,
    ) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
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
