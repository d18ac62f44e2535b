//! Who waits for an address, found by what would change the answer. Pure.
//!
//! A Service that could not be served, or only in part, waits here. Something happens ([`Trigger`]): an address is let go,
//! a holder's terms change, a pool or a namespace's labels change. [`Waiting::serve`] then gives addresses at once, in
//! memory, to those that wait for just that, and names them, so that their Services are looked at and the addresses
//! claimed. What a Service waits for is given to it before anybody who comes later can ask.
//!
//! The order is: those that name their addresses, because nothing else can serve them (allocation scenario 112), then those
//! that have nothing before those that want more than they have, then by age, then by name. Always the first one that can be served is served, so that the outcome is the same as if
//! everybody were tried again and again from the beginning; but only those are tried whose answer can have changed, and
//! of those that are [alike](groups::Kind::Alike) only the first. At most one plan is made for each that is served and one for
//! each group that is concerned, and one more for a group each time a shared address or a new sharing key gives it
//! another chance.
//!
//! An address that is free and that a waiting Service names can be given to another in one case: the Service names
//! several, and they cannot be had together. It is not kept back then, or two Services that name each other's addresses
//! would keep them from everybody for good.

mod groups;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use windlass_api::ServiceRef;
use windlass_ipam::{Acquisition, AddressSet, Allocator, Family, Labels, Plan, Pool, Request, Terms};

use self::groups::{GroupId, Groups, Place, Turn, Urgency};

/// Who has the addresses: the ledger.
pub(crate) trait Giver {
    /// What is in use.
    fn allocator(&self) -> &Allocator<ServiceRef>;

    /// What [`Self::place`] would give.
    fn plan(&self, owner: &ServiceRef, request: &Request) -> Option<Plan> {
        self.allocator().plan(owner, request).ok()
    }

    /// Gives `owner` what it asks for. `None`: it cannot be had, and nothing is changed.
    fn place(&mut self, owner: &ServiceRef, request: &Request) -> Option<Plan>;
}

/// A Service that wants more than it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) owner: ServiceRef,
    /// When its Service was made.
    pub(crate) created: Option<Timestamp>,
    pub(crate) request: Request,
    /// Families of which it wants more; empty: it has nothing of what it asks for.
    pub(crate) missing: Vec<Family>,
}

/// Something that may make possible what was not.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trigger<'a> {
    /// The address was let go, or kept back, or is not kept back any more, or its holders or their terms changed.
    Address(IpAddr),
    /// These were the pools before.
    Pools(&'a [Pool]),
    /// A namespace has these labels.
    Namespace(&'a str, &'a Labels),
    /// Nothing is known of what changed.
    Everything,
}

/// Why a group is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    /// So long as one of these is free.
    Free(BTreeSet<IpAddr>),
    /// Until it cannot be served.
    Always,
}

/// The first of each group to try, in order.
type Queue = BTreeMap<(Turn, GroupId), Why>;

/// Everybody who waits.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    waiters: BTreeMap<ServiceRef, (Waiter, Turn, GroupId)>,
    by_namespace: BTreeMap<String, BTreeSet<ServiceRef>>,
    groups: Groups,
}

impl Waiting {
    /// `waiter` waits, instead of what it waited for before.
    pub(crate) fn insert(&mut self, allocator: &Allocator<ServiceRef>, waiter: Waiter) {
        let turn = turn(&waiter, allocator);
        if self.waiters.get(&waiter.owner).is_some_and(|(known, its, _)| *known == waiter && *its == turn) {
            return;
        }
        self.remove(&waiter.owner);
        let (kind, places) = groups::of(&waiter, allocator);
        let group = self.groups.join(kind, places, turn.clone());
        let namespace = &waiter.owner.namespace;
        self.by_namespace.entry(namespace.clone()).or_default().insert(waiter.owner.clone());
        self.waiters.insert(waiter.owner.clone(), (waiter, turn, group));
    }

    /// The status of `owner`'s Service shows these addresses now.
    pub(crate) fn shows(
        &mut self,
        allocator: &Allocator<ServiceRef>,
        owner: &ServiceRef,
        addresses: Vec<IpAddr>,
    ) {
        self.regroup(allocator, owner, |waiter| waiter.request.preferred = addresses);
    }

    /// `owner` waits no longer.
    pub(crate) fn remove(&mut self, owner: &ServiceRef) -> Option<Waiter> {
        let (waiter, turn, group) = self.waiters.remove(owner)?;
        self.groups.leave(group, &turn);
        if let Entry::Occupied(mut of_namespace) = self.by_namespace.entry(owner.namespace.clone()) {
            of_namespace.get_mut().remove(owner);
            if of_namespace.get().is_empty() {
                of_namespace.remove();
            }
        }
        Some(waiter)
    }

    /// How many Services wait.
    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Gives what can be given after `triggers`, and says to whom, in order. Who got only part of it waits on.
    pub(crate) fn serve(&mut self, giver: &mut impl Giver, triggers: &[Trigger<'_>]) -> Vec<ServiceRef> {
        let mut served = Vec::new();
        if self.is_empty() {
            return served;
        }
        self.look_for_heirs(giver.allocator(), triggers);
        let mut queue = Queue::new();
        for trigger in triggers {
            match trigger {
                Trigger::Address(address) => self.on_address(giver.allocator(), *address, &mut queue),
                Trigger::Pools(before) => self.on_pools(giver.allocator(), before, &mut queue),
                Trigger::Namespace(name, labels) => {
                    self.on_namespace(giver.allocator(), name, labels, &mut queue);
                }
                Trigger::Everything => {
                    for group in self.groups.all() {
                        self.enqueue(group, &Why::Always, &mut queue);
                    }
                }
            }
        }
        while let Some(((turn, group), why)) = queue.pop_first() {
            let worth_it = match &why {
                Why::Free(addresses) => addresses.iter().any(|address| giver.allocator().is_free(*address)),
                Why::Always => true,
            };
            let owner = turn.owner();
            let Some((waiter, ..)) = self.waiters.get(owner).filter(|_| worth_it) else { continue };
            // What it holds already it uses on other terms from now on: those who share it may gain or lose by that.
            let former = giver.allocator().terms(owner).and_then(Terms::key).map(str::to_owned);
            let Some(plan) = give(giver, owner, &waiter.request) else { continue };
            served.push(owner.clone());
            if let Some(waiter) = self.remove(owner) {
                let key = waiter.request.terms.key().map(str::to_owned);
                for key in former.into_iter().chain(key) {
                    self.add(&Place::Key(key), &Why::Always, &mut queue);
                }
                if !plan.missing.is_empty() {
                    self.insert(giver.allocator(), Waiter { missing: plan.missing, ..waiter });
                }
            }
            self.enqueue(group, &why, &mut queue);
        }
        served
    }

    /// What was let go is kept back for those who had it: who waits under their name waits for that too from now on.
    fn look_for_heirs(&mut self, allocator: &Allocator<ServiceRef>, triggers: &[Trigger<'_>]) {
        let mut heirs = BTreeSet::new();
        for trigger in triggers {
            let address = match trigger {
                Trigger::Address(address) => *address,
                Trigger::Pools(_) | Trigger::Namespace(..) | Trigger::Everything => continue,
            };
            let former = allocator.quarantined(address).into_iter().flat_map(|entry| &entry.former);
            heirs.extend(former.flat_map(|former| self.named_as(former)).cloned());
        }
        for heir in heirs {
            self.regroup(allocator, &heir, |_| {});
        }
    }

    /// Those that wait under the name of `former`, which are next to each other in the order of Services.
    fn named_as<'a>(&'a self, former: &'a ServiceRef) -> impl Iterator<Item = &'a ServiceRef> {
        let from = self.waiters.range(former.before_namesakes()..).map(|(owner, _)| owner);
        from.take_while(|owner| owner.is_namesake(former))
    }

    fn on_address(&self, allocator: &Allocator<ServiceRef>, address: IpAddr, queue: &mut Queue) {
        self.add(&Place::Address(address), &Why::Always, queue);
        if allocator.is_free(address)
            && let Some(pool) = allocator.pool_of(address)
        {
            let place = Place::Pool(pool.name.clone(), Family::of(address));
            self.add(&place, &Why::Free([address].into()), queue);
        }
        let terms = allocator.holders(address).iter().filter_map(|holder| allocator.terms(holder));
        let keys: BTreeSet<&str> = terms.filter_map(Terms::key).collect();
        for key in keys {
            self.add(&Place::Key(key.to_owned()), &Why::Always, queue);
        }
    }

    fn on_pools(&mut self, allocator: &Allocator<ServiceRef>, before: &[Pool], queue: &mut Queue) {
        let before: BTreeMap<&str, &Pool> = before.iter().map(|pool| (pool.name.as_str(), pool)).collect();
        let now: BTreeMap<&str, &Pool> = allocator.pools().map(|pool| (pool.name.as_str(), pool)).collect();
        let names: BTreeSet<&str> = before.keys().chain(now.keys()).copied().collect();
        let mut extent = AddressSet::default();
        let mut other_policies = false;
        for name in names {
            let (old, new) = (before.get(name), now.get(name));
            if old != new {
                for pool in [old, new].into_iter().flatten() {
                    extent.extend(&pool.addresses);
                }
                other_policies |= old.map(|pool| &pool.policy) != new.map(|pool| &pool.policy);
            }
        }
        if other_policies {
            let everybody: Vec<ServiceRef> = self.waiters.keys().cloned().collect();
            for owner in everybody {
                self.regroup(allocator, &owner, |_| {});
            }
        }
        for (name, pool) in &now {
            let touched = before.get(name) != Some(pool) || !pool.addresses.intersection(&extent).is_empty();
            if touched {
                for family in Family::ALL {
                    self.add(&Place::Pool((*name).to_owned(), family), &Why::Always, queue);
                }
            }
        }
        let asked: Vec<IpAddr> =
            self.groups.addresses().filter(|address| extent.contains(*address)).collect();
        for address in asked {
            self.add(&Place::Address(address), &Why::Always, queue);
        }
    }

    fn on_namespace(
        &mut self,
        allocator: &Allocator<ServiceRef>,
        name: &str,
        labels: &Labels,
        queue: &mut Queue,
    ) {
        let owners: Vec<ServiceRef> = self.by_namespace.get(name).into_iter().flatten().cloned().collect();
        for owner in owners {
            self.regroup(allocator, &owner, |waiter| {
                waiter.request.requester.namespace_labels.clone_from(labels);
            });
            if let Some((.., group)) = self.waiters.get(&owner) {
                self.enqueue(*group, &Why::Always, queue);
            }
        }
    }

    /// Changes a waiter and looks again what it waits for.
    fn regroup(
        &mut self,
        allocator: &Allocator<ServiceRef>,
        owner: &ServiceRef,
        change: impl FnOnce(&mut Waiter),
    ) {
        if let Some(mut waiter) = self.remove(owner) {
            change(&mut waiter);
            self.insert(allocator, waiter);
        }
    }

    fn add(&self, place: &Place, why: &Why, queue: &mut Queue) {
        for group in self.groups.at(place) {
            self.enqueue(group, why, queue);
        }
    }

    fn enqueue(&self, group: GroupId, why: &Why, queue: &mut Queue) {
        let Some(first) = self.groups.first(group) else { return };
        match queue.entry((first.clone(), group)) {
            Entry::Vacant(entry) => {
                entry.insert(why.clone());
            }
            Entry::Occupied(mut entry) => match (entry.get_mut(), why) {
                (Why::Always, _) => {}
                (known @ Why::Free(_), Why::Always) => *known = Why::Always,
                (Why::Free(known), Why::Free(more)) => known.extend(more),
            },
        }
    }
}

/// Gives `owner` what it asks for if that is more than it has.
fn give(giver: &mut impl Giver, owner: &ServiceRef, request: &Request) -> Option<Plan> {
    let plan = giver.plan(owner, request)?;
    let gains = plan.addresses.iter().any(|planned| planned.how != Acquisition::Kept);
    if gains { giver.place(owner, request) } else { None }
}

fn turn(waiter: &Waiter, allocator: &Allocator<ServiceRef>) -> Turn {
    let urgency = if !waiter.request.addresses.is_empty() {
        Urgency::Named
    } else if allocator.held_by(&waiter.owner).next().is_none() {
        Urgency::Need
    } else {
        Urgency::Wish
    };
    Turn::new(urgency, waiter.created, waiter.owner.clone())
}

#[cfg(test)]
mod tests;
