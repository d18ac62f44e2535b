//! Decides which of a virtual router's addresses may be claimed, without clock or socket.
//!
//! ```text
//!              takeover from a peer that can have served it, or no probe configured
//! Unproven ─────────────────────────────────────────────────► Clear (for good; of a doubtful address: until demoted)
//!    │ ▲ demoted                                                ▲
//!    ▼ │                                nobody answered         │
//! Probing ──────────────────────────────────────────────────────┘
//!    │ ▲ a second later, for the first ten seconds, then a minute later
//!    ▼ │
//!  Taken (another host answered) ── demoted ─► Suspect: Unproven, and doubtful for a minute
//!
//! Probing ── another host answered, of what is to be claimed all the same ─► Clear
//! Clear ── takeover from a peer, of what is to be claimed all the same ─► Probing, claimed meanwhile ─► Clear
//! Clear ── contested, and to be yielded ─► Probing, claimed meanwhile ── nobody answered ─► Clear
//! Clear ── a peer goes first ────────────► Probing, claimed meanwhile ── it answered ─► Taken ── it has gone ─► Clear
//! ```
//!
//! A peer goes first that is Active for the address in a virtual router which this node does not run ([`super::peer_adverts`]).
//!
//! An address is doubtful if no peer is known to have claimed it ([`crate::RouterConfig::unproven`]), or if this node has just
//! found another host to have it: a peer that was Active before may have announced it no more than this node did. It is asked for
//! at every takeover. The peer's own answers are no conflict: it receives the advert of the node that takes over first, and the
//! question waits until it has. A claim before the first question is no answer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_vrrp::Time;

use super::TRANSIT_TIME;
use crate::core::predecessor::Predecessor;

#[cfg(test)]
mod tests;

/// Probes sent for an address, spread over the time it is probed for. More would cost the first claim time; a packet lost
/// twice on a LAN is rare, and a conflict that is seen later is reported all the same.
const PROBES: u32 = 2;
/// Time until an address that is taken is asked for again, and reported again.
const RETRY: Duration = Duration::from_mins(1);
/// Time for which it is asked for sooner: a VIP that moves from one virtual router to another is held by the old one's Active until
/// that has learnt of it too.
const EARLY_RETRY_PERIOD: Duration = Duration::from_secs(10);
const EARLY_RETRY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ProbeState {
    /// Not asked for yet, or the answer was not waited for.
    Unprobed,
    /// Likewise, and when this node was Active last it found another host to have it.
    Suspect {
        since: Time,
    },
    /// Asked for `sent` times; at `due` comes the next question or, after the last, the claim.
    Probing {
        sent: u32,
        due: Time,
        /// Another host had it when it was asked for before.
        host: Option<ConflictingHost>,
        /// True if it may be claimed until another host answers: it was claimed when the other claim came.
        claimed: bool,
        /// Presumed holder of the address.
        claimant: Claimant,
    },
    Clear,
    /// Another host has it.
    Taken {
        retry: Time,
        host: ConflictingHost,
        claimant: Claimant,
    },
}

/// Presumed holder of an address beside this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Claimant {
    /// Any host.
    Host,
    /// A peer, as its adverts say.
    Peer,
}

impl ProbeState {
    fn is_claimed(&self) -> bool {
        match self {
            Self::Clear | Self::Probing { claimed: true, .. } => true,
            Self::Unprobed
            | Self::Suspect { .. }
            | Self::Probing { claimed: false, .. }
            | Self::Taken { .. } => false,
        }
    }
}

/// Times at which another host was found to have an address, first and last, and of the last report of that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ConflictingHost {
    found: Time,
    seen: Time,
    reported: Time,
}

/// The addresses of one virtual router.
#[derive(Debug, Default)]
pub(super) struct AddressProbe {
    states: BTreeMap<IpAddr, ProbeState>,
    /// Addresses that no peer is known to have claimed.
    unproven: Arc<BTreeSet<IpAddr>>,
    /// Addresses that are claimed even if another host has them.
    forced: Arc<BTreeSet<IpAddr>>,
    /// Time to ask for; `None` while it does not act as Active or need not ask.
    probe: Option<Duration>,
    /// Addresses that are [`ProbeState::Probing`] or [`ProbeState::Taken`]: of thousands few, and only they are waited for.
    open: BTreeSet<IpAddr>,
    changed: bool,
}

/// Meaning of another host's claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClaimOutcome {
    /// Nothing: the address is not asked for, or the last report that it is taken is less than a minute old.
    Irrelevant,
    /// The address was asked for, and it is taken.
    Taken,
    /// The address was asked for because a peer goes first, and it is left to that peer.
    LeftToPeer,
    /// The address is cleared, so two hosts claim it.
    Conflict,
    /// The address was asked for, it is taken, and it is cleared all the same: from now on two claim it.
    Forced,
}

impl AddressProbe {
    /// Sets the router's addresses. Call [`Self::activate`] after it while it is Active.
    pub(super) fn set_addresses(&mut self, addresses: &[IpAddr]) {
        let old = std::mem::take(&mut self.states);
        self.states = addresses
            .iter()
            .map(|address| (*address, old.get(address).copied().unwrap_or(ProbeState::Unprobed)))
            .collect();
        self.changed = true;
        self.update_open();
    }

    /// Sets the addresses that are not known to have been claimed by a peer. Returns true if they have changed.
    pub(super) fn set_unproven(&mut self, unproven: &Arc<BTreeSet<IpAddr>>) -> bool {
        let before = std::mem::replace(&mut self.unproven, Arc::clone(unproven));
        !Arc::ptr_eq(&before, unproven)
    }

    /// Sets the addresses that are claimed although another host has them: also if that was found before.
    pub(super) fn set_forced(&mut self, forced: &Arc<BTreeSet<IpAddr>>) {
        if Arc::ptr_eq(&self.forced, forced) {
            return;
        }
        self.forced = Arc::clone(forced);
        let is_taken = |address: &IpAddr| matches!(self.states.get(address), Some(ProbeState::Taken { .. }));
        let taken: Vec<IpAddr> =
            self.open.intersection(forced).copied().filter(|address| is_taken(address)).collect();
        for address in taken {
            self.states.insert(address, ProbeState::Clear);
            self.open.remove(&address);
            self.changed = true;
        }
    }

    /// Clears those of these addresses that were not asked for yet.
    pub(super) fn clear(&mut self, addresses: &BTreeSet<IpAddr>) {
        for (_, state) in self.states.iter_mut().filter(|(address, _)| addresses.contains(*address)) {
            if *state == ProbeState::Unprobed {
                *state = ProbeState::Clear;
                self.changed = true;
            }
        }
    }

    /// Starts to claim what is not cleared, now that the router is Active: an address that may be another host's after it has asked
    /// for this long, all others immediately.
    pub(super) fn activate(&mut self, probe: Option<Duration>, predecessor: Predecessor, now: Time) {
        self.probe = probe;
        let due = match predecessor {
            Predecessor::Nobody => now,
            Predecessor::Recent | Predecessor::Established => now + TRANSIT_TIME,
        };
        for (address, state) in &mut self.states {
            let is_recent = match *state {
                ProbeState::Suspect { since } => now.since(since) < RETRY,
                ProbeState::Unprobed
                | ProbeState::Probing { .. }
                | ProbeState::Clear
                | ProbeState::Taken { .. } => false,
            };
            let asks = match predecessor {
                Predecessor::Nobody | Predecessor::Recent => true,
                Predecessor::Established => is_recent || self.unproven.contains(address),
            };
            // Only the peer has observed the other host. The address stays in service meanwhile.
            let asks_claiming =
                probe.is_some() && predecessor != Predecessor::Nobody && self.forced.contains(address);
            let next = match (*state, probe.filter(|_| asks)) {
                (ProbeState::Clear, _) | (ProbeState::Unprobed | ProbeState::Suspect { .. }, None)
                    if asks_claiming =>
                {
                    ProbeState::Probing { sent: 0, due, host: None, claimed: true, claimant: Claimant::Host }
                }
                (ProbeState::Clear, _) | (ProbeState::Probing { .. } | ProbeState::Taken { .. }, Some(_)) => {
                    continue;
                }
                (ProbeState::Unprobed | ProbeState::Suspect { .. }, Some(_)) => {
                    ProbeState::Probing { sent: 0, due, host: None, claimed: false, claimant: Claimant::Host }
                }
                (
                    ProbeState::Unprobed
                    | ProbeState::Suspect { .. }
                    | ProbeState::Probing { .. }
                    | ProbeState::Taken { .. },
                    None,
                ) => ProbeState::Clear,
            };
            *state = next;
            self.changed = true;
        }
        self.update_open();
    }

    /// Records that the router is not Active. What was cleared stays so, unless no peer is known to have claimed it.
    pub(super) fn deactivate(&mut self) {
        self.probe = None;
        for (address, state) in &mut self.states {
            let next = match *state {
                ProbeState::Probing { host: Some(host), claimant: Claimant::Host, .. }
                | ProbeState::Taken { host, claimant: Claimant::Host, .. } => {
                    ProbeState::Suspect { since: host.seen }
                }
                ProbeState::Clear
                | ProbeState::Probing { host: None, claimed: true, .. }
                | ProbeState::Probing { claimant: Claimant::Peer, .. }
                | ProbeState::Taken { claimant: Claimant::Peer, .. }
                    if !self.unproven.contains(address) =>
                {
                    ProbeState::Clear
                }
                ProbeState::Clear | ProbeState::Probing { .. } | ProbeState::Taken { .. } => {
                    ProbeState::Unprobed
                }
                ProbeState::Unprobed | ProbeState::Suspect { .. } => continue,
            };
            self.changed |= state.is_claimed() != (next == ProbeState::Clear);
            *state = next;
        }
        self.update_open();
    }

    /// Asks for an address that is claimed here and that another host claims. It stays claimed until a host answers.
    pub(super) fn contest(&mut self, address: IpAddr, claimant: Claimant, now: Time) {
        if self.probe.is_some()
            && let Some(state) = self.states.get_mut(&address)
            && *state == ProbeState::Clear
        {
            *state = ProbeState::Probing { sent: 0, due: now, host: None, claimed: true, claimant };
            self.open.insert(address);
        }
    }

    /// Claims an address again if it was left to a peer, which has announced that it has it no longer.
    pub(super) fn take_back(&mut self, address: IpAddr) {
        if let Some(state) = self.states.get_mut(&address)
            && matches!(
                state,
                ProbeState::Probing { claimant: Claimant::Peer, .. }
                    | ProbeState::Taken { claimant: Claimant::Peer, .. }
            )
        {
            *state = ProbeState::Clear;
            self.open.remove(&address);
            self.changed = true;
        }
    }

    /// Claims all addresses again that were left to peers.
    pub(super) fn take_all_back(&mut self) {
        for address in self.open.clone() {
            self.take_back(address);
        }
    }

    /// Returns up to `limit` addresses to ask for now; clears those that no host answered for. All that came in until `read_until`
    /// was read: an answer that this process, frozen or late, has not read yet counts.
    pub(super) fn due(&mut self, now: Time, read_until: Time, limit: usize) -> Vec<IpAddr> {
        let Some(probe) = self.probe.filter(|_| !self.open.is_empty()) else { return Vec::new() };
        let (mut ask, mut closed) = (Vec::new(), Vec::new());
        for address in &self.open {
            let Some(state) = self.states.get_mut(address) else { continue };
            let (sent, host, claimed, claimant) = match *state {
                ProbeState::Probing { sent: PROBES, due, .. } if due > read_until => continue,
                ProbeState::Probing { sent, due, host, claimed, claimant } if due <= now => {
                    (sent, host, claimed, claimant)
                }
                ProbeState::Taken { retry, host, claimant } if retry <= now => {
                    (0, Some(host), false, claimant)
                }
                ProbeState::Unprobed
                | ProbeState::Suspect { .. }
                | ProbeState::Clear
                | ProbeState::Probing { .. }
                | ProbeState::Taken { .. } => continue,
            };
            if sent == PROBES {
                *state = ProbeState::Clear;
                closed.push(*address);
            } else if ask.len() < limit {
                let due = now + probe.checked_div(PROBES).unwrap_or_default();
                *state = ProbeState::Probing { sent: sent.saturating_add(1), due, host, claimed, claimant };
                ask.push(*address);
            }
        }
        self.changed |= !closed.is_empty();
        for address in closed {
            self.open.remove(&address);
        }
        ask
    }

    /// Records that another host claims an address. Returns what that means.
    pub(super) fn note_claim(&mut self, address: IpAddr, now: Time) -> ClaimOutcome {
        let Some(state) = self.states.get_mut(&address) else { return ClaimOutcome::Irrelevant };
        match state {
            ProbeState::Probing { sent: 0, .. }
            | ProbeState::Unprobed
            | ProbeState::Suspect { .. }
            | ProbeState::Taken { .. } => ClaimOutcome::Irrelevant,
            ProbeState::Probing { claimed, claimant: Claimant::Host, .. }
                if self.forced.contains(&address) =>
            {
                self.changed |= !*claimed;
                *state = ProbeState::Clear;
                self.open.remove(&address);
                ClaimOutcome::Forced
            }
            ProbeState::Probing { host, claimed, claimant, .. } => {
                let claimant = *claimant;
                self.changed |= *claimed;
                let is_due = |host: &ConflictingHost| now.since(host.reported) >= RETRY;
                let report = host.as_ref().is_none_or(is_due);
                let found = host.map_or(now, |host| host.found);
                let reported = host.filter(|_| !report).map_or(now, |host| host.reported);
                let is_early = claimant == Claimant::Peer || now.since(found) < EARLY_RETRY_PERIOD;
                let pause = if is_early { EARLY_RETRY } else { RETRY };
                *state = ProbeState::Taken {
                    retry: now + pause,
                    host: ConflictingHost { found, seen: now, reported },
                    claimant,
                };
                match claimant {
                    Claimant::Peer => ClaimOutcome::LeftToPeer,
                    Claimant::Host if report => ClaimOutcome::Taken,
                    Claimant::Host => ClaimOutcome::Irrelevant,
                }
            }
            ProbeState::Clear => ClaimOutcome::Conflict,
        }
    }

    /// Returns true if this address may be claimed.
    pub(super) fn is_clear(&self, address: IpAddr) -> bool {
        self.states.get(&address).is_some_and(ProbeState::is_claimed)
    }

    /// Returns the addresses that may be claimed.
    pub(super) fn cleared(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.states.iter().filter(|(_, state)| state.is_claimed()).map(|(address, _)| *address)
    }

    /// Returns true if [`Self::cleared`] may have changed since [`Self::take_changed`] was last called.
    pub(super) fn has_changed(&self) -> bool {
        self.changed
    }

    /// Returns true if [`Self::cleared`] may have changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Returns the time at which [`Self::due`] has something to do.
    pub(super) fn deadline(&self) -> Option<Time> {
        let open = self.open.iter().filter_map(|address| self.states.get(address));
        let deadlines = open.filter_map(|state| match state {
            ProbeState::Probing { due, .. } => Some(*due),
            ProbeState::Taken { retry, .. } => Some(*retry),
            ProbeState::Unprobed | ProbeState::Suspect { .. } | ProbeState::Clear => None,
        });
        deadlines.min()
    }

    fn update_open(&mut self) {
        let open =
            |state: &&ProbeState| matches!(state, ProbeState::Probing { .. } | ProbeState::Taken { .. });
        self.open =
            self.states.iter().filter(|(_, state)| open(state)).map(|(address, _)| *address).collect();
    }
}
