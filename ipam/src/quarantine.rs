//! Addresses that nobody has and nobody may be given for now.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use crate::few::Few;
use crate::table::Table;
use crate::{Moment, Owner};

/// An address that is kept back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined<O> {
    /// Who held it last: one, several that shared it, or nobody.
    pub former: Vec<O>,
    /// Until when.
    pub until: Moment,
    /// Why.
    pub reason: Reason,
}

/// Why an address is kept back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Its holder let go of it; it or its successor may have it back at once.
    Released,
    /// Another station of the LAN has it: nobody may have it.
    AddressTaken,
}

/// Everything that is kept back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ward<O: Owner> {
    entries: Table<Quarantined<O>>,
    /// By the time at which it is due.
    due: BTreeSet<(Moment, IpAddr)>,
    /// What was released, by those who may have it back.
    heirs: HashMap<O::Party, Few>,
}

impl<O> Quarantined<O> {
    /// Those who, or whose successors, may have it back.
    fn heirs(&self) -> &[O] {
        match self.reason {
            Reason::Released => &self.former,
            Reason::AddressTaken => &[],
        }
    }
}

impl<O: Owner> Default for Ward<O> {
    fn default() -> Self {
        Self { entries: Table::default(), due: BTreeSet::new(), heirs: HashMap::new() }
    }
}

impl<O: Owner> Ward<O> {
    /// Keeps `address` back; says whether it was already.
    pub(crate) fn insert(&mut self, address: IpAddr, entry: Quarantined<O>) -> bool {
        let known = self.remove(address).is_some();
        self.due.insert((entry.until, address));
        for owner in entry.heirs() {
            match self.heirs.entry(owner.party()) {
                Entry::Occupied(mut few) => few.get_mut().insert(address),
                Entry::Vacant(place) => drop(place.insert(Few::One(address))),
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
        for owner in entry.heirs() {
            if let Entry::Occupied(mut few) = self.heirs.entry(owner.party()) {
                match few.get().without(address) {
                    Some(others) => drop(few.insert(others)),
                    None => drop(few.remove()),
                }
            }
        }
        Some(entry)
    }

    /// What `owner`, or one that it succeeds, let go of, ascending.
    pub(crate) fn kept_for(&self, owner: &O) -> &[IpAddr] {
        if self.heirs.is_empty() {
            return &[];
        }
        self.heirs.get(&owner.party()).map_or(&[], Few::as_slice)
    }

    pub(crate) fn get(&self, address: IpAddr) -> Option<&Quarantined<O>> {
        self.entries.get(address)
    }

    /// Every address.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.due.iter().map(|(_, address)| *address)
    }

    /// Every address and why, ascending. Sorts: O(n log n).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (IpAddr, &Quarantined<O>)> {
        self.entries.iter()
    }

    /// Those whose time is over at `now`, the earliest first.
    pub(crate) fn due(&self, now: Moment) -> impl Iterator<Item = IpAddr> {
        self.due.iter().take_while(move |(until, _)| *until <= now).map(|(_, address)| *address)
    }

    /// When the next one is due.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.due.first().map(|(until, _)| *until)
    }
}
