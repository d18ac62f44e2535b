//! Effect of an advert in each state (RFC 9568 §6.4.2 and §6.4.3).

use std::net::IpAddr;

use super::fallback::Copies;
use super::state_data::StateData;
use super::{Action, AdvertOutcome, Announce, ReceivedAdvert, Router, TransitionReason};
use crate::units::{Priority, Time, Versions};

/// Most inferior claims answered immediately between two adverts that are due: one of a peer that has not yet received this router's
/// advert, and one more if the answer was lost.
const MOST_ANSWERS: u8 = 2;

impl Router {
    /// Handles a valid advert with this router's VRID, in a version it speaks, that arrived on its interface.
    pub fn handle_advert(&mut self, advert: ReceivedAdvert, now: Time) -> AdvertOutcome {
        if advert.source == self.config.primary {
            return AdvertOutcome::OwnAddress;
        }
        if !self.config.peers.contains(&advert.source) {
            return AdvertOutcome::NotAPeer;
        }
        self.yield_if_stalled(now);
        match self.state_data {
            StateData::Initialize => return AdvertOutcome::NotRunning,
            StateData::Backup(_) | StateData::Active(_) => {}
        }
        if self.config.versions == Versions::V2 && advert.interval != self.config.interval {
            return AdvertOutcome::IntervalMismatch;
        }
        if self.upgraded.is_superseded(&advert, &self.config, now) {
            return AdvertOutcome::Superseded;
        }
        match advert.priority {
            None if advert.unicast && self.config.unicast_fallback => {
                self.handle_question(advert.source, now)
            }
            None => self.handle_resignation(advert.source, now),
            Some(priority) => self.handle_claim(advert, priority, now),
        }
    }

    /// Handles the resignation of an Active. A Backup obeys that of the Active it follows. While it knows no Active, it obeys any
    /// peer's. From all other peers it is no resignation: a recorded question ([`Self::handle_question`]) that is sent to the group has the
    /// same bytes, and its trailer holds.
    fn handle_resignation(&mut self, source: IpAddr, now: Time) -> AdvertOutcome {
        match &mut self.state_data {
            StateData::Initialize => AdvertOutcome::NotRunning,
            StateData::Backup(backup) if backup.followed().is_some_and(|active| active != source) => {
                AdvertOutcome::Asked
            }
            StateData::Backup(backup) => {
                // T5
                backup.hear_resignation(&self.config, now);
                AdvertOutcome::Obeyed
            }
            StateData::Active(_) => {
                // T11
                self.send_advert(Copies::Needed, now);
                AdvertOutcome::Obeyed
            }
        }
    }

    /// Handles priority 0 by unicast: the Active's resignation, for peers that multicast does not reach, or a Backup's question.
    fn handle_question(&mut self, source: IpAddr, now: Time) -> AdvertOutcome {
        match &mut self.state_data {
            StateData::Initialize => AdvertOutcome::NotRunning,
            StateData::Backup(backup) if backup.followed() == Some(source) => {
                self.handle_resignation(source, now)
            }
            StateData::Backup(_) => AdvertOutcome::Asked,
            StateData::Active(_) => {
                if self.fallback.grant(source, &self.config, now) {
                    self.fallback.choose_only([&source]);
                    self.actions.push_back(Action::SendUnicast { priority: Some(self.config.priority) });
                }
                AdvertOutcome::Asked
            }
        }
    }

    fn handle_claim(&mut self, advert: ReceivedAdvert, priority: Priority, now: Time) -> AdvertOutcome {
        match &mut self.state_data {
            StateData::Initialize => AdvertOutcome::NotRunning,
            StateData::Backup(backup) => {
                backup.hear(advert.source, advert.unicast, now);
                if priority >= self.config.priority {
                    // T8
                    backup.inferior_since = None;
                } else {
                    let since = *backup.inferior_since.get_or_insert(now);
                    if self.config.preempts(advert.source, priority, since, now) {
                        // T7: the timer runs on and the interval is not adopted.
                        backup.disregard();
                        if self.config.is_fitter_than(priority) {
                            backup.replace_unfit(advert.source, &self.config, now);
                        }
                        return AdvertOutcome::Inferior;
                    }
                }
                // T6
                backup.obey(advert.source, advert.interval, &self.config, now);
                if backup.ask_again(&self.config, now) {
                    self.fallback.choose_only([&advert.source]);
                    self.actions.push_back(Action::SendUnicast { priority: None });
                }
                AdvertOutcome::Obeyed
            }
            StateData::Active(active) => {
                let answers = active.answers;
                if self.config.yields_to(priority, advert.source) {
                    // T12, and the parting advert, which the winner has to receive.
                    self.fallback.choose(Copies::Also(advert.source), &self.config, now);
                    let reason = TransitionReason::SuperiorActive { source: advert.source, priority };
                    self.enter_backup(reason, Some(advert.interval), Some(advert.source), now);
                    self.actions.push_back(Action::SendAdvert { priority: Some(self.config.priority) });
                    AdvertOutcome::Obeyed
                } else {
                    // T13: one answer for one advert, so that a peer that does not receive ours gets no more than it sends, and not
                    // many between two that are due: a forger would decide how much we send. The next one is an answer, too.
                    self.fallback.grant(advert.source, &self.config, now);
                    if answers >= MOST_ANSWERS {
                        return AdvertOutcome::Inferior;
                    }
                    self.send_advert(Copies::Needed, now);
                    if let StateData::Active(active) = &mut self.state_data {
                        active.answers = answers.saturating_add(1);
                    }
                    self.actions.push_back(Action::Announce(Announce::Contention));
                    AdvertOutcome::Inferior
                }
            }
        }
    }
}
