//! Who holds which address, in memory: the allocator, and for each address what stands behind it.
//!
//! The truth is the cluster: a `VirtualIP` object *is* the claim, because two objects cannot have one name. An entry of
//! the ledger is that object as it was seen last, and the Services that this controller is about to make owners of it.
//! What the allocator shows of an address follows from its entry alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use windlass_api::{Quarantine, QuarantineReason, REASON_AGENT_STOPPED, ServiceRef, VirtualIP};
use windlass_ipam::{
    Adopted, AllocateError, Allocator, Counts, Family, Plan, Pool, QuarantineCause, Quarantined, Request,
    Terms,
};

use crate::controller::stores::clock::moment;
use windlass_ccm::store::version;

/// The object behind an address, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// `metadata.uid`.
    pub(crate) uid: String,
    /// `metadata.resourceVersion`.
    pub(crate) version: u64,
    /// `spec.owners`: those that were known before come first, whatever order a hand gave them.
    pub(crate) owners: Vec<ServiceRef>,
    /// `spec.quarantine`.
    pub(crate) quarantine: Option<Quarantine>,
}

/// One address.
#[derive(Debug, Default, PartialEq, Eq)]
struct Entry {
    object: Option<Seen>,
    /// Services that keep the address although no object says that it is theirs: a hand took the object, or their names from
    /// it, or their status shows it. They are to become owners, before everybody else. None of them is one.
    kept: Vec<ServiceRef>,
    /// Services that are to become owners: the call is not made or not answered yet. None of them is one already.
    intents: Vec<ServiceRef>,
    /// Since one of those who have it had it, some node was seen to announce it, or the status of one of them to show it.
    proven: bool,
}

/// What the allocator is to show of an address.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Held(Vec<ServiceRef>),
    KeptBack(Quarantined<ServiceRef>),
}

/// What is to be done so that a Service owns an address that it was promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Nothing: the object names it.
    Owned,
    /// The object is to be made.
    Create,
    /// The owners of this object are to be these, it among them.
    Join { object: Seen, owners: Vec<ServiceRef> },
    /// This object is in quarantine, and is to be taken out for it.
    Recall(Seen),
}

/// How a Service is to be parted from an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// It has no part in it.
    None,
    /// The answer to a call may have been lost: whether it owns the object is to be read.
    Read,
    /// Others own the object too; these stay.
    Leave { object: Seen, stay: Vec<ServiceRef> },
    /// It is the last owner that the object names, but others keep the address: the owners are to be these first.
    Yield { object: Seen, owners: Vec<ServiceRef> },
    /// It is the last owner.
    Last(Seen),
}

/// What an observation changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Services that held the address and do not any more.
    pub(crate) lost: Vec<ServiceRef>,
    /// Services that hold the address but have to make the object again, or put themselves back among its owners.
    pub(crate) bare: Vec<ServiceRef>,
    /// Services that the object names, and that were not promised the address.
    pub(crate) joined: Vec<ServiceRef>,
    /// Others may be given the address now, or may join its owners.
    pub(crate) freed: bool,
}

impl Seen {
    fn new(vip: &VirtualIP) -> Self {
        Self {
            uid: vip.uid().unwrap_or_default(),
            version: version(vip),
            owners: vip.spec.owners.clone(),
            quarantine: vip.spec.quarantine.clone(),
        }
    }

    /// The Services that have the address by this object.
    fn holders(&self) -> &[ServiceRef] {
        if self.quarantine.is_some() { &[] } else { &self.owners }
    }
}

impl Entry {
    fn standing(&self) -> Standing {
        let object = self.object.as_ref();
        let owners = object.map_or(&[][..], Seen::holders);
        let holders: Vec<_> = self.kept.iter().chain(owners).chain(&self.intents).cloned().collect();
        match object.and_then(|object| Some((object, object.quarantine.as_ref()?))) {
            Some((object, quarantine)) if holders.is_empty() => {
                Standing::KeptBack(kept_back(object, quarantine))
            }
            Some(_) | None => Standing::Held(holders),
        }
    }

    fn owns(&self, holder: &ServiceRef) -> bool {
        self.object.as_ref().is_some_and(|object| object.holders().contains(holder))
    }

    fn is_promised(&self, holder: &ServiceRef) -> bool {
        self.kept.contains(holder) || self.intents.contains(holder)
    }

    /// `holder` is to become an owner, unless it is one.
    fn promise(&mut self, holder: &ServiceRef) {
        if !self.owns(holder) && !self.is_promised(holder) {
            self.intents.push(holder.clone());
        }
    }

    /// The object is this one now. `keep` says which Services that it names no more keep the address.
    fn see(&mut self, mut new: Seen, keep: impl Fn(&ServiceRef, bool) -> bool) {
        if self.object.as_ref().is_some_and(|known| known.version >= new.version && new.version != 0) {
            return;
        }
        if let Some(known) = self.object.take() {
            // (Those kept are among the owners of an object in quarantine.)
            let others = known.owners.iter().filter(|one| !self.kept.contains(one));
            let known_first: Vec<ServiceRef> = self.kept.iter().chain(others).cloned().collect();
            let (before, others): (Vec<_>, Vec<_>) =
                std::mem::take(&mut new.owners).into_iter().partition(|one| known_first.contains(one));
            let in_order = known_first.into_iter().filter(|one| before.contains(one));
            new.owners = in_order.chain(others).collect();
            let dropped = known.holders().iter().filter(|one| !new.holders().contains(one));
            let kept: Vec<_> = dropped.filter(|one| keep(one, self.proven)).cloned().collect();
            self.kept.extend(kept);
        }
        self.object = Some(new);
    }
}

fn kept_back(object: &Seen, quarantine: &Quarantine) -> Quarantined<ServiceRef> {
    let (former, reason) = match quarantine.reason {
        QuarantineReason::Released => (object.owners.clone(), QuarantineCause::Released),
        QuarantineReason::AddressTaken | QuarantineReason::Unknown => {
            (Vec::new(), QuarantineCause::AddressTaken)
        }
    };
    Quarantined { former, until: moment(quarantine.until.0), reason }
}

/// The ledger.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    allocator: Allocator<ServiceRef>,
    entries: BTreeMap<IpAddr, Entry>,
    /// Everybody who holds something.
    holders: BTreeSet<ServiceRef>,
}

impl Ledger {
    /// Sets which addresses can be given; what is held stays held.
    pub(crate) fn set_pools(&mut self, pools: impl IntoIterator<Item = Pool>) {
        self.allocator.replace_pools(pools);
    }

    /// Promises `holder` what it asks for. What is not its own yet is to be claimed: see [`Self::claim`].
    pub(crate) fn place(
        &mut self,
        holder: &ServiceRef,
        request: &Request,
    ) -> Result<Plan, Box<AllocateError<ServiceRef>>> {
        let plan = self.allocator.prepare(holder, request).map_err(Box::new)?.commit();
        for planned in &plan.addresses {
            self.entries.entry(planned.address).or_default().promise(holder);
        }
        self.list(holder);
        Ok(plan)
    }

    /// The Service's status shows `address`, and no object says that it has it: it keeps it, if others who have it share it or
    /// are to give way, and it is not kept back from it. `is_told`: nor is it where our condition tells that it is its own, and
    /// another one let go of it. Says whether it does.
    pub(crate) fn adopt(
        &mut self,
        address: IpAddr,
        holder: &ServiceRef,
        terms: &Terms,
        is_told: bool,
        gives_way: impl Fn(&ServiceRef) -> bool,
    ) -> bool {
        match self.allocator.adopt(address, holder, terms) {
            Adopted::New | Adopted::Joined => {}
            Adopted::Quarantined
                if self.is_kept_back_for(address, holder) || (is_told && self.is_released(address)) =>
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
        entry.intents.retain(|intent| intent != holder);
        entry.kept.push(holder.clone());
        self.list(holder);
        true
    }

    /// Whether `address` is kept back so that `holder` may have it again.
    pub(crate) fn is_kept_back_for(&self, address: IpAddr, holder: &ServiceRef) -> bool {
        self.allocator.is_kept_back_for(address, holder)
    }

    /// Whether `address` is kept back because its owners let go of it.
    fn is_released(&self, address: IpAddr) -> bool {
        let object = self.entries.get(&address).and_then(|entry| entry.object.as_ref());
        let quarantine = object.and_then(|object| object.quarantine.as_ref());
        quarantine.is_some_and(|quarantine| quarantine.reason == QuarantineReason::Released)
    }

    /// Promises `address` to `holder`, together with who has it and whatever their terms: an external IP.
    pub(crate) fn promise_external(&mut self, address: IpAddr, holder: &ServiceRef, terms: &Terms) {
        self.allocator.adopt_together(address, holder, terms);
        self.entries.entry(address).or_default().promise(holder);
        self.list(holder);
    }

    /// `holder` uses what it holds in another way.
    pub(crate) fn set_terms(&mut self, holder: &ServiceRef, terms: &Terms) {
        self.allocator.set_terms(holder, terms);
    }

    /// `holder` comes after those that it does not fit at `address`.
    pub(crate) fn give_way(&mut self, address: IpAddr, holder: &ServiceRef) {
        self.allocator.give_way(address, holder);
    }

    /// What Services of the name of `holder` hold that are others: they were deleted, and it was made anew.
    pub(crate) fn inherited(&self, holder: &ServiceRef) -> Vec<IpAddr> {
        let from = self.holders.range(holder.before_namesakes()..);
        let namesakes = from.take_while(|one| one.is_namesake(holder));
        namesakes.filter(|one| *one != holder).flat_map(|one| self.allocator.held_by(one)).collect()
    }

    /// The status of `holder` shows `address`.
    pub(crate) fn shown(&mut self, address: IpAddr, holder: &ServiceRef) {
        if self.holders(address).contains(holder)
            && let Some(entry) = self.entries.get_mut(&address)
        {
            entry.proven = true;
        }
    }

    /// Whether `address` was in use by one of those who have it: some node was seen to announce it, or a status to show it.
    pub(crate) fn is_proven(&self, address: IpAddr) -> bool {
        self.entries.get(&address).is_some_and(|entry| entry.proven)
    }

    fn list(&mut self, holder: &ServiceRef) {
        if self.allocator.held_by(holder).next().is_none() {
            self.holders.remove(holder);
        } else if !self.holders.contains(holder) {
            self.holders.insert(holder.clone());
        }
    }

    /// What is to be done so that `holder` owns `address`, which it was promised.
    pub(crate) fn claim(&self, holder: &ServiceRef, address: IpAddr) -> Claim {
        let Some(entry) = self.entries.get(&address) else { return Claim::Create };
        match &entry.object {
            None => Claim::Create,
            Some(object) if object.quarantine.is_some() => Claim::Recall(object.clone()),
            Some(object) if object.owners.contains(holder) => Claim::Owned,
            Some(object) => {
                let mut owners = object.owners.clone();
                let succeeds = || Some(owners.iter().position(|one| one.is_namesake(holder))? + 1);
                let place = if entry.kept.contains(holder) { 0 } else { succeeds().unwrap_or(owners.len()) };
                owners.insert(place, holder.clone());
                Claim::Join { object: object.clone(), owners }
            }
        }
    }

    /// How `holder` is to be parted from `address`.
    pub(crate) fn part(&self, holder: &ServiceRef, address: IpAddr) -> Part {
        let Some(entry) = self.entries.get(&address) else { return Part::None };
        match &entry.object {
            Some(object) if object.holders().contains(holder) => {
                let stay: Vec<_> = object.owners.iter().filter(|one| *one != holder).cloned().collect();
                let object = object.clone();
                if !stay.is_empty() {
                    Part::Leave { object, stay }
                } else if entry.kept.is_empty() {
                    Part::Last(object)
                } else {
                    Part::Yield { object, owners: entry.kept.iter().chain([holder]).cloned().collect() }
                }
            }
            Some(_) | None if entry.is_promised(holder) => Part::Read,
            Some(_) | None => Part::None,
        }
    }

    /// The object as a watch or an answer shows it. `asked`: the answer is to a call made for this Service, which is
    /// promised the address no longer unless the object names it. `keep` says which Services keep the address although the
    /// object names them no more: told each and whether the address was in use.
    pub(crate) fn note(
        &mut self,
        vip: &VirtualIP,
        asked: Option<&ServiceRef>,
        now: Timestamp,
        terms: impl Fn(&ServiceRef) -> Terms,
        keep: impl Fn(&ServiceRef, bool) -> bool,
    ) -> Change {
        let new = Seen::new(vip);
        self.edit(vip.spec.address, now, terms, |entry| {
            entry.see(new, keep);
            let was_announced = |condition: &Condition| {
                condition.status == "True" || condition.reason == REASON_AGENT_STOPPED
            };
            let is_used = vip.announced().is_some_and(was_announced);
            entry.proven |= is_used && vip.spec.quarantine.is_none();
            let object = entry.object.as_ref();
            let owns = |holder: &ServiceRef| object.is_some_and(|object| object.holders().contains(holder));
            entry.kept.retain(|kept| !owns(kept));
            entry.intents.retain(|intent| Some(intent) != asked && !owns(intent));
        })
    }

    /// The object with this UID is gone. `keep` says which of its owners still want the address: it stays theirs, until
    /// the object is made again.
    pub(crate) fn gone(
        &mut self,
        address: IpAddr,
        uid: &str,
        now: Timestamp,
        terms: impl Fn(&ServiceRef) -> Terms,
        keep: impl Fn(&ServiceRef) -> bool,
    ) -> Change {
        self.edit(address, now, terms, |entry| {
            if entry.object.as_ref().is_some_and(|object| object.uid != uid) {
                return;
            }
            let Some(object) = entry.object.take() else { return };
            entry.kept.extend(object.holders().iter().filter(|owner| keep(owner)).cloned());
        })
    }

    /// `holder` is not promised `address` any more, and does not keep it if `parts`: the object may name it all the same.
    pub(crate) fn withdraw(
        &mut self,
        holder: &ServiceRef,
        address: IpAddr,
        parts: bool,
        now: Timestamp,
        terms: impl Fn(&ServiceRef) -> Terms,
    ) -> Change {
        self.edit(address, now, terms, |entry| {
            entry.kept.retain(|kept| !(parts && kept == holder));
            entry.intents.retain(|intent| intent != holder);
        })
    }

    /// Changes an entry and has the allocator show it.
    fn edit(
        &mut self,
        address: IpAddr,
        now: Timestamp,
        terms: impl Fn(&ServiceRef) -> Terms,
        edit: impl FnOnce(&mut Entry),
    ) -> Change {
        let entry = self.entries.entry(address).or_default();
        let before = entry.standing();
        edit(entry);
        let after = entry.standing();
        let to_own = |entry: &Entry| match entry.object {
            Some(_) => entry.kept.clone(),
            None => entry.kept.iter().chain(&entry.intents).cloned().collect(),
        };
        let mut change = Change { bare: to_own(entry), ..Change::default() };
        let intents = entry.intents.clone();
        if entry.object.is_none() && entry.kept.is_empty() && entry.intents.is_empty() {
            self.entries.remove(&address);
        }
        if before == after {
            return change;
        }
        let (held, holds) = (holders(&before), holders(&after));
        change.lost = held.iter().filter(|one| !holds.contains(one)).cloned().collect();
        change.joined = holds.iter().filter(|one| !held.contains(one)).cloned().collect();
        change.freed = match &after {
            Standing::Held(now) if now.is_empty() => true,
            Standing::Held(_) => !change.lost.is_empty(),
            // For the one that it is kept back for.
            Standing::KeptBack(_) => true,
        };
        // It was others' that it was in use for.
        let is_new_to_all = holds.iter().all(|one| !held.contains(one)) && !held.is_empty();
        if is_new_to_all && let Some(entry) = self.entries.get_mut(&address) {
            entry.proven = false;
        }
        let concerned: Vec<_> = held.iter().chain(holds).cloned().collect();
        self.show(address, &before, after, &intents, now, terms);
        for one in &concerned {
            self.list(one);
        }
        change
    }

    fn show(
        &mut self,
        address: IpAddr,
        before: &Standing,
        after: Standing,
        intents: &[ServiceRef],
        now: Timestamp,
        terms: impl Fn(&ServiceRef) -> Terms,
    ) {
        let (held, holds) = (holders(before), holders(&after));
        // Those who stay keep their places, but who only intends to own it comes after all owners.
        let is_overtaken = holds.iter().any(|one| !held.contains(one) && !intents.contains(one));
        let stays = |one: &ServiceRef| holds.contains(one) && !(is_overtaken && intents.contains(one));
        for holder in held.iter().filter(|one| !stays(one)) {
            self.allocator.release(address, holder, moment(now));
        }
        let joining: Vec<_> =
            holds.iter().filter(|one| !held.contains(one) || !stays(one)).cloned().collect();
        // Whether it is kept back is what the object says, not what the pool would have.
        self.allocator.end_quarantine(address);
        match after {
            Standing::Held(_) => {
                for holder in &joining {
                    self.allocator.adopt_together(address, holder, &terms(holder));
                }
            }
            Standing::KeptBack(quarantined) => {
                self.allocator.quarantine(address, quarantined);
            }
        }
    }

    /// The objects whose quarantine has ended, with UID and version.
    pub(crate) fn due(&self, now: Timestamp) -> Vec<(IpAddr, Seen)> {
        let due = self.allocator.ended_quarantines(moment(now));
        due.filter_map(|address| Some((address, self.entries.get(&address)?.object.clone()?))).collect()
    }

    /// When the next quarantine ends.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let due = self.allocator.next_quarantine_end()?;
        Timestamp::from_millisecond(i64::try_from(due.0).ok()?).ok()
    }

    /// What is in use, and what can be given.
    pub(crate) const fn allocator(&self) -> &Allocator<ServiceRef> {
        &self.allocator
    }

    /// What `holder` holds, ascending.
    pub(crate) fn held_by(&self, holder: &ServiceRef) -> Vec<IpAddr> {
        self.allocator.held_by(holder).collect()
    }

    /// Who holds `address`, in the order of joining.
    pub(crate) fn holders(&self, address: IpAddr) -> &[ServiceRef] {
        self.allocator.holders(address)
    }

    /// Every address that is held and its holders, in the order of addresses.
    pub(crate) fn claims(&self) -> impl Iterator<Item = (IpAddr, &[ServiceRef])> {
        self.allocator.in_use()
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

fn holders(standing: &Standing) -> &[ServiceRef] {
    match standing {
        Standing::Held(holders) => holders,
        Standing::KeptBack(_) => &[],
    }
}

#[cfg(test)]
mod tests;
