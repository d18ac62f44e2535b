//! Intervals of this side: configured, reported to the peer, and in use (RFC 5880 §6.8.3).

use std::time::Duration;

use super::{Config, State};

/// Shortest interval while the session is not Up.
const SLOW: Duration = Duration::from_secs(1);

/// Intervals. What makes packets rarer, or is less patient with the peer's, is in use only when the peer knows of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) config: Config,
    transmit: Duration,
    receive: Duration,
    /// Answers of the peer until it knows the intervals: 2 if they changed again during a poll, the first being of the old ones.
    unanswered: u8,
}

impl Timing {
    pub(super) fn new(config: Config) -> Self {
        Self { config, transmit: config.transmit.max(SLOW), receive: config.receive, unanswered: 0 }
    }

    /// Transmit interval that is sent to the peer.
    pub(super) fn desired_transmit(&self, state: State) -> Duration {
        match state {
            State::AdminDown | State::Down | State::Init => self.config.transmit.max(SLOW),
            State::Up => self.config.transmit,
        }
    }

    /// Shortest interval at which packets are sent now.
    pub(super) fn transmit(&self) -> Duration {
        self.transmit
    }

    /// Shortest interval at which packets of the peer are counted on now.
    pub(super) fn receive(&self) -> Duration {
        self.receive
    }

    pub(super) fn is_polling(&self) -> bool {
        self.unanswered > 0
    }

    pub(super) fn reconfigure(&mut self, config: Config, state: State) {
        if config != self.config {
            self.config = config;
            self.change(state);
        }
    }

    /// The state is another: Up is faster than all others.
    pub(super) fn enter(&mut self, state: State) {
        self.change(state);
    }

    /// The peer has answered the poll: it knows the intervals.
    pub(super) fn end_poll(&mut self) {
        let was_polling = self.is_polling();
        self.unanswered = self.unanswered.saturating_sub(1);
        if was_polling && !self.is_polling() {
            (self.transmit, self.receive) = (self.config.transmit, self.config.receive);
        }
    }

    fn change(&mut self, state: State) {
        let transmit = self.desired_transmit(state);
        match state {
            State::Up => {
                self.unanswered = if self.is_polling() { 2 } else { 1 };
                self.transmit = self.transmit.min(transmit);
                self.receive = self.receive.max(self.config.receive);
            }
            State::AdminDown | State::Down | State::Init => {
                self.unanswered = 0;
                (self.transmit, self.receive) = (transmit, self.config.receive);
            }
        }
    }
}
