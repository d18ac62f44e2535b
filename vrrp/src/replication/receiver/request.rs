//! A request for a new stream, until the sender begins one.

use std::time::Duration;

use super::super::message::{Epoch, Reason};
use crate::units::Time;

/// Shortest pauses between two requests: after an update about the sender, ...
const SOONEST: Duration = Duration::from_millis(20);
/// ... after a first request without an answer, ...
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// ... and, at most, after further ones.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Epoch and ticket of the sender, as last learned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Known {
    pub(super) epoch: Epoch,
    pub(super) ticket: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) challenge: u64,
    pub(super) reason: Reason,
    /// Time at which it is sent, for the first time or again.
    pub(super) due: Time,
    /// Earliest time at which it may be sent.
    pub(super) earliest: Time,
    pause: Duration,
    /// Sender that the request named; `None` if it was not sent, or the sender was unknown.
    pub(super) asked: Option<Known>,
}

impl Request {
    pub(super) fn new(challenge: u64, reason: Reason, due: Time) -> Self {
        Self { challenge, reason, due, earliest: Time::default(), pause: FIRST_PAUSE, asked: None }
    }

    /// Returns true if a stream with this epoch and challenge is the requested one.
    pub(super) fn is_answered_by(&self, epoch: Epoch, challenge: u64) -> bool {
        self.challenge == challenge && self.asked.is_some_and(|asked| asked.epoch == epoch)
    }

    /// Returns the request after a transmission.
    pub(super) fn sent(self, challenge: u64, asked: Option<Known>, now: Time) -> Self {
        let pause = self.pause.saturating_mul(2).min(LONGEST_PAUSE);
        Self { challenge, asked, due: now + self.pause, earliest: now + SOONEST, pause, ..self }
    }

    /// Advances the request if the sender has become known, or has another ticket: the requested stream cannot come any more.
    pub(super) fn hasten(&mut self, known: Known, now: Time) {
        let first = self.asked.is_none() && self.earliest > Time::default();
        if first || self.asked.is_some_and(|asked| asked != known) {
            self.due = self.due.min(now.max(self.earliest));
            self.pause = FIRST_PAUSE;
        }
    }
}
