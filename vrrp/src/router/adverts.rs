//! What an advert does in each state (RFC 9568 §6.4.2 and §6.4.3).

use super::phase::Phase;
use super::{Action, Announce, Heard, Reason, Router, Verdict};
use crate::units::{Priority, Time, Versions};

impl Router {
    /// A valid advert with this router's VRID, in a version it speaks, arrived on its interface.
    pub fn handle_advert(&mut self, heard: Heard, now: Time) -> Verdict {
        if heard.source == self.config.primary {
            return Verdict::OwnAddress;
        }
        if !self.config.peers.contains(&heard.source) {
            return Verdict::Stranger;
        }
        self.yield_if_overslept(now);
        match self.phase {
            Phase::Initialize => return Verdict::NotRunning,
            Phase::Backup(_) | Phase::Active(_) => {}
        }
        if self.config.versions == Versions::V2 && heard.interval != self.config.interval {
            return Verdict::IntervalMismatch;
        }
        if self.upgraded.supersede(&heard, &self.config, now) {
            return Verdict::Superseded;
        }
        match heard.priority {
            None => self.handle_resignation(now),
            Some(priority) => self.handle_claim(heard, priority, now),
        }
    }

    fn handle_resignation(&mut self, now: Time) -> Verdict {
        match &mut self.phase {
            Phase::Initialize => Verdict::NotRunning,
            Phase::Backup(backup) => {
                // T5
                backup.hear_resignation(&self.config, now);
                Verdict::Obeyed
            }
            Phase::Active(_) => {
                // T11
                self.send_advert(now);
                Verdict::Obeyed
            }
        }
    }

    fn handle_claim(&mut self, heard: Heard, priority: Priority, now: Time) -> Verdict {
        match &mut self.phase {
            Phase::Initialize => Verdict::NotRunning,
            Phase::Backup(backup) => {
                backup.active = Some(heard.source);
                if priority >= self.config.priority {
                    // T6, T8
                    backup.inferior_since = None;
                    backup.obey(heard.interval, &self.config, now);
                    return Verdict::Obeyed;
                }
                let since = *backup.inferior_since.get_or_insert(now);
                if self.config.preempts(since, now) {
                    // T7: the timer runs on and the interval is not adopted.
                    backup.reason = Reason::Preempted;
                    Verdict::Inferior
                } else {
                    // T6
                    backup.obey(heard.interval, &self.config, now);
                    Verdict::Obeyed
                }
            }
            Phase::Active(_) => {
                if self.config.yields_to(priority, heard.source) {
                    // T12, and the parting advert.
                    let reason = Reason::SuperiorActive { source: heard.source, priority };
                    self.enter_backup(reason, Some(heard.interval), Some(heard.source), now);
                    self.actions.push_back(Action::SendAdvert { priority: Some(self.config.priority) });
                    Verdict::Obeyed
                } else {
                    // T13: one answer for one advert, so that a peer that does not hear us gets no more than it sends.
                    self.send_advert(now);
                    self.actions.push_back(Action::Announce(Announce::Contention));
                    Verdict::Inferior
                }
            }
        }
    }
}
