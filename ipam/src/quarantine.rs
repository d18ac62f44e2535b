//! Addresses that have no holder and may not be given for now.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use crate::small_set::SmallSet;
use crate::table::Table;
use crate::{Moment, Owner};

/// An address that is kept back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined<O> {
    /// Last holders: one, several that shared it, or none.
    pub former: Vec<O>,
    /// End of the quarantine.
    pub until: Moment,
    /// Reason why it is kept back.
    pub reason: QuarantineCause,
    /// True if none of its last holders exists any more: it gives way where nothing else is free.
    pub is_abandoned: bool,
}

/// Reason why an address is kept back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuarantineCause {
    /// Its holder released it; the holder or its successor may have it back immediately.
    Released,
    /// Another host of the LAN has it: no owner may have it.
    AddressTaken,
}

/// Everything that is kept back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Quarantine<O: Owner> {
    entries: Table<Quarantined<O>>,
    /// By the time at which it is due.
    due: BTreeSet<(Moment, IpAddr)>,
    /// Released addresses, by the owners that may have them back.
    claimants: HashMap<O::StableKey, SmallSet>,
}

impl<O> Quarantined<O> {
    /// Owners that may have it back, or whose successors may.
    pub(crate) fn claimants(&self) -> &[O] {
        match self.reason {
            QuarantineCause::Released => &self.former,
            QuarantineCause::AddressTaken => &[],
        }
    }

    /// End of the quarantine, if the address gives way earlier where nothing else is free.
    pub(crate) fn yields(&self) -> Option<Moment> {
        match self.reason {
            QuarantineCause::Released => self.is_abandoned.then_some(self.until),
            QuarantineCause::AddressTaken => None,
        }
    }
}

impl<O: Owner> Default for Quarantine<O> {
    fn default() -> Self {
        Self { entries: Table::default(), due: BTreeSet::new(), claimants: HashMap::new() }
    }
}

impl<O: Owner> Quarantine<O> {
    /// Keeps `address` back; returns how it was already.
    pub(crate) fn insert(&mut self, address: IpAddr, entry: Quarantined<O>) -> Option<Quarantined<O>> {
        let known = self.remove(address);
        self.due.insert((entry.until, address));
        for owner in entry.claimants() {
            match self.claimants.entry(owner.stable_key()) {
                Entry::Occupied(mut addresses) => addresses.get_mut().insert(address),
                Entry::Vacant(place) => drop(place.insert(SmallSet::One(address))),
            }
        }
        self.entries.insert(address, entry);
        known
    }

    pub(crate) fn remove(&mut self, address: IpAddr) -> Option<Quarantined<O>> {
        if self.due.is_empty() {
            return None;
        }
        let entry = self.entries.remove(address)?;
        self.due.remove(&(entry.until, address));
        for owner in entry.claimants() {
            if let Entry::Occupied(mut addresses) = self.claimants.entry(owner.stable_key()) {
                match addresses.get().without(address) {
                    Some(others) => drop(addresses.insert(others)),
                    None => drop(addresses.remove()),
                }
            }
        }
        Some(entry)
    }

    /// Addresses that `owner`, or one that it succeeds, released, ascending.
    pub(crate) fn kept_for(&self, owner: &O) -> &[IpAddr] {
        if self.claimants.is_empty() {
            return &[];
        }
        self.claimants.get(&owner.stable_key()).map_or(&[], SmallSet::as_slice)
    }

    pub(crate) fn get(&self, address: IpAddr) -> Option<&Quarantined<O>> {
        self.entries.get(address)
    }

    /// Every address and why, in no particular order.
    pub(crate) fn unordered(&self) -> impl Iterator<Item = (IpAddr, &Quarantined<O>)> {
        self.entries.unordered()
    }

    /// Every address and why, ascending. Sorts: O(n log n).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (IpAddr, &Quarantined<O>)> {
        self.entries.iter()
    }

    /// Addresses whose quarantine has expired at `now`, the earliest first.
    pub(crate) fn due(&self, now: Moment) -> impl Iterator<Item = IpAddr> {
        self.due.iter().take_while(move |(until, _)| *until <= now).map(|(_, address)| *address)
    }

    /// Time at which the next one is due.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.due.first().map(|(until, _)| *until)
    }
}
