//! Use of the pools: the pool of an address, the addresses that each can give, and exact counts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::free::{FreeList, Numbering};
use crate::family::number;
use crate::{AddressSet, Family, Moment, Pool};

/// Numbers of addresses of one family in a pool. Each address of the pool is in exactly one of the other counts or available.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Addresses that belong to the pool.
    pub total: u128,
    /// Reserved addresses of the pool without a holder: never given.
    pub reserved: u128,
    /// Addresses of the pool that are held.
    pub assigned: u128,
    /// Addresses of the pool that are kept back for a while.
    pub quarantined: u128,
    /// Assigned and quarantined addresses that are reserved: once released, they are not given again.
    pub withdrawn: u128,
}

impl Counts {
    /// Addresses that can be given now.
    pub const fn available(&self) -> u128 {
        self.total - self.reserved - self.assigned - self.quarantined
    }

    /// Addresses that can be given again once they are released and their quarantine is over.
    pub const fn returning(&self) -> u128 {
        self.assigned + self.quarantined - self.withdrawn
    }
}

/// State of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressState {
    /// Not used. With the time of its release, if known.
    Free(Option<Moment>),
    Held,
    /// Kept back. With the end of its quarantine, if it gives way where nothing else is free.
    Quarantined(Option<Moment>),
}

/// One family of one pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct FamilyUsage {
    free: FreeList,
    total: u128,
    assigned: u128,
    quarantined: u128,
    withdrawn: u128,
    /// Addresses that give way where nothing else is free, the first to be free again first.
    yielding: BTreeSet<(Moment, u128)>,
    /// Number of addresses that count against the limit of each namespace; empty if there is no limit.
    by_namespace: BTreeMap<String, u32>,
}

/// One pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PoolUsage {
    pub(super) pool: Pool,
    v4: FamilyUsage,
    v6: FamilyUsage,
}

/// All pools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// In the order in which they are searched.
    all: Vec<PoolUsage>,
    names: BTreeMap<String, usize>,
    v4: PoolRanges,
    v6: PoolRanges,
}

/// First and last number and the index of the pool they belong to: ascending and disjoint.
type PoolRanges = Vec<(u128, u128, usize)>;

impl PoolUsage {
    const fn family(&self, family: Family) -> &FamilyUsage {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    const fn family_mut(&mut self, family: Family) -> &mut FamilyUsage {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }

    pub(super) fn counts(&self, family: Family) -> Counts {
        let &FamilyUsage { ref free, total, assigned, quarantined, withdrawn, .. } = self.family(family);
        let reserved = total - assigned - quarantined - free.count();
        Counts { total, reserved, assigned, quarantined, withdrawn }
    }

    /// Returns true if `address`, which belongs to the pool, is given at all.
    pub(super) fn is_allocatable(&self, address: IpAddr) -> bool {
        let listed = self.family(Family::of(address)).free.covers(number(address));
        listed && !self.pool.reserved.contains(address)
    }

    /// The first `wanted` free addresses of `family`, in the order of the pool, of those that are `usable`.
    pub(super) fn free(&self, family: Family, wanted: usize, usable: impl Fn(IpAddr) -> bool) -> Vec<IpAddr> {
        let choose = |number| Some(family.address(number)).filter(|address| usable(*address));
        self.family(family).free.first(wanted, choose)
    }

    /// The first `wanted` addresses of `family` that give way, of those that are `usable`.
    pub(super) fn yielding(
        &self,
        family: Family,
        wanted: usize,
        usable: impl Fn(IpAddr) -> bool,
    ) -> Vec<IpAddr> {
        let all = self.family(family).yielding.iter().map(|(_, number)| family.address(*number));
        all.filter(|address| usable(*address)).take(wanted).collect()
    }

    /// Returns how many addresses of `family` count against the limit of `namespace`.
    pub(super) fn charged(&self, family: Family, namespace: &str) -> u32 {
        self.family(family).by_namespace.get(namespace).copied().unwrap_or_default()
    }
}

impl Usage {
    /// Assigns the addresses to the pools. Of two pools with one name the last counts. An address that several pools list belongs to
    /// the first of them in the order of the search.
    pub(super) fn new(pools: impl IntoIterator<Item = Pool>) -> Self {
        let by_name: BTreeMap<String, Pool> =
            pools.into_iter().map(|pool| (pool.name.clone(), pool)).collect();
        let mut pools: Vec<Pool> = by_name.into_values().collect();
        // Stable: pools that are equal in this stay in the order of their names.
        pools.sort_by_key(|pool| (pool.policy.priority, !pool.policy.selects()));
        let mut usage = Self::default();
        let mut given = AddressSet::default();
        for (index, pool) in pools.into_iter().enumerate() {
            let mut members = pool.addresses.clone();
            members.subtract(&given);
            given.extend(&members);
            let [v4, v6] = Family::ALL.map(|family| {
                let numbering = match family {
                    Family::V4 if pool.policy.avoid_class_c => Numbering::AvoidClassC,
                    Family::V4 | Family::V6 => Numbering::All,
                };
                let mut free = FreeList::new(numbering, pool.policy.order);
                for (first, last) in members.runs(family).iter() {
                    free.add(first, last);
                    usage.ranges_mut(family).push((first, last, index));
                }
                for (first, last) in pool.reserved.runs(family).iter() {
                    free.reserve(first, last);
                }
                FamilyUsage { free, total: members.count(family), ..FamilyUsage::default() }
            });
            usage.names.insert(pool.name.clone(), index);
            usage.all.push(PoolUsage { pool, v4, v6 });
        }
        usage.v4.sort_unstable();
        usage.v6.sort_unstable();
        usage
    }

    const fn ranges(&self, family: Family) -> &PoolRanges {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    const fn ranges_mut(&mut self, family: Family) -> &mut PoolRanges {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }

    /// The pools in the order of the search.
    pub(super) fn all(&self) -> &[PoolUsage] {
        &self.all
    }

    pub(super) fn named(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// Names of the pools, in alphabetical order.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.names.keys()
    }

    /// The pool that `address` belongs to.
    pub(super) fn index_of(&self, address: IpAddr) -> Option<usize> {
        let number = number(address);
        let ranges = self.ranges(Family::of(address));
        let after = ranges.partition_point(|(first, ..)| *first <= number);
        let (_, last, index) = ranges[..after].last()?;
        (number <= *last).then_some(*index)
    }

    pub(super) fn of(&self, address: IpAddr) -> Option<&PoolUsage> {
        self.index_of(address).map(|index| &self.all[index])
    }

    /// Returns true if `address`, which is not in use, can be given.
    pub(super) fn is_free(&self, address: IpAddr) -> bool {
        self.of(address)
            .is_some_and(|pool_usage| pool_usage.family(Family::of(address)).free.contains(number(address)))
    }

    /// Changes the state of `address`. Does nothing for one that belongs to no pool.
    pub(super) fn change(&mut self, address: IpAddr, from: AddressState, to: AddressState) {
        let Some(pool_usage) = self.index_of(address).map(|index| &mut self.all[index]) else { return };
        let number = number(address);
        let reserved = pool_usage.pool.reserved.contains(address);
        let counts = pool_usage.family_mut(Family::of(address));
        let withdrawn = u128::from(reserved || !counts.free.covers(number));
        match from {
            AddressState::Free(_) => counts.free.take(number),
            AddressState::Held => {
                counts.assigned -= 1;
                counts.withdrawn -= withdrawn;
            }
            AddressState::Quarantined(yields) => {
                counts.quarantined -= 1;
                counts.withdrawn -= withdrawn;
                if let Some(until) = yields {
                    counts.yielding.remove(&(until, number));
                }
            }
        }
        match to {
            AddressState::Free(_) if reserved => {}
            AddressState::Free(released) => counts.free.give_back(number, released),
            AddressState::Held => {
                counts.assigned += 1;
                counts.withdrawn += withdrawn;
            }
            AddressState::Quarantined(yields) => {
                counts.quarantined += 1;
                counts.withdrawn += withdrawn;
                if let Some(until) = yields.filter(|_| withdrawn == 0) {
                    counts.yielding.insert((until, number));
                }
            }
        }
    }

    /// Returns true if addresses of the pool of `address` count against limits of namespaces.
    pub(super) fn limits_namespaces(&self, address: IpAddr) -> bool {
        self.of(address).is_some_and(|usage| usage.pool.policy.limits.per_namespace.is_some())
    }

    /// Counts `address` against the limits of `after`, no longer of `before`.
    pub(super) fn charge(&mut self, address: IpAddr, before: &BTreeSet<String>, after: &BTreeSet<String>) {
        let Some(pool_usage) = self.index_of(address).map(|index| &mut self.all[index]) else { return };
        let charged = &mut pool_usage.family_mut(Family::of(address)).by_namespace;
        for namespace in after.difference(before) {
            *charged.entry(namespace.clone()).or_default() += 1;
        }
        for namespace in before.difference(after) {
            match charged.get_mut(namespace) {
                Some(count) if *count > 1 => *count -= 1,
                Some(_) | None => drop(charged.remove(namespace)),
            }
        }
    }

    /// Copies from `former` the release times of addresses that are free.
    pub(super) fn carry_over_releases(&mut self, former: &Self) {
        for pool_usage in &former.all {
            for family in Family::ALL {
                for (number, released) in pool_usage.family(family).free.history() {
                    let address = family.address(number);
                    if self.is_free(address) {
                        self.change(address, AddressState::Free(None), AddressState::Free(Some(released)));
                    }
                }
            }
        }
    }
}
