//! Addresses that nobody has and nobody may be given for now.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use crate::{Moment, Owner};

/// The first of all addresses, as they are ordered.
const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

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
    entries: BTreeMap<IpAddr, Quarantined<O>>,
    index: Index<O>,
}

/// The same by what is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Index<O: Owner> {
    /// By the time at which it is due.
    due: BTreeSet<(Moment, IpAddr)>,
    /// What was released, by those who had it.
    parties: BTreeSet<(O::Party, IpAddr)>,
}

impl<O: Owner> Index<O> {
    fn list(&mut self, address: IpAddr, entry: &Quarantined<O>) {
        self.due.insert((entry.until, address));
        for owner in entry.heirs() {
            self.parties.insert((owner.party(), address));
        }
    }

    fn unlist(&mut self, address: IpAddr, entry: &Quarantined<O>) {
        self.due.remove(&(entry.until, address));
        for owner in entry.heirs() {
            self.parties.remove(&(owner.party(), address));
        }
    }
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
        let index = Index { due: BTreeSet::new(), parties: BTreeSet::new() };
        Self { entries: BTreeMap::new(), index }
    }
}

impl<O: Owner> Ward<O> {
    /// Keeps `address` back; says whether it was already.
    pub(crate) fn insert(&mut self, address: IpAddr, entry: Quarantined<O>) -> bool {
        match self.entries.entry(address) {
            Entry::Occupied(mut known) => {
                self.index.unlist(address, known.get());
                self.index.list(address, &entry);
                known.insert(entry);
                true
            }
            Entry::Vacant(place) => {
                self.index.list(address, &entry);
                place.insert(entry);
                false
            }
        }
    }

    pub(crate) fn remove(&mut self, address: IpAddr) -> Option<Quarantined<O>> {
        if self.entries.is_empty() {
            return None;
        }
        let entry = self.entries.remove(&address)?;
        self.index.unlist(address, &entry);
        Some(entry)
    }

    /// What `owner`, or one that it succeeds, let go of, ascending.
    pub(crate) fn kept_for(&self, owner: &O) -> Vec<IpAddr> {
        if self.index.parties.is_empty() {
            return Vec::new();
        }
        let first = (owner.party(), FIRST);
        let from = self.index.parties.range::<(O::Party, IpAddr), _>(&first..);
        from.take_while(|(party, _)| *party == first.0).map(|(_, address)| *address).collect()
    }

    /// Whether `owner`, or one that it succeeds, let go of `address`.
    pub(crate) fn is_kept_for(&self, address: IpAddr, owner: &O) -> bool {
        self.index.parties.contains(&(owner.party(), address))
    }

    pub(crate) fn get(&self, address: IpAddr) -> Option<&Quarantined<O>> {
        self.entries.get(&address)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (IpAddr, &Quarantined<O>)> {
        self.entries.iter().map(|(address, entry)| (*address, entry))
    }

    /// Those whose time is over at `now`, the earliest first.
    pub(crate) fn due(&self, now: Moment) -> impl Iterator<Item = IpAddr> {
        self.index.due.iter().take_while(move |(until, _)| *until <= now).map(|(_, address)| *address)
    }

    /// When the next one is due.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.index.due.first().map(|(until, _)| *until)
    }
}
