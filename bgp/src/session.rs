//! Session with one peer (RFC 4271 §8), active open only. Time is an argument, outputs are values.
//!
//! ```text
//!  ┌──────┐ timer ┌─────────┐ TCP up ┌──────────┐ OPEN ┌─────────────┐ KEEPALIVE ┌─────────────┐
//!  │ Idle ├──────►│ Connect ├───────►│ OpenSent ├─────►│ OpenConfirm ├──────────►│ Established │
//!  └──▲───┘       └────┬────┘        └────┬─────┘      └──────┬──────┘           └──────┬──────┘
//!     └────────────────┴──────────────────┴───────────────────┴─────────────────────────┘
//!            TCP failed or closed, a wrong message, a timer, NOTIFICATION, BFD down, stop
//! ```
//!
//! # Contract
//! The driver has one connection at a time. It drains [`Session::poll_event`] after every input, and writes the bytes of
//! [`Session::poll_transmit`] while the connection takes them, also in Idle: a NOTIFICATION goes before the connection is closed. It
//! calls [`Session::handle_timeout`] at [`Session::poll_timeout`], after it has delivered all bytes that have arrived by then: a
//! late reader must not mistake its own lateness for silence. Time never goes back.
//!
//! # Beyond RFC 4271
//! - **Leaving.** [`Session::stop`] withdraws all routes and waits until the peer has acknowledged it, at most 2 s, before it sends
//!   the NOTIFICATION: a helper of graceful restart keeps no route that was withdrawn.
//! - **Back-off.** Refusals and short sessions are answered with longer waits than a router that does not answer at all.
//! - **Send hold timer** (RFC 9687): a peer that takes no byte for 480 s or two hold times is left.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::rib::RibOut;
use crate::units::{Prefix, Random, Time};
use crate::wire::{Attributes, ErrorCode, MAX_LENGTH, Notification, keepalive};

mod backoff;
mod config;
mod counts;
mod ending;
mod event;
mod messages;
mod outbox;
mod refresh;
#[cfg(test)]
mod tests;

use backoff::Backoff;
use config::Offer;
pub use config::{Config, ExpectedAs, Negotiated, NextHops};
pub use counts::Counts;
pub use event::{DownReason, Event, State};
use outbox::Outbox;
use refresh::Refreshes;

/// Longest time for TCP to connect.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Hold time until the peer's OPEN (RFC 4271 §8.2.2).
const OPEN_HOLD_TIME: Duration = Duration::from_mins(4);
/// Shortest time for which a peer may take no byte (RFC 9687).
const SEND_HOLD_TIME: Duration = Duration::from_mins(8);

/// Times at which the session acts by itself.
#[derive(Clone, Copy, Debug, Default)]
struct Timers {
    retry: Option<Time>,
    connect: Option<Time>,
    /// A NOTIFICATION is being written; the state is Idle.
    close: Option<Time>,
    hold: Option<Time>,
    keepalive: Option<Time>,
    leave: Option<Time>,
}

/// State machine of the session with one peer. See the module's documentation for how to drive it.
#[derive(Clone, Debug)]
pub struct Session {
    config: Config,
    random: Random,
    state: State,
    /// True from start to stop.
    is_wanted: bool,
    timers: Timers,
    backoff: Backoff,
    offer: Offer,
    inbox: Vec<u8>,
    outbox: Outbox,
    rib: RibOut,
    refreshes: Refreshes,
    next_hops: Option<NextHops>,
    negotiated: Option<Negotiated>,
    established_at: Option<Time>,
    /// Last message of a session that is being left.
    leaving: Option<Notification>,
    /// True if routes were sent since the last acknowledgement.
    is_unacknowledged: bool,
    events: VecDeque<Event>,
    counts: Counts,
}

impl Session {
    /// A session that is not started. `random` gives the jitter of its timers.
    pub fn new(config: Config, random: Random) -> Self {
        Self {
            config,
            random,
            state: State::Idle,
            is_wanted: false,
            timers: Timers::default(),
            backoff: Backoff::default(),
            offer: Offer::default(),
            inbox: Vec::with_capacity(MAX_LENGTH),
            outbox: Outbox::default(),
            rib: RibOut::default(),
            refreshes: Refreshes::default(),
            next_hops: None,
            negotiated: None,
            established_at: None,
            leaving: None,
            is_unacknowledged: false,
            events: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Properties that both sides agreed on, from OpenConfirm on.
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.negotiated.as_ref()
    }

    /// Time since which it is Established.
    pub fn established_at(&self) -> Option<Time> {
        self.established_at
    }

    /// Counts of messages received.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Number of prefixes that the peer was sent.
    pub fn sent(&self) -> usize {
        self.rib.sent()
    }

    /// Returns true if a session that was stopped has nothing left to do.
    pub fn is_finished(&self) -> bool {
        !self.is_wanted && self.state == State::Idle && self.timers.close.is_none()
    }

    /// Returns true if all desired routes are written and the driver is to report their acknowledgement.
    pub fn awaits_acknowledgement(&self) -> bool {
        self.state == State::Established
            && self.is_unacknowledged
            && self.outbox.is_empty()
            && self.rib.is_converged()
    }

    /// The next thing to do or to report.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Bytes for the connection; the driver reports how many it took. The next UPDATE is made here, when all before is taken.
    pub fn poll_transmit(&mut self, now: Time) -> &[u8] {
        if self.state == State::Established && self.outbox.is_empty() {
            self.is_unacknowledged |= self.rib.next_update(self.outbox.end());
        }
        if !self.outbox.is_empty() && self.outbox.deadline.is_none() {
            self.outbox.deadline = Some(now + self.send_hold_time());
        }
        self.outbox.pending()
    }

    /// Time at which [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let Timers { retry, connect, close, hold, keepalive, leave } = self.timers;
        let others = [retry, connect, hold, keepalive, leave, self.outbox.deadline, self.refreshes.next()];
        close.or_else(|| others.into_iter().flatten().min())
    }

    /// Starts the session: the first attempt is due immediately.
    pub fn start(&mut self, now: Time) {
        if !self.is_wanted {
            self.is_wanted = true;
            self.timers.retry = Some(now).filter(|_| self.state == State::Idle);
            self.handle_timeout(now);
        }
    }

    /// Replaces the desired routes, in any state.
    pub fn set_routes(&mut self, desired: BTreeMap<Prefix, Arc<Attributes>>) {
        if self.leaving.is_none() {
            self.rib.set(desired);
        }
    }

    /// TCP has connected; `next_hops` follow from the local address.
    pub fn handle_connected(&mut self, next_hops: NextHops, now: Time) {
        match self.state {
            State::Idle => self.reset(),
            State::Connect => {
                self.backoff.connected();
                self.state = State::OpenSent;
                self.next_hops = Some(next_hops);
                self.timers = Timers { hold: Some(now + OPEN_HOLD_TIME), ..Timers::default() };
                self.offer.open(&self.config).encode(self.outbox.end());
            }
            State::OpenSent | State::OpenConfirm | State::Established => {}
        }
    }

    /// TCP did not connect, or the connection has ended.
    pub fn handle_closed(&mut self, now: Time) {
        match self.state {
            State::Idle => {
                self.timers.close = None;
                self.outbox.clear();
            }
            State::Connect => self.finish(DownReason::ConnectFailed, now),
            State::OpenSent | State::OpenConfirm | State::Established => {
                self.finish(DownReason::ConnectionClosed, now);
            }
        }
    }

    /// Bytes have arrived, in any pieces.
    pub fn handle_bytes(&mut self, mut bytes: &[u8], now: Time) {
        while self.state.is_connected() && !bytes.is_empty() {
            let room = MAX_LENGTH.saturating_sub(self.inbox.len());
            let (first, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
            self.inbox.extend(first);
            bytes = rest;
            self.read_messages(now);
        }
    }

    /// The connection has taken `count` bytes.
    pub fn handle_transmitted(&mut self, count: usize, now: Time) {
        self.outbox.take(count);
        if !self.outbox.is_empty() {
            if count > 0 {
                self.outbox.deadline = Some(now + self.send_hold_time());
            }
        } else if self.timers.close.take().is_some() {
            self.events.push_back(Event::Close { reset: false });
        }
    }

    /// The peer's TCP has acknowledged all bytes that the connection took.
    pub fn handle_acknowledged(&mut self, now: Time) {
        if self.awaits_acknowledgement() {
            self.is_unacknowledged = false;
            self.events.push_back(Event::RoutesAcknowledged);
            self.leave(now);
        }
    }

    /// BFD, which was up, is down.
    pub fn handle_bfd_down(&mut self, now: Time) {
        if self.state.is_connected() {
            self.end(ErrorCode::BFD_DOWN.into(), now);
        }
    }

    /// The time of [`Self::poll_timeout`] has come. Called early it does nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        let is_due = |timer: Option<Time>| timer.is_some_and(|due| now >= due);
        if self.timers.close.is_some() {
            if !is_due(self.timers.close) {
                return;
            }
            self.reset();
        }
        match self.state {
            State::Idle if is_due(self.timers.retry) => {
                self.state = State::Connect;
                self.timers = Timers { connect: Some(now + CONNECT_TIME), ..Timers::default() };
                self.events.push_back(Event::Dial);
            }
            State::Connect if is_due(self.timers.connect) => {
                self.reset();
                self.finish(DownReason::ConnectFailed, now);
            }
            State::Idle | State::Connect => {}
            State::OpenSent | State::OpenConfirm | State::Established => {
                if is_due(self.timers.hold) {
                    self.end(ErrorCode::HOLD_TIMER_EXPIRED.into(), now);
                } else if is_due(self.outbox.deadline) {
                    self.end(ErrorCode::SEND_HOLD_TIMER_EXPIRED.into(), now);
                } else if is_due(self.timers.leave) {
                    self.leave(now);
                } else {
                    if is_due(self.timers.keepalive) {
                        self.send_keepalive(now);
                    }
                    self.obey_refreshes(now);
                }
            }
        }
    }

    /// No KEEPALIVE goes behind bytes that the connection does not take: those mean the same when they arrive.
    fn send_keepalive(&mut self, now: Time) {
        if self.outbox.is_empty() {
            keepalive(self.outbox.end());
        }
        self.restart_keepalive_timer(now);
    }

    fn obey_refreshes(&mut self, now: Time) {
        while let Some(family) = self.refreshes.take(now) {
            self.rib.refresh(family);
        }
    }

    fn restart_hold_timer(&mut self, now: Time) {
        let hold = self.negotiated.as_ref().and_then(|negotiated| negotiated.hold_time.duration());
        self.timers.hold = hold.map(|hold| now + hold);
    }

    fn restart_keepalive_timer(&mut self, now: Time) {
        let interval = self.negotiated.as_ref().and_then(|negotiated| negotiated.keepalive);
        self.timers.keepalive = interval.map(|interval| now + self.random.jitter(interval, 75, 100));
    }

    fn send_hold_time(&self) -> Duration {
        let hold = self.negotiated.as_ref().and_then(|negotiated| negotiated.hold_time.duration());
        hold.unwrap_or_default().saturating_mul(2).max(SEND_HOLD_TIME)
    }
}
