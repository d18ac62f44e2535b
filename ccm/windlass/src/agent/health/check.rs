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

/// How long it may fail until that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Patience {
    pub(super) failed: Duration,
    pub(super) silent: Duration,
}

/// A check and what became of it so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    patience: Patience,
    state: State,
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
    /// One that nothing is known of.
    pub(super) const fn new(patience: Patience) -> Self {
        Self { patience, state: State::Unknown }
    }

    /// One that passed before.
    pub(super) const fn passing(patience: Patience) -> Self {
        Self { patience, state: State::Passing }
    }

    /// One that fails until it has passed for a while.
    pub(super) fn failing(patience: Patience, reason: &str, now: Instant) -> Self {
        Self {
            patience,
            state: State::Failing { reason: reason.to_owned(), until: now, passing_since: None },
        }
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
        let (reason, patience) = match finding {
            Finding::Passed => return self.note_pass(now),
            Finding::Silent(_) if self.state == State::Unknown => return,
            Finding::Failed(reason) => (reason, self.patience.failed),
            Finding::Silent(reason) => (reason, self.patience.silent),
        };
        match &mut self.state {
            State::Unknown | State::Passing => self.state = State::Doubted { since: now },
            State::Doubted { .. } => {}
            State::Failing { passing_since, .. } => *passing_since = None,
        }
        if let State::Doubted { since } = self.state
            && now.duration_since(since) >= patience
        {
            self.state = State::Failing { reason, until: now + LEAST_FAILURE, passing_since: None };
        }
    }

    fn note_pass(&mut self, now: Instant) {
        match &mut self.state {
            State::Unknown | State::Passing | State::Doubted { .. } => self.state = State::Passing,
            State::Failing { until, passing_since, .. } => {
                let since = *passing_since.get_or_insert(now);
                if now >= *until && now.duration_since(since) >= STEADY {
                    self.state = State::Passing;
                }
            }
        }
    }
}
