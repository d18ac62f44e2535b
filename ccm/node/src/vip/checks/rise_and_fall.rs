//! How many results in a row count. Pure.

use std::time::{Duration, Instant};

use super::Answer;
use crate::agent::flaps::Flaps;

#[cfg(test)]
mod tests;

/// How long the last of the attempts that make a failure is waited for at least. With it and a takeover, which takes a skew time, what hangs
/// is replaced within `fall` intervals and a tenth of a second.
const LAST_CHANCE: Duration = Duration::from_millis(50);

/// What a check says by all results so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is no result yet. It counts as failing: nobody knows that all is well.
    Unknown,
    /// All is well.
    Passing,
    /// It is not.
    Failing,
}

/// What is known of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckState {
    pub(crate) verdict: Verdict,
    /// Since when it is so.
    pub(crate) since: Instant,
    /// How many of the last results were alike.
    pub(crate) in_a_row: u32,
    /// Why the last attempt failed that did, for people; `None`: none has.
    pub(crate) error: Option<String>,
    /// Until when it has to pass before it is trusted again, because it has failed again and again; `None`: it is trusted as soon as it
    /// passes.
    pub(crate) proves_until: Option<Instant>,
}

impl CheckState {
    /// That of a check that is about to begin.
    pub(crate) const fn starting(now: Instant) -> Self {
        Self { verdict: Verdict::Unknown, since: now, in_a_row: 0, error: None, proves_until: None }
    }

    /// Whether all is well.
    pub(crate) const fn is_passing(&self) -> bool {
        match self.verdict {
            Verdict::Passing => true,
            Verdict::Unknown | Verdict::Failing => false,
        }
    }

    /// Whether all is well, but may not be for long.
    pub(crate) fn is_proving(&self, now: Instant) -> bool {
        self.is_passing() && self.proves_until.is_some_and(|until| now < until)
    }
}

/// Judges a check: `rise` successes in a row end a failure, and `fall` failures in a row are one. The very first result counts at once:
/// a process that starts anew on a healthy node is not to lower it for longer than one attempt takes. What fails again and again has to
/// prove itself when it passes, and for longer each time.
#[derive(Debug, Clone)]
pub(super) struct RiseAndFall {
    rise: u32,
    fall: u32,
    state: CheckState,
    /// Whether the last result was a success, if it counts still.
    last: Option<bool>,
    /// How long the last success took.
    took: Duration,
    /// The failures lately.
    flaps: Flaps,
}

impl RiseAndFall {
    /// One that nothing is known of.
    pub(super) fn new(rise: u32, fall: u32, now: Instant) -> Self {
        let (state, took, flaps) = (CheckState::starting(now), Duration::ZERO, Flaps::default());
        Self { rise, fall, state, last: None, took, flaps }
    }

    /// What is known.
    pub(super) const fn state(&self) -> &CheckState {
        &self.state
    }

    /// How long the next attempt is waited for, where `timeout` is the most. The one that makes a failure of those before it has
    /// [`LAST_CHANCE`], or twice what a success takes as a rule: a server that hangs has left others unanswered for longer.
    pub(super) fn patience(&self, timeout: Duration) -> Duration {
        let failed = if self.last == Some(false) { self.state.in_a_row } else { 0 };
        let is_last = self.state.is_passing() && failed > 0 && failed.saturating_add(1) >= self.fall;
        if is_last { (self.took * 2).max(LAST_CHANCE).min(timeout) } else { timeout }
    }

    /// Takes in what was found at `now`, after an attempt that `took` so long.
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

    /// Takes in that the process stood still: results before that are not in a row with those to come. The verdict stays.
    pub(super) const fn note_stall(&mut self) {
        self.last = None;
        self.state.in_a_row = 0;
    }
}
