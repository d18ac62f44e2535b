//! The external IPs that are refused: what was told of them, and what their pools show. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use windlass_api::ServiceRef;

/// Addresses that one message names before it says how many more there are, and messages about one Service.
const NAMED: usize = 5;

/// What is refused of one Service. Its size is bounded by the entries that are looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Refused {
    /// Why, and the addresses and their pools.
    reasons: BTreeMap<String, BTreeSet<(IpAddr, String)>>,
    /// What cannot be said of single addresses.
    general: Option<String>,
    /// Other Services whose address is among them, and what is said to them.
    owners: BTreeMap<ServiceRef, String>,
}

impl Refused {
    /// `address` of `pool` is refused.
    pub(super) fn add(&mut self, address: IpAddr, pool: String, why: String) {
        self.reasons.entry(why).or_default().insert((address, pool));
    }

    /// This, too, is to be told to the Service.
    pub(super) fn say(&mut self, what: Option<String>) {
        self.general = what;
    }

    /// `owner` has one of the addresses.
    pub(super) fn belongs_to(&mut self, owner: &ServiceRef, message: String) {
        self.owners.entry(owner.clone()).or_insert(message);
    }

    fn is_empty(&self) -> bool {
        self.reasons.is_empty() && self.general.is_none()
    }

    fn pools(&self) -> impl Iterator<Item = (&str, IpAddr)> {
        self.reasons.values().flatten().map(|(address, pool)| (pool.as_str(), *address))
    }

    /// What the Service is told: a sentence for each reason, a few of them.
    fn messages(&self) -> BTreeSet<String> {
        let sentence = |(why, refused): (&String, &BTreeSet<(IpAddr, String)>)| {
            let named: Vec<_> = refused.iter().take(NAMED).map(|(address, _)| address.to_string()).collect();
            let named = named.join(", ");
            match refused.len() {
                1 => format!("external IP {named} is not announced: {why}"),
                count if count <= NAMED => format!("external IPs {named} are not announced: {why}"),
                count => format!("external IPs {named} and {} more are not announced: {why}", count - NAMED),
            }
        };
        self.reasons.iter().map(sentence).take(NAMED).chain(self.general.clone()).collect()
    }
}

/// What is to be told now, and was not before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// To the Service that lists the addresses.
    pub(super) to_user: Vec<String>,
    /// To Services whose addresses they are.
    pub(super) to_owners: Vec<(ServiceRef, String)>,
    /// What the pools show is another.
    pub(super) changed: bool,
}

/// What is refused of all Services.
#[derive(Debug, Default)]
pub(crate) struct RefusedExternalIps {
    by_service: BTreeMap<ServiceRef, Refused>,
    /// By pool.
    uses: BTreeMap<String, BTreeSet<(IpAddr, ServiceRef)>>,
    /// The Services that list an address of a Service.
    users_by_owner: BTreeMap<ServiceRef, BTreeSet<ServiceRef>>,
    begun: bool,
}

impl RefusedExternalIps {
    /// A pass over all Services begins. Returns whether it is the first: its refusals a process before this one may have
    /// told.
    pub(super) fn begin_pass(&mut self) -> bool {
        !std::mem::replace(&mut self.begun, true)
    }

    /// This is refused of `user` now. Returns what was not told yet. Of the Services that list an address of an owner, the
    /// first few are told to that owner: nobody can bury its events.
    pub(super) fn replace(&mut self, user: &ServiceRef, refused: Refused) -> News {
        let known = self.by_service.remove(user).unwrap_or_default();
        if known == refused {
            if !refused.is_empty() {
                self.by_service.insert(user.clone(), known);
            }
            return News::default();
        }
        let told = known.messages();
        for (pool, address) in known.pools() {
            if let Some(uses) = self.uses.get_mut(pool) {
                uses.remove(&(address, user.clone()));
            }
        }
        for owner in known.owners.keys().filter(|owner| !refused.owners.contains_key(owner)) {
            if let Some(users) = self.users_by_owner.get_mut(owner) {
                users.remove(user);
            }
        }
        for (pool, address) in refused.pools() {
            self.uses.entry(pool.to_owned()).or_default().insert((address, user.clone()));
        }
        let mut to_owners = Vec::new();
        for (owner, message) in &refused.owners {
            let users = self.users_by_owner.entry(owner.clone()).or_default();
            if users.insert(user.clone()) && users.len() <= NAMED {
                to_owners.push((owner.clone(), message.clone()));
            }
        }
        self.uses.retain(|_, uses| !uses.is_empty());
        self.users_by_owner.retain(|_, users| !users.is_empty());
        let to_user = refused.messages().difference(&told).cloned().collect();
        if !refused.is_empty() {
            self.by_service.insert(user.clone(), refused);
        }
        News { to_user, to_owners, changed: true }
    }

    /// Pools with such addresses.
    pub(crate) fn pools(&self) -> impl Iterator<Item = &str> {
        self.uses.keys().map(String::as_str)
    }

    /// How many entries there are about addresses of `pool`.
    pub(crate) fn count(&self, pool: &str) -> usize {
        self.uses.get(pool).map_or(0, BTreeSet::len)
    }

    /// The first few of them.
    pub(crate) fn some(&self, pool: &str) -> Vec<String> {
        let uses = self.uses.get(pool).into_iter().flatten().take(NAMED);
        uses.map(|(address, user)| format!("{address} by Service {user}")).collect()
    }
}

#[cfg(test)]
mod tests;
