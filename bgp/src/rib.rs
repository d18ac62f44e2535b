//! Routes that a peer is to have and those that it was sent (Adj-RIB-Out, RFC 4271 §3.2).
//!
//! The next message is made from the difference when the connection can take it. So a prefix that changes often while the peer is slow
//! costs one message, and memory is bounded by the prefixes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::units::{Family, Prefix};
use crate::wire::{Attributes, Peering, announce, end_of_rib, withdraw};

#[cfg(test)]
mod tests;

/// Routes of one peer.
#[derive(Clone, Debug, Default)]
pub struct RibOut {
    desired: BTreeMap<Prefix, Arc<Attributes>>,
    /// Form of the routes; `None` without an established session.
    peering: Option<Peering>,
    /// Encoded attributes of the routes that the peer was sent. Those of a stale route are empty, and so differ from any desired ones.
    sent: BTreeMap<Prefix, Arc<[u8]>>,
    withdrawals: BTreeSet<Prefix>,
    announcements: BTreeMap<(Family, Arc<[u8]>), BTreeSet<Prefix>>,
    /// Families of which the first full table is not sent yet.
    ends_of_rib: BTreeSet<Family>,
}

impl RibOut {
    /// Replaces the desired routes.
    pub fn set(&mut self, desired: BTreeMap<Prefix, Arc<Attributes>>) {
        self.desired = desired;
        self.compare();
    }

    /// Starts a session: the peer has no route.
    pub fn open(&mut self, peering: Peering) {
        self.sent.clear();
        self.ends_of_rib =
            Family::ALL.into_iter().filter(|family| peering.next_hop(*family).is_some()).collect();
        self.peering = Some(peering);
        self.compare();
    }

    /// Ends the session: the peer drops all routes.
    pub fn close(&mut self) {
        self.peering = None;
        self.sent.clear();
        self.ends_of_rib.clear();
        self.compare();
    }

    /// Sends all routes of a family again. A route that is withdrawn meanwhile still counts as sent, or the peer would keep it.
    pub fn refresh(&mut self, family: Family) {
        let stale = Arc::from([]);
        for (_, attributes) in self.sent.iter_mut().filter(|(prefix, _)| prefix.family() == family) {
            *attributes = Arc::clone(&stale);
        }
        self.compare();
    }

    /// Number of prefixes that the peer was sent.
    pub fn sent(&self) -> usize {
        self.sent.len()
    }

    /// Returns true if there is no message to send.
    pub fn is_converged(&self) -> bool {
        self.withdrawals.is_empty() && self.announcements.is_empty() && self.ends_of_rib.is_empty()
    }

    /// Appends the next UPDATE and counts it as sent: withdrawals first, then announcements, then the End-of-RIB markers. Returns false
    /// if there is none.
    pub fn next_update(&mut self, out: &mut Vec<u8>) -> bool {
        self.next_withdrawal(out) || self.next_announcement(out) || self.next_end_of_rib(out)
    }

    fn next_withdrawal(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(family) = self.withdrawals.first().map(|prefix| prefix.family()) else { return false };
        let prefixes = self.withdrawals.iter().copied().take_while(|prefix| prefix.family() == family);
        for _ in 0..withdraw(out, family, prefixes) {
            if let Some(prefix) = self.withdrawals.pop_first() {
                self.sent.remove(&prefix);
            }
        }
        true
    }

    fn next_announcement(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(mut entry) = self.announcements.first_entry() else { return false };
        let (family, attributes) = entry.key().clone();
        let next_hop = self.peering.as_ref().and_then(|peering| peering.next_hop(family));
        let Some(next_hop) = next_hop else { return false };
        let prefixes = entry.get_mut();
        for _ in 0..announce(out, family, next_hop, &attributes, prefixes.iter().copied()) {
            if let Some(prefix) = prefixes.pop_first() {
                self.sent.insert(prefix, Arc::clone(&attributes));
            }
        }
        if prefixes.is_empty() {
            entry.remove();
        }
        true
    }

    fn next_end_of_rib(&mut self, out: &mut Vec<u8>) -> bool {
        let family = self.ends_of_rib.pop_first();
        family.is_some_and(|family| {
            end_of_rib(out, family);
            true
        })
    }

    /// Finds what differs between the desired routes, in the form that this peer reads, and those sent.
    fn compare(&mut self) {
        self.withdrawals.clear();
        self.announcements.clear();
        let Some(peering) = &self.peering else { return };
        let gone = self.sent.keys().filter(|prefix| !self.desired.contains_key(prefix));
        self.withdrawals.extend(gone);
        let mut forms: BTreeMap<(Family, &Arc<Attributes>), Arc<[u8]>> = BTreeMap::new();
        for (prefix, attributes) in &self.desired {
            let family = prefix.family();
            let Some(next_hop) = peering.next_hop(family) else { continue };
            let form = forms.entry((family, attributes));
            let form = form.or_insert_with(|| attributes.encode(peering, next_hop).into());
            if self.sent.get(prefix) != Some(form) {
                self.announcements.entry((family, Arc::clone(form))).or_default().insert(*prefix);
            }
        }
    }
}
