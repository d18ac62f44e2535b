//! Who holds what, on which terms.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use super::known::KnownTerms;
use crate::Terms;
use crate::few::Few;
use crate::table::Table;

/// Holders of addresses, both ways, and addresses by sharing key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Book<O: Eq + Hash> {
    holders: Table<Holders<O>>,
    parties: HashMap<O, Party>,
    terms: KnownTerms,
    /// The last change of anybody's terms.
    last_change: Change,
    /// For each sharing key the addresses held by parties with it, and by how many.
    shared: BTreeMap<String, BTreeMap<IpAddr, usize>>,
}

/// Those who hold one address, in the order in which they joined; nearly always one.
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
    /// When its terms became other ones; the first if they are those on which it came by what it holds.
    changed: Change,
}

/// A place in the order in which terms were changed. Any two are equal: who holds what, and how, is not said by when it came
/// about, and a restart does not know all of it.
#[derive(Debug, Clone, Copy, Default)]
struct Change(u64);

impl PartialEq for Change {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Change {}

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
            last_change: Change::default(),
            shared: BTreeMap::new(),
        }
    }
}

impl<O: Eq + Hash + Clone> Book<O> {
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

    /// Who changed its terms later has the greater number; 0 for one that did not since it came by what it holds.
    pub(super) fn changed(&self, owner: &O) -> u64 {
        self.parties.get(owner).map_or(0, |party| party.changed.0)
    }

    /// `owner` counts as the one that changed its terms last.
    pub(super) fn mark_changed(&mut self, owner: &O) {
        let Some(party) = self.parties.get_mut(owner) else { return };
        self.last_change.0 += 1;
        party.changed = self.last_change;
    }

    /// `owner` uses what it holds on these terms.
    pub(super) fn set_terms(&mut self, owner: &O, terms: &Terms) {
        let Some(party) = self.parties.get_mut(owner) else { return };
        if *party.terms == *terms {
            return;
        }
        self.last_change.0 += 1;
        party.changed = self.last_change;
        let before = std::mem::replace(&mut party.terms, self.terms.keep(terms));
        self.terms.forget(&before);
        if before.key() == terms.key() {
            return;
        }
        let held = party.held.clone();
        for address in held.as_slice() {
            self.unlist(before.key(), *address);
            self.list(terms.key(), *address);
        }
    }

    /// `owner` holds `address` besides those who do. It did not. Says whether anybody did.
    pub(super) fn join(&mut self, address: IpAddr, owner: &O, terms: &Terms) -> bool {
        self.set_terms(owner, terms);
        if let Some(party) = self.parties.get_mut(owner) {
            party.held.insert(address);
        } else {
            let terms = self.terms.keep(terms);
            let party = Party { terms, held: Few::One(address), changed: Change::default() };
            self.parties.insert(owner.clone(), party);
        }
        self.list(terms.key(), address);
        match self.holders.get_mut(address) {
            Some(Holders::Several(all)) => all.push(owner.clone()),
            Some(one @ Holders::One(_)) => {
                let mut all = one.as_slice().to_vec();
                all.push(owner.clone());
                *one = Holders::Several(all);
            }
            None => {
                self.holders.insert(address, Holders::One(owner.clone()));
                return false;
            }
        }
        true
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
