//! One check, judged over time: it fails after a delay, and recovers after a longer one. Pure.

use std::time::{Duration, Instant};

/// Time for which it has to pass continuously before it counts as passed again.
const STEADY: Duration = Duration::from_secs(10);
/// Least duration of a failure: a check that flaps all the time moves an address once a minute.
const LEAST_FAILURE: Duration = Duration::from_mins(1);

/// Result of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    Passed,
    /// The server answered that it is not well.
    Failed(String),
    /// No answer.
    Silent(String),
}

/// Limits before a failure counts, and the time for which it counts then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Patience {
    failed: Limit,
    silent: Limit,
    /// True if an answer is expected from the start: otherwise silence counts only after a first answer.
    expects_answer: bool,
    /// Extra time for which a failure counts.
    extra: Duration,
}

/// Limit before a failure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// Not passed for this time.
    Lasting(Duration),
    /// Not passed this many times in a row.
    Times(u32),
}

impl Patience {
    /// Tolerates failures and, from a server that answered before, silence for these times.
    pub(super) const fn lasting(failed: Duration, silent: Duration) -> Self {
        Self {
            failed: Limit::Lasting(failed),
            silent: Limit::Lasting(silent),
            expects_answer: false,
            extra: Duration::ZERO,
        }
    }

    /// Tolerates fewer than `times` failures in a row; silence is one. A failure counts for `extra` longer than others do.
    pub(super) const fn times(times: u32, extra: Duration) -> Self {
        Self { failed: Limit::Times(times), silent: Limit::Times(times), expects_answer: true, extra }
    }
}

/// A check and its results so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    patience: Patience,
    state: State,
    /// Number of consecutive runs that did not pass.
    failures: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// No answer yet, and possibly no server.
    Unknown,
    Passing,
    /// Not passing, but not for long enough to fail.
    Doubted {
        since: Instant,
    },
    Failing {
        reason: String,
        /// Earliest end of the failure.
        until: Instant,
        passing_since: Option<Instant>,
    },
}

impl Check {
    const fn of(patience: Patience, state: State) -> Self {
        Self { patience, state, failures: 0 }
    }

    /// Creates a check without results.
    pub(super) const fn new(patience: Patience) -> Self {
        Self::of(patience, State::Unknown)
    }

    /// Creates a check that passed before.
    pub(super) const fn passing(patience: Patience) -> Self {
        Self::of(patience, State::Passing)
    }

    /// Creates a check that fails until it has passed for a while.
    pub(super) fn failing(patience: Patience, reason: &str, now: Instant) -> Self {
        Self::of(patience, State::Failing { reason: reason.to_owned(), until: now, passing_since: None })
    }

    /// Returns the reason if it fails.
    pub(super) fn failure(&self) -> Option<&str> {
        match &self.state {
            State::Failing { reason, .. } => Some(reason),
            State::Unknown | State::Passing | State::Doubted { .. } => None,
        }
    }

    /// Records the result of a run at `now`.
    pub(super) fn note(&mut self, finding: Finding, now: Instant) {
        let (reason, limit) = match finding {
            Finding::Passed => return self.note_pass(now),
            Finding::Silent(_) if self.state == State::Unknown && !self.patience.expects_answer => return,
            Finding::Failed(reason) => (reason, self.patience.failed),
            Finding::Silent(reason) => (reason, self.patience.silent),
        };
        self.failures = self.failures.saturating_add(1);
        let since = match &mut self.state {
            State::Unknown | State::Passing => {
                self.state = State::Doubted { since: now };
                Some(now)
            }
            State::Doubted { since } => Some(*since),
            State::Failing { passing_since, .. } => {
                *passing_since = None;
                None
            }
        };
        let fails = match limit {
            Limit::Lasting(least) => since.is_some_and(|since| now.duration_since(since) >= least),
            // A check that fails already fails again, for its least time.
            Limit::Times(least) => self.failures == least,
        };
        if fails {
            let until = now + LEAST_FAILURE + self.patience.extra;
            self.state = State::Failing { reason, until, passing_since: None };
        }
    }

    fn note_pass(&mut self, now: Instant) {
        self.failures = 0;
        match &mut self.state {
            State::Unknown | State::Passing | State::Doubted { .. } => self.state = State::Passing,
            State::Failing { until, passing_since, .. } => {
                let since = *passing_since.get_or_insert(now);
                if now >= *until && now.duration_since(since) >= STEADY + self.patience.extra {
                    self.state = State::Passing;
                }
            }
        }
    }
}
