//! Which address goes to whom.

mod error;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

pub use error::{AllocateError, Refusal, Refused};

use crate::family::number;
use crate::{AddressSet, Family, Pool};

/// What an owner asks for; the default is any address of an auto-assign pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Only from this pool, whether it is auto-assign or not.
    pub pool: Option<String>,
    /// This very address.
    pub address: Option<IpAddr>,
}

/// An address given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// The address.
    pub address: IpAddr,
    /// The pool that holds it; `None` if its pool is gone since it was given.
    pub pool: Option<String>,
}

/// Outcome of [`Allocator::adopt`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adopted<O> {
    /// The owner holds it now.
    New,
    /// The owner held it already.
    Already,
    /// Another owner holds it; nothing was changed.
    Conflict {
        /// Who holds it.
        holder: O,
    },
}

/// How many addresses of one family a pool has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Addresses in the pool.
    pub total: u128,
    /// Of these, in use.
    pub assigned: u128,
}

impl Counts {
    /// Addresses that can be given.
    pub const fn available(&self) -> u128 {
        self.total - self.assigned
    }
}

/// Gives addresses of pools to owners.
///
/// Addresses in use belong to the allocator, not to a pool: replacing the pools changes what can be given, never what
/// was given. The same calls in the same order give the same addresses: pools are searched in the order of their
/// names, and each gives its lowest free address.
///
/// Finding a free address costs O(r · log n) for a pool of r ranges and n addresses in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocator<O: Ord> {
    pools: BTreeMap<String, Pool>,
    holders: BTreeMap<IpAddr, O>,
    held: BTreeMap<O, BTreeSet<IpAddr>>,
    used: AddressSet,
}

impl<O: Ord> Default for Allocator<O> {
    fn default() -> Self {
        Self {
            pools: BTreeMap::new(),
            holders: BTreeMap::new(),
            held: BTreeMap::new(),
            used: AddressSet::default(),
        }
    }
}

impl<O: Ord + Clone> Allocator<O> {
    /// An allocator in which nothing is in use.
    pub fn new(pools: impl IntoIterator<Item = Pool>) -> Self {
        let mut allocator = Self::default();
        allocator.replace_pools(pools);
        allocator
    }

    /// Sets which addresses can be given from now on. What is in use stays in use. Of two pools with one name the last
    /// counts.
    pub fn replace_pools(&mut self, pools: impl IntoIterator<Item = Pool>) {
        self.pools = pools.into_iter().map(|pool| (pool.name.clone(), pool)).collect();
    }

    /// The pools, in the order of their names.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.pools.values()
    }

    /// The first pool that holds `address`.
    pub fn pool_of(&self, address: IpAddr) -> Option<&Pool> {
        self.pools.values().find(|pool| pool.addresses.contains(address))
    }

    /// Who holds `address`.
    pub fn holder(&self, address: IpAddr) -> Option<&O> {
        self.holders.get(&address)
    }

    /// What `owner` holds, in ascending order.
    pub fn held_by(&self, owner: &O) -> impl Iterator<Item = IpAddr> {
        self.held.get(owner).into_iter().flatten().copied()
    }

    /// Every address in use with its holder, in ascending order.
    pub fn in_use(&self) -> impl Iterator<Item = (IpAddr, &O)> {
        self.holders.iter().map(|(address, owner)| (*address, owner))
    }

    /// Gives `owner` an address of `family`. An owner that already holds one that answers the request gets that one
    /// again, even if its pool is gone, so long as the request names no pool.
    ///
    /// # Errors
    /// [`AllocateError`] says why; nothing is changed then.
    pub fn allocate(
        &mut self,
        owner: &O,
        family: Family,
        request: &Request,
    ) -> Result<Allocation, AllocateError> {
        let allocation = self.find(owner, family, request)?;
        self.take(allocation.address, owner);
        Ok(allocation)
    }

    /// What [`Self::allocate`] would give.
    ///
    /// # Errors
    /// As [`Self::allocate`].
    pub fn find(&self, owner: &O, family: Family, request: &Request) -> Result<Allocation, AllocateError> {
        let named = match &request.pool {
            None => None,
            Some(name) => Some(self.pools.get(name).ok_or_else(|| AllocateError::UnknownPool {
                pool: name.clone(),
                known: self.pools.keys().cloned().collect(),
            })?),
        };
        if let Some(address) = request.address {
            return self.find_address(owner, family, address, named);
        }
        let keeps = |address: &IpAddr| {
            Family::of(*address) == family && named.is_none_or(|pool| pool.addresses.contains(*address))
        };
        if let Some(address) = self.held_by(owner).find(keeps) {
            return Ok(self.allocation(address, named));
        }
        if let Some(pool) = named {
            return match self.lowest_free(pool, family) {
                Ok(address) => Ok(Allocation { address, pool: Some(pool.name.clone()) }),
                Err(refusal) => {
                    let refused = Refused { pool: pool.name.clone(), why: refusal };
                    Err(AllocateError::Exhausted { family, considered: vec![refused] })
                }
            };
        }
        let mut considered = Vec::new();
        for pool in self.pools.values() {
            let found =
                if pool.auto_assign { self.lowest_free(pool, family) } else { Err(Refusal::NotAutoAssign) };
            match found {
                Ok(address) => return Ok(Allocation { address, pool: Some(pool.name.clone()) }),
                Err(why) => considered.push(Refused { pool: pool.name.clone(), why }),
            }
        }
        Err(AllocateError::Exhausted { family, considered })
    }

    fn find_address(
        &self,
        owner: &O,
        family: Family,
        address: IpAddr,
        named: Option<&Pool>,
    ) -> Result<Allocation, AllocateError> {
        if Family::of(address) != family {
            return Err(AllocateError::WrongFamily { address, family });
        }
        if let Some(pool) = named
            && !pool.addresses.contains(address)
        {
            return Err(AllocateError::NotInPool {
                address,
                pool: pool.name.clone(),
                range: pool.addresses.to_string(),
            });
        }
        match self.holder(address) {
            Some(holder) if holder != owner => Err(AllocateError::Taken { address }),
            None if named.is_none() && self.pool_of(address).is_none() => {
                Err(AllocateError::InNoPool { address, known: self.pools.keys().cloned().collect() })
            }
            Some(_) | None => Ok(self.allocation(address, named)),
        }
    }

    fn allocation(&self, address: IpAddr, named: Option<&Pool>) -> Allocation {
        let pool = named.or_else(|| self.pool_of(address));
        Allocation { address, pool: pool.map(|pool| pool.name.clone()) }
    }

    fn lowest_free(&self, pool: &Pool, family: Family) -> Result<IpAddr, Refusal> {
        let mut empty = true;
        for (first, last) in pool.addresses.runs(family).iter() {
            empty = false;
            if let Some(free) = self.used.runs(family).lowest_absent(first, last) {
                return Ok(family.address(free));
            }
        }
        if empty {
            return Err(Refusal::OtherFamily);
        }
        Err(Refusal::Full { total: pool.addresses.count(family) })
    }

    /// Notes that `owner` holds `address`, in a pool or not: it is known from the cluster. Idempotent.
    pub fn adopt(&mut self, address: IpAddr, owner: &O) -> Adopted<O> {
        match self.holders.get(&address) {
            Some(holder) if holder == owner => Adopted::Already,
            Some(holder) => Adopted::Conflict { holder: holder.clone() },
            None => {
                self.take(address, owner);
                Adopted::New
            }
        }
    }

    fn take(&mut self, address: IpAddr, owner: &O) {
        self.holders.insert(address, owner.clone());
        self.held.entry(owner.clone()).or_default().insert(address);
        self.used.insert_address(address);
    }

    /// Frees `address` if `owner` holds it, and says whether it did.
    pub fn release(&mut self, address: IpAddr, owner: &O) -> bool {
        if self.holders.get(&address) != Some(owner) {
            return false;
        }
        self.holders.remove(&address);
        self.used.remove_address(address);
        if let Some(held) = self.held.get_mut(owner) {
            held.remove(&address);
            if held.is_empty() {
                self.held.remove(owner);
            }
        }
        true
    }

    /// Counts of `pool`, exact; zero for a pool that does not exist. Costs O(r · log n + used runs).
    pub fn counts(&self, pool: &str, family: Family) -> Counts {
        let Some(pool) = self.pools.get(pool) else { return Counts::default() };
        let used = self.used.runs(family);
        let assigned = pool.addresses.runs(family).iter().flat_map(|(first, last)| used.within(first, last));
        Counts {
            total: pool.addresses.count(family),
            assigned: assigned.map(|(first, last)| last - first + 1).sum(),
        }
    }

    /// Whether `address` is in use.
    pub fn is_used(&self, address: IpAddr) -> bool {
        self.used.runs(Family::of(address)).contains(number(address))
    }
}

#[cfg(test)]
mod tests;
