//! Services that wait for an address, indexed by what they wait for. Pure.
//!
//! A Service whose request could not be met, or only in part, waits here for a [`Trigger`]: an address is released, a holder's terms
//! change, a pool or a namespace's labels change. [`Waiting::retry`] then allocates immediately, in memory, to the Services that wait
//! for just that, and returns them, so that they are synced and the addresses claimed. A Service that waits comes before any later
//! request.
//!
//! The order is: Services that name their addresses, because no other address will do (allocation scenario 112), then those that have
//! none before those that want more, then by age, then by name. It is always the first one that can be served, so that the result is
//! the same as if all were tried again and again from the beginning. That itself would take too long, because every address that comes
//! free is a trigger, and so is each end of a quarantine: of 10,000 Services that wait for a full pool a pass that serves none takes
//! 18 ms, with five full pools 68 ms (optimised build, November 2026). Tried are only those whose result can have changed, and of those
//! that are [interchangeable](groups::GroupKey::Interchangeable) only the first. At most one plan is made for each that is served and
//! one for each affected group, and one more for a group each time a shared address or a new sharing key makes another allocation
//! possible.
//!
//! An address that is free and that a waiting Service names can be given to another in one case: the Service names several, and they
//! cannot be had together. It is not reserved then, or two Services that name each other's addresses would block them for all others
//! for good.

mod groups;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use windlass_api::ServiceRef;
use windlass_ipam::{Acquisition, AddressSet, Allocator, Family, Labels, Limits, Plan, Pool, Request, Terms};

use self::groups::{GroupId, Groups, Precedence, QueuePosition, Target};

/// Source of addresses: the ledger.
pub(crate) trait AddressSource {
    /// The allocator: what is in use.
    fn allocator(&self) -> &Allocator<ServiceRef>;

    /// Returns the plan that [`Self::allocate`] would carry out.
    fn plan(&self, owner: &ServiceRef, request: &Request) -> Option<Plan> {
        self.allocator().plan(owner, request).ok()
    }

    /// Allocates the addresses that `owner` requests. `None`: that is impossible, and nothing is changed.
    fn allocate(&mut self, owner: &ServiceRef, request: &Request) -> Option<Plan>;
}

/// A Service that wants more than it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingService {
    pub(crate) owner: ServiceRef,
    /// Creation time of its Service.
    pub(crate) created: Option<Timestamp>,
    pub(crate) request: Request,
    /// Families of which it wants more; empty: it has nothing of what it asks for.
    pub(crate) missing: Vec<Family>,
}

/// A change that may make an allocation possible.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trigger<'a> {
    /// The address was released, or entered or left quarantine, or its holders or their terms changed.
    Address(IpAddr),
    /// These were the pools before.
    Pools(&'a [Pool]),
    /// A namespace has these labels.
    Namespace(&'a str, &'a Labels),
    /// Anything may have changed.
    Everything,
}

/// Time for which a group is retried.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RetryWhile {
    /// As long as one of these is free, or gives way.
    AnyFree(BTreeSet<IpAddr>),
    /// As long as an allocation is possible.
    Possible,
}

/// The groups to retry, by the position of their first.
type RetryQueue = BTreeMap<(QueuePosition, GroupId), RetryWhile>;

/// The Services that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    waiters: BTreeMap<ServiceRef, (WaitingService, QueuePosition, GroupId)>,
    by_namespace: BTreeMap<String, BTreeSet<ServiceRef>>,
    groups: Groups,
}

impl Waiting {
    /// `waiter` waits, instead of what it waited for before.
    pub(crate) fn insert(&mut self, allocator: &Allocator<ServiceRef>, waiter: WaitingService) {
        let position = position(&waiter, allocator);
        if self.waiters.get(&waiter.owner).is_some_and(|(known, its, _)| *known == waiter && *its == position)
        {
            return;
        }
        self.remove(&waiter.owner);
        let (group_key, targets) = groups::of(&waiter, allocator);
        let group = self.groups.join(group_key, targets, position.clone());
        let namespace = &waiter.owner.namespace;
        self.by_namespace.entry(namespace.clone()).or_default().insert(waiter.owner.clone());
        self.waiters.insert(waiter.owner.clone(), (waiter, position, group));
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
    pub(crate) fn remove(&mut self, owner: &ServiceRef) -> Option<WaitingService> {
        let (waiter, position, group) = self.waiters.remove(owner)?;
        self.groups.leave(group, &position);
        if let Entry::Occupied(mut of_namespace) = self.by_namespace.entry(owner.namespace.clone()) {
            of_namespace.get_mut().remove(owner);
            if of_namespace.get().is_empty() {
                of_namespace.remove();
            }
        }
        Some(waiter)
    }

    /// Returns how many Services wait.
    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Returns true if no Service waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Allocates the addresses that `triggers` made available, and returns the Services that got one, in order. A Service that got
    /// only part of its request continues to wait.
    pub(crate) fn retry(
        &mut self,
        source: &mut impl AddressSource,
        triggers: &[Trigger<'_>],
    ) -> Vec<ServiceRef> {
        let mut allocated = Vec::new();
        if self.is_empty() {
            return allocated;
        }
        self.regroup_former_owners(source.allocator(), triggers);
        let mut queue = RetryQueue::new();
        for trigger in triggers {
            match trigger {
                Trigger::Address(address) => self.on_address(source.allocator(), *address, &mut queue),
                Trigger::Pools(before) => self.on_pools(source.allocator(), before, &mut queue),
                Trigger::Namespace(name, labels) => {
                    self.on_namespace(source.allocator(), name, labels, &mut queue);
                }
                Trigger::Everything => {
                    for group in self.groups.all() {
                        self.enqueue(group, &RetryWhile::Possible, &mut queue);
                    }
                }
            }
        }
        while let Some(((position, group), retry_while)) = queue.pop_first() {
            let may_succeed = match &retry_while {
                RetryWhile::AnyFree(addresses) => {
                    addresses.iter().any(|address| source.allocator().may_be_given(*address))
                }
                RetryWhile::Possible => true,
            };
            let owner = position.owner();
            let Some((waiter, ..)) = self.waiters.get(owner).filter(|_| may_succeed) else { continue };
            // What it holds already it uses on other terms from now on: those who share it may gain or lose by that.
            let former = source.allocator().terms(owner).and_then(Terms::key).map(str::to_owned);
            let Some(plan) = allocate_more(source, owner, &waiter.request) else { continue };
            allocated.push(owner.clone());
            if let Some(waiter) = self.remove(owner) {
                let key = waiter.request.terms.key().map(str::to_owned);
                for key in former.into_iter().chain(key) {
                    self.add(&Target::Key(key), &RetryWhile::Possible, &mut queue);
                }
                // What it got is not kept back any more: one of its name joins it there.
                for namesake in self.waiting_namesakes(&waiter.owner) {
                    if let Some((.., its)) = self.waiters.get(namesake) {
                        self.enqueue(*its, &RetryWhile::Possible, &mut queue);
                    }
                }
                if !plan.missing.is_empty() {
                    self.insert(source.allocator(), WaitingService { missing: plan.missing, ..waiter });
                }
            }
            self.enqueue(group, &retry_while, &mut queue);
        }
        allocated
    }

    /// A released address is kept for its former owners: Services that wait under their names wait for it, too, from now on.
    fn regroup_former_owners(&mut self, allocator: &Allocator<ServiceRef>, triggers: &[Trigger<'_>]) {
        let mut namesakes = BTreeSet::new();
        for trigger in triggers {
            let address = match trigger {
                Trigger::Address(address) => *address,
                Trigger::Pools(_) | Trigger::Namespace(..) | Trigger::Everything => continue,
            };
            let former = allocator.quarantined(address).into_iter().flat_map(|entry| &entry.former);
            namesakes.extend(former.flat_map(|former| self.waiting_namesakes(former)).cloned());
        }
        for namesake in namesakes {
            self.regroup(allocator, &namesake, |_| {});
        }
    }

    /// The waiting Services with the name of `former`, which are next to each other in the order of Services.
    fn waiting_namesakes<'a>(&'a self, former: &'a ServiceRef) -> impl Iterator<Item = &'a ServiceRef> {
        let from = self.waiters.range(former.before_namesakes()..).map(|(owner, _)| owner);
        from.take_while(|owner| owner.is_namesake(former))
    }

    fn on_address(&self, allocator: &Allocator<ServiceRef>, address: IpAddr, queue: &mut RetryQueue) {
        self.add(&Target::Address(address), &RetryWhile::Possible, queue);
        if let Some(pool) = allocator.pool_of(address) {
            let target = Target::Pool(pool.name.clone(), Family::of(address));
            let is_limited = pool.policy.limits != Limits::default();
            let is_shared = !allocator.holders(address).is_empty();
            match (allocator.may_be_given(address), is_limited) {
                (true, false) => self.add(&target, &RetryWhile::AnyFree([address].into()), queue),
                // It counts against a limit no longer: others of that namespace may have any address that is free, even if
                // nobody else may, and this one may be shared still.
                (true, true) => self.add(&target, &RetryWhile::Possible, queue),
                (false, true) if is_shared => self.add(&target, &RetryWhile::Possible, queue),
                (false, _) => {}
            }
        }
        let terms = allocator.holders(address).iter().filter_map(|holder| allocator.terms(holder));
        let keys: BTreeSet<&str> = terms.filter_map(Terms::key).collect();
        for key in keys {
            self.add(&Target::Key(key.to_owned()), &RetryWhile::Possible, queue);
        }
    }

    fn on_pools(&mut self, allocator: &Allocator<ServiceRef>, before: &[Pool], queue: &mut RetryQueue) {
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
            // A pool that came or went may be the only one of a namespace (`whenFull: Wait`), and decides about all others there.
            for group in self.groups.all() {
                self.enqueue(group, &RetryWhile::Possible, queue);
            }
            return;
        }
        for (name, pool) in &now {
            let touched = before.get(name) != Some(pool) || !pool.addresses.intersection(&extent).is_empty();
            if touched {
                for family in Family::ALL {
                    self.add(&Target::Pool((*name).to_owned(), family), &RetryWhile::Possible, queue);
                }
            }
        }
        let asked: Vec<IpAddr> =
            self.groups.addresses().filter(|address| extent.contains(*address)).collect();
        for address in asked {
            self.add(&Target::Address(address), &RetryWhile::Possible, queue);
        }
    }

    fn on_namespace(
        &mut self,
        allocator: &Allocator<ServiceRef>,
        name: &str,
        labels: &Labels,
        queue: &mut RetryQueue,
    ) {
        let owners: Vec<ServiceRef> = self.by_namespace.get(name).into_iter().flatten().cloned().collect();
        for owner in owners {
            self.regroup(allocator, &owner, |waiter| {
                waiter.request.requester.namespace_labels.clone_from(labels);
            });
            if let Some((.., group)) = self.waiters.get(&owner) {
                self.enqueue(*group, &RetryWhile::Possible, queue);
            }
        }
    }

    /// Changes a waiting Service and works out anew what it waits for.
    fn regroup(
        &mut self,
        allocator: &Allocator<ServiceRef>,
        owner: &ServiceRef,
        change: impl FnOnce(&mut WaitingService),
    ) {
        if let Some(mut waiter) = self.remove(owner) {
            change(&mut waiter);
            self.insert(allocator, waiter);
        }
    }

    fn add(&self, target: &Target, retry_while: &RetryWhile, queue: &mut RetryQueue) {
        for group in self.groups.at(target) {
            self.enqueue(group, retry_while, queue);
        }
    }

    fn enqueue(&self, group: GroupId, retry_while: &RetryWhile, queue: &mut RetryQueue) {
        let Some(first) = self.groups.first(group) else { return };
        match queue.entry((first.clone(), group)) {
            Entry::Vacant(entry) => {
                entry.insert(retry_while.clone());
            }
            Entry::Occupied(mut entry) => match (entry.get_mut(), retry_while) {
                (RetryWhile::Possible, _) => {}
                (known @ RetryWhile::AnyFree(_), RetryWhile::Possible) => *known = RetryWhile::Possible,
                (RetryWhile::AnyFree(known), RetryWhile::AnyFree(more)) => known.extend(more),
            },
        }
    }
}

/// Allocates what `owner` requests if that is more than it has.
fn allocate_more(source: &mut impl AddressSource, owner: &ServiceRef, request: &Request) -> Option<Plan> {
    let plan = source.plan(owner, request)?;
    let gains = plan.addresses.iter().any(|planned| planned.how != Acquisition::Kept);
    if gains { source.allocate(owner, request) } else { None }
}

fn position(waiter: &WaitingService, allocator: &Allocator<ServiceRef>) -> QueuePosition {
    let precedence = if !waiter.request.addresses.is_empty() {
        Precedence::NamesAddresses
    } else if allocator.held_by(&waiter.owner).next().is_none() {
        Precedence::HasNone
    } else {
        Precedence::WantsMore
    };
    QueuePosition::new(precedence, waiter.created, waiter.owner.clone())
}

#[cfg(test)]
mod tests;
