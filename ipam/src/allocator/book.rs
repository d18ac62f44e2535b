//! Who holds what, on which terms.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use super::known::KnownTerms;
use crate::few::Few;
use crate::table::Table;
use crate::{Owner, Terms};

/// Holders of addresses, both ways, and addresses by sharing key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Book<O: Eq + Hash> {
    holders: Table<Holders<O>>,
    parties: HashMap<O, Party>,
    terms: KnownTerms,
    /// For each sharing key the addresses held by parties with it, and by how many.
    shared: BTreeMap<String, BTreeMap<IpAddr, usize>>,
}

/// Those who hold one address, nearly always one, in the order in which they joined; those that gave way come last.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Holders<O> {
    One(O),
    Several(Vec<O>),
}

/// One that holds something.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Party {
    terms: Arc<Terms>,
    held: Few,
}

impl<O> Holders<O> {
    fn as_slice(&self) -> &[O] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(all) => all,
        }
    }
}

impl<O: Eq + Hash> Default for Book<O> {
    fn default() -> Self {
        Self {
            holders: Table::default(),
            parties: HashMap::new(),
            terms: KnownTerms::default(),
            shared: BTreeMap::new(),
        }
    }
}

impl<O: Owner> Book<O> {
    /// Who holds `address`, in the order of joining.
    pub(super) fn holders(&self, address: IpAddr) -> &[O] {
        self.holders.get(address).map_or(&[], Holders::as_slice)
    }

    /// What `owner` holds, ascending.
    pub(super) fn held_by(&self, owner: &O) -> &[IpAddr] {
        self.parties.get(owner).map_or(&[], |party| party.held.as_slice())
    }

    /// How `owner` uses what it holds.
    pub(super) fn terms(&self, owner: &O) -> Option<&Terms> {
        self.parties.get(owner).map(|party| &*party.terms)
    }

    /// Every address that is held, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (IpAddr, &[O])> {
        self.holders.iter().map(|(address, holders)| (address, holders.as_slice()))
    }

    /// Every address that is held, in no particular order.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.holders.unordered().map(|(address, _)| address)
    }

    /// Addresses held by somebody with the sharing key, ascending.
    pub(super) fn shared(&self, key: &str) -> impl Iterator<Item = IpAddr> {
        self.shared.get(key).into_iter().flat_map(BTreeMap::keys).copied()
    }

    /// If `owner` does not fit others that hold `address`, it counts from now on as the last that joined them.
    pub(super) fn give_way(&mut self, address: IpAddr, owner: &O) {
        let Some(mine) = self.terms(owner) else { return };
        let others = self.holders(address).iter().filter(|other| *other != owner);
        let clashes = others.filter_map(|other| self.terms(other)).any(|theirs| mine.fits(theirs).is_err());
        if let (true, Some(Holders::Several(all))) = (clashes, self.holders.get_mut(address))
            && let Some(place) = all.iter().position(|one| one == owner)
        {
            all[place..].rotate_left(1);
        }
    }

    /// `owner` uses what it holds on these terms; where they do not fit the others', it gives way.
    pub(super) fn set_terms(&mut self, owner: &O, terms: &Terms) {
        let Some(party) = self.parties.get_mut(owner) else { return };
        if *party.terms == *terms {
            return;
        }
        let before = std::mem::replace(&mut party.terms, self.terms.keep(terms));
        self.terms.forget(&before);
        let held = party.held.clone();
        for address in held.as_slice().iter().filter(|_| before.key() != terms.key()) {
            self.unlist(before.key(), *address);
            self.list(terms.key(), *address);
        }
        for address in held.as_slice() {
            self.give_way(*address, owner);
        }
    }

    /// `owner` holds `address` besides those who do, as the last, or at the place of one of its party on the same terms. It did
    /// not. Says whether anybody did.
    pub(super) fn join(&mut self, address: IpAddr, owner: &O, terms: &Terms) -> bool {
        self.set_terms(owner, terms);
        if let Some(party) = self.parties.get_mut(owner) {
            party.held.insert(address);
        } else {
            let terms = self.terms.keep(terms);
            let party = Party { terms, held: Few::One(address) };
            self.parties.insert(owner.clone(), party);
        }
        self.list(terms.key(), address);
        let place =
            self.place(address, owner, terms).map_or(self.holders(address).len(), |before| before + 1);
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

    /// The place of `owner` among the holders of `address`, or of one of its party that it succeeds; `None` if that one has it
    /// on other terms than these, or there is none.
    pub(super) fn place(&self, address: IpAddr, owner: &O, terms: &Terms) -> Option<usize> {
        let holders = self.holders(address);
        let own = holders.iter().position(|holder| holder == owner);
        let place = own.or_else(|| holders.iter().position(|holder| holder.party() == owner.party()))?;
        (self.terms(&holders[place]) == Some(terms)).then_some(place)
    }

    /// `owner` holds `address` no more. Says whether anybody does; `None`: it held it not.
    pub(super) fn leave(&mut self, address: IpAddr, owner: &O) -> Option<bool> {
        // Taken out at once, and put back where something stays, which is rare: each look-up among many waits for memory.
        let (name, party) = self.parties.remove_entry(owner)?;
        if !party.held.as_slice().contains(&address) {
            self.parties.insert(name, party);
            return None;
        }
        self.unlist(party.terms.key(), address);
        match party.held.without(address) {
            Some(held) => drop(self.parties.insert(name, Party { held, ..party })),
            None => self.terms.forget(&party.terms),
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

    fn list(&mut self, key: Option<&str>, address: IpAddr) {
        let Some(key) = key else { return };
        if !self.shared.contains_key(key) {
            self.shared.insert(key.to_owned(), BTreeMap::new());
        }
        if let Some(addresses) = self.shared.get_mut(key) {
            *addresses.entry(address).or_default() += 1;
        }
    }

    fn unlist(&mut self, key: Option<&str>, address: IpAddr) {
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
