//! A request for a new stream, until the sender begins one.

use std::time::Duration;

use super::super::message::{Epoch, Reason};
use crate::units::Time;

/// Between two requests at least: one that follows news of the sender, ...
const SOONEST: Duration = Duration::from_millis(20);
/// ... the first that nothing answers, ...
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// ... and all after some of those.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What is known of the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Known {
    pub(super) epoch: Epoch,
    pub(super) ticket: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) challenge: u64,
    pub(super) reason: Reason,
    /// When it is to be sent, again or for the first time.
    pub(super) due: Time,
    /// When it may be sent.
    pub(super) earliest: Time,
    pause: Duration,
    /// Whom it was sent to; `None` if it was not, or to nobody who was known.
    pub(super) asked: Option<Known>,
}

impl Request {
    pub(super) fn new(challenge: u64, reason: Reason, due: Time) -> Self {
        Self { challenge, reason, due, earliest: Time::default(), pause: FIRST_PAUSE, asked: None }
    }

    /// Whether a stream with this head is the one that was asked for.
    pub(super) fn is_answered_by(&self, epoch: Epoch, challenge: u64) -> bool {
        self.challenge == challenge && self.asked.is_some_and(|asked| asked.epoch == epoch)
    }

    /// The same after it was sent.
    pub(super) fn sent(self, challenge: u64, asked: Option<Known>, now: Time) -> Self {
        let pause = self.pause.saturating_mul(2).min(LONGEST_PAUSE);
        Self { challenge, asked, due: now + self.pause, earliest: now + SOONEST, pause, ..self }
    }

    /// What was asked for cannot come any more if the sender's ticket is another one: it is asked again.
    pub(super) fn hasten(&mut self, known: Known, now: Time) {
        let first = self.asked.is_none() && self.earliest > Time::default();
        if first || self.asked.is_some_and(|asked| asked != known) {
            self.due = self.due.min(now.max(self.earliest));
            self.pause = FIRST_PAUSE;
        }
    }
}
