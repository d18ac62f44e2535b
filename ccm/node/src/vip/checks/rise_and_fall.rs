//! Verdict on a check by the number of equal results in a row. Pure.

use std::time::{Duration, Instant};

use super::Answer;
use crate::flaps::Flaps;

#[cfg(test)]
mod tests;

/// Minimum time limit of the attempt that completes a failure. With it and a takeover, which takes a skew time, a server that hangs is
/// replaced within `fall` intervals and 100 ms.
const LAST_CHANCE: Duration = Duration::from_millis(50);

/// Verdict on a check by all results so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is no result yet. It counts as failing.
    Unknown,
    /// All is well.
    Passing,
    /// It is not.
    Failing,
}

/// State of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckState {
    pub(crate) verdict: Verdict,
    /// Time since which the verdict holds.
    pub(crate) since: Instant,
    /// Number of equal results in a row, up to the last one.
    pub(crate) in_a_row: u32,
    /// Error of the last failed attempt, for people; `None`: none has failed.
    pub(crate) error: Option<String>,
    /// Time until which it has to pass before it is trusted again, because it has failed again and again; `None`: it is trusted as soon as
    /// it passes.
    pub(crate) proves_until: Option<Instant>,
}

impl CheckState {
    /// Returns the state of a check that is about to begin.
    pub(crate) const fn starting(now: Instant) -> Self {
        Self { verdict: Verdict::Unknown, since: now, in_a_row: 0, error: None, proves_until: None }
    }

    /// Returns true if the check passes.
    pub(crate) const fn is_passing(&self) -> bool {
        match self.verdict {
            Verdict::Passing => true,
            Verdict::Unknown | Verdict::Failing => false,
        }
    }

    /// Returns true if the check passes, but has to prove itself still.
    pub(crate) fn is_proving(&self, now: Instant) -> bool {
        self.is_passing() && self.proves_until.is_some_and(|until| now < until)
    }
}

/// Judges a check: `rise` successes in a row end a failure, and `fall` failures in a row are one. The very first result counts immediately:
/// a process that starts anew on a healthy node is not to lower it for longer than one attempt takes. A check that fails again and again
/// has to prove itself when it passes, longer each time.
#[derive(Debug, Clone)]
pub(super) struct RiseAndFall {
    rise: u32,
    fall: u32,
    state: CheckState,
    /// True if the last result was a success; `None`: it does not count any more.
    last: Option<bool>,
    /// Duration of the last success.
    took: Duration,
    /// The failures lately.
    flaps: Flaps,
}

impl RiseAndFall {
    /// Starts without any result.
    pub(super) fn new(rise: u32, fall: u32, now: Instant) -> Self {
        let (state, took, flaps) = (CheckState::starting(now), Duration::ZERO, Flaps::default());
        Self { rise, fall, state, last: None, took, flaps }
    }

    /// Returns the current state.
    pub(super) const fn state(&self) -> &CheckState {
        &self.state
    }

    /// Returns the time limit of the next attempt, at most `timeout`. The attempt that completes a failure has twice the duration of the
    /// last success, at least [`LAST_CHANCE`]: a server that hangs has left other attempts unanswered for longer.
    pub(super) fn patience(&self, timeout: Duration) -> Duration {
        let failed = if self.last == Some(false) { self.state.in_a_row } else { 0 };
        let is_last = self.state.is_passing() && failed > 0 && failed.saturating_add(1) >= self.fall;
        if is_last { (self.took * 2).max(LAST_CHANCE).min(timeout) } else { timeout }
    }

    /// Records an answer at `now`, after an attempt that lasted `took`.
    pub(super) fn note(&mut self, answer: Answer, took: Duration, now: Instant) {
        let is_well = answer.is_ok();
        if is_well {
            self.took = took;
        }
        let in_a_row = if self.last == Some(is_well) { self.state.in_a_row } else { 0 };
        self.state.in_a_row = in_a_row.saturating_add(1);
        self.last = Some(is_well);
        if let Err(error) = answer {
            self.state.error = Some(error);
        }
        let changed = match (self.state.verdict, is_well) {
            (Verdict::Unknown, true) => Some(Verdict::Passing),
            (Verdict::Unknown, false) => Some(Verdict::Failing),
            (Verdict::Failing, true) => (self.state.in_a_row >= self.rise).then_some(Verdict::Passing),
            (Verdict::Passing, false) => (self.state.in_a_row >= self.fall).then_some(Verdict::Failing),
            (Verdict::Passing, true) | (Verdict::Failing, false) => None,
        };
        let Some(verdict) = changed else { return };
        match (self.state.verdict, verdict) {
            (Verdict::Passing, Verdict::Failing) => drop(self.flaps.note(now)),
            (Verdict::Failing, Verdict::Passing) => {
                self.state.proves_until = Some(now + self.flaps.delay(now)).filter(|until| *until > now);
            }
            (Verdict::Unknown | Verdict::Passing | Verdict::Failing, _) => {}
        }
        (self.state.verdict, self.state.since) = (verdict, now);
    }

    /// Records that the process stood still: earlier results are not in a row with later ones. The verdict stays.
    pub(super) const fn note_stall(&mut self) {
        self.last = None;
        self.state.in_a_row = 0;
    }
}
