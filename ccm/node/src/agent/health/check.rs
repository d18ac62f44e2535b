//! One check, judged over time: patience before it counts as failed, and no coming back at every whim. Pure.

use std::time::{Duration, Instant};

/// It has to pass for so long in a row before it counts as passed again.
const STEADY: Duration = Duration::from_secs(10);
/// From one failure to the end of it at least: a check that changes its mind all the time moves an address once a minute.
const LEAST_FAILURE: Duration = Duration::from_mins(1);

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    Passed,
    /// Who was asked says that it is not well.
    Failed(String),
    /// Nobody answers.
    Silent(String),
}

/// What is borne with until a failure counts, and for how long it counts then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Patience {
    failed: Limit,
    silent: Limit,
    /// Whether somebody is to be there: else silence counts only where somebody answered before.
    expects_answer: bool,
    /// How much longer than others it counts as failed once it has failed.
    extra: Duration,
}

/// What is borne with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// It is not passed for so long.
    Lasting(Duration),
    /// It is not passed so many times in a row.
    Times(u32),
}

impl Patience {
    /// It may fail for so long, and somebody who answered before may be silent for so long.
    pub(super) const fn lasting(failed: Duration, silent: Duration) -> Self {
        Self {
            failed: Limit::Lasting(failed),
            silent: Limit::Lasting(silent),
            expects_answer: false,
            extra: Duration::ZERO,
        }
    }

    /// The last of so many failures in a row counts, and silence is one. It counts for `extra` longer than others do.
    pub(super) const fn times(times: u32, extra: Duration) -> Self {
        Self { failed: Limit::Times(times), silent: Limit::Times(times), expects_answer: true, extra }
    }
}

/// A check and what became of it so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    patience: Patience,
    state: State,
    /// How many times in a row it was not passed until now.
    failures: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Nobody has answered yet, and perhaps there is nobody.
    Unknown,
    Passing,
    /// It does not pass, and has not failed for long enough.
    Doubted {
        since: Instant,
    },
    Failing {
        reason: String,
        /// Until then at least.
        until: Instant,
        passing_since: Option<Instant>,
    },
}

impl Check {
    const fn of(patience: Patience, state: State) -> Self {
        Self { patience, state, failures: 0 }
    }

    /// One that nothing is known of.
    pub(super) const fn new(patience: Patience) -> Self {
        Self::of(patience, State::Unknown)
    }

    /// One that passed before.
    pub(super) const fn passing(patience: Patience) -> Self {
        Self::of(patience, State::Passing)
    }

    /// One that fails until it has passed for a while.
    pub(super) fn failing(patience: Patience, reason: &str, now: Instant) -> Self {
        Self::of(patience, State::Failing { reason: reason.to_owned(), until: now, passing_since: None })
    }

    /// Why it fails, if it does.
    pub(super) fn failure(&self) -> Option<&str> {
        match &self.state {
            State::Failing { reason, .. } => Some(reason),
            State::Unknown | State::Passing | State::Doubted { .. } => None,
        }
    }

    /// Takes in what was found at `now`.
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
            // What fails already fails anew, for its least time.
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
