//! How many results in a row count. Pure.

use std::time::Instant;

use super::Answer;

#[cfg(test)]
mod tests;

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
}

impl CheckState {
    /// That of a check that is about to begin.
    pub(crate) const fn starting(now: Instant) -> Self {
        Self { verdict: Verdict::Unknown, since: now, in_a_row: 0, error: None }
    }

    /// Whether all is well.
    pub(crate) const fn is_passing(&self) -> bool {
        match self.verdict {
            Verdict::Passing => true,
            Verdict::Unknown | Verdict::Failing => false,
        }
    }
}

/// Judges a check: `rise` successes in a row end a failure, and `fall` failures in a row are one. The very first result counts at once:
/// a process that starts anew on a healthy node is not to lower it for longer than one attempt takes.
#[derive(Debug, Clone)]
pub(super) struct RiseAndFall {
    rise: u32,
    fall: u32,
    state: CheckState,
    /// Whether the last result was a success, if it counts still.
    last: Option<bool>,
}

impl RiseAndFall {
    /// One that nothing is known of.
    pub(super) const fn new(rise: u32, fall: u32, now: Instant) -> Self {
        Self { rise, fall, state: CheckState::starting(now), last: None }
    }

    /// What is known.
    pub(super) const fn state(&self) -> &CheckState {
        &self.state
    }

    /// Takes in what was found at `now`.
    pub(super) fn note(&mut self, answer: Answer, now: Instant) {
        let is_well = answer.is_ok();
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
        if let Some(verdict) = changed {
            (self.state.verdict, self.state.since) = (verdict, now);
        }
    }

    /// Takes in that the process stood still: results before that are not in a row with those to come. The verdict stays.
    pub(super) const fn note_stall(&mut self) {
        self.last = None;
        self.state.in_a_row = 0;
    }
}
