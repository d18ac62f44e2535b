//! Planning of an owner's addresses: a pure function of the allocator and the request.

mod limits;

use std::net::IpAddr;

use super::usage::Usage;
use super::{AllocateError, Allocator, PoolRefusal, RefusalReason, SharingConflict};
use crate::terms::MAX_HOLDERS;
use crate::{Acquisition, Families, Family, Incompatible, Owner, Plan, PlannedAddress, Pool, Request, Terms};

/// Addresses that could not be joined that an error names.
const NAMED: usize = 3;

/// Pools that a request may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PoolScope {
    /// All that are auto-assign.
    Any,
    /// This one.
    Pool(usize),
    /// One that does not exist.
    Missing,
}

struct Planner<'a, O: Owner> {
    allocator: &'a Allocator<O>,
    owner: &'a O,
    /// Addresses that the owner holds.
    held: &'a [IpAddr],
    request: &'a Request,
    scope: PoolScope,
    /// The answer as far as it is found.
    picked: Vec<(IpAddr, Acquisition)>,
    sharing_conflicts: Vec<SharingConflict<O>>,
}

/// Plans for `owner`.
pub(super) fn plan<O: Owner>(
    allocator: &Allocator<O>,
    owner: &O,
    request: &Request,
) -> Result<Plan, AllocateError<O>> {
    let scope = match &request.pool {
        None => PoolScope::Any,
        Some(name) => allocator.usage.named(name).map_or(PoolScope::Missing, PoolScope::Pool),
    };
    let mut planner = Planner::new(allocator, owner, request, scope);
    let missing = if request.addresses.is_empty() {
        planner.pick()?
    } else {
        planner.pick_named()?;
        Vec::new()
    };
    Ok(planner.finish(missing))
}

/// Returns the limit of its pool that `owner` would exceed with `address`, by its `request`.
pub(super) fn exceeds_limits<O: Owner>(
    allocator: &Allocator<O>,
    owner: &O,
    request: &Request,
    address: IpAddr,
) -> Option<RefusalReason> {
    let planner = Planner::new(allocator, owner, request, PoolScope::Any);
    planner.exceeds_limits(allocator.usage.index_of(address)?, address)
}

/// Returns the limit of `pool` that keeps `owner` from the addresses of `family` that `request` needs beyond those that it keeps.
pub(super) fn reached_limit<O: Owner>(
    allocator: &Allocator<O>,
    owner: &O,
    request: &Request,
    pool: &str,
    family: Family,
) -> Option<RefusalReason> {
    let index = allocator.usage.named(pool)?;
    let mut planner = Planner::new(allocator, owner, request, PoolScope::Any);
    planner.keep(family, &mut Vec::new());
    planner.reached_limit(index, family)
}

/// Returns a holder of `address` that `terms` do not fit, and that `owner` has to give way to: one that comes before it in the order
/// of joining, or any if neither `owner` nor one that it succeeds holds the address on these terms. No owner gives way to one that it
/// succeeds. Without such a holder, returns the first one if the address has [`MAX_HOLDERS`] without `owner`.
pub(super) fn conflict<'a, O: Owner>(
    allocator: &'a Allocator<O>,
    address: IpAddr,
    owner: &O,
    terms: &Terms,
) -> Option<(&'a O, Incompatible)> {
    let holders = allocator.holders(address);
    let place = allocator.assignments.place(address, owner, terms).unwrap_or(holders.len());
    let first = holders.iter().take(place).filter(|holder| *holder != owner);
    let mut conflict = first.filter_map(|holder| {
        let why = terms.fits(allocator.terms(holder)?).err()?;
        (holder.stable_key() != owner.stable_key()).then_some((holder, why))
    });
    let full_address = || {
        let full = holders.len() >= MAX_HOLDERS && !holders.contains(owner);
        holders.first().filter(|_| full).map(|holder| (holder, Incompatible::TooManyHolders))
    };
    conflict.next().or_else(full_address)
}

/// Returns the reason why `pool` gives nothing new of `family` for `request`, limits aside.
pub(super) fn refuses(
    usage: &Usage,
    pool: &Pool,
    request: &Request,
    family: Family,
) -> Option<RefusalReason> {
    match &request.pool {
        None if !pool.policy.auto_assign => return Some(RefusalReason::NotAutoAssign),
        Some(named) if *named != pool.name => return Some(RefusalReason::NotNamed),
        None | Some(_) => {}
    }
    pool.policy.refuses(&request.requester).or_else(|| {
        let is_confined = confining(usage, pool, request, family).is_some();
        is_confined.then_some(RefusalReason::Confined)
    })
}

/// Returns the pool because of which `pool`, which is for every namespace, gives nothing of `family` for `request`.
fn confining<'a>(usage: &'a Usage, pool: &Pool, request: &Request, family: Family) -> Option<&'a Pool> {
    if pool.policy.selects_namespaces() {
        return None;
    }
    let has_family = |one: &&super::usage::PoolUsage| one.counts(family).total > 0;
    let confining = usage.all().iter().filter(|one| one.pool.policy.confines(&request.requester));
    confining.filter(has_family).map(|one| &one.pool).next()
}

impl<'a, O: Owner> Planner<'a, O> {
    fn new(allocator: &'a Allocator<O>, owner: &'a O, request: &'a Request, scope: PoolScope) -> Self {
        let held = allocator.assignments.held_by(owner);
        Self { allocator, owner, held, request, scope, picked: Vec::new(), sharing_conflicts: Vec::new() }
    }

    /// Picks `count` addresses of each family, and returns the families with fewer.
    fn pick(&mut self) -> Result<Vec<Family>, AllocateError<O>> {
        let request = self.request;
        if request.count == 0 {
            return Err(AllocateError::NothingWanted);
        }
        let families = request.families.list();
        let mut unpooled = Vec::new();
        for family in families {
            self.keep(*family, &mut unpooled);
            self.take_preferred(*family);
            self.join(*family);
            self.reclaim(*family);
        }
        self.take_from_one_pool(families);
        for family in families {
            for pool in 0..self.allocator.usage.all().len() {
                if self.wanted(*family) == 0 {
                    break;
                }
                if self.forbids(pool, *family).is_none() {
                    self.take_free(pool, *family);
                }
            }
            for pool in 0..self.allocator.usage.all().len() {
                if self.wanted(*family) == 0 {
                    break;
                }
                if self.forbids(pool, *family).is_none() {
                    self.take_yielding(pool, *family);
                }
            }
            // What is in no pool is better than nothing.
            let wanted = self.wanted(*family);
            let held = unpooled.iter().filter(|address| Family::of(**address) == *family).take(wanted);
            self.picked.extend(held.map(|address| (*address, Acquisition::Kept)));
        }
        let short: Vec<Family> = families.iter().copied().filter(|family| self.wanted(*family) > 0).collect();
        match (request.families, short.first()) {
            (_, None) => Ok(short),
            (Families::Prefer(_), Some(_)) if !self.picked.is_empty() => Ok(short),
            (Families::Single(_) | Families::Require(_) | Families::Prefer(_), Some(family)) => {
                Err(self.shortage(*family))
            }
        }
    }

    /// Addresses of `family` that are still to be found.
    fn wanted(&self, family: Family) -> usize {
        let found = self.picked.iter().filter(|(address, _)| Family::of(*address) == family).count();
        usize::from(self.request.count).saturating_sub(found)
    }

    fn is_picked(&self, address: IpAddr) -> bool {
        self.picked.iter().any(|(picked, _)| *picked == address)
    }

    /// Keeps addresses that are held, preferred ones first. Addresses in no pool that may be replaced go to `unpooled`.
    fn keep(&mut self, family: Family, unpooled: &mut Vec<IpAddr>) {
        let rank = |address: &IpAddr| {
            let preferred = &self.request.preferred;
            (preferred.iter().position(|one| one == address).unwrap_or(preferred.len()), *address)
        };
        let mut kept: Vec<IpAddr> = self
            .held
            .iter()
            .copied()
            .filter(|address| Family::of(*address) == family && self.may_keep(*address))
            .filter(|address| conflict(self.allocator, *address, self.owner, &self.request.terms).is_none())
            .collect();
        kept.sort_unstable_by_key(rank);
        for address in kept {
            if self.request.may_replace_unpooled && self.allocator.pool_of(address).is_none() {
                unpooled.push(address);
            } else if self.wanted(family) > 0 {
                self.picked.push((address, Acquisition::Kept));
            }
        }
    }

    /// Returns true if a held address satisfies the request: it is in the pool asked for, or was when it was given.
    fn may_keep(&self, address: IpAddr) -> bool {
        match (self.scope, self.allocator.usage.index_of(address)) {
            (PoolScope::Any, _) | (PoolScope::Pool(_) | PoolScope::Missing, None) => true,
            (PoolScope::Pool(named), Some(its)) => {
                its == named || self.request.given_from_pool.contains(&address)
            }
            (PoolScope::Missing, Some(_)) => self.request.given_from_pool.contains(&address),
        }
    }

    /// Takes addresses that the owner is known to have, if they have no holder, whatever the limits: the owner shows them.
    fn take_preferred(&mut self, family: Family) {
        for address in &self.request.preferred {
            if Family::of(*address) != family || self.wanted(family) == 0 || self.is_picked(*address) {
                continue;
            }
            let Some(index) = self.allocator.usage.index_of(*address) else { continue };
            let named = match self.scope {
                PoolScope::Any => true,
                PoolScope::Pool(named) => named == index,
                PoolScope::Missing => false,
            };
            if let (true, Ok(how)) = (named, self.acquisition_of(*address, false)) {
                self.picked.push((*address, how));
            }
        }
    }

    /// Returns the way to acquire `address`, which the owner does not hold. `by_name`: the request names it.
    fn acquisition_of(&self, address: IpAddr, by_name: bool) -> Result<Acquisition, AllocateError<O>> {
        let allocator = self.allocator;
        if let Some(quarantined) = allocator.quarantine.get(address) {
            if allocator.is_kept_back_for(address, self.owner)
                || (by_name && allocator.stays_with_namespace(address, self.owner))
            {
                return Ok(Acquisition::Reclaimed);
            }
            return Err(AllocateError::Quarantined { address, quarantined: quarantined.clone() });
        }
        match (conflict(allocator, address, self.owner, &self.request.terms), allocator.holders(address)) {
            (None, []) => Ok(Acquisition::New),
            (None, [_, ..]) => Ok(Acquisition::Joined),
            (Some((holder, Incompatible::NoKey)), _) => {
                Err(AllocateError::Taken { address, holder: holder.clone() })
            }
            (Some((holder, why)), _) => {
                Err(AllocateError::SharingRefused { address, holder: holder.clone(), why })
            }
        }
    }

    /// Joins addresses that others hold under the same sharing key, the lowest first.
    fn join(&mut self, family: Family) {
        let Some(key) = self.request.terms.key() else { return };
        for address in self.allocator.assignments.shared(key) {
            if self.wanted(family) == 0 {
                return;
            }
            let held = self.allocator.holders(address).contains(self.owner);
            if Family::of(address) != family || held || self.is_picked(address) {
                continue;
            }
            let Some(index) = self.allocator.usage.index_of(address) else { continue };
            if self.forbids(index, family).is_some() || self.exceeds_limits(index, address).is_some() {
                continue;
            }
            match conflict(self.allocator, address, self.owner, &self.request.terms) {
                None => self.picked.push((address, Acquisition::Joined)),
                Some((holder, why)) if self.sharing_conflicts.len() < NAMED => {
                    self.sharing_conflicts.push(SharingConflict { address, holder: holder.clone(), why });
                }
                Some(_) => {}
            }
        }
    }

    /// Takes addresses held by owners that it succeeds and addresses kept back for the owner, each the lowest first, if it might be
    /// given them were they free.
    fn reclaim(&mut self, family: Family) {
        if self.wanted(family) == 0 {
            return;
        }
        let usage = &self.allocator.usage;
        let inherited = self.request.inherited.iter().filter(|address| self.inherits(**address));
        let own: Vec<IpAddr> = inherited.chain(self.allocator.kept_back_for(self.owner)).copied().collect();
        for address in own {
            if self.wanted(family) == 0 {
                return;
            }
            let Some(index) = usage.index_of(address) else { continue };
            let fits = Family::of(address) == family && !self.is_picked(address);
            if fits && usage.all()[index].is_allocatable(address) && self.forbids(index, family).is_none() {
                self.picked.push((address, Acquisition::Reclaimed));
            }
        }
    }

    /// Returns true if an owner that this one succeeds holds the address, this one does not, and no other holder prevents it.
    fn inherits(&self, address: IpAddr) -> bool {
        let holders = self.allocator.holders(address);
        holders.iter().any(|holder| holder != self.owner && holder.stable_key() == self.owner.stable_key())
            && !holders.contains(self.owner)
            && conflict(self.allocator, address, self.owner, &self.request.terms).is_none()
    }

    /// Returns the reason why the request may not use the pool at all for addresses of `family`.
    fn forbids(&self, index: usize, family: Family) -> Option<RefusalReason> {
        let usage = &self.allocator.usage;
        match self.scope {
            PoolScope::Missing => Some(RefusalReason::NotNamed),
            PoolScope::Any | PoolScope::Pool(_) => {
                refuses(usage, &usage.all()[index].pool, self.request, family)
            }
        }
    }

    /// Takes the wanted addresses of `family` from those kept back for owners that are gone, as far as the pool has them.
    fn take_yielding(&mut self, pool: usize, family: Family) {
        let wanted = self.wanted(family).min(self.room(pool, family));
        let pool_usage = &self.allocator.usage.all()[pool];
        let yielding = pool_usage.yielding(family, wanted, |address| !self.is_picked(address));
        self.picked.extend(yielding.into_iter().map(|address| (address, Acquisition::Yielded)));
    }

    /// Takes the wanted addresses of several families from the first pool that has all of them: from one that has given before, if
    /// any has.
    fn take_from_one_pool(&mut self, families: &[Family]) {
        if families.len() < 2 || families.iter().all(|family| self.wanted(*family) == 0) {
            return;
        }
        let used: Vec<usize> =
            self.picked.iter().filter_map(|(address, _)| self.allocator.usage.index_of(*address)).collect();
        let may_give = |pool: &usize| used.is_empty() || used.contains(pool);
        let has_all = |pool: &usize| {
            families.iter().all(|family| {
                let wanted = self.wanted(*family);
                let pool_usage = &self.allocator.usage.all()[*pool];
                wanted == 0
                    || (self.forbids(*pool, *family).is_none()
                        && wanted <= self.room(*pool, *family)
                        && pool_usage.free(*family, wanted, |address| !self.is_picked(address)).len()
                            == wanted)
            })
        };
        let pools = 0..self.allocator.usage.all().len();
        if let Some(pool) = pools.filter(may_give).find(has_all) {
            for family in families {
                self.take_free(pool, *family);
            }
        }
    }

    /// Takes the wanted addresses of `family`, as far as the pool has them.
    fn take_free(&mut self, pool: usize, family: Family) {
        let wanted = self.wanted(family).min(self.room(pool, family));
        let pool_usage = &self.allocator.usage.all()[pool];
        let free = pool_usage.free(family, wanted, |address| !self.is_picked(address));
        self.picked.extend(free.into_iter().map(|address| (address, Acquisition::New)));
    }

    fn shortage(&self, family: Family) -> AllocateError<O> {
        if let (PoolScope::Missing, Some(pool)) = (self.scope, &self.request.pool) {
            return self.no_such_pool(pool);
        }
        let refused = |index: usize| {
            let pool_usage = &self.allocator.usage.all()[index];
            let counts = pool_usage.counts(family);
            let why = match (self.forbids(index, family), counts.total, counts.available()) {
                (Some(RefusalReason::NotNamed), ..) => RefusalReason::NotNamed,
                (_, 0, _) => RefusalReason::OtherFamily,
                (Some(why), ..) => why,
                (None, _, free) => match self.reached_limit(index, family) {
                    Some(limit) => limit,
                    None if free == 0 => RefusalReason::Full,
                    None => RefusalReason::TooFew { free },
                },
            };
            PoolRefusal { counts, ..self.refusal(index, family, why) }
        };
        let considered = (0..self.allocator.usage.all().len())
            .map(refused)
            .filter(|refused| refused.why != RefusalReason::NotNamed)
            .collect();
        let given = |(address, how): &&(IpAddr, Acquisition)| {
            Family::of(*address) == family && *how == Acquisition::New
        };
        let wanted = self.wanted(family) + self.picked.iter().filter(given).count();
        AllocateError::NoFreeAddress {
            family,
            wanted,
            considered,
            sharing_conflicts: self.sharing_conflicts.clone(),
        }
    }

    fn refusal(&self, index: usize, family: Family, why: RefusalReason) -> PoolRefusal {
        let usage = &self.allocator.usage;
        let pool = &usage.all()[index].pool;
        let refusal = PoolRefusal::new(pool, why);
        match why {
            RefusalReason::Confined => {
                let confining = confining(usage, pool, self.request, family);
                PoolRefusal { admits: confining.map(|pool| pool.name.clone()), ..refusal }
            }
            RefusalReason::NotNamed
            | RefusalReason::OtherFamily
            | RefusalReason::NotAutoAssign
            | RefusalReason::Disabled
            | RefusalReason::OtherNamespace
            | RefusalReason::OtherLabels
            | RefusalReason::NamespaceLimit { .. }
            | RefusalReason::OwnerLimit { .. }
            | RefusalReason::Full
            | RefusalReason::TooFew { .. } => refusal,
        }
    }

    fn no_such_pool(&self, pool: &str) -> AllocateError<O> {
        AllocateError::NoSuchPool { pool: pool.to_owned(), known: self.known() }
    }

    fn known(&self) -> Vec<String> {
        self.allocator.usage.names().cloned().collect()
    }

    /// Picks the addresses that the request names.
    fn pick_named(&mut self) -> Result<(), AllocateError<O>> {
        let families = self.request.families;
        for address in &self.request.addresses {
            if self.is_picked(*address) {
                return Err(AllocateError::NamedTwice { address: *address });
            }
            if families.place(Family::of(*address)).is_none() {
                let families = families.list().to_vec();
                return Err(AllocateError::WrongFamily { address: *address, families });
            }
            let how = self.named(*address)?;
            self.picked.push((*address, how));
        }
        if let Families::Require(both) = families
            && let Some(family) = both
                .into_iter()
                .find(|family| !self.picked.iter().any(|(address, _)| Family::of(*address) == *family))
        {
            return Err(AllocateError::FamilyNotNamed { family });
        }
        Ok(())
    }

    fn named(&self, address: IpAddr) -> Result<Acquisition, AllocateError<O>> {
        let allocator = self.allocator;
        let held = allocator.holders(address).contains(self.owner);
        if held && self.may_keep(address) {
            return match conflict(allocator, address, self.owner, &self.request.terms) {
                None => Ok(Acquisition::Kept),
                Some((holder, why)) => {
                    Err(AllocateError::SharingRefused { address, holder: holder.clone(), why })
                }
            };
        }
        let usage = &allocator.usage;
        let its = usage.index_of(address);
        match (self.scope, its) {
            (PoolScope::Missing, _) => {
                let pool = self.request.pool.as_deref().unwrap_or_default();
                return Err(self.no_such_pool(pool));
            }
            (PoolScope::Any, None) => return Err(AllocateError::InNoPool { address, known: self.known() }),
            (PoolScope::Pool(named), its) if its != Some(named) => {
                let pool = &usage.all()[named].pool;
                return Err(AllocateError::NotInPool {
                    address,
                    pool: pool.name.clone(),
                    range: pool.addresses.to_string(),
                    belongs_to: its.map(|its| usage.all()[its].pool.name.clone()),
                });
            }
            (PoolScope::Any | PoolScope::Pool(_), _) => {}
        }
        let how = self.acquisition_of(address, true)?;
        if let Some(index) = its {
            let pool = &usage.all()[index].pool;
            let family = Family::of(address);
            let refused = pool.policy.refuses(&self.request.requester);
            let confined = || confining(usage, pool, self.request, family).map(|_| RefusalReason::Confined);
            let limited = || self.exceeds_limits(index, address);
            if let Some(why) = refused.or_else(confined) {
                let refusal = Box::new(self.refusal(index, family, why));
                return Err(AllocateError::PoolRefuses { address, refusal });
            }
            if how == Acquisition::New && !usage.is_free(address) {
                return Err(AllocateError::Reserved { address, pool: pool.name.clone() });
            }
            if let Some(why) = limited() {
                let refusal = Box::new(self.refusal(index, family, why));
                return Err(AllocateError::PoolRefuses { address, refusal });
            }
        }
        Ok(how)
    }

    fn finish(mut self, missing: Vec<Family>) -> Plan {
        let families = self.request.families;
        self.picked.sort_by_key(|(address, _)| families.place(Family::of(*address)));
        let to_release = self.held.iter().copied().filter(|address| !self.is_picked(*address)).collect();
        let planned = |(address, how): &(IpAddr, Acquisition)| PlannedAddress {
            address: *address,
            pool: self.allocator.pool_of(*address).map(|pool| pool.name.clone()),
            how: *how,
        };
        Plan { addresses: self.picked.iter().map(planned).collect(), to_release, missing }
    }
}
