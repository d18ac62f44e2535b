//! Which of a virtual router's addresses may be claimed, decided without clock or socket.
//!
//! ```text
//!              takeover from a peer, or no probe configured
//! Unproven ─────────────────────────────────────────────────► Clear (for good)
//!    │ first claim                                              ▲
//!    ▼                                  nobody answered         │
//! Probing ──────────────────────────────────────────────────────┘
//!    │ ▲ a second later, for the first ten seconds, then a minute later
//!    ▼ │
//!  Taken (another station answered)
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use windlass_vrrp::Time;

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

/// When another station was found to have an address, and when that was told last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rival {
    found: Time,
    told: Time,
}

/// The addresses of one virtual router.
#[derive(Debug, Default)]
pub(super) struct Clearance {
    stages: BTreeMap<IpAddr, Stage>,
    /// How long to ask; `None` while it does not act as Active or need not ask.
    probe: Option<Duration>,
    /// Addresses that are [`Stage::Probing`] or [`Stage::Taken`].
    open: usize,
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

    /// The router is Active and wants to claim what is not proven: after it has asked for this long, or at once.
    pub(super) fn claim(&mut self, probe: Option<Duration>, now: Time) {
        self.probe = probe;
        for stage in self.stages.values_mut() {
            let next = match (*stage, probe) {
                (Stage::Clear, _) | (Stage::Probing { .. } | Stage::Taken { .. }, Some(_)) => continue,
                (Stage::Unproven, Some(_)) => Stage::Probing { sent: 0, due: now, rival: None },
                (Stage::Unproven | Stage::Probing { .. } | Stage::Taken { .. }, None) => Stage::Clear,
            };
            *stage = next;
            self.changed = true;
        }
        self.recount();
    }

    /// The router is no longer Active. What was cleared stays so.
    pub(super) fn rest(&mut self) {
        self.probe = None;
        for stage in self.stages.values_mut() {
            match stage {
                Stage::Probing { .. } | Stage::Taken { .. } => *stage = Stage::Unproven,
                Stage::Unproven | Stage::Clear => {}
            }
        }
        self.recount();
    }

    /// Up to `limit` addresses to ask for now; clears those that nobody answered for.
    pub(super) fn due(&mut self, now: Time, limit: usize) -> Vec<IpAddr> {
        let Some(probe) = self.probe.filter(|_| self.open > 0) else { return Vec::new() };
        let mut ask = Vec::new();
        for (address, stage) in &mut self.stages {
            let (sent, rival) = match *stage {
                Stage::Probing { sent, due, rival } if due <= now => (sent, rival),
                Stage::Taken { retry, rival } if retry <= now => (0, Some(rival)),
                Stage::Unproven | Stage::Clear | Stage::Probing { .. } | Stage::Taken { .. } => continue,
            };
            if sent == PROBES {
                *stage = Stage::Clear;
                self.open -= 1;
                self.changed = true;
            } else if ask.len() < limit {
                *stage = Stage::Probing { sent: sent + 1, due: now + probe / PROBES, rival };
                ask.push(*address);
            }
        }
        ask
    }

    /// Another station claims an address.
    pub(super) fn heard(&mut self, address: IpAddr, now: Time) -> Verdict {
        let Some(stage) = self.stages.get_mut(&address) else { return Verdict::Irrelevant };
        match stage {
            Stage::Probing { rival, .. } => {
                let is_due = |rival: &Rival| now.since(rival.told) >= RETRY;
                let tell = rival.as_ref().is_none_or(is_due);
                let found = rival.map_or(now, |rival| rival.found);
                let told = rival.filter(|_| !tell).map_or(now, |rival| rival.told);
                let pause = if now.since(found) < EAGER { EAGER_RETRY } else { RETRY };
                *stage = Stage::Taken { retry: now + pause, rival: Rival { found, told } };
                if tell { Verdict::Taken } else { Verdict::Irrelevant }
            }
            Stage::Unproven | Stage::Taken { .. } => Verdict::Irrelevant,
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
        if self.open == 0 {
            return None;
        }
        let deadlines = self.stages.values().filter_map(|stage| match stage {
            Stage::Probing { due, .. } => Some(*due),
            Stage::Taken { retry, .. } => Some(*retry),
            Stage::Unproven | Stage::Clear => None,
        });
        deadlines.min()
    }

    fn recount(&mut self) {
        let open = |stage: &&Stage| matches!(stage, Stage::Probing { .. } | Stage::Taken { .. });
        self.open = self.stages.values().filter(open).count();
    }
}
