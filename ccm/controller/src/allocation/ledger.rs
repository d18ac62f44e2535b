//! The holders of each address, in memory: the allocator, and for each address its object and its future owners.
//!
//! The truth is the cluster: a `VirtualIP` object *is* the claim, because two objects cannot have one name. An entry of
//! the ledger is that object as it was seen last, and the Services that this controller is about to make owners of it.
//! What the allocator shows of an address follows from its entry alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use windlass_api::{Quarantine, QuarantineReason, ServiceRef, VirtualIP, VirtualIPPool, announced};
use windlass_ipam::{
    Adopted, AllocateError, Allocator, Counts, Family, Plan, Pool, QuarantineCause, Quarantined, Request,
    Terms,
};

use super::pools::{self, UnusableAddresses};
use crate::stores::clock::moment;
use windlass_ccm::store::version;

/// The `VirtualIP` of an address as it was seen last, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObservedVip {
    /// `metadata.uid`.
    pub(crate) uid: String,
    /// `metadata.resourceVersion`.
    pub(crate) version: u64,
    /// `spec.owners`: those that were known before come first, whatever their order in the object.
    pub(crate) owners: Vec<ServiceRef>,
    /// `spec.quarantine`.
    pub(crate) quarantine: Option<Quarantine>,
}

/// The object of one address, and the Services that are to become its owners.
#[derive(Debug, Default, PartialEq, Eq)]
struct AddressEntry {
    object: Option<ObservedVip>,
    /// Services that keep the address although no object names them: the object was deleted, or they were removed from its owners, or
    /// their status shows it. They are to become owners, before all others. None of them is one.
    retained: Vec<ServiceRef>,
    /// Services that were promised the address: the call that makes them owners is not made or not answered yet.
    pending_owners: Vec<ServiceRef>,
    /// While one of its present holders held it, some node announced it or a status showed it.
    was_in_use: bool,
}

/// An address as the allocator is to have it.
#[derive(Debug, PartialEq, Eq)]
enum AddressState {
    Held(Vec<ServiceRef>),
    InQuarantine(Quarantined<ServiceRef>),
}

/// The call that makes a Service an owner of an address that it was promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimAction {
    /// None: the object names it already.
    Owned,
    /// Create the object.
    Create,
    /// Set the owners of this object to these, which include it.
    Join { object: ObservedVip, owners: Vec<ServiceRef> },
    /// End the quarantine of this object for it.
    LiftQuarantine(ObservedVip),
}

/// The call that releases an address of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReleaseAction {
    /// None: it does not hold the address.
    None,
    /// Read the object: the answer to a call that made it an owner may have been lost.
    Read,
    /// Remove it from the owners; these remain.
    Leave { object: ObservedVip, remaining: Vec<ServiceRef> },
    /// It is the last owner that the object names, but others retain the address: first set the owners to these.
    HandOver { object: ObservedVip, owners: Vec<ServiceRef> },
    /// It is the last owner.
    LastOwner(ObservedVip),
}

/// Effects of an observation on one address.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LedgerChange {
    /// Services that no longer hold the address.
    pub(crate) lost: Vec<ServiceRef>,
    /// Services that hold the address but have to create the object again, or to become owners again.
    pub(crate) to_reclaim: Vec<ServiceRef>,
    /// Services that hold the address because the object names them, without a promise.
    pub(crate) joined: Vec<ServiceRef>,
    /// Others may be allocated the address now, or may join its owners.
    pub(crate) freed: bool,
}

impl ObservedVip {
    fn new(vip: &VirtualIP) -> Self {
        Self {
            uid: vip.uid().unwrap_or_default(),
            version: version(vip),
            owners: vip.spec.owners.clone(),
            quarantine: vip.spec.quarantine.clone(),
        }
    }

    /// The Services that hold the address by this object.
    fn holders(&self) -> &[ServiceRef] {
        if self.quarantine.is_some() { &[] } else { &self.owners }
    }
}

impl AddressEntry {
    fn address_state(&self) -> AddressState {
        let object = self.object.as_ref();
        let owners = object.map_or(&[][..], ObservedVip::holders);
        let holders: Vec<_> =
            self.retained.iter().chain(owners).chain(&self.pending_owners).cloned().collect();
        match object.and_then(|object| Some((object, object.quarantine.as_ref()?))) {
            Some((object, quarantine)) if holders.is_empty() => {
                AddressState::InQuarantine(quarantined(object, quarantine))
            }
            Some(_) | None => AddressState::Held(holders),
        }
    }

    fn owns(&self, holder: &ServiceRef) -> bool {
        self.object.as_ref().is_some_and(|object| object.holders().contains(holder))
    }

    fn is_promised(&self, holder: &ServiceRef) -> bool {
        self.retained.contains(holder) || self.pending_owners.contains(holder)
    }

    /// Records that `holder` is to become an owner, unless it is one.
    fn promise(&mut self, holder: &ServiceRef) {
        if !self.owns(holder) && !self.is_promised(holder) {
            self.pending_owners.push(holder.clone());
        }
    }

    /// Records a newer version of the object. `keep` returns true for Services that it no longer names but that retain the address.
    fn observe(&mut self, mut new: ObservedVip, keep: impl Fn(&ServiceRef, bool) -> bool) {
        if self.object.as_ref().is_some_and(|known| known.version >= new.version && new.version != 0) {
            return;
        }
        if let Some(known) = self.object.take() {
            // (Those kept are among the owners of an object in quarantine.)
            let others = known.owners.iter().filter(|one| !self.retained.contains(one));
            let known_first: Vec<ServiceRef> = self.retained.iter().chain(others).cloned().collect();
            let (before, others): (Vec<_>, Vec<_>) =
                std::mem::take(&mut new.owners).into_iter().partition(|one| known_first.contains(one));
            let in_order = known_first.into_iter().filter(|one| before.contains(one));
            new.owners = in_order.chain(others).collect();
            let dropped = known.holders().iter().filter(|one| !new.holders().contains(one));
            let retained: Vec<_> = dropped.filter(|one| keep(one, self.was_in_use)).cloned().collect();
            self.retained.extend(retained);
        }
        self.object = Some(new);
    }
}

fn quarantined(object: &ObservedVip, quarantine: &Quarantine) -> Quarantined<ServiceRef> {
    let (former, reason) = match quarantine.reason {
        QuarantineReason::Released => (object.owners.clone(), QuarantineCause::Released),
        QuarantineReason::AddressTaken | QuarantineReason::Unknown => {
            (Vec::new(), QuarantineCause::AddressTaken)
        }
    };
    // Who exists the state knows: see `set_abandoned`.
    Quarantined { former, until: moment(quarantine.until.0), reason, is_abandoned: false }
}

/// The holders of all addresses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    allocator: Allocator<ServiceRef>,
    entries: BTreeMap<IpAddr, AddressEntry>,
    /// Services that hold an address.
    holders: BTreeSet<ServiceRef>,
}

/// The allocator as these objects alone make it: pools with their limits, and the holders and quarantines of each address.
pub fn allocator(pools: &[VirtualIPPool], vips: &[VirtualIP], now: Timestamp) -> Allocator<ServiceRef> {
    let pools: Vec<_> = pools.iter().cloned().map(Arc::new).collect();
    let mut ledger = Ledger::default();
    let reviewed = pools::review(&pools, &UnusableAddresses::default(), |_| false);
    ledger.set_pools(reviewed.into_iter().map(|one| one.pool));
    for vip in vips {
        ledger.observe_object(vip, None, now, |owner| Terms::alone(&owner.namespace), |_, _| false);
    }
    ledger.allocator
}

impl Ledger {
    /// Sets the pools; what is held stays held.
    pub(crate) fn set_pools(&mut self, pools: impl IntoIterator<Item = Pool>) {
        self.allocator.replace_pools(pools);
    }

    /// Promises `holder` what it requests. What it does not own yet is to be claimed: see [`Self::claim_action`].
    pub(crate) fn allocate(
        &mut self,
        holder: &ServiceRef,
        request: &Request,
    ) -> Result<Plan, Box<AllocateError<ServiceRef>>> {
        let plan = self.allocator.prepare(holder, request).map_err(Box::new)?.commit();
        for planned in &plan.addresses {
            self.entries.entry(planned.address).or_default().promise(holder);
        }
        self.update_holders(holder);
        Ok(plan)
    }

    /// Adopts an address that the status of `holder` shows and that no object names it as an owner of: it retains the address, if the
    /// other holders share it or are to give way, and it is not in quarantine for another. `condition_says`: our condition lists the
    /// address as its own, so that it also gets it back from a quarantine after another Service. Returns true if it retains it.
    pub(crate) fn adopt(
        &mut self,
        address: IpAddr,
        holder: &ServiceRef,
        terms: &Terms,
        condition_says: bool,
        gives_way: impl Fn(&ServiceRef) -> bool,
    ) -> bool {
        match self.allocator.adopt(address, holder, terms) {
            Adopted::New | Adopted::Joined => {}
            Adopted::Quarantined
                if self.is_kept_back_for(address, holder)
                    || (condition_says && self.is_released(address)) =>
            {
                self.allocator.adopt_together(address, holder, terms);
            }
            Adopted::Conflict { .. } => {
                let others = self.holders(address).iter();
                let is_other = |other: &&ServiceRef| {
                    self.allocator.terms(other).is_none_or(|theirs| terms.fits(theirs).is_err())
                };
                let clashing: Vec<_> = others.filter(is_other).cloned().collect();
                if !clashing.iter().all(gives_way) {
                    return false;
                }
                self.allocator.adopt_together(address, holder, terms);
                for other in &clashing {
                    self.allocator.give_way(address, other);
                }
            }
            Adopted::Already | Adopted::Quarantined => return false,
        }
        let entry = self.entries.entry(address).or_default();
        entry.pending_owners.retain(|intent| intent != holder);
        entry.retained.push(holder.clone());
        self.update_holders(holder);
        true
    }

    /// Returns true if `address` is reserved so that `holder` may have it again.
    pub(crate) fn is_kept_back_for(&self, address: IpAddr, holder: &ServiceRef) -> bool {
        self.allocator.is_kept_back_for(address, holder)
    }

    /// Returns true if `address` is in quarantine because its owners released it.
    fn is_released(&self, address: IpAddr) -> bool {
        let object = self.entries.get(&address).and_then(|entry| entry.object.as_ref());
        let quarantine = object.and_then(|object| object.quarantine.as_ref());
        quarantine.is_some_and(|quarantine| quarantine.reason == QuarantineReason::Released)
    }

    /// Promises `address` to `holder`, together with its present holders and whatever their terms: an external IP.
    pub(crate) fn promise_external(&mut self, address: IpAddr, holder: &ServiceRef, terms: &Terms) {
        self.allocator.adopt_together(address, holder, terms);
        self.entries.entry(address).or_default().promise(holder);
        self.update_holders(holder);
    }

    /// Sets the sharing terms of `holder`.
    pub(crate) fn set_terms(&mut self, holder: &ServiceRef, terms: &Terms) {
        self.allocator.set_terms(holder, terms);
    }

    /// Puts `holder` after the holders of `address` that it cannot share with.
    pub(crate) fn give_way(&mut self, address: IpAddr, holder: &ServiceRef) {
        self.allocator.give_way(address, holder);
    }

    /// Addresses that deleted Services with the name of `holder` still hold.
    pub(crate) fn inherited(&self, holder: &ServiceRef) -> Vec<IpAddr> {
        let from = self.holders.range(holder.before_namesakes()..);
        let namesakes = from.take_while(|one| one.is_namesake(holder));
        namesakes.filter(|one| *one != holder).flat_map(|one| self.allocator.held_by(one)).collect()
    }

    /// Records that the status of `holder` shows `address`.
    pub(crate) fn mark_shown(&mut self, address: IpAddr, holder: &ServiceRef) {
        if self.holders(address).contains(holder)
            && let Some(entry) = self.entries.get_mut(&address)
        {
            entry.was_in_use = true;
        }
    }

    /// Returns true if one of its holders was using `address`: a node announced it, or a status showed it.
    pub(crate) fn was_in_use(&self, address: IpAddr) -> bool {
        self.entries.get(&address).is_some_and(|entry| entry.was_in_use)
    }

    fn update_holders(&mut self, holder: &ServiceRef) {
        if self.allocator.held_by(holder).next().is_none() {
            self.holders.remove(holder);
        } else if !self.holders.contains(holder) {
            self.holders.insert(holder.clone());
        }
    }

    /// The call that makes `holder` an owner of `address`, which it was promised.
    pub(crate) fn claim_action(&self, holder: &ServiceRef, address: IpAddr) -> ClaimAction {
        let Some(entry) = self.entries.get(&address) else { return ClaimAction::Create };
        match &entry.object {
            None => ClaimAction::Create,
            Some(object) if object.quarantine.is_some() => ClaimAction::LiftQuarantine(object.clone()),
            Some(object) if object.owners.contains(holder) => ClaimAction::Owned,
            Some(object) => {
                let mut owners = object.owners.clone();
                let succeeds = || Some(owners.iter().position(|one| one.is_namesake(holder))? + 1);
                let position =
                    if entry.retained.contains(holder) { 0 } else { succeeds().unwrap_or(owners.len()) };
                owners.insert(position, holder.clone());
                ClaimAction::Join { object: object.clone(), owners }
            }
        }
    }

    /// The call that releases `address` of `holder`.
    pub(crate) fn release_action(&self, holder: &ServiceRef, address: IpAddr) -> ReleaseAction {
        let Some(entry) = self.entries.get(&address) else { return ReleaseAction::None };
        match &entry.object {
            Some(object) if object.holders().contains(holder) => {
                let remaining: Vec<_> = object.owners.iter().filter(|one| *one != holder).cloned().collect();
                let object = object.clone();
                if !remaining.is_empty() {
                    ReleaseAction::Leave { object, remaining }
                } else if entry.retained.is_empty() {
                    ReleaseAction::LastOwner(object)
                } else {
                    ReleaseAction::HandOver {
                        object,
                        owners: entry.retained.iter().chain([holder]).cloned().collect(),
                    }
                }
            }
            Some(_) | None if entry.is_promised(holder) => ReleaseAction::Read,
            Some(_) | None => ReleaseAction::None,
        }
    }

    /// Records the object as a watch or an answer shows it. `requester`: the answer is to a call made for this Service, which is
    /// promised the address no longer unless the object names it. `keep` returns true for Services that keep the address although the
    /// object no longer names them; its arguments are the Service, and whether the address was in use.
    pub(crate) fn observe_object(
        &mut self,
        vip: &VirtualIP,
        requester: Option<&ServiceRef>,
        now: Timestamp,
        terms: impl Fn(&ServiceRef) -> Terms,
        keep: impl Fn(&ServiceRef, bool) -> bool,
    ) -> LedgerChange {
        let new = ObservedVip::new(vip);
        self.edit(vip.spec.address, now, terms, |entry| {
            entry.observe(new, keep);
            let was_announced = |condition: &Condition| {
                condition.status == "True" || condition.reason == announced::AGENT_STOPPED
            };
            let is_used = vip.announced().is_some_and(was_announced);
            entry.was_in_use |= is_used && vip.spec.quarantine.is_none();
            let object = entry.object.as_ref();
            let owns = |holder: &ServiceRef| object.is_some_and(|object| object.holders().contains(holder));
            entry.retained.retain(|retained| !owns(retained));
            entry.pending_owners.retain(|intent| Some(intent) != requester && !owns(intent));
        })
    }

    /// Records that the object with this UID is gone. `keep` returns true for owners that still want the address: it stays theirs,
    /// until the object is created again.
    pub(crate) fn object_deleted(
        &mut self,
        address: IpAddr,
        uid: &str,
        now: Timestamp,
        terms: impl Fn(&ServiceRef) -> Terms,
        keep: impl Fn(&ServiceRef) -> bool,
    ) -> LedgerChange {
        self.edit(address, now, terms, |entry| {
            if entry.object.as_ref().is_some_and(|object| object.uid != uid) {
                return;
            }
            let Some(object) = entry.object.take() else { return };
            entry.retained.extend(object.holders().iter().filter(|owner| keep(owner)).cloned());
        })
    }

    /// `holder` is not promised `address` any more, and does not keep it if `parts`: the object may name it all the same.
    pub(crate) fn cancel_promise(
        &mut self,
        holder: &ServiceRef,
        address: IpAddr,
        parts: bool,
        now: Timestamp,
        terms: impl Fn(&ServiceRef) -> Terms,
    ) -> LedgerChange {
        self.edit(address, now, terms, |entry| {
            entry.retained.retain(|retained| !(parts && retained == holder));
            entry.pending_owners.retain(|intent| intent != holder);
        })
    }

    /// Changes an entry and updates the allocator.
    fn edit(
        &mut self,
        address: IpAddr,
        now: Timestamp,
        terms: impl Fn(&ServiceRef) -> Terms,
        edit: impl FnOnce(&mut AddressEntry),
    ) -> LedgerChange {
        let entry = self.entries.entry(address).or_default();
        let before = entry.address_state();
        edit(entry);
        let after = entry.address_state();
        let to_own = |entry: &AddressEntry| match entry.object {
            Some(_) => entry.retained.clone(),
            None => entry.retained.iter().chain(&entry.pending_owners).cloned().collect(),
        };
        let mut change = LedgerChange { to_reclaim: to_own(entry), ..LedgerChange::default() };
        let pending_owners = entry.pending_owners.clone();
        if entry.object.is_none() && entry.retained.is_empty() && entry.pending_owners.is_empty() {
            self.entries.remove(&address);
        }
        if before == after {
            return change;
        }
        let (held, holds) = (holders(&before), holders(&after));
        change.lost = held.iter().filter(|one| !holds.contains(one)).cloned().collect();
        change.joined = holds.iter().filter(|one| !held.contains(one)).cloned().collect();
        change.freed = match &after {
            AddressState::Held(now) if now.is_empty() => true,
            AddressState::Held(_) => !change.lost.is_empty(),
            // For the one that it is kept back for.
            AddressState::InQuarantine(_) => true,
        };
        // It was in use for others.
        let is_new_to_all = holds.iter().all(|one| !held.contains(one)) && !held.is_empty();
        if is_new_to_all && let Some(entry) = self.entries.get_mut(&address) {
            entry.was_in_use = false;
        }
        let affected: Vec<_> = held.iter().chain(holds).cloned().collect();
        self.update_allocator(address, &before, after, &pending_owners, now, terms);
        for one in &affected {
            self.update_holders(one);
        }
        change
    }

    fn update_allocator(
        &mut self,
        address: IpAddr,
        before: &AddressState,
        after: AddressState,
        pending_owners: &[ServiceRef],
        now: Timestamp,
        terms: impl Fn(&ServiceRef) -> Terms,
    ) {
        let (held, holds) = (holders(before), holders(&after));
        // Those who stay keep their places, but who only intends to own it comes after all owners.
        let is_overtaken = holds.iter().any(|one| !held.contains(one) && !pending_owners.contains(one));
        let stays = |one: &ServiceRef| holds.contains(one) && !(is_overtaken && pending_owners.contains(one));
        for holder in held.iter().filter(|one| !stays(one)) {
            self.allocator.release(address, holder, moment(now));
        }
        let joining: Vec<_> =
            holds.iter().filter(|one| !held.contains(one) || !stays(one)).cloned().collect();
        // Whether it is kept back is what the object says, not what the pool would have.
        self.allocator.end_quarantine(address);
        match after {
            AddressState::Held(_) => {
                for holder in &joining {
                    self.allocator.adopt_together(address, holder, &terms(holder));
                }
            }
            AddressState::InQuarantine(quarantined) => {
                self.allocator.quarantine(address, quarantined);
            }
        }
    }

    /// Records whether all Services for which `address` is reserved are gone. Returns true if that changed.
    pub(crate) fn set_abandoned(&mut self, address: IpAddr, is_abandoned: bool) -> bool {
        self.allocator.set_abandoned(address, is_abandoned)
    }

    /// The objects whose quarantine has ended, with UID and version.
    pub(crate) fn ended_quarantines(&self, now: Timestamp) -> Vec<(IpAddr, ObservedVip)> {
        let ended_quarantines = self.allocator.ended_quarantines(moment(now));
        ended_quarantines
            .filter_map(|address| Some((address, self.entries.get(&address)?.object.clone()?)))
            .collect()
    }

    /// Returns the end of the next quarantine.
    pub(crate) fn next_quarantine_end(&self) -> Option<Timestamp> {
        let ended_quarantines = self.allocator.next_quarantine_end()?;
        Timestamp::from_millisecond(i64::try_from(ended_quarantines.0).ok()?).ok()
    }

    /// The allocator: what is in use, and what can be allocated.
    pub(crate) const fn allocator(&self) -> &Allocator<ServiceRef> {
        &self.allocator
    }

    /// Returns the addresses that `holder` holds, ascending.
    pub(crate) fn held_by(&self, holder: &ServiceRef) -> Vec<IpAddr> {
        self.allocator.held_by(holder).collect()
    }

    /// The holders of `address`, in the order of joining.
    pub(crate) fn holders(&self, address: IpAddr) -> &[ServiceRef] {
        self.allocator.holders(address)
    }

    /// Every address that is held and its holders, in the order of addresses.
    pub(crate) fn claims(&self) -> impl Iterator<Item = (IpAddr, &[ServiceRef])> {
        self.allocator.in_use()
    }

    /// The object of `address` as it was seen last.
    pub(crate) fn object(&self, address: IpAddr) -> Option<&ObservedVip> {
        self.entries.get(&address)?.object.as_ref()
    }

    /// The pool that holds `address` now.
    pub(crate) fn pool_of(&self, address: IpAddr) -> Option<&Pool> {
        self.allocator.pool_of(address)
    }

    /// Counts of a pool.
    pub(crate) fn counts(&self, pool: &str, family: Family) -> Counts {
        self.allocator.counts(pool, family)
    }
}

fn holders(address_state: &AddressState) -> &[ServiceRef] {
    match address_state {
        AddressState::Held(holders) => holders,
        AddressState::InQuarantine(_) => &[],
    }
}

#[cfg(test)]
mod tests;
