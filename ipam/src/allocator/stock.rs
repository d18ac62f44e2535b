//! What the pools hold: which pool an address belongs to, what can be given of each, and exact counts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::free::{Free, Scale};
use crate::family::number;
use crate::{AddressSet, Family, Moment, Pool};

/// How many addresses of one family a pool has. Each address of the pool is in exactly one of the other counts or
/// available.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Addresses that belong to the pool.
    pub total: u128,
    /// Of these, never given, and held by nobody.
    pub reserved: u128,
    /// Of these, held.
    pub assigned: u128,
    /// Of these, kept back for a while.
    pub quarantined: u128,
    /// Of those assigned and quarantined, reserved: let go of, they are not given again.
    pub withdrawn: u128,
}

impl Counts {
    /// Addresses that can be given now.
    pub const fn available(&self) -> u128 {
        self.total - self.reserved - self.assigned - self.quarantined
    }

    /// Addresses that can be given again once they are let go of and rested.
    pub const fn returning(&self) -> u128 {
        self.assigned + self.quarantined - self.withdrawn
    }
}

/// What an address is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Nothing. It was let go then, if that is known.
    Free(Option<Moment>),
    Held,
    Quarantined,
}

/// One family of one pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Shelf {
    free: Free,
    total: u128,
    assigned: u128,
    quarantined: u128,
    withdrawn: u128,
}

/// One pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stock {
    pub(super) pool: Pool,
    v4: Shelf,
    v6: Shelf,
}

/// All pools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stocks {
    /// In the order in which they are searched.
    all: Vec<Stock>,
    names: BTreeMap<String, usize>,
    v4: Segments,
    v6: Segments,
}

/// First and last number and the index of the pool they belong to: ascending and disjoint.
type Segments = Vec<(u128, u128, usize)>;

impl Stock {
    const fn shelf(&self, family: Family) -> &Shelf {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    const fn shelf_mut(&mut self, family: Family) -> &mut Shelf {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }

    pub(super) fn counts(&self, family: Family) -> Counts {
        let &Shelf { ref free, total, assigned, quarantined, withdrawn } = self.shelf(family);
        let reserved = total - assigned - quarantined - free.count();
        Counts { total, reserved, assigned, quarantined, withdrawn }
    }

    /// Whether `address`, which belongs to the pool, is given at all.
    pub(super) fn gives(&self, address: IpAddr) -> bool {
        let listed = self.shelf(Family::of(address)).free.lists(number(address));
        listed && !self.pool.reserved.contains(address)
    }

    /// The first `wanted` free addresses of `family`, in the order of the pool, of those that are `usable`.
    pub(super) fn free(&self, family: Family, wanted: usize, usable: impl Fn(IpAddr) -> bool) -> Vec<IpAddr> {
        let choose = |number| Some(family.address(number)).filter(|address| usable(*address));
        self.shelf(family).free.first(wanted, choose)
    }
}

impl Stocks {
    /// Of two pools with one name the last counts. An address that several pools list belongs to the first of them in
    /// the order of the search.
    pub(super) fn new(pools: impl IntoIterator<Item = Pool>) -> Self {
        let by_name: BTreeMap<String, Pool> =
            pools.into_iter().map(|pool| (pool.name.clone(), pool)).collect();
        let mut pools: Vec<Pool> = by_name.into_values().collect();
        // Stable: pools that are equal in this stay in the order of their names.
        pools.sort_by_key(|pool| (pool.policy.priority, !pool.policy.selects()));
        let mut stocks = Self::default();
        let mut given = AddressSet::default();
        for (index, pool) in pools.into_iter().enumerate() {
            let mut members = pool.addresses.clone();
            members.subtract(&given);
            given.extend(&members);
            let [v4, v6] = Family::ALL.map(|family| {
                let scale = match family {
                    Family::V4 if pool.policy.avoid_class_c => Scale::WithoutClassC,
                    Family::V4 | Family::V6 => Scale::Every,
                };
                let mut free = Free::new(scale, pool.policy.order);
                for (first, last) in members.runs(family).iter() {
                    free.add(first, last);
                    stocks.segments_mut(family).push((first, last, index));
                }
                for (first, last) in pool.reserved.runs(family).iter() {
                    free.reserve(first, last);
                }
                Shelf { free, total: members.count(family), ..Shelf::default() }
            });
            stocks.names.insert(pool.name.clone(), index);
            stocks.all.push(Stock { pool, v4, v6 });
        }
        stocks.v4.sort_unstable();
        stocks.v6.sort_unstable();
        stocks
    }

    const fn segments(&self, family: Family) -> &Segments {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    const fn segments_mut(&mut self, family: Family) -> &mut Segments {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }

    /// The pools in the order of the search.
    pub(super) fn all(&self) -> &[Stock] {
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
        let segments = self.segments(Family::of(address));
        let after = segments.partition_point(|(first, ..)| *first <= number);
        let (_, last, index) = segments[..after].last()?;
        (number <= *last).then_some(*index)
    }

    pub(super) fn of(&self, address: IpAddr) -> Option<&Stock> {
        self.index_of(address).map(|index| &self.all[index])
    }

    /// Whether `address`, which is in use by nobody, can be given.
    pub(super) fn is_free(&self, address: IpAddr) -> bool {
        self.of(address).is_some_and(|stock| stock.shelf(Family::of(address)).free.contains(number(address)))
    }

    /// `address` is used otherwise. Nothing happens for one that belongs to no pool.
    pub(super) fn change(&mut self, address: IpAddr, from: Use, to: Use) {
        let Some(stock) = self.index_of(address).map(|index| &mut self.all[index]) else { return };
        let number = number(address);
        let reserved = stock.pool.reserved.contains(address);
        let place = stock.shelf_mut(Family::of(address));
        let withdrawn = u128::from(reserved || !place.free.lists(number));
        match from {
            Use::Free(_) => place.free.take(number),
            Use::Held => {
                place.assigned -= 1;
                place.withdrawn -= withdrawn;
            }
            Use::Quarantined => {
                place.quarantined -= 1;
                place.withdrawn -= withdrawn;
            }
        }
        match to {
            Use::Free(_) if reserved => {}
            Use::Free(released) => place.free.give_back(number, released),
            Use::Held => {
                place.assigned += 1;
                place.withdrawn += withdrawn;
            }
            Use::Quarantined => {
                place.quarantined += 1;
                place.withdrawn += withdrawn;
            }
        }
    }

    /// Takes over from `former` when which addresses were let go, for those that are free.
    pub(super) fn remember(&mut self, former: &Self) {
        for stock in &former.all {
            for family in Family::ALL {
                for (number, released) in stock.shelf(family).free.history() {
                    let address = family.address(number);
                    if self.is_free(address) {
                        self.change(address, Use::Free(None), Use::Free(Some(released)));
                    }
                }
            }
        }
    }
}
