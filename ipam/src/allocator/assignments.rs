//! Holders of addresses, and their terms.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use super::interned_terms::InternedTerms;
use crate::small_set::SmallSet;
use crate::table::Table;
use crate::{Owner, Terms};

/// Holders of addresses, both ways, and addresses by sharing key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignments<O: Eq + Hash> {
    holders: Table<Holders<O>>,
    holdings: HashMap<O, Holding>,
    terms: InternedTerms,
    /// Addresses held under each sharing key, with the number of holders that have it.
    shared: BTreeMap<String, BTreeMap<IpAddr, usize>>,
}

/// Holders of one address, nearly always one, in the order in which they joined; holders that gave way come last.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Holders<O> {
    One(O),
    Several(Vec<O>),
}

/// Place at which an owner joins the holders of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joining {
    /// Behind a predecessor with its stable key on the same terms, else last.
    AsSuccessor,
    /// Last: the order is that in which the cluster lists them.
    Last,
}

/// One that holds something.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Holding {
    terms: Arc<Terms>,
    held: SmallSet,
}

impl<O> Holders<O> {
    fn as_slice(&self) -> &[O] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(all) => all,
        }
    }
}

impl<O: Eq + Hash> Default for Assignments<O> {
    fn default() -> Self {
        Self {
            holders: Table::default(),
            holdings: HashMap::new(),
            terms: InternedTerms::default(),
            shared: BTreeMap::new(),
        }
    }
}

impl<O: Owner> Assignments<O> {
    /// Holders of `address`, in the order of joining.
    pub(super) fn holders(&self, address: IpAddr) -> &[O] {
        self.holders.get(address).map_or(&[], Holders::as_slice)
    }

    /// Addresses that `owner` holds, ascending.
    pub(super) fn held_by(&self, owner: &O) -> &[IpAddr] {
        self.holdings.get(owner).map_or(&[], |holding| holding.held.as_slice())
    }

    /// Terms on which `owner` holds its addresses.
    pub(super) fn terms(&self, owner: &O) -> Option<&Terms> {
        self.holdings.get(owner).map(|holding| &*holding.terms)
    }

    /// Every address that is held, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (IpAddr, &[O])> {
        self.holders.iter().map(|(address, holders)| (address, holders.as_slice()))
    }

    /// Every address that is held, in no particular order.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.holders.unordered().map(|(address, _)| address)
    }

    /// Addresses with a holder that has the sharing key, ascending.
    pub(super) fn shared(&self, key: &str) -> impl Iterator<Item = IpAddr> {
        self.shared.get(key).into_iter().flat_map(BTreeMap::keys).copied()
    }

    /// Moves `owner` to the end of the order of joining of `address`, if it does not fit others that hold it.
    pub(super) fn give_way(&mut self, address: IpAddr, owner: &O) {
        let Some(mine) = self.terms(owner) else { return };
        let others = self.holders(address).iter().filter(|other| *other != owner);
        let conflicts = others.filter_map(|other| self.terms(other)).any(|theirs| mine.fits(theirs).is_err());
        if let (true, Some(Holders::Several(all))) = (conflicts, self.holders.get_mut(address))
            && let Some(place) = all.iter().position(|one| one == owner)
        {
            all[place..].rotate_left(1);
        }
    }

    /// Changes the terms of `owner`; where they do not fit the others', it gives way.
    pub(super) fn set_terms(&mut self, owner: &O, terms: &Terms) {
        let Some(holding) = self.holdings.get_mut(owner) else { return };
        if *holding.terms == *terms {
            return;
        }
        let before = std::mem::replace(&mut holding.terms, self.terms.intern(terms));
        self.terms.release(&before);
        let held = holding.held.clone();
        for address in held.as_slice().iter().filter(|_| before.key() != terms.key()) {
            self.unindex_by_key(before.key(), *address);
            self.index_by_key(terms.key(), *address);
        }
        for address in held.as_slice() {
            self.give_way(*address, owner);
        }
    }

    /// Adds `owner`, which did not hold `address`, to its holders. Returns true if it had a holder.
    pub(super) fn join(&mut self, address: IpAddr, owner: &O, terms: &Terms, joining: Joining) -> bool {
        self.set_terms(owner, terms);
        if let Some(holding) = self.holdings.get_mut(owner) {
            holding.held.insert(address);
        } else {
            let terms = self.terms.intern(terms);
            let holding = Holding { terms, held: SmallSet::One(address) };
            self.holdings.insert(owner.clone(), holding);
        }
        self.index_by_key(terms.key(), address);
        let predecessor = match joining {
            Joining::AsSuccessor => self.place(address, owner, terms),
            Joining::Last => None,
        };
        let place = predecessor.map_or(self.holders(address).len(), |before| before + 1);
        match self.holders.get_mut(address) {
            Some(Holders::Several(all)) => all.insert(place, owner.clone()),
            Some(one @ Holders::One(_)) => {
                let mut all = one.as_slice().to_vec();
                all.insert(place, owner.clone());
                *one = Holders::Several(all);
            }
            None => {
                self.holders.insert(address, Holders::One(owner.clone()));
                return false;
            }
        }
        true
    }

    /// The place of `owner` among the holders of `address`, or of one with its stable key, which it succeeds; `None` if that one has it
    /// on other terms than these, or there is none.
    pub(super) fn place(&self, address: IpAddr, owner: &O, terms: &Terms) -> Option<usize> {
        let holders = self.holders(address);
        let own = holders.iter().position(|holder| holder == owner);
        let place =
            own.or_else(|| holders.iter().position(|holder| holder.stable_key() == owner.stable_key()))?;
        (self.terms(&holders[place]) == Some(terms)).then_some(place)
    }

    /// Removes `owner` from the holders of `address`. Returns true if it still has a holder; `None` if `owner` did not hold it.
    pub(super) fn leave(&mut self, address: IpAddr, owner: &O) -> Option<bool> {
        // Taken out at once, and put back where something stays, which is rare: each look-up among many waits for memory.
        let (name, holding) = self.holdings.remove_entry(owner)?;
        if !holding.held.as_slice().contains(&address) {
            self.holdings.insert(name, holding);
            return None;
        }
        self.unindex_by_key(holding.terms.key(), address);
        match holding.held.without(address) {
            Some(held) => drop(self.holdings.insert(name, Holding { held, ..holding })),
            None => self.terms.release(&holding.terms),
        }
        let Some(Holders::Several(mut others)) = self.holders.remove(address) else { return Some(false) };
        others.retain(|one| one != owner);
        let others = match <[O; 1]>::try_from(others) {
            Ok([last]) => Holders::One(last),
            Err(others) => Holders::Several(others),
        };
        self.holders.insert(address, others);
        Some(true)
    }

    fn index_by_key(&mut self, key: Option<&str>, address: IpAddr) {
        let Some(key) = key else { return };
        if !self.shared.contains_key(key) {
            self.shared.insert(key.to_owned(), BTreeMap::new());
        }
        if let Some(addresses) = self.shared.get_mut(key) {
            *addresses.entry(address).or_default() += 1;
        }
    }

    fn unindex_by_key(&mut self, key: Option<&str>, address: IpAddr) {
        let Some(key) = key else { return };
        let Some(addresses) = self.shared.get_mut(key) else { return };
        match addresses.get_mut(&address) {
            Some(times) if *times > 1 => *times -= 1,
            Some(_) | None => {
                addresses.remove(&address);
            }
        }
        if addresses.is_empty() {
            self.shared.remove(key);
        }
    }
}
