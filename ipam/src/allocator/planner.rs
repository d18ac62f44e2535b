//! What an owner is to get: a pure function of the allocator and the request.

use std::net::IpAddr;

use super::{AllocateError, Allocator, Refusal, Refused, Unshared};
use crate::terms::MOST_HOLDERS;
use crate::{Families, Family, How, Incompatible, Owner, Plan, Planned, Request, Terms};

/// Addresses that could not be joined that an error names.
const NAMED: usize = 3;

/// Which pools a request may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
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
    /// What the owner holds.
    held: &'a [IpAddr],
    request: &'a Request,
    within: Within,
    /// The answer as far as it is found.
    picked: Vec<(IpAddr, How)>,
    unshared: Vec<Unshared<O>>,
}

/// Plans for `owner`.
pub(super) fn plan<O: Owner>(
    allocator: &Allocator<O>,
    owner: &O,
    request: &Request,
) -> Result<Plan, AllocateError<O>> {
    let within = match &request.pool {
        None => Within::Any,
        Some(name) => allocator.stocks.named(name).map_or(Within::Missing, Within::Pool),
    };
    let held = allocator.book.held_by(owner);
    let (picked, unshared) = (Vec::new(), Vec::new());
    let mut planner = Planner { allocator, owner, held, request, within, picked, unshared };
    let missing = if request.addresses.is_empty() {
        planner.pick()?
    } else {
        planner.pick_named()?;
        Vec::new()
    };
    Ok(planner.finish(missing))
}

/// A holder of `address` that `terms` do not fit, and that `owner` has to give way to: one that comes before it in the order
/// of joining, or any if neither `owner` nor one that it succeeds holds the address on these terms. Nobody gives way to one
/// that it succeeds.
pub(super) fn clash<'a, O: Owner>(
    allocator: &'a Allocator<O>,
    address: IpAddr,
    owner: &O,
    terms: &Terms,
) -> Option<(&'a O, Incompatible)> {
    let holders = allocator.holders(address);
    let place = allocator.book.place(address, owner, terms).unwrap_or(holders.len());
    let first = holders.iter().take(place).filter(|holder| *holder != owner);
    let mut clash = first.filter_map(|holder| {
        let why = terms.fits(allocator.terms(holder)?).err()?;
        (holder.party() != owner.party()).then_some((holder, why))
    });
    let crowded = || {
        let full = holders.len() >= MOST_HOLDERS && !holders.contains(owner);
        holders.first().filter(|_| full).map(|holder| (holder, Incompatible::Crowded))
    };
    clash.next().or_else(crowded)
}

impl<O: Owner> Planner<'_, O> {
    /// Picks `count` addresses of each family, and says of which families there are fewer.
    fn pick(&mut self) -> Result<Vec<Family>, AllocateError<O>> {
        let request = self.request;
        if request.count == 0 {
            return Err(AllocateError::NothingWanted);
        }
        let families = request.families.list();
        let mut loose = Vec::new();
        for family in families {
            self.keep(*family, &mut loose);
            self.take_preferred(*family);
            self.join(*family);
            self.recall(*family);
        }
        self.take_from_one_pool(families);
        for family in families {
            for pool in 0..self.allocator.stocks.all().len() {
                if self.wanted(*family) == 0 {
                    break;
                }
                if self.forbids(pool).is_none() {
                    self.take_free(pool, *family);
                }
            }
            // What is in no pool is better than nothing.
            let wanted = self.wanted(*family);
            let held = loose.iter().filter(|address| Family::of(**address) == *family).take(wanted);
            self.picked.extend(held.map(|address| (*address, How::Kept)));
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

    /// Keeps what is held, those that are preferred first. What is in no pool and may be left goes to `loose`.
    fn keep(&mut self, family: Family, loose: &mut Vec<IpAddr>) {
        let rank = |address: &IpAddr| {
            let preferred = &self.request.preferred;
            (preferred.iter().position(|one| one == address).unwrap_or(preferred.len()), *address)
        };
        let mut kept: Vec<IpAddr> = self
            .held
            .iter()
            .copied()
            .filter(|address| Family::of(*address) == family && self.may_keep(*address))
            .filter(|address| clash(self.allocator, *address, self.owner, &self.request.terms).is_none())
            .collect();
        kept.sort_unstable_by_key(rank);
        for address in kept {
            if self.request.may_leave && self.allocator.pool_of(address).is_none() {
                loose.push(address);
            } else if self.wanted(family) > 0 {
                self.picked.push((address, How::Kept));
            }
        }
    }

    /// Whether a held address answers the request: it is in the pool asked for, or was when it was given.
    fn may_keep(&self, address: IpAddr) -> bool {
        match (self.within, self.allocator.stocks.index_of(address)) {
            (Within::Any, _) | (Within::Pool(_) | Within::Missing, None) => true,
            (Within::Pool(named), Some(its)) => its == named || self.request.stays.contains(&address),
            (Within::Missing, Some(_)) => self.request.stays.contains(&address),
        }
    }

    /// Takes addresses that the owner is known to have, if nobody has them.
    fn take_preferred(&mut self, family: Family) {
        for address in &self.request.preferred {
            if Family::of(*address) != family || self.wanted(family) == 0 || self.is_picked(*address) {
                continue;
            }
            let Some(index) = self.allocator.stocks.index_of(*address) else { continue };
            let named = match self.within {
                Within::Any => true,
                Within::Pool(named) => named == index,
                Within::Missing => false,
            };
            if let (true, Ok(how)) = (named, self.way_to(*address)) {
                self.picked.push((*address, how));
            }
        }
    }

    /// How the owner can come by `address`, which it does not hold.
    fn way_to(&self, address: IpAddr) -> Result<How, AllocateError<O>> {
        let allocator = self.allocator;
        if let Some(quarantined) = allocator.ward.get(address) {
            if allocator.is_kept_back_for(address, self.owner) {
                return Ok(How::Recalled);
            }
            return Err(AllocateError::Quarantined { address, quarantined: quarantined.clone() });
        }
        match (clash(allocator, address, self.owner, &self.request.terms), allocator.holders(address)) {
            (None, []) => Ok(How::New),
            (None, [_, ..]) => Ok(How::Joined),
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
        for address in self.allocator.book.shared(key) {
            if self.wanted(family) == 0 {
                return;
            }
            let held = self.allocator.holders(address).contains(self.owner);
            if Family::of(address) != family || held || self.is_picked(address) {
                continue;
            }
            let Some(index) = self.allocator.stocks.index_of(address) else { continue };
            if self.forbids(index).is_some() {
                continue;
            }
            match clash(self.allocator, address, self.owner, &self.request.terms) {
                None => self.picked.push((address, How::Joined)),
                Some((holder, why)) if self.unshared.len() < NAMED => {
                    self.unshared.push(Unshared { address, holder: holder.clone(), why });
                }
                Some(_) => {}
            }
        }
    }

    /// Takes what those it succeeds hold, and takes back what is kept back for the owner, each the lowest first, where it
    /// might be given it if it were free.
    fn recall(&mut self, family: Family) {
        if self.wanted(family) == 0 {
            return;
        }
        let stocks = &self.allocator.stocks;
        let inherited = self.request.inherited.iter().filter(|address| self.inherits(**address));
        let own: Vec<IpAddr> = inherited.chain(self.allocator.kept_back_for(self.owner)).copied().collect();
        for address in own {
            if self.wanted(family) == 0 {
                return;
            }
            let Some(index) = stocks.index_of(address) else { continue };
            let fits = Family::of(address) == family && !self.is_picked(address);
            if fits && stocks.all()[index].gives(address) && self.forbids(index).is_none() {
                self.picked.push((address, How::Recalled));
            }
        }
    }

    /// Whether one that the owner succeeds holds the address, which the owner does not, and nobody else stands against it.
    fn inherits(&self, address: IpAddr) -> bool {
        let holders = self.allocator.holders(address);
        holders.iter().any(|holder| holder != self.owner && holder.party() == self.owner.party())
            && !holders.contains(self.owner)
            && clash(self.allocator, address, self.owner, &self.request.terms).is_none()
    }

    /// Why the request may not use the pool at all.
    fn forbids(&self, index: usize) -> Option<Refusal> {
        let pool = &self.allocator.stocks.all()[index].pool;
        match self.within {
            Within::Any if !pool.policy.auto_assign => Some(Refusal::NotAutoAssign),
            Within::Missing => Some(Refusal::NotNamed),
            Within::Pool(named) if named != index => Some(Refusal::NotNamed),
            Within::Any | Within::Pool(_) => pool.policy.refuses(&self.request.subject),
        }
    }

    /// Of several families takes what is wanted from the first pool that has all of it: from one that has given before,
    /// if any has.
    fn take_from_one_pool(&mut self, families: &[Family]) {
        if families.len() < 2 || families.iter().all(|family| self.wanted(*family) == 0) {
            return;
        }
        let used: Vec<usize> =
            self.picked.iter().filter_map(|(address, _)| self.allocator.stocks.index_of(*address)).collect();
        let may_give =
            |pool: &usize| (used.is_empty() || used.contains(pool)) && self.forbids(*pool).is_none();
        let has_all = |pool: &usize| {
            families.iter().all(|family| {
                let wanted = self.wanted(*family);
                let stock = &self.allocator.stocks.all()[*pool];
                stock.free(*family, wanted, |address| !self.is_picked(address)).len() == wanted
            })
        };
        let pools = 0..self.allocator.stocks.all().len();
        if let Some(pool) = pools.filter(may_give).find(has_all) {
            for family in families {
                self.take_free(pool, *family);
            }
        }
    }

    /// Takes what is wanted of `family`, as far as the pool has it.
    fn take_free(&mut self, pool: usize, family: Family) {
        let wanted = self.wanted(family);
        let stock = &self.allocator.stocks.all()[pool];
        let free = stock.free(family, wanted, |address| !self.is_picked(address));
        self.picked.extend(free.into_iter().map(|address| (address, How::New)));
    }

    fn shortage(&self, family: Family) -> AllocateError<O> {
        if let (Within::Missing, Some(pool)) = (self.within, &self.request.pool) {
            return self.no_such_pool(pool);
        }
        let refused = |index: usize| {
            let stock = &self.allocator.stocks.all()[index];
            let counts = stock.counts(family);
            let why = match (self.forbids(index), counts.total, counts.available()) {
                (Some(Refusal::NotNamed), ..) => Refusal::NotNamed,
                (_, 0, _) => Refusal::OtherFamily,
                (Some(why), ..) => why,
                (None, _, 0) => Refusal::Full,
                (None, _, free) => Refusal::TooFew { free },
            };
            Refused { counts, ..Refused::new(&stock.pool, why) }
        };
        let considered = (0..self.allocator.stocks.all().len())
            .map(refused)
            .filter(|refused| refused.why != Refusal::NotNamed)
            .collect();
        let given = |(address, how): &&(IpAddr, How)| Family::of(*address) == family && *how == How::New;
        let wanted = self.wanted(family) + self.picked.iter().filter(given).count();
        AllocateError::NoFreeAddress { family, wanted, considered, unshared: self.unshared.clone() }
    }

    fn no_such_pool(&self, pool: &str) -> AllocateError<O> {
        AllocateError::NoSuchPool { pool: pool.to_owned(), known: self.known() }
    }

    fn known(&self) -> Vec<String> {
        self.allocator.stocks.names().cloned().collect()
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

    fn named(&self, address: IpAddr) -> Result<How, AllocateError<O>> {
        let allocator = self.allocator;
        let held = allocator.holders(address).contains(self.owner);
        if held && self.may_keep(address) {
            return match clash(allocator, address, self.owner, &self.request.terms) {
                None => Ok(How::Kept),
                Some((holder, why)) => {
                    Err(AllocateError::SharingRefused { address, holder: holder.clone(), why })
                }
            };
        }
        let stocks = &allocator.stocks;
        let its = stocks.index_of(address);
        match (self.within, its) {
            (Within::Missing, _) => {
                let pool = self.request.pool.as_deref().unwrap_or_default();
                return Err(self.no_such_pool(pool));
            }
            (Within::Any, None) => return Err(AllocateError::InNoPool { address, known: self.known() }),
            (Within::Pool(named), its) if its != Some(named) => {
                let pool = &stocks.all()[named].pool;
                return Err(AllocateError::NotInPool {
                    address,
                    pool: pool.name.clone(),
                    range: pool.addresses.to_string(),
                    belongs_to: its.map(|its| stocks.all()[its].pool.name.clone()),
                });
            }
            (Within::Any | Within::Pool(_), _) => {}
        }
        let how = self.way_to(address)?;
        if let Some(stock) = stocks.of(address) {
            let pool = stock.pool.name.clone();
            if let Some(why) = stock.pool.policy.refuses(&self.request.subject) {
                let refused = Box::new(Refused::new(&stock.pool, why));
                return Err(AllocateError::PoolRefuses { address, refused });
            }
            if how == How::New && !stocks.is_free(address) {
                return Err(AllocateError::Reserved { address, pool });
            }
        }
        Ok(how)
    }

    fn finish(mut self, missing: Vec<Family>) -> Plan {
        let families = self.request.families;
        self.picked.sort_by_key(|(address, _)| families.place(Family::of(*address)));
        let leaves = self.held.iter().copied().filter(|address| !self.is_picked(*address)).collect();
        let planned = |(address, how): &(IpAddr, How)| Planned {
            address: *address,
            pool: self.allocator.pool_of(*address).map(|pool| pool.name.clone()),
            how: *how,
        };
        Plan { addresses: self.picked.iter().map(planned).collect(), leaves, missing }
    }
}
