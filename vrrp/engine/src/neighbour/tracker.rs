//! One virtual router as this thread follows it: compares its handle's state with what was done, and returns the difference.
//! Decides without clock or socket.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_vrrp::Time;

use crate::config::Hold;
use crate::core::predecessor::Predecessor;
use crate::handle::ActiveState;

use super::address_probe::{AddressProbe, ClaimOutcome, Claimant};

#[cfg(test)]
mod tests;

/// Identifies the sockets of an interface: their serial number.
pub(super) type SocketsId = u64;

/// State of a router's handle at this instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct RouterView<'a> {
    pub(super) active_state: ActiveState,
    pub(super) addresses: &'a Arc<[IpAddr]>,
    pub(super) bound: &'a Arc<BTreeSet<IpAddr>>,
    pub(super) hold: Hold,
    pub(super) probe: Option<Duration>,
    pub(super) unproven: &'a Arc<BTreeSet<IpAddr>>,
    pub(super) forced: &'a Arc<BTreeSet<IpAddr>>,
    pub(super) in_service: &'a BTreeSet<IpAddr>,
    pub(super) link: Option<SocketsId>,
}

/// Change of a router's announcements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum AnnouncementChange {
    /// A takeover, or the interface is another: all of these, immediately.
    All(Arc<[IpAddr]>),
    /// The addresses are `all`, of which `added` are new.
    Changed { all: Arc<[IpAddr]>, added: Vec<IpAddr> },
    /// A contention was won: all again.
    Again,
    /// Nothing any more.
    Withdraw,
}

impl AnnouncementChange {
    /// Returns the addresses that were not claimed before it.
    pub(super) fn claimed(&self) -> Option<&[IpAddr]> {
        match self {
            Self::All(all) => Some(all),
            Self::Changed { all: _, added } => Some(added),
            Self::Again | Self::Withdraw => None,
        }
    }
}

/// State of a router that is followed.
#[derive(Debug, Default)]
pub(super) struct RouterTracker {
    /// The takeover that was followed, with its contentions; `None`: not Active.
    active: Option<ActiveRun>,
    address_probe: AddressProbe,
    addresses: Arc<[IpAddr]>,
    bound: Arc<BTreeSet<IpAddr>>,
    hold: Hold,
    /// Addresses that were passed on to be announced.
    announced: BTreeSet<IpAddr>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ActiveRun {
    takeover: u64,
    contentions: u64,
    link: SocketsId,
    /// Hold mode: it decides at which link-layer address the addresses are.
    hold: Hold,
}

impl RouterTracker {
    /// Follows its handle. Returns the changes of announcements, in order. Call it again when [`Self::deadline`] has passed and
    /// [`Self::probes`] was called.
    pub(super) fn follow(&mut self, view: &RouterView<'_>, now: Time) -> Vec<AnnouncementChange> {
        let mut changes = Vec::new();
        let listed = !Arc::ptr_eq(&self.addresses, view.addresses);
        if listed {
            self.addresses = Arc::clone(view.addresses);
            self.address_probe.set_addresses(&self.addresses);
        }
        let unproven_changed = self.address_probe.set_unproven(view.unproven);
        self.address_probe.set_forced(view.forced);
        let moved = !Arc::ptr_eq(&self.bound, view.bound);
        self.bound = Arc::clone(view.bound);
        self.hold = view.hold;
        let Some(link) = view.link.filter(|_| view.active_state.active) else {
            let demoted = self.active.take().is_some();
            if demoted || unproven_changed {
                // Before the next takeover: the thread that binds must not find cleared what is to be asked for.
                self.address_probe.deactivate();
            }
            if demoted {
                self.announced = BTreeSet::new();
                changes.push(AnnouncementChange::Withdraw);
            }
            return changes;
        };
        let ActiveState { active: _, takeover, contentions, predecessor } = view.active_state;
        let before = self.active.replace(ActiveRun { takeover, contentions, link, hold: self.hold });
        let fresh = before.is_none_or(|before| before.takeover != takeover);
        if fresh {
            self.address_probe.deactivate();
            self.address_probe.activate(view.probe, predecessor, now);
        } else if listed {
            // Unless this node served it in another router, an added address may be another host's, whichever node was Active
            // before.
            self.address_probe.clear(view.in_service);
            self.address_probe.activate(view.probe, Predecessor::Nobody, now);
        }
        let contested = before.is_some_and(|before| before.contentions != contentions);
        if contested {
            // A peer that went first in another virtual router is in this one now, and loses.
            self.address_probe.take_all_back();
        }
        let cleared = self.address_probe.has_changed();
        if fresh || before.is_some_and(|before| before.link != link || before.hold != self.hold) {
            self.announced = self.ready();
            changes.push(AnnouncementChange::All(self.announced.iter().copied().collect()));
        } else {
            if listed || moved || cleared {
                self.announce_changes(&mut changes);
            }
            if contested {
                changes.push(AnnouncementChange::Again);
            }
        }
        changes
    }

    /// Returns up to `limit` addresses to probe for now. All that came in until `read_until` was read.
    pub(super) fn probes(&mut self, now: Time, read_until: Time, limit: usize) -> Vec<IpAddr> {
        self.address_probe.due(now, read_until, limit)
    }

    /// Records that another host claims one of its addresses. Returns what that means.
    pub(super) fn note_claim(&mut self, address: IpAddr, now: Time) -> ClaimOutcome {
        match self.active {
            Some(_) => self.address_probe.note_claim(address, now),
            None => ClaimOutcome::Irrelevant,
        }
    }

    /// Asks for an address that this node claims and is to yield, because another host claims it.
    pub(super) fn contest(&mut self, address: IpAddr, claimant: Claimant, now: Time) {
        if self.active.is_some() {
            self.address_probe.contest(address, claimant, now);
        }
    }

    /// Claims an address again if it was left to a peer, which has it no longer. Call [`Self::follow`] after it.
    pub(super) fn take_back(&mut self, address: IpAddr) {
        if self.active.is_some() {
            self.address_probe.take_back(address);
        }
    }

    /// Returns true if this node claims this address.
    pub(super) fn claims(&self, address: IpAddr) -> bool {
        self.active.is_some() && self.address_probe.is_clear(address)
    }

    /// Returns true if this address was passed on to be announced.
    pub(super) fn announces(&self, address: IpAddr) -> bool {
        self.announced.contains(&address)
    }

    /// Returns true if this thread answers queries for this address: it is claimed, and not on the interface, where the kernel
    /// would.
    pub(super) fn answers(&self, address: IpAddr) -> bool {
        match self.hold {
            Hold::Respond => self.claims(address),
            Hold::Address => false,
            // The device that it is on is mute.
            Hold::Vmac => self.claims(address) && self.bound.contains(&address),
        }
    }

    /// Returns the addresses that may be claimed, if they have changed since the last call.
    pub(super) fn take_cleared(&mut self) -> Option<BTreeSet<IpAddr>> {
        self.address_probe.take_changed().then(|| self.address_probe.cleared().collect())
    }

    /// Returns the time at which [`Self::probes`] has something to do.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.active.and_then(|_| self.address_probe.deadline())
    }

    fn announce_changes(&mut self, changes: &mut Vec<AnnouncementChange>) {
        let ready = self.ready();
        if ready != self.announced {
            let added = ready.difference(&self.announced).copied().collect();
            changes.push(AnnouncementChange::Changed { all: ready.iter().copied().collect(), added });
            self.announced = ready;
        }
    }

    /// Addresses that may be announced: an address that is to be bound, not before it is (T18).
    fn ready(&self) -> BTreeSet<IpAddr> {
        let bound = |address: &IpAddr| match self.hold {
            Hold::Respond => true,
            Hold::Address | Hold::Vmac => self.bound.contains(address),
        };
        self.address_probe.cleared().filter(bound).collect()
    }
}
