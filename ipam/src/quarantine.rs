//! Addresses that nobody has and nobody may be given for now.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::Moment;

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

/// Everything that is kept back, also by the time at which it is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ward<O> {
    entries: BTreeMap<IpAddr, Quarantined<O>>,
    due: BTreeSet<(Moment, IpAddr)>,
}

impl<O> Default for Ward<O> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), due: BTreeSet::new() }
    }
}

impl<O> Ward<O> {
    /// Keeps `address` back; says whether it was already.
    pub(crate) fn insert(&mut self, address: IpAddr, entry: Quarantined<O>) -> bool {
        self.due.insert((entry.until, address));
        let until = entry.until;
        match self.entries.insert(address, entry) {
            Some(old) => {
                if old.until != until {
                    self.due.remove(&(old.until, address));
                }
                true
            }
            None => false,
        }
    }

    pub(crate) fn remove(&mut self, address: IpAddr) -> Option<Quarantined<O>> {
        if self.entries.is_empty() {
            return None;
        }
        let entry = self.entries.remove(&address)?;
        self.due.remove(&(entry.until, address));
        Some(entry)
    }

    pub(crate) fn get(&self, address: IpAddr) -> Option<&Quarantined<O>> {
        self.entries.get(&address)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (IpAddr, &Quarantined<O>)> {
        self.entries.iter().map(|(address, entry)| (*address, entry))
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
