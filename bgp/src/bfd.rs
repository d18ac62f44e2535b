//! Bidirectional forwarding detection (RFC 5880), asynchronous mode without echo, demand and authentication. Time is an argument.
//!
//! ```text
//!              peer is Down               peer is Init or Up
//!  ┌──────┐ ─────────────────► ┌──────┐ ─────────────────────► ┌────┐
//!  │ Down │                    │ Init │                        │ Up │
//!  └──▲───┘ ◄───────────────── └──────┘                        └─┬──┘
//!     │       silent peer, peer is AdminDown                     │
//!     └──────────────────────────────────────────────────────────┘
//!       silent peer, peer is Down or AdminDown  (a peer in Init takes Down to Up directly)
//! ```
//!
//! # Contract
//! The driver finds the [`Session`] of a packet by its discriminator, or by the addresses where that is 0, and checks the TTL. It passes
//! packets with the time of their arrival, and calls [`Session::handle_timeout`] at [`Session::poll_timeout`] after all that have
//! arrived by then: a late reader must not mistake its own lateness for silence. It drains [`Session::poll_transmit`] and
//! [`Session::poll_event`] after every input. The peer finds a dead node by the silence of what is sent here, so it is sent in time.

use std::fmt;
use std::num::{NonZeroU8, NonZeroU32};
use std::time::Duration;

use crate::units::{Random, Time};

mod packet;
mod rejection;
#[cfg(test)]
mod tests;
mod timing;

pub use packet::{Diagnostic, LENGTH, Packet};
pub use rejection::Rejection;
use timing::Timing;

/// State of a session (RFC 5880 §4.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// Taken down by an administrator.
    AdminDown,
    /// The peer is silent, or takes this side for Down.
    Down,
    /// Packets of the peer arrive.
    Init,
    /// Packets arrive on both sides.
    Up,
}

impl State {
    /// Name as in RFC 5880.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AdminDown => "AdminDown",
            Self::Down => "Down",
            Self::Init => "Init",
            Self::Up => "Up",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Timers of a session, which may change while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Shortest interval at which this side sends.
    pub transmit: Duration,
    /// Shortest interval at which this side takes packets.
    pub receive: Duration,
    /// Number of packets of this side that may be missing before the peer finds it dead.
    pub multiplier: NonZeroU8,
}

/// Change of state, with what BGP needs to judge it: AdminDown of the peer is no fault of the path (RFC 5882 §3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// State left.
    pub from: State,
    /// State entered.
    pub to: State,
    /// Reason of the last change to Down.
    pub diagnostic: Diagnostic,
    /// The peer's state, as it last reported it.
    pub remote: State,
}

/// Values that the peer last reported.
#[derive(Clone, Copy, Debug)]
struct Remote {
    state: State,
    diagnostic: Diagnostic,
    discriminator: Option<NonZeroU32>,
    desired_transmit: Duration,
    required_receive: Duration,
    multiplier: NonZeroU8,
}

/// RFC 5880 §6.8.1: before the first packet, and after the peer has been silent.
const UNKNOWN: Remote = Remote {
    state: State::Down,
    diagnostic: Diagnostic::NONE,
    discriminator: None,
    desired_transmit: Duration::ZERO,
    required_receive: Duration::from_micros(1),
    multiplier: NonZeroU8::MIN,
};

/// State machine of one session. See the module's documentation for how to drive it.
#[derive(Clone, Debug)]
pub struct Session {
    discriminator: NonZeroU32,
    random: Random,
    state: State,
    diagnostic: Diagnostic,
    remote: Remote,
    timing: Timing,
    next_packet: Option<Time>,
    /// The peer is found dead, or in Down forgotten, at this time.
    silent_at: Option<Time>,
    /// The answer to a poll of the peer is due.
    owes_final: bool,
    event: Option<Event>,
}

impl Session {
    /// A session in Down that sends its first packet immediately. The discriminator is random and no other session's of this host;
    /// `random` gives the jitter.
    pub fn new(config: Config, discriminator: NonZeroU32, random: Random, now: Time) -> Self {
        Self {
            discriminator,
            random,
            state: State::Down,
            diagnostic: Diagnostic::NONE,
            remote: UNKNOWN,
            timing: Timing::new(config),
            next_packet: Some(now),
            silent_at: None,
            owes_final: false,
            event: None,
        }
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Reason of the last change to Down; none while Up.
    pub fn diagnostic(&self) -> Diagnostic {
        self.diagnostic
    }

    /// State and diagnostic that the peer last reported.
    pub fn remote(&self) -> (State, Diagnostic) {
        (self.remote.state, self.remote.diagnostic)
    }

    /// Its discriminator, by which the peer's packets name it.
    pub fn discriminator(&self) -> NonZeroU32 {
        self.discriminator
    }

    /// Time after which a silent peer is found dead: what both sides agreed on.
    pub fn detection_time(&self) -> Duration {
        let interval = self.timing.receive().max(self.remote.desired_transmit);
        interval.saturating_mul(u32::from(self.remote.multiplier.get()))
    }

    /// Interval at which packets are sent, before jitter; `None` if the peer wants none.
    pub fn transmit_interval(&self) -> Option<Duration> {
        let required = self.remote.required_receive;
        (!required.is_zero()).then(|| self.timing.transmit().max(required))
    }

    /// The last change of state that was not taken yet.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.event.take()
    }

    /// Time at which [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.next_packet.into_iter().chain(self.silent_at).min()
    }

    /// Changes the timers. While Up a poll sends them to the peer, and those that could make a packet late count after its answer.
    pub fn reconfigure(&mut self, config: Config, now: Time) {
        self.timing.reconfigure(config, self.state);
        self.schedule(now);
    }

    /// Takes the session down. The peer learns that this is no fault of the path.
    pub fn take_down(&mut self, now: Time) {
        self.enter(State::AdminDown, Diagnostic::ADMINISTRATIVELY_DOWN, now);
        self.silent_at = None;
    }

    /// Ends what [`Self::take_down`] began: the session is Down, and knows nothing of the peer.
    pub fn enable(&mut self, now: Time) {
        if self.state == State::AdminDown {
            self.remote = UNKNOWN;
            self.enter(State::Down, Diagnostic::NONE, now);
        }
    }

    /// A packet of this session's peer has arrived (RFC 5880 §6.8.6).
    pub fn handle_packet(&mut self, packet: &Packet, now: Time) -> Result<(), Rejection> {
        if packet.your_discriminator.is_some_and(|your| your != self.discriminator) {
            return Err(Rejection::UnknownSession);
        }
        self.remote = Remote {
            state: packet.state,
            diagnostic: packet.diagnostic,
            discriminator: Some(packet.my_discriminator),
            desired_transmit: packet.desired_transmit,
            required_receive: packet.required_receive,
            multiplier: packet.multiplier,
        };
        if packet.is_final {
            self.timing.end_poll();
        }
        let change = match (self.state, packet.state) {
            (State::AdminDown, _) => return Ok(()),
            (State::Down, State::Down) => Some((State::Init, self.diagnostic)),
            (State::Down, State::Init) | (State::Init, State::Init | State::Up) => {
                Some((State::Up, Diagnostic::NONE))
            }
            (State::Init, State::AdminDown) | (State::Up, State::AdminDown | State::Down) => {
                Some((State::Down, Diagnostic::NEIGHBOR_DOWN))
            }
            (State::Down, State::AdminDown | State::Up)
            | (State::Init, State::Down)
            | (State::Up, State::Init | State::Up) => None,
        };
        if let Some((state, diagnostic)) = change {
            self.enter(state, diagnostic, now);
        }
        self.owes_final |= packet.is_poll;
        self.silent_at = Some(now + self.detection_time());
        self.schedule(now);
        Ok(())
    }

    /// The time of [`Self::poll_timeout`] has come. Called early it does nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.silent_at.is_none_or(|due| now < due) {
            return;
        }
        self.silent_at = None;
        let Remote { state, diagnostic, .. } = self.remote;
        self.remote = Remote { state, diagnostic, ..UNKNOWN };
        match self.state {
            State::AdminDown | State::Down => self.schedule(now),
            State::Init | State::Up => self.enter(State::Down, Diagnostic::DETECTION_TIME_EXPIRED, now),
        }
    }

    /// The packet to send now, if one is due.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        let is_final = std::mem::take(&mut self.owes_final);
        if !is_final {
            self.next_packet.filter(|due| now >= *due)?;
            let most = if self.timing.config.multiplier == NonZeroU8::MIN { 90 } else { 100 };
            let interval = self.transmit_interval();
            self.next_packet = interval.map(|interval| now + self.random.jitter(interval, 75, most));
        }
        Some(Packet {
            diagnostic: self.diagnostic,
            state: self.state,
            is_poll: self.timing.is_polling() && !is_final,
            is_final,
            multiplier: self.timing.config.multiplier,
            my_discriminator: self.discriminator,
            your_discriminator: self.remote.discriminator,
            desired_transmit: self.timing.desired_transmit(self.state),
            required_receive: self.timing.config.receive,
        })
    }

    /// Enters a state and sends a packet about it immediately.
    fn enter(&mut self, to: State, diagnostic: Diagnostic, now: Time) {
        if to != self.state {
            let from = std::mem::replace(&mut self.state, to);
            self.diagnostic = diagnostic;
            self.timing.enter(to);
            self.next_packet = Some(now);
            // The driver takes each; of several it would see the whole way.
            let from = self.event.map_or(from, |event| event.from);
            self.event = Some(Event { from, to, diagnostic, remote: self.remote.state });
        }
    }

    /// Moves the next packet forward if the interval has become shorter.
    fn schedule(&mut self, now: Time) {
        self.next_packet = self.transmit_interval().map(|interval| {
            let latest = now + interval;
            self.next_packet.map_or(latest, |next| next.min(latest))
        });
    }
}
