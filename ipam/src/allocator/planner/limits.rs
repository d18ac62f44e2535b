//! Addresses of a pool that the limits still allow an owner.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::Planner;
use crate::allocator::RefusalReason;
use crate::{Acquisition, Family, Owner, Quarantined};

/// Room under a limit.
#[derive(Debug, Clone, Copy)]
struct Room {
    limit: u32,
    /// Number of addresses that count against it.
    used: usize,
    /// Number of addresses that the plan adds.
    added: usize,
}

impl Room {
    const fn left(self) -> usize {
        (self.limit as usize).saturating_sub(self.used + self.added)
    }

    const fn of_namespace(self) -> RefusalReason {
        RefusalReason::NamespaceLimit { limit: self.limit, used: self.used }
    }

    const fn of_owner(self) -> RefusalReason {
        RefusalReason::OwnerLimit { limit: self.limit, used: self.used }
    }
}

impl<O: Owner> Planner<'_, O> {
    /// Returns how many addresses of `family` that do not count yet the limits of the pool allow.
    pub(super) fn room(&self, index: usize, family: Family) -> usize {
        let rooms = self.rooms(index, family).into_iter().flatten();
        rooms.map(Room::left).min().unwrap_or(usize::MAX)
    }

    /// Returns the limit of the pool that `address`, which is not picked, would exceed.
    pub(super) fn exceeds_limits(&self, index: usize, address: IpAddr) -> Option<RefusalReason> {
        let (in_namespace, own) = self.is_charged(address);
        let [namespace, owner] = self.rooms(index, Family::of(address));
        let namespace = namespace.filter(|room| !in_namespace && room.left() == 0);
        let owner = owner.filter(|room| !own && room.left() == 0);
        namespace.map(Room::of_namespace).or_else(|| owner.map(Room::of_owner))
    }

    /// Returns the limit of the pool that keeps the owner from the addresses of `family` that it still wants.
    pub(super) fn reached_limit(&self, index: usize, family: Family) -> Option<RefusalReason> {
        let wanted = self.wanted(family);
        let [namespace, owner] =
            self.rooms(index, family).map(|room| room.filter(|room| room.left() < wanted));
        namespace.map(Room::of_namespace).or_else(|| owner.map(Room::of_owner))
    }

    /// Returns the room that the limits of the pool leave to the namespace and to the owner.
    fn rooms(&self, index: usize, family: Family) -> [Option<Room>; 2] {
        let pool_usage = &self.allocator.usage.all()[index];
        let limits = pool_usage.pool.policy.limits;
        let picked = || {
            let here = |(address, _): &&(IpAddr, Acquisition)| {
                Family::of(*address) == family && self.allocator.usage.index_of(*address) == Some(index)
            };
            let is_charged = |(address, how): &(IpAddr, Acquisition)| match how {
                // What others leave counts as one more, whose ever it was.
                Acquisition::Yielded => (false, false),
                Acquisition::Kept | Acquisition::New | Acquisition::Joined | Acquisition::Reclaimed => {
                    self.is_charged(*address)
                }
            };
            self.picked.iter().filter(here).map(is_charged)
        };
        let namespace = limits.per_namespace.map(|limit| Room {
            limit,
            used: pool_usage.charged(family, self.owner.namespace()) as usize,
            added: picked().filter(|(charged, _)| !charged).count(),
        });
        let owner = limits.per_owner.map(|limit| Room {
            limit,
            used: self.owned(index, family),
            added: picked().filter(|(_, own)| !own).count(),
        });
        [namespace, owner]
    }

    /// Returns two flags: true if `address` counts already against the limit of the owner's namespace, and against that of the owner.
    fn is_charged(&self, address: IpAddr) -> (bool, bool) {
        let allocator = self.allocator;
        let kept_back = allocator.quarantine.get(address).map_or(&[][..], Quarantined::claimants);
        let mut all = allocator.holders(address).iter().chain(kept_back);
        let own = all.clone().any(|one| one.stable_key() == self.owner.stable_key());
        (all.any(|one| one.namespace() == self.owner.namespace()), own)
    }

    /// Returns how many addresses of the pool and family the owner or one that it succeeds holds, or are kept back for the owner.
    fn owned(&self, index: usize, family: Family) -> usize {
        let inherited = self.request.inherited.iter().filter(|address| {
            let mut holders = self.allocator.holders(**address).iter();
            holders.any(|holder| holder.stable_key() == self.owner.stable_key())
        });
        let all = self.held.iter().chain(inherited).chain(self.allocator.kept_back_for(self.owner));
        let here = |address: &&IpAddr| {
            Family::of(**address) == family && self.allocator.usage.index_of(**address) == Some(index)
        };
        all.filter(here).collect::<BTreeSet<_>>().len()
    }
}
