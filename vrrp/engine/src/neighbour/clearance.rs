//! Which of a virtual router's addresses may be claimed, decided without clock or socket.
//!
//! ```text
//!              takeover from a peer that can have served it, or no probe configured
//! Unproven ─────────────────────────────────────────────────► Clear (for good; of a doubtful address: until demoted)
//!    │ ▲ demoted                                                ▲
//!    ▼ │                                nobody answered         │
//! Probing ──────────────────────────────────────────────────────┘
//!    │ ▲ a second later, for the first ten seconds, then a minute later
//!    ▼ │
//!  Taken (another station answered) ── demoted ─► Suspect: Unproven, and doubtful for a minute
//! ```
//!
//! Doubtful is what no peer is known to have claimed ([`crate::RouterConfig::unproven`]) and what this node has just found
//! to be another station's: a peer that was Active before may have announced it no more than this node did. It is asked for
//! at every takeover. The peer's own answers are no rival's: it hears the advert of who takes over first, and the question
//! waits until it has. What nobody asked for yet is no answer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_vrrp::Time;

use super::ON_THE_WAY;
use crate::core::predecessor::Before;

#[cfg(test)]
mod tests;

/// Probes sent for an address, spread over the time it is probed for. More would cost the first claim time; a packet lost
/// twice on a LAN is rare, and a conflict that is seen later is reported all the same.
const PROBES: u32 = 2;
/// Time until an address that is taken is asked for again, and is told of again.
const RETRY: Duration = Duration::from_mins(1);
/// How long it is asked for sooner: a VIP that moves from one virtual router to another is held by the old one's Active
/// until that has learnt of it too.
const EAGER: Duration = Duration::from_secs(10);
const EAGER_RETRY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Not asked for yet, or the answer was not waited for.
    Unproven,
    /// Likewise, and when this node was Active last it found another station to have it.
    Suspect {
        since: Time,
    },
    /// Asked for `sent` times; at `due` comes the next question or, after the last, the claim.
    Probing {
        sent: u32,
        due: Time,
        /// Another station had it when it was asked for before.
        rival: Option<Rival>,
    },
    Clear,
    /// Another station has it.
    Taken {
        retry: Time,
        rival: Rival,
    },
}

/// When another station was found to have an address, first and last, and when that was told last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rival {
    found: Time,
    seen: Time,
    told: Time,
}

/// The addresses of one virtual router.
#[derive(Debug, Default)]
pub(super) struct Clearance {
    stages: BTreeMap<IpAddr, Stage>,
    /// Those that no peer is known to have claimed.
    unproven: Arc<BTreeSet<IpAddr>>,
    /// How long to ask; `None` while it does not act as Active or need not ask.
    probe: Option<Duration>,
    /// Addresses that are [`Stage::Probing`] or [`Stage::Taken`]: of thousands few, and only they are waited for.
    open: BTreeSet<IpAddr>,
    changed: bool,
}

/// What a claim of another station means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Nothing: the address is not asked for, or that it is taken was told less than a minute ago.
    Irrelevant,
    /// The address was asked for, and it is taken.
    Taken,
    /// The address is cleared, so there are two that claim it.
    Conflict,
}

impl Clearance {
    /// The router's addresses are exactly these. Call [`Self::claim`] after it while it is Active.
    pub(super) fn list(&mut self, addresses: &[IpAddr]) {
        let old = std::mem::take(&mut self.stages);
        self.stages = addresses
            .iter()
            .map(|address| (*address, old.get(address).copied().unwrap_or(Stage::Unproven)))
            .collect();
        self.changed = true;
        self.recount();
    }

    /// Of its addresses these are not known to have been claimed by a peer; whether they are others than before.
    pub(super) fn doubt(&mut self, unproven: &Arc<BTreeSet<IpAddr>>) -> bool {
        let before = std::mem::replace(&mut self.unproven, Arc::clone(unproven));
        !Arc::ptr_eq(&before, unproven)
    }

    /// The router is Active and wants to claim what is not cleared: what may be another station's after it has asked for
    /// this long, all else at once.
    pub(super) fn claim(&mut self, probe: Option<Duration>, before: Before, now: Time) {
        self.probe = probe;
        let due = match before {
            Before::Nobody => now,
            Before::Newcomer | Before::Server => now + ON_THE_WAY,
        };
        for (address, stage) in &mut self.stages {
            let is_recent = match *stage {
                Stage::Suspect { since } => now.since(since) < RETRY,
                Stage::Unproven | Stage::Probing { .. } | Stage::Clear | Stage::Taken { .. } => false,
            };
            let asks = match before {
                Before::Nobody | Before::Newcomer => true,
                Before::Server => is_recent || self.unproven.contains(address),
            };
            let next = match (*stage, probe.filter(|_| asks)) {
                (Stage::Clear, _) | (Stage::Probing { .. } | Stage::Taken { .. }, Some(_)) => continue,
                (Stage::Unproven | Stage::Suspect { .. }, Some(_)) => {
                    Stage::Probing { sent: 0, due, rival: None }
                }
                (
                    Stage::Unproven | Stage::Suspect { .. } | Stage::Probing { .. } | Stage::Taken { .. },
                    None,
                ) => Stage::Clear,
            };
            *stage = next;
            self.changed = true;
        }
        self.recount();
    }

    /// The router is not Active. What was cleared stays so, unless no peer is known to have claimed it.
    pub(super) fn rest(&mut self) {
        self.probe = None;
        for (address, stage) in &mut self.stages {
            let next = match *stage {
                Stage::Probing { rival: Some(rival), .. } | Stage::Taken { rival, .. } => {
                    Stage::Suspect { since: rival.seen }
                }
                Stage::Probing { rival: None, .. } => Stage::Unproven,
                Stage::Clear if self.unproven.contains(address) => Stage::Unproven,
                Stage::Unproven | Stage::Suspect { .. } | Stage::Clear => continue,
            };
            self.changed |= *stage == Stage::Clear;
            *stage = next;
        }
        self.recount();
    }

    /// Up to `limit` addresses to ask for now; clears those that nobody answered for. Until `heard` all that came in was read:
    /// an answer that this process, frozen or late, has not read yet counts.
    pub(super) fn due(&mut self, now: Time, heard: Time, limit: usize) -> Vec<IpAddr> {
        let Some(probe) = self.probe.filter(|_| !self.open.is_empty()) else { return Vec::new() };
        let (mut ask, mut closed) = (Vec::new(), Vec::new());
        for address in &self.open {
            let Some(stage) = self.stages.get_mut(address) else { continue };
            let (sent, rival) = match *stage {
                Stage::Probing { sent: PROBES, due, .. } if due > heard => continue,
                Stage::Probing { sent, due, rival } if due <= now => (sent, rival),
                Stage::Taken { retry, rival } if retry <= now => (0, Some(rival)),
                Stage::Unproven
                | Stage::Suspect { .. }
                | Stage::Clear
                | Stage::Probing { .. }
                | Stage::Taken { .. } => continue,
            };
            if sent == PROBES {
                *stage = Stage::Clear;
                closed.push(*address);
            } else if ask.len() < limit {
                *stage = Stage::Probing { sent: sent + 1, due: now + probe / PROBES, rival };
                ask.push(*address);
            }
        }
        self.changed |= !closed.is_empty();
        for address in closed {
            self.open.remove(&address);
        }
        ask
    }

    /// Another station claims an address.
    pub(super) fn heard(&mut self, address: IpAddr, now: Time) -> Verdict {
        let Some(stage) = self.stages.get_mut(&address) else { return Verdict::Irrelevant };
        match stage {
            Stage::Probing { sent: 0, .. }
            | Stage::Unproven
            | Stage::Suspect { .. }
            | Stage::Taken { .. } => Verdict::Irrelevant,
            Stage::Probing { rival, .. } => {
                let is_due = |rival: &Rival| now.since(rival.told) >= RETRY;
                let tell = rival.as_ref().is_none_or(is_due);
                let found = rival.map_or(now, |rival| rival.found);
                let told = rival.filter(|_| !tell).map_or(now, |rival| rival.told);
                let pause = if now.since(found) < EAGER { EAGER_RETRY } else { RETRY };
                *stage = Stage::Taken { retry: now + pause, rival: Rival { found, seen: now, told } };
                if tell { Verdict::Taken } else { Verdict::Irrelevant }
            }
            Stage::Clear => Verdict::Conflict,
        }
    }

    /// Whether this address may be claimed.
    pub(super) fn is_clear(&self, address: IpAddr) -> bool {
        self.stages.get(&address) == Some(&Stage::Clear)
    }

    /// Addresses that may be claimed.
    pub(super) fn cleared(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.stages.iter().filter(|(_, stage)| **stage == Stage::Clear).map(|(address, _)| *address)
    }

    /// Whether [`Self::cleared`] may be another, as [`Self::take_changed`] says it, which it leaves untaken.
    pub(super) fn has_changed(&self) -> bool {
        self.changed
    }

    /// Whether [`Self::cleared`] may be another than when this was asked last.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// When [`Self::due`] has something to do.
    pub(super) fn deadline(&self) -> Option<Time> {
        let open = self.open.iter().filter_map(|address| self.stages.get(address));
        let deadlines = open.filter_map(|stage| match stage {
            Stage::Probing { due, .. } => Some(*due),
            Stage::Taken { retry, .. } => Some(*retry),
            Stage::Unproven | Stage::Suspect { .. } | Stage::Clear => None,
        });
        deadlines.min()
    }

    fn recount(&mut self) {
        let open = |stage: &&Stage| matches!(stage, Stage::Probing { .. } | Stage::Taken { .. });
        self.open =
            self.stages.iter().filter(|(_, stage)| open(stage)).map(|(address, _)| *address).collect();
    }
}
