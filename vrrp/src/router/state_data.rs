//! Data that a router keeps in each state.

use std::net::IpAddr;

use super::config::Config;
use super::fallback::{ASK_EVERY, LEASE, MOST_ASKED};
use super::outcome::TransitionReason;
use crate::units::{Interval, Time};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StateData {
    Initialize,
    Backup(Backup),
    Active(Active),
}

/// Length of the Active_Down_Timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TimerLength {
    ActiveDown,
    Skew,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Backup {
    /// Active_Down_Timer: when it was set, its length, and when it fires.
    armed: Time,
    length: TimerLength,
    pub(super) deadline: Time,
    /// Active_Adver_Interval as learned from the Active; `None` until then.
    learned: Option<Interval>,
    /// Reason for the takeover if the timer fires.
    pub(super) reason: TransitionReason,
    /// The extra interval of a stalled Backup is used up.
    listened_again: bool,
    /// The router last heard as Active.
    pub(super) active: Option<IpAddr>,
    /// The Active that was obeyed last.
    obeyed: Option<IpAddr>,
    /// Time to ask for unicast because no advert arrives: the Active, or all peers where none is known. `None`: not before an advert
    /// arrives again.
    ask_at: Option<Time>,
    /// Two adverts of the Active are missing, and it was asked for unicast.
    pub(super) misses_active: bool,
    /// Times at which the Active was last asked, and last received by multicast; at first the time it became known.
    asked: Time,
    multicast_heard: Time,
    /// Time since which adverts of lower priority arrive, and no other: start of the preemption delay.
    pub(super) inferior_since: Option<Time>,
}

impl Backup {
    /// Waits for one Active_Down_Interval, at the interval `learned` from the Active `active`.
    pub(super) fn new(config: &Config, learned: Option<Interval>, active: Option<IpAddr>, now: Time) -> Self {
        let mut backup = Self {
            armed: now,
            length: TimerLength::ActiveDown,
            deadline: now + config.active_down(learned),
            learned,
            reason: TransitionReason::ActiveSilent,
            listened_again: false,
            active,
            obeyed: active,
            ask_at: None,
            misses_active: false,
            asked: now,
            multicast_heard: now,
            inferior_since: None,
        };
        backup.ask_at = backup.ask_due(config);
        backup
    }

    /// Returns the Active that it follows: the one obeyed last or, if none was, the one that it is to preempt.
    pub(super) fn followed(&self) -> Option<IpAddr> {
        self.obeyed.or(self.active)
    }

    /// Records an advert of an Active, obeyed or not.
    pub(super) fn hear(&mut self, source: IpAddr, unicast: bool, now: Time) {
        if self.active != Some(source) {
            self.active = Some(source);
            self.multicast_heard = now;
        }
        if !unicast {
            self.multicast_heard = now;
        }
    }

    /// Returns true if it is time to ask for unicast because no advert arrives: the Active, or all peers where none is known.
    pub(super) fn ask_silent(&mut self, now: Time) -> bool {
        if self.ask_at.take_if(|at| *at <= now).is_none() {
            return false;
        }
        self.asked = now;
        let asks = now < self.deadline;
        self.misses_active = asks && self.active.is_some();
        asks
    }

    /// Returns true if it is time to ask the Active to continue with unicast, by which alone its adverts arrive.
    pub(super) fn ask_again(&mut self, config: &Config, now: Time) -> bool {
        let patience = config.rate(self.learned).duration().saturating_mul(ASK_EVERY);
        let due = config.unicast_fallback && now.since(self.asked.max(self.multicast_heard)) >= patience;
        if due {
            self.asked = now;
        }
        due
    }

    /// Returns the Active if its adverts have arrived by unicast alone for longer than a mistake lasts.
    pub(super) fn unheard(&self, config: &Config, now: Time) -> Option<IpAddr> {
        let mistake = config.rate(self.learned).duration().saturating_mul(LEASE);
        self.active.filter(|_| config.unicast_fallback && now.since(self.multicast_heard) >= mistake)
    }

    /// Time at which the timer fires, or the Active is to be asked if that is earlier.
    pub(super) fn due_next(&self) -> Time {
        self.ask_at.map_or(self.deadline, |at| at.min(self.deadline))
    }

    /// T7: the Active's advert is not obeyed.
    pub(super) fn disregard(&mut self) {
        self.reason = TransitionReason::Preempted;
        (self.ask_at, self.misses_active) = (None, false);
    }

    /// T7, and the Active is not fit for its work: takes over after the skew time, as if the Active had resigned. Unless another
    /// router was obeyed, which counts as Active until it is silent.
    pub(super) fn replace_unfit(&mut self, source: IpAddr, config: &Config, now: Time) {
        let is_alone = self.obeyed.is_none_or(|obeyed| obeyed == source);
        if is_alone && now + config.skew(self.learned) < self.deadline {
            self.arm(TimerLength::Skew, config, now);
        }
    }

    /// T6: obeys the Active and learns its interval.
    pub(super) fn obey(&mut self, source: IpAddr, interval: Interval, config: &Config, now: Time) {
        self.obeyed = Some(source);
        self.learned = Some(interval);
        self.reason = TransitionReason::ActiveSilent;
        self.listened_again = false;
        self.arm(TimerLength::ActiveDown, config, now);
    }

    /// T5: the Active resigned.
    pub(super) fn hear_resignation(&mut self, config: &Config, now: Time) {
        self.reason = TransitionReason::ActiveResigned;
        self.arm(TimerLength::Skew, config, now);
    }

    /// Sets the timer again, once, if it fires so late that it is unknown which router was silent. Returns true if it did.
    pub(super) fn listen_again(&mut self, config: &Config, now: Time) -> bool {
        let stalled = now.since(self.deadline) >= config.active_down(self.learned);
        if !stalled || self.listened_again || !config.may_have_peers() {
            return false;
        }
        self.listened_again = true;
        self.arm(TimerLength::ActiveDown, config, now);
        true
    }

    /// The configuration changed: the timer runs from the same instant for the length that follows from it, but does not
    /// come to lie in the past, where it would look stalled.
    pub(super) fn adapt(&mut self, config: &Config, now: Time) {
        self.deadline = self.due(config).max(self.deadline.min(now));
        self.ask_at = self.ask_at.and_then(|_| self.ask_due(config));
    }

    fn arm(&mut self, length: TimerLength, config: &Config, now: Time) {
        (self.armed, self.length) = (now, length);
        self.deadline = self.due(config);
        (self.ask_at, self.misses_active) = (self.ask_due(config), false);
    }

    /// An interval before the timer fires: two adverts are missing then.
    fn ask_due(&self, config: &Config) -> Option<Time> {
        let asks = config.unicast_fallback
            && match self.active {
                Some(peer) => config.peers.contains(&peer),
                None => (1..=MOST_ASKED).contains(&config.peers.len()),
            };
        match self.length {
            TimerLength::ActiveDown if asks => {
                let interval = config.rate(self.learned).duration();
                Some(self.armed + config.active_down(self.learned).saturating_sub(interval))
            }
            TimerLength::ActiveDown | TimerLength::Skew => None,
        }
    }

    fn due(&self, config: &Config) -> Time {
        self.armed
            + match self.length {
                TimerLength::ActiveDown => config.active_down(self.learned),
                TimerLength::Skew => config.skew(self.learned),
            }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Active {
    /// Adver_Timer.
    pub(super) next_advert: Time,
    pub(super) last_advert: Time,
    /// Answers to inferior claims since an advert that was due.
    pub(super) answers: u8,
}
