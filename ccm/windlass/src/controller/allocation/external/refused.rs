//! The external IPs that are refused: what was told of them, and what their pools show. Pure.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use windlass_api::ServiceRef;
use windlass_ipam::Port;

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
    owners: BTreeMap<ServiceRef, Told>,
    /// Those of the addresses of which another Service has a port that this one has, and such a port.
    contested: BTreeMap<IpAddr, Port>,
}

/// What is said to an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    message: String,
    /// It is about a port of its own.
    contested: bool,
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

    /// `owner` has one of the addresses, and perhaps a port of this Service, which matters more than that it has none.
    pub(super) fn belongs_to(
        &mut self,
        owner: &ServiceRef,
        address: IpAddr,
        port: Option<Port>,
        message: String,
    ) {
        let told = Told { message, contested: port.is_some() };
        if let Some(port) = port {
            self.contested.entry(address).or_insert(port);
        }
        match self.owners.entry(owner.clone()) {
            Entry::Vacant(vacant) => {
                vacant.insert(told);
            }
            Entry::Occupied(mut known) if told.contested && !known.get().contested => {
                known.insert(told);
            }
            Entry::Occupied(_) => {}
        }
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
    /// The Services that list an address of a Service, by whether they have a port of it: those are not buried by others.
    users_by_owner: BTreeMap<(ServiceRef, bool), BTreeSet<ServiceRef>>,
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
        let is_so = |of: &Refused, owner: &ServiceRef, contested| {
            of.owners.get(owner).is_some_and(|told| told.contested == contested)
        };
        for (owner, Told { contested, .. }) in &known.owners {
            if is_so(&refused, owner, *contested) {
                continue;
            }
            if let Some(users) = self.users_by_owner.get_mut(&(owner.clone(), *contested)) {
                users.remove(user);
            }
        }
        for (pool, address) in refused.pools() {
            self.uses.entry(pool.to_owned()).or_default().insert((address, user.clone()));
        }
        let mut to_owners = Vec::new();
        for (owner, Told { message, contested }) in &refused.owners {
            let users = self.users_by_owner.entry((owner.clone(), *contested)).or_default();
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

    /// How many of them are about an address of which an owner has a port that the Service has as well.
    pub(crate) fn contested(&self, pool: &str) -> usize {
        self.uses.get(pool).into_iter().flatten().filter(|one| self.contested_port(one).is_some()).count()
    }

    /// The first few of them, first those on a port of an owner.
    pub(crate) fn some(&self, pool: &str) -> Vec<String> {
        let uses = || self.uses.get(pool).into_iter().flatten();
        let contested = uses().filter_map(|one| Some((one, self.contested_port(one)?)));
        let contested = contested
            .map(|((address, user), port)| format!("{address} by Service {user} on its owner's port {port}"));
        let others = uses().filter(|one| self.contested_port(one).is_none());
        contested
            .chain(others.map(|(address, user)| format!("{address} by Service {user}")))
            .take(NAMED)
            .collect()
    }

    fn contested_port(&self, (address, user): &(IpAddr, ServiceRef)) -> Option<Port> {
        self.by_service.get(user)?.contested.get(address).copied()
    }
}

#[cfg(test)]
mod tests;
