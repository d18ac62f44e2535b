//! Data that a router keeps in each state.

use std::net::IpAddr;

use super::config::Config;
use super::outcome::TransitionReason;
use crate::units::{Interval, Time};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StateData {
    Initialize,
    Backup(Backup),
    Active(Active),
}

/// For how long the Active_Down_Timer was set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TimerLength {
    ActiveDown,
    Skew,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Backup {
    /// When the Active_Down_Timer was set, for how long, and when it fires.
    armed: Time,
    length: TimerLength,
    pub(super) deadline: Time,
    /// Active_Adver_Interval as the Active told it; `None` until one was heard.
    learned: Option<Interval>,
    /// Why it takes over if the timer fires.
    pub(super) reason: TransitionReason,
    /// The extra interval of an stalled Backup is used up.
    listened_again: bool,
    /// The router last heard as Active.
    pub(super) active: Option<IpAddr>,
    /// Since when adverts of lower priority are heard, and no other: the preemption delay runs from there.
    pub(super) inferior_since: Option<Time>,
}

impl Backup {
    /// Waits for one Active_Down_Interval, at the interval `learned` from the Active `active`.
    pub(super) fn new(config: &Config, learned: Option<Interval>, active: Option<IpAddr>, now: Time) -> Self {
        Self {
            armed: now,
            length: TimerLength::ActiveDown,
            deadline: now + config.active_down(learned),
            learned,
            reason: TransitionReason::ActiveSilent,
            listened_again: false,
            active,
            inferior_since: None,
        }
    }

    /// T6: the Active is there and told its interval.
    pub(super) fn obey(&mut self, interval: Interval, config: &Config, now: Time) {
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

    /// Whether the timer fires so late that nobody knows who was silent: then it is set again, once.
    pub(super) fn listen_again(&mut self, config: &Config, now: Time) -> bool {
        let stalled = now.since(self.deadline) >= config.active_down(self.learned);
        if !stalled || self.listened_again || config.peers.is_empty() {
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
    }

    fn arm(&mut self, length: TimerLength, config: &Config, now: Time) {
        (self.armed, self.length) = (now, length);
        self.deadline = self.due(config);
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
}
