//! The invariants, checked after every step.
//!
//! | | always |
//! |---|---|
//! | takeover | a running Backup that has obeyed no advert for its Active_Down_Interval (after a resignation: Skew_Time) is Active. No fault excuses it. So a segment with a running router has an Active within 3·A + skew |
//! | one Active | two Actives of one segment are one again as soon as an advert of the superior reaches the inferior: within its interval and the longest transit, counted from the last of these: both run, are Active and know their configuration; the last advert of the superior to the inferior was lost. Only lost adverts excuse more, each for one interval. So one-way faults excuse two Actives only if it is the inferior that does not hear |
//! | active period | a node that was frozen does not trust its active period at the instant it runs again, if another took over because it was silent. Excused only if its last advert to that one was lost, or if its clock has stood still since: it cannot know |
//! | silence | nor is it Active or has it advertised when it has read what waited and looked at its timers |
//! | obedience | a Backup that is to preempt obeys no advert of lower priority |
//! | storm | one input makes a router send one advert at most |
//! | resignation | a Backup takes over because the Active that it obeyed has resigned only if that has, or is not Active any more |
//! | order | a router leaves the state it is in, for another |
//! | stuck | time moves on: what is due is dealt with |
//! | quiet | at the end of a history, when nothing happens any more, no router changes its state |
//!
//! "Lost" is every advert that was not handed to the receiver's router: lost by the medium, sent to a segment or a node
//! that cannot hear, refused for its version or interval. What is filtered as multicast and arrives by unicast is not lost. Of an advert in both versions the version 3 copy counts if the
//! receiver takes it. A process that is stopped loses nothing: it reads when it runs again.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::router::{AdvertOutcome, Config, ReceivedAdvert, State, TransitionReason};
use crate::units::{Interval, Priority, Time, Versions};

/// Clocks of different rates agree only so far.
const ROUNDING: Duration = Duration::from_nanos(10);

/// An invariant that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Violation {
    /// Time at which it was detected.
    pub at: Time,
    /// The virtual router: its index on the nodes.
    pub router: usize,
    /// The broken invariant.
    pub broken: BrokenInvariant,
}

/// Invariant that is broken, and the nodes concerned.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BrokenInvariant {
    /// This Backup ought to be Active.
    NoTakeover(usize),
    /// The first ought to have made the second yield.
    TwoActives(usize, usize),
    /// The first, frozen for long, would still answer; the second took over because it was silent.
    ActiveAfterTakeover(usize, usize),
    /// The first, frozen for long, spoke before it had listened; the second took over because it was silent.
    SpokeBeforeListening(usize, usize),
    /// This Backup obeyed a router that it ought to preempt.
    ObeyedInferior(usize),
    /// The second took over because the first, which it obeyed, had resigned; it had not.
    NoResignation(usize, usize),
    /// This router sent several adverts at once.
    AdvertStorm(usize),
    /// This router left a state that it was not in, or for the same.
    TransitionOrder(usize),
    /// Time does not move on: a timer that is due is not dealt with, or adverts provoke each other without end.
    Stuck,
    /// This router changes its state although nothing happens.
    Restless(usize),
    /// These running nodes of one segment have not exactly one Active, but these.
    Unsettled {
        /// The segment's running nodes.
        nodes: Vec<usize>,
        /// The Active ones among them.
        active: Vec<usize>,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.at.since(Time::default()).as_millis();
        write!(f, "at {millis} ms, virtual router {}: ", self.router)?;
        match &self.broken {
            BrokenInvariant::NoTakeover(node) => {
                write!(f, "node {node} hears no Active and does not become one")
            }
            BrokenInvariant::TwoActives(superior, inferior) => {
                write!(f, "node {inferior} stays Active although it hears the superior node {superior}")
            }
            BrokenInvariant::ActiveAfterTakeover(frozen, other) => {
                write!(
                    f,
                    "node {frozen}, frozen until now, still counts itself Active although node {other} took over"
                )
            }
            BrokenInvariant::SpokeBeforeListening(frozen, other) => {
                write!(
                    f,
                    "node {frozen}, frozen until now, speaks before it listens, and node {other} took over"
                )
            }
            BrokenInvariant::ObeyedInferior(node) => {
                write!(f, "node {node} obeys an Active that it ought to preempt")
            }
            BrokenInvariant::NoResignation(active, node) => {
                write!(f, "node {node} takes over because node {active} has resigned, which it has not")
            }
            BrokenInvariant::AdvertStorm(node) => {
                write!(f, "node {node} answers one input with several adverts")
            }
            BrokenInvariant::TransitionOrder(node) => {
                write!(f, "node {node} left a state that it was not in, or for the same")
            }
            BrokenInvariant::Stuck => f.write_str("time does not move on"),
            BrokenInvariant::Restless(node) => {
                write!(f, "node {node} changes its state although nothing happens")
            }
            BrokenInvariant::Unsettled { nodes, active } => {
                write!(f, "nodes {active:?} are Active among {nodes:?}")
            }
        }
    }
}

/// Record of one router of one node. Times of a Backup are by the node's own clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct RouterRecord {
    state: State,
    /// Time since which it runs, is Active and has its configuration; `None` if it is not Active.
    active_since: Option<Time>,
    /// Reason for becoming Active, the router that it had obeyed last, and the time.
    promoted: Option<(TransitionReason, Option<IpAddr>, Time)>,
    /// Time of its last advert.
    advertised: Time,
    /// True if it ever declared that it is not Active, in this life or before: it resigned, or asked for the Active.
    has_resigned: bool,
    /// Its clock has stood still since.
    unaware: bool,
    /// Time since which it waits as Backup.
    listening_since: Time,
    learned: Option<Interval>,
    resigned: Option<Time>,
    obeyed: Option<IpAddr>,
}

impl RouterRecord {
    pub(super) fn new() -> Self {
        Self {
            state: State::Initialize,
            active_since: None,
            promoted: None,
            advertised: Time::default(),
            has_resigned: false,
            unaware: false,
            listening_since: Time::default(),
            learned: None,
            resigned: None,
            obeyed: None,
        }
    }

    /// Records that it runs again after a stop, and has done what was due. `now` by the simulation's time, `clock_time` by its clock.
    pub(super) fn resumed(&mut self, now: Time, clock_time: Time) {
        self.active_since = self.active_since.map(|_| now);
        (self.listening_since, self.resigned) = (clock_time, None);
    }

    pub(super) fn reconfigured(&mut self, now: Time) {
        self.active_since = self.active_since.map(|_| now);
    }

    /// Records an advert to the group; without a priority it is a resignation.
    pub(super) fn advertised(&mut self, now: Time, priority: Option<Priority>) {
        (self.advertised, self.unaware) = (now, false);
        self.has_resigned |= priority.is_none();
    }

    /// Records that it asked for the Active.
    pub(super) fn asked(&mut self) {
        self.has_resigned = true;
    }

    /// Returns true if it ever declared that it is not Active.
    pub(super) fn has_resigned(&self) -> bool {
        self.has_resigned
    }

    /// Starts anew after its end; its last adverts may still arrive.
    pub(super) fn ended(&mut self) {
        *self = Self { has_resigned: self.has_resigned, ..Self::new() };
    }

    /// Returns the Active that it obeyed last, if it took over at this instant because that Active resigned.
    pub(super) fn resigned_to_it(&self, now: Time) -> Option<IpAddr> {
        let (reason, obeyed, at) = self.promoted?;
        obeyed.filter(|_| reason == TransitionReason::ActiveResigned && at == now)
    }

    /// Records that its clock stood still.
    pub(super) fn suspended(&mut self) {
        self.unaware = true;
    }

    /// Returns true if it cannot know how long ago it advertised.
    pub(super) fn is_unaware(&self) -> bool {
        self.unaware
    }

    /// Records a change of state. Returns true if it was in order.
    pub(super) fn became(
        &mut self,
        from: State,
        to: State,
        reason: TransitionReason,
        now: Time,
        clock_time: Time,
    ) -> bool {
        let in_order = from == self.state && from != to;
        self.state = to;
        match to {
            State::Active => {
                self.active_since = Some(now);
                self.promoted = Some((reason, self.obeyed, now));
            }
            State::Backup | State::Initialize => {
                self.active_since = None;
                (self.listening_since, self.learned, self.resigned, self.obeyed) =
                    (clock_time, None, None, None);
            }
        }
        in_order
    }

    /// Records the outcome of an advert. Returns false if a Backup was wrong to obey.
    pub(super) fn heard(
        &mut self,
        heard: &ReceivedAdvert,
        outcome: AdvertOutcome,
        config: &Config,
        clock_time: Time,
    ) -> bool {
        match (self.state, outcome) {
            (State::Backup, AdvertOutcome::Obeyed) => {}
            (State::Initialize | State::Active, _)
            | (
                State::Backup,
                AdvertOutcome::Inferior
                | AdvertOutcome::IntervalMismatch
                | AdvertOutcome::Superseded
                | AdvertOutcome::Asked
                | AdvertOutcome::NotAPeer
                | AdvertOutcome::OwnAddress
                | AdvertOutcome::NotRunning,
            ) => return true,
        }
        let Some(priority) = heard.priority else {
            self.resigned = Some(clock_time);
            return true;
        };
        (self.listening_since, self.resigned, self.obeyed) = (clock_time, None, Some(heard.source));
        self.learned = match config.versions {
            Versions::V2 => None,
            Versions::V3 | Versions::V2AndV3 => Some(heard.interval),
        };
        let waits = config.preempt_delay != Duration::ZERO
            || (config.preempt_turn != Duration::ZERO && !config.preferred.is_empty());
        let preempts = config.priority == Priority::OWNER || (config.preempt && !waits);
        priority >= config.priority || !preempts
    }

    /// Returns true if it is a Backup that should be Active at `clock_time` by its clock.
    pub(super) fn must_take_over(&self, config: &Config, clock_time: Time) -> bool {
        let interval = self.learned.unwrap_or(config.interval).duration();
        let due = match self.resigned {
            Some(resigned) => resigned + skew(config, interval),
            None => self.listening_since + active_down(config, interval),
        };
        match self.state {
            State::Backup => clock_time > due,
            State::Initialize | State::Active => false,
        }
    }

    /// Returns true if it is Active because the router at `source` was silent after its last advert.
    pub(super) fn replaced(&self, source: IpAddr, other: &Self) -> bool {
        self.active_since.is_some()
            && self.promoted.is_some_and(|(reason, obeyed, at)| {
                reason == TransitionReason::ActiveSilent && obeyed == Some(source) && at > other.advertised
            })
    }

    /// Returns true if it advertised at this instant.
    pub(super) fn spoke_at(&self, now: Time) -> bool {
        self.advertised == now
    }
}

/// Skew_Time (RFC 9568 §6.1): 1/256 of the interval, in version 2 of a second (RFC 3768 §6.1), for each step below priority 256.
fn skew(config: &Config, interval: Duration) -> Duration {
    let base = match config.versions {
        Versions::V3 | Versions::V2AndV3 => interval,
        Versions::V2 => Duration::from_secs(1),
    };
    base * (256 - u32::from(config.priority.get())) / 256
}

/// Active_Down_Interval (RFC 9568 §6.1).
pub(super) fn active_down(config: &Config, interval: Duration) -> Duration {
    interval * 3 + skew(config, interval)
}

/// Time at which an advert was last lost, by virtual router, sender and receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct LostAdverts(BTreeMap<(usize, usize, usize), Time>);

impl LostAdverts {
    pub(super) fn note(&mut self, router: usize, from: usize, to: usize, now: Time) {
        self.0.insert((router, from, to), now);
    }

    /// Returns the time until which `superior` and `inferior` may both be Active, if adverts come every `interval` and take
    /// `slowest`.
    pub(super) fn excuse(
        &self,
        (router, superior, inferior): (usize, usize, usize),
        record: [&RouterRecord; 2],
        interval: Duration,
        slowest: Duration,
    ) -> Time {
        let together = record.iter().filter_map(|record| record.active_since).max().unwrap_or_default();
        let lost = self.0.get(&(router, superior, inferior)).copied().unwrap_or_default();
        together.max(lost) + interval + slowest + ROUNDING
    }

    /// Returns true if the last advert of `from`, as `record`, was lost on the way to `to`.
    pub(super) fn lost_last(&self, router: usize, from: usize, to: usize, record: &RouterRecord) -> bool {
        self.0.get(&(router, from, to)).is_some_and(|lost| *lost >= record.advertised)
    }
}
