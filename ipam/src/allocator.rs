//! Allocation of addresses to owners.

mod assignments;
mod error;
mod free;
mod interned_terms;
mod planner;
mod usage;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use assignments::{Assignments, Joining};
pub use error::{AllocateError, PoolRefusal, RefusalReason, SharingConflict};
pub use usage::Counts;
use usage::{AddressState, Usage};

use crate::quarantine::Quarantine;
use crate::{
    Acquisition, Family, Moment, Owner, Plan, Policy, Pool, QuarantineCause, Quarantined, Request, Terms,
};

/// Outcome of adopting an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adopted<O> {
    /// The owner holds it now; it had no holder.
    New,
    /// The owner held it already.
    Already,
    /// The owner holds it together with its earlier holders.
    Joined,
    /// Another owner holds it, and its terms do not allow joining; nothing was changed.
    Conflict {
        /// Its holder.
        holder: O,
    },
    /// It is kept back; nothing was changed.
    Quarantined,
}

/// Outcome of [`Allocator::release`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The owner did not hold it; nothing was changed.
    NotHeld,
    /// Others still hold it.
    StillShared,
    /// It is kept back.
    Quarantined {
        /// Until then.
        until: Moment,
    },
    /// It can be given again.
    Free,
}

/// Gives addresses of pools to owners.
///
/// Addresses in use belong to the allocator, not to a pool: replacing the pools changes what can be given, never what
/// was given. The same state and the same request give the same answer.
///
/// Pools are searched in ascending order of their priority; of equal ones those with selectors come first, then the
/// name decides. An address that several pools list belongs to the first of them in this order, and to no other.
///
/// With n addresses in use and r ranges in all pools, each call costs O(log n + log r) for each address concerned and
/// each pool searched. Holders are hashed, so that every now and then, when their number has doubled, one call costs O(n).
/// [`Self::replace_pools`] costs O((n + r) log n), and only if they changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocator<O: Owner> {
    usage: Usage,
    assignments: Assignments<O>,
    quarantine: Quarantine<O>,
}

impl<O: Owner> Default for Allocator<O> {
    fn default() -> Self {
        Self {
            usage: Usage::default(),
            assignments: Assignments::default(),
            quarantine: Quarantine::default(),
        }
    }
}

/// A plan that can be carried out: the allocator cannot change before.
#[derive(Debug)]
#[must_use = "nothing is given before it is committed"]
pub struct Prepared<'a, O: Owner> {
    allocator: &'a mut Allocator<O>,
    owner: &'a O,
    terms: &'a Terms,
    plan: Plan,
}

impl<O: Owner> Prepared<'_, O> {
    /// Addresses that the owner will get.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Carries out the plan. The addresses in `to_release` are not released.
    pub fn commit(self) -> Plan {
        let Self { allocator, owner, terms, plan } = self;
        let mut has_terms = false;
        for planned in &plan.addresses {
            match planned.how {
                Acquisition::Kept => {}
                Acquisition::New | Acquisition::Joined | Acquisition::Reclaimed | Acquisition::Yielded => {
                    allocator.hold(planned.address, owner, terms, Joining::AsSuccessor);
                    has_terms = true;
                }
            }
        }
        if !has_terms {
            allocator.assignments.set_terms(owner, terms);
        }
        plan
    }
}

impl<O: Owner> Allocator<O> {
    /// An allocator in which nothing is in use.
    pub fn new(pools: impl IntoIterator<Item = Pool>) -> Self {
        let mut allocator = Self::default();
        allocator.replace_pools(pools);
        allocator
    }

    /// Replaces the pools from which addresses can be given. Addresses in use stay in use, quarantined ones stay quarantined. Of two
    /// pools with one name the last counts.
    pub fn replace_pools(&mut self, pools: impl IntoIterator<Item = Pool>) {
        let mut usage = Usage::new(pools);
        for address in self.assignments.addresses() {
            usage.change(address, AddressState::Free(None), AddressState::Held);
        }
        for (address, entry) in self.quarantine.unordered() {
            usage.change(address, AddressState::Free(None), AddressState::Quarantined(entry.yields()));
        }
        usage.carry_over_releases(&self.usage);
        let all = self.assignments.addresses().chain(self.quarantine.unordered().map(|(address, _)| address));
        for address in all.filter(|address| usage.limits_namespaces(*address)).collect::<Vec<_>>() {
            usage.charge(address, &BTreeSet::new(), &self.charged(address));
        }
        self.usage = usage;
    }

    /// The namespaces whose limits `address` counts against: those of its holders, or of those that it is kept back for.
    fn charged(&self, address: IpAddr) -> BTreeSet<String> {
        let kept_back = self.quarantine.get(address).map_or(&[][..], Quarantined::claimants);
        let owners = self.holders(address).iter().chain(kept_back);
        owners.map(|owner| owner.namespace().to_owned()).collect()
    }

    /// Changes the holders of `address`, and updates the counts.
    fn change<T>(&mut self, address: IpAddr, change: impl FnOnce(&mut Self) -> T) -> T {
        if !self.usage.limits_namespaces(address) {
            return change(self);
        }
        let before = self.charged(address);
        let done = change(self);
        let after = self.charged(address);
        self.usage.charge(address, &before, &after);
        done
    }

    /// The pools, in the order in which they are searched.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.usage.all().iter().map(|pool_usage| &pool_usage.pool)
    }

    /// The pool that `address` belongs to.
    pub fn pool_of(&self, address: IpAddr) -> Option<&Pool> {
        self.usage.of(address).map(|pool_usage| &pool_usage.pool)
    }

    /// Holders of `address`, in the order of joining: an owner that succeeds another (equal stable keys) next to it, owners that
    /// [gave way](Self::give_way) last.
    pub fn holders(&self, address: IpAddr) -> &[O] {
        self.assignments.holders(address)
    }

    /// Addresses that `owner` holds, in ascending order.
    pub fn held_by(&self, owner: &O) -> impl Iterator<Item = IpAddr> {
        self.assignments.held_by(owner).iter().copied()
    }

    /// Terms on which `owner` holds its addresses.
    pub fn terms(&self, owner: &O) -> Option<&Terms> {
        self.assignments.terms(owner)
    }

    /// Every address in use with its holders in the order of joining, in ascending order. Sorts them: O(n log n).
    pub fn in_use(&self) -> impl Iterator<Item = (IpAddr, &[O])> {
        self.assignments.iter()
    }

    /// Returns true if `address` can be given: it is in a pool, not reserved, and neither held nor kept back.
    pub fn is_free(&self, address: IpAddr) -> bool {
        self.usage.is_free(address)
    }

    /// Returns the quarantine of `address`, if it is kept back.
    pub fn quarantined(&self, address: IpAddr) -> Option<&Quarantined<O>> {
        self.quarantine.get(address)
    }

    /// Every address that is kept back, in ascending order. Sorts them: O(n log n).
    pub fn in_quarantine(&self) -> impl Iterator<Item = (IpAddr, &Quarantined<O>)> {
        self.quarantine.iter()
    }

    /// Every address that is kept back for `owner`, because it or one that it succeeds released it, in ascending order.
    pub fn kept_back_for(&self, owner: &O) -> &[IpAddr] {
        self.quarantine.kept_for(owner)
    }

    /// Returns true if `address` is kept back for `owner`.
    pub fn is_kept_back_for(&self, address: IpAddr, owner: &O) -> bool {
        self.kept_back_for(owner).contains(&address)
    }

    /// Returns true if `owner` may have `address` by naming it, although it is kept back for others of its namespace.
    pub fn stays_with_namespace(&self, address: IpAddr, owner: &O) -> bool {
        let stays = self.pool_of(address).is_some_and(|pool| !pool.policy.namespace_quarantine.is_zero());
        let kept_back = self.quarantine.get(address).filter(|_| stays);
        let mut former = kept_back.into_iter().flat_map(Quarantined::claimants);
        former.any(|former| former.namespace() == owner.namespace())
    }

    /// Records whether all owners for which `address` is kept back are gone. Returns true if that is a change.
    pub fn set_abandoned(&mut self, address: IpAddr, is_abandoned: bool) -> bool {
        let Some(known) = self.quarantine.get(address) else { return false };
        if known.is_abandoned == is_abandoned {
            return false;
        }
        let entry = Quarantined { is_abandoned, ..known.clone() };
        self.quarantine(address, entry);
        true
    }

    /// Returns true if `address` may be given to an owner that asks for any: it is free, or gives way if no other is.
    pub fn may_be_given(&self, address: IpAddr) -> bool {
        self.is_free(address) || self.quarantine.get(address).is_some_and(|entry| entry.yields().is_some())
    }

    /// Returns the reason why `pool` gives nothing new of `family` for `request`, whether it has any or not; limits aside.
    pub fn refuses(&self, pool: &Pool, request: &Request, family: Family) -> Option<RefusalReason> {
        planner::refuses(&self.usage, pool, request, family)
    }

    /// Returns the limit of its pool that `owner` would exceed with `address`, by its `request`.
    pub fn exceeds_limits(&self, owner: &O, request: &Request, address: IpAddr) -> Option<RefusalReason> {
        planner::exceeds_limits(self, owner, request, address)
    }

    /// Returns the limit of `pool` that keeps `owner` from the addresses of `family` that its `request` needs beyond those that it
    /// keeps.
    pub fn reached_limit(
        &self,
        owner: &O,
        request: &Request,
        pool: &str,
        family: Family,
    ) -> Option<RefusalReason> {
        planner::reached_limit(self, owner, request, pool, family)
    }

    /// Addresses whose quarantine has expired at `now`, the earliest first. They stay in it until [`Self::end_quarantine`].
    pub fn ended_quarantines(&self, now: Moment) -> impl Iterator<Item = IpAddr> {
        self.quarantine.due(now)
    }

    /// Time at which the next quarantine expires.
    pub fn next_quarantine_end(&self) -> Option<Moment> {
        self.quarantine.next_due()
    }

    /// Counts of `pool`, exact; zero for a pool that does not exist.
    pub fn counts(&self, pool: &str, family: Family) -> Counts {
        self.usage.named(pool).map_or_else(Counts::default, |index| self.usage.all()[index].counts(family))
    }

    /// Plans the addresses of `owner`. It keeps the addresses that it holds, unless it asks for something else (other addresses,
    /// another pool, fewer of them, another family) or has changed its terms so that they do not fit a holder it shares with: the
    /// owner that changed leaves, the others stay.
    ///
    /// It takes further addresses, as far as the request and the pools' [`Limits`](crate::Limits) allow, in this order:
    /// - addresses that it is known to have,
    /// - addresses shared under its key,
    /// - addresses held by owners that it succeeds and addresses kept back for it (the lowest first),
    /// - free addresses,
    /// - addresses kept back for others that are gone (the first to be free first).
    ///
    /// # Errors
    /// [`AllocateError`] gives the reason; the owner still holds its addresses then, see [`Self::sharing_conflicts`].
    pub fn plan(&self, owner: &O, request: &Request) -> Result<Plan, AllocateError<O>> {
        planner::plan(self, owner, request)
    }

    /// Plans, so that the plan can be carried out.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub fn prepare<'a>(
        &'a mut self,
        owner: &'a O,
        request: &'a Request,
    ) -> Result<Prepared<'a, O>, AllocateError<O>> {
        let plan = self.plan(owner, request)?;
        Ok(Prepared { allocator: self, owner, terms: &request.terms, plan })
    }

    /// Addresses that `owner` holds and may not keep on these terms, ascending, each with a holder whose terms they do not fit and
    /// the reason.
    pub fn sharing_conflicts(&self, owner: &O, terms: &Terms) -> Vec<SharingConflict<O>> {
        let conflict = |address: IpAddr| {
            let (holder, why) = planner::conflict(self, address, owner, terms)?;
            Some(SharingConflict { address, holder: holder.clone(), why })
        };
        self.held_by(owner).filter_map(conflict).collect()
    }

    /// Moves `owner` to the end of the order of joining of `address`, if it does not fit others that hold it. [`Self::set_terms`]
    /// does so for an owner that changes its terms; after a restart the caller has to do it for owners that changed meanwhile.
    pub fn give_way(&mut self, address: IpAddr, owner: &O) {
        self.assignments.give_way(address, owner);
    }

    /// Records that `owner` holds `address`, in a pool or not: it is known to have it. Joins others if the terms of all allow it.
    pub fn adopt(&mut self, address: IpAddr, owner: &O, terms: &Terms) -> Adopted<O> {
        if self.quarantine.get(address).is_some() {
            return Adopted::Quarantined;
        }
        match planner::conflict(self, address, owner, terms) {
            Some((holder, _)) if !self.holders(address).contains(owner) => {
                Adopted::Conflict { holder: holder.clone() }
            }
            Some(_) | None => self.add_holder(address, owner, terms, Joining::AsSuccessor),
        }
    }

    /// Records that `owner` holds `address`, together with its other holders and whatever the terms: the cluster shows it so. Ends
    /// its quarantine, if any. It comes last, so that the order of the holders is that in which the cluster lists them.
    pub fn adopt_together(&mut self, address: IpAddr, owner: &O, terms: &Terms) -> Adopted<O> {
        self.add_holder(address, owner, terms, Joining::Last)
    }

    fn add_holder(&mut self, address: IpAddr, owner: &O, terms: &Terms, joining: Joining) -> Adopted<O> {
        let holders = self.holders(address);
        if holders.contains(owner) {
            self.assignments.set_terms(owner, terms);
            return Adopted::Already;
        }
        let adopted = if holders.is_empty() { Adopted::New } else { Adopted::Joined };
        self.hold(address, owner, terms, joining);
        adopted
    }

    /// Changes the terms of `owner`. It still holds its addresses, also shared ones; where the terms do not fit it [gives
    /// way](Self::give_way), and [`Self::sharing_conflicts`] returns the addresses that it may not keep.
    pub fn set_terms(&mut self, owner: &O, terms: &Terms) {
        self.assignments.set_terms(owner, terms);
    }

    fn hold(&mut self, address: IpAddr, owner: &O, terms: &Terms, joining: Joining) {
        self.change(address, |this| {
            let shared = this.assignments.join(address, owner, terms, joining);
            if let Some(entry) = this.quarantine.remove(address) {
                this.usage.change(address, AddressState::Quarantined(entry.yields()), AddressState::Held);
            } else if !shared {
                this.usage.change(address, AddressState::Free(None), AddressState::Held);
            }
        });
    }

    /// Releases `address` from `owner`. If it has no other holder, it is kept back for the time of its pool's policy, or for
    /// [`Policy::QUARANTINE`] if it is in no pool.
    pub fn release(&mut self, address: IpAddr, owner: &O, now: Moment) -> Released {
        self.change(address, |this| match this.assignments.leave(address, owner) {
            None => Released::NotHeld,
            Some(true) => Released::StillShared,
            Some(false) => {
                let time =
                    this.pool_of(address).map_or(Policy::QUARANTINE, |pool| pool.policy.kept_back_for());
                if time < Duration::from_millis(1) {
                    this.usage.change(address, AddressState::Held, AddressState::Free(Some(now)));
                    return Released::Free;
                }
                let until = now.after(time);
                let (former, reason) = (vec![owner.clone()], QuarantineCause::Released);
                this.quarantine.insert(address, Quarantined { former, until, reason, is_abandoned: false });
                this.usage.change(address, AddressState::Held, AddressState::Quarantined(None));
                Released::Quarantined { until }
            }
        })
    }

    /// Removes `address` from `owner`, which never really had it: it was not used, so that it is not kept back. Returns true if the
    /// owner was recorded as a holder.
    pub fn disown(&mut self, address: IpAddr, owner: &O) -> bool {
        self.change(address, |this| match this.assignments.leave(address, owner) {
            None => false,
            Some(true) => true,
            Some(false) => {
                this.usage.change(address, AddressState::Held, AddressState::Free(None));
                true
            }
        })
    }

    /// Keeps `address` back, and removes its holders.
    pub fn quarantine(&mut self, address: IpAddr, quarantined: Quarantined<O>) {
        self.change(address, |this| {
            let holders = this.assignments.holders(address).to_vec();
            for holder in &holders {
                this.assignments.leave(address, holder);
            }
            let to = AddressState::Quarantined(quarantined.yields());
            let from = match this.quarantine.insert(address, quarantined) {
                Some(known) => AddressState::Quarantined(known.yields()),
                None if holders.is_empty() => AddressState::Free(None),
                None => AddressState::Held,
            };
            this.usage.change(address, from, to);
        });
    }

    /// Ends the quarantine of `address`, whether it is due or not; returns true if there was one.
    pub fn end_quarantine(&mut self, address: IpAddr) -> bool {
        self.change(address, |this| {
            let Some(entry) = this.quarantine.remove(address) else { return false };
            let released = match entry.reason {
                QuarantineCause::Released => Some(entry.until),
                QuarantineCause::AddressTaken => None,
            };
            let from = AddressState::Quarantined(entry.yields());
            this.usage.change(address, from, AddressState::Free(released));
            true
        })
    }
}

#[cfg(test)]
mod tests;
