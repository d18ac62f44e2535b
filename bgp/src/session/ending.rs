//! Ends of a session: in order, with a NOTIFICATION, or without connection.

use std::collections::BTreeMap;
use std::time::Duration;

use super::refresh::Refreshes;
use super::{DownReason, Event, Session, State, Timers};
use crate::units::Time;
use crate::wire::Notification;

/// Longest time for a NOTIFICATION to be written.
pub(super) const CLOSE_TIME: Duration = Duration::from_secs(1);
/// Longest time for the peer to acknowledge that all routes are withdrawn.
pub(super) const LEAVE_TIME: Duration = Duration::from_secs(2);

impl Session {
    /// Stops the session; `cease` is the last message. An established one is left in order, see the module's documentation: its desired
    /// routes are dropped, and set again before another start.
    pub fn stop(&mut self, cease: Notification, now: Time) {
        self.is_wanted = false;
        match self.state {
            State::Idle => self.timers.retry = None,
            State::Connect => {
                self.reset();
                self.finish(DownReason::Stopped, now);
            }
            State::OpenSent | State::OpenConfirm => self.end(cease, now),
            State::Established if self.leaving.is_none() => {
                self.rib.set(BTreeMap::new());
                self.leaving = Some(cease);
                self.timers.leave = Some(now + LEAVE_TIME);
                if !self.is_unacknowledged && self.outbox.is_empty() && self.rib.is_converged() {
                    self.leave(now);
                }
            }
            State::Established => {}
        }
    }

    /// Sends the last message of a session that is being left.
    pub(super) fn leave(&mut self, now: Time) {
        if let Some(cease) = self.leaving.take() {
            self.end(cease, now);
        }
    }

    /// Ends the connection with a NOTIFICATION.
    pub(super) fn end(&mut self, notification: Notification, now: Time) {
        notification.encode(self.outbox.end());
        let outbox = std::mem::take(&mut self.outbox);
        self.finish(DownReason::Sent(notification), now);
        self.outbox = outbox;
        self.timers.close = Some(now + CLOSE_TIME);
    }

    /// Gives the connection up.
    pub(super) fn reset(&mut self) {
        self.timers.close = None;
        self.outbox.clear();
        self.events.push_back(Event::Close { reset: true });
    }

    /// Enters Idle without connection.
    pub(super) fn finish(&mut self, reason: DownReason, now: Time) {
        let lived = self.established_at.take().map(|since| now.since(since));
        let wait = self.backoff.after(&reason, lived);
        let retry = now + self.random.jitter(wait, 75, 100);
        self.state = State::Idle;
        self.timers = Timers { retry: Some(retry).filter(|_| self.is_wanted), ..Timers::default() };
        self.inbox.clear();
        self.outbox.clear();
        self.rib.close();
        self.refreshes = Refreshes::default();
        self.next_hops = None;
        self.negotiated = None;
        self.leaving = None;
        self.is_unacknowledged = false;
        self.events.push_back(Event::Down(reason));
    }
}
