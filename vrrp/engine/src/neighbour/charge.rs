//! One virtual router as this thread follows it: what its duty says is compared with what was done, and the difference is
//! told. Decided without clock or socket.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_vrrp::Time;

use crate::config::Hold;
use crate::core::predecessor::Before;
use crate::duty::Standing;

use super::clearance::{Clearance, Verdict};

#[cfg(test)]
mod tests;

/// Identifies the sockets of an interface: their serial number.
pub(super) type LinkId = u64;

/// What a duty says at this instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) standing: Standing,
    pub(super) addresses: &'a Arc<[IpAddr]>,
    pub(super) in_place: &'a Arc<BTreeSet<IpAddr>>,
    pub(super) hold: Hold,
    pub(super) probe: Option<Duration>,
    pub(super) unproven: &'a Arc<BTreeSet<IpAddr>>,
    pub(super) link: Option<LinkId>,
}

/// What is to be announced because of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// A takeover, or the interface is another: all of these, at once.
    All(Arc<[IpAddr]>),
    /// The addresses are `all`, of which `added` are new.
    Changed { all: Arc<[IpAddr]>, added: Vec<IpAddr> },
    /// A contention was won: all again.
    Again,
    /// Nothing any more.
    Withdraw,
}

impl Step {
    /// What was not claimed before it.
    pub(super) fn claimed(&self) -> Option<&[IpAddr]> {
        match self {
            Self::All(all) => Some(all),
            Self::Changed { all: _, added } => Some(added),
            Self::Again | Self::Withdraw => None,
        }
    }
}

/// What is known of a router.
#[derive(Debug, Default)]
pub(super) struct Charge {
    /// The takeover that was followed, with its contentions; `None`: not Active.
    active: Option<Followed>,
    clearance: Clearance,
    addresses: Arc<[IpAddr]>,
    in_place: Arc<BTreeSet<IpAddr>>,
    hold: Hold,
    /// What was told to announce.
    announced: BTreeSet<IpAddr>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Followed {
    takeover: u64,
    contentions: u64,
    link: LinkId,
}

impl Charge {
    /// Follows its duty: what is to be announced, in this order. Call it again when [`Self::deadline`] has passed and
    /// [`Self::probes`] was asked.
    pub(super) fn follow(&mut self, seen: &Seen<'_>, now: Time) -> Vec<Step> {
        let mut steps = Vec::new();
        let listed = !Arc::ptr_eq(&self.addresses, seen.addresses);
        if listed {
            self.addresses = Arc::clone(seen.addresses);
            self.clearance.list(&self.addresses);
        }
        let doubted = self.clearance.doubt(seen.unproven);
        let moved = !Arc::ptr_eq(&self.in_place, seen.in_place) || self.hold != seen.hold;
        self.in_place = Arc::clone(seen.in_place);
        self.hold = seen.hold;
        let Some(link) = seen.link.filter(|_| seen.standing.active) else {
            let demoted = self.active.take().is_some();
            if demoted || doubted {
                // Before the next takeover: the thread that binds must not find cleared what is to be asked for.
                self.clearance.rest();
            }
            if demoted {
                self.announced = BTreeSet::new();
                steps.push(Step::Withdraw);
            }
            return steps;
        };
        let Standing { active: _, takeover, contentions, before: predecessor } = seen.standing;
        let before = self.active.replace(Followed { takeover, contentions, link });
        let fresh = before.is_none_or(|before| before.takeover != takeover);
        if fresh {
            self.clearance.rest();
            self.clearance.claim(seen.probe, predecessor, now);
        } else if listed {
            // Nobody served what was added: it may be a stranger's, whoever was Active before.
            self.clearance.claim(seen.probe, Before::Nobody, now);
        }
        let cleared = self.clearance.has_changed();
        if fresh || before.is_some_and(|before| before.link != link) {
            self.announced = self.ready();
            steps.push(Step::All(self.announced.iter().copied().collect()));
        } else {
            if listed || moved || cleared {
                self.announce_changes(&mut steps);
            }
            if before.is_some_and(|before| before.contentions != contentions) {
                steps.push(Step::Again);
            }
        }
        steps
    }

    /// Up to `limit` addresses to probe for now. Until `heard` all that came in was read.
    pub(super) fn probes(&mut self, now: Time, heard: Time, limit: usize) -> Vec<IpAddr> {
        self.clearance.due(now, heard, limit)
    }

    /// Another station claims one of its addresses.
    pub(super) fn heard(&mut self, address: IpAddr, now: Time) -> Verdict {
        match self.active {
            Some(_) => self.clearance.heard(address, now),
            None => Verdict::Irrelevant,
        }
    }

    /// Whether this node claims this address.
    pub(super) fn claims(&self, address: IpAddr) -> bool {
        self.active.is_some() && self.clearance.is_clear(address)
    }

    /// Whether this thread answers who asks for this address: it is claimed, and not on the interface, where the kernel would.
    pub(super) fn answers(&self, address: IpAddr) -> bool {
        match self.hold {
            Hold::Respond => self.claims(address),
            Hold::Address => false,
            // The device that it is on is mute.
            Hold::Vmac => self.claims(address) && self.in_place.contains(&address),
        }
    }

    /// Addresses that may be claimed, if they are others than when this was asked last.
    pub(super) fn take_cleared(&mut self) -> Option<BTreeSet<IpAddr>> {
        self.clearance.take_changed().then(|| self.clearance.cleared().collect())
    }

    /// When [`Self::probes`] has something to do.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.active.and_then(|_| self.clearance.deadline())
    }

    fn announce_changes(&mut self, steps: &mut Vec<Step>) {
        let ready = self.ready();
        if ready != self.announced {
            let added = ready.difference(&self.announced).copied().collect();
            steps.push(Step::Changed { all: ready.iter().copied().collect(), added });
            self.announced = ready;
        }
    }

    /// Addresses that may be announced: an address that is to be bound, not before it is (T18).
    fn ready(&self) -> BTreeSet<IpAddr> {
        let bound = |address: &IpAddr| match self.hold {
            Hold::Respond => true,
            Hold::Address | Hold::Vmac => self.in_place.contains(address),
        };
        self.clearance.cleared().filter(bound).collect()
    }
}
