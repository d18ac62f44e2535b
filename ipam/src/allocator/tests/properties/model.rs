//! The same as naive sets: every address by itself, nothing indexed, every rule written out once more.

mod limits;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use proptest::prelude::*;

use super::*;
use crate::Order;

/// A Service: made anew it has another number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Service {
    pub(super) name: u8,
    pub(super) made: u8,
}

impl Owner for Service {
    type StableKey = u8;

    fn stable_key(&self) -> u8 {
        self.name
    }

    fn namespace(&self) -> &'static str {
        if self.name.is_multiple_of(2) { "even" } else { "odd" }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.name, self.made)
    }
}

#[derive(Debug)]
struct Members {
    name: String,
    own: BTreeSet<IpAddr>,
    givable: BTreeSet<IpAddr>,
    policy: Policy,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    /// In the order of the search.
    pools: Vec<Members>,
    holders: BTreeMap<IpAddr, Vec<Service>>,
    terms: BTreeMap<Service, Terms>,
    pub(super) quarantined: BTreeMap<IpAddr, Quarantined<Service>>,
    pub(super) now: Moment,
}

fn each(set: &crate::AddressSet) -> impl Iterator<Item = IpAddr> {
    set.ranges().flat_map(|(first, last)| {
        let family = Family::of(first);
        (crate::family::number(first)..=crate::family::number(last)).map(move |number| family.address(number))
    })
}

impl Model {
    pub(super) fn replace(&mut self, pools: &[Pool]) {
        let mut sorted: Vec<&Pool> = pools
            .iter()
            .enumerate()
            .filter(|(index, pool)| !pools[index + 1..].iter().any(|later| later.name == pool.name))
            .map(|(_, pool)| pool)
            .collect();
        sorted
            .sort_by_key(|pool| (pool.policy.priority, pool.policy.namespaces.is_empty(), pool.name.clone()));
        let mut taken = BTreeSet::new();
        self.pools = sorted
            .into_iter()
            .map(|pool| {
                let own: BTreeSet<IpAddr> = each(&pool.addresses).filter(|one| taken.insert(*one)).collect();
                let avoided = |address: &IpAddr| match address {
                    IpAddr::V4(v4) => pool.policy.avoid_class_c && matches!(v4.octets()[3], 0 | 255),
                    IpAddr::V6(_) => false,
                };
                let givable = own
                    .iter()
                    .copied()
                    .filter(|address| !pool.reserved.contains(*address) && !avoided(address))
                    .collect();
                Members { name: pool.name.clone(), own, givable, policy: pool.policy.clone() }
            })
            .collect();
    }

    fn pool_of(&self, address: IpAddr) -> Option<&Members> {
        self.pools.iter().find(|pool| pool.own.contains(&address))
    }

    fn holders(&self, address: IpAddr) -> &[Service] {
        self.holders.get(&address).map_or(&[], Vec::as_slice)
    }

    fn is_free(&self, address: IpAddr) -> bool {
        self.holders(address).is_empty()
            && !self.quarantined.contains_key(&address)
            && self.pool_of(address).is_some_and(|pool| pool.givable.contains(&address))
    }

    fn free(&self, pool: &Members, family: Family) -> Vec<IpAddr> {
        pool.own.iter().copied().filter(|one| Family::of(*one) == family && self.is_free(*one)).collect()
    }

    fn held(&self, owner: &Service) -> Vec<IpAddr> {
        self.holders
            .iter()
            .filter(|(_, holders)| holders.contains(owner))
            .map(|(address, _)| *address)
            .collect()
    }

    /// Who stands for `owner` at the address on the same terms: itself, else the first that it succeeds.
    fn standing(&self, address: IpAddr, owner: &Service, terms: &Terms) -> Option<usize> {
        let holders = self.holders(address);
        let namesake = || holders.iter().find(|holder| holder.name == owner.name);
        let one = holders.iter().find(|holder| *holder == owner).or_else(namesake)?;
        holders.iter().position(|holder| holder == one && self.terms[one] == *terms)
    }

    /// `last`: whatever it succeeds.
    fn join(&mut self, address: IpAddr, owner: &Service, terms: &Terms, last: bool) {
        self.set_terms(owner, terms);
        let standing = self.standing(address, owner, terms).filter(|_| !last);
        let holders = self.holders.entry(address).or_default();
        if !holders.contains(owner) {
            holders.insert(standing.map_or(holders.len(), |before| before + 1), owner.clone());
        }
        self.terms.insert(owner.clone(), terms.clone());
    }

    /// Whether `owner` may have the address with those who hold it: it gives way to all if it changes its terms or joins,
    /// else, or if it succeeds one on the same terms, to those before it; never to one that it succeeds.
    fn fits(&self, address: IpAddr, owner: &Service, terms: &Terms) -> bool {
        let holders = self.holders(address);
        let first = &holders[..self.standing(address, owner, terms).unwrap_or(holders.len())];
        let others = first.iter().filter(|holder| holder.name != owner.name);
        others.map(|holder| &self.terms[holder]).all(|theirs| {
            let (Some(mine), Some(held)) = (&terms.sharing, &theirs.sharing) else { return false };
            let named = mine.with.contains(&theirs.namespace) && held.with.contains(&terms.namespace);
            mine.key == held.key
                && (terms.namespace == theirs.namespace || named)
                && terms.traffic == theirs.traffic
                && terms.ports.is_disjoint(&theirs.ports)
        })
    }

    /// Whether the pools asked for include the address's own; `None` is no pool.
    fn is_within(&self, request: &Request, address: IpAddr) -> bool {
        match (&request.pool, self.pool_of(address)) {
            (None, _) | (Some(_), None) => true,
            (Some(name), Some(its)) => *name == its.name,
        }
    }

    /// Whether what `owner` holds there answers the request.
    fn answers(&self, request: &Request, address: IpAddr) -> bool {
        request.given_from_pool.contains(&address) || self.is_within(request, address)
    }

    fn admits(pool: &Members, request: &Request) -> bool {
        let namespaces = &pool.policy.namespaces;
        !pool.policy.disabled && (namespaces.is_empty() || namespaces.contains(&request.requester.namespace))
    }

    fn may_use(&self, pool: &Members, request: &Request, family: Family) -> bool {
        let named = request.pool.as_ref().map_or(pool.policy.auto_assign, |name| *name == pool.name);
        named && Self::admits(pool, request) && !self.is_closed(pool, request, family)
    }

    fn may_keep(&self, address: IpAddr, owner: &Service, request: &Request) -> bool {
        self.holders(address).contains(owner)
            && request.families.place(Family::of(address)).is_some()
            && self.answers(request, address)
            && self.fits(address, owner, &request.terms)
    }

    fn may_reclaim(&self, address: IpAddr, owner: &Service) -> bool {
        self.quarantined.get(&address).is_some_and(|entry| {
            entry.reason == QuarantineCause::Released
                && entry.former.iter().any(|former| owner.name == former.name)
        })
    }

    /// Whether one that `owner` succeeds holds the address, and nobody stands against it.
    fn may_inherit(&self, address: IpAddr, owner: &Service, request: &Request) -> bool {
        let holders = self.holders(address);
        request.inherited.contains(&address)
            && holders.iter().any(|holder| holder.name == owner.name)
            && !holders.contains(owner)
            && self.fits(address, owner, &request.terms)
    }

    /// What is held by those that `owner` succeeds, or is kept back for it, and might be given to it if it were free.
    fn recallable(&self, owner: &Service, request: &Request, family: Family) -> Vec<IpAddr> {
        let is = |address: &IpAddr| {
            let pool = self.pool_of(*address);
            Family::of(*address) == family
                && pool
                    .is_some_and(|pool| self.may_use(pool, request, family) && pool.givable.contains(address))
        };
        let inherited = request.inherited.iter().filter(|one| self.may_inherit(**one, owner, request));
        let kept = self.quarantined.keys().filter(|one| self.may_reclaim(**one, owner));
        inherited.chain(kept).copied().filter(is).collect()
    }

    /// Whether an address that is not held could be had, if its pool allows it.
    fn can_be_had(&self, address: IpAddr, owner: &Service, request: &Request) -> bool {
        if self.quarantined.contains_key(&address) {
            return self.may_reclaim(address, owner);
        }
        !self.holders(address).contains(owner) && self.fits(address, owner, &request.terms)
    }

    /// Addresses of a family that could be given to `owner`.
    fn reachable(&self, owner: &Service, request: &Request, family: Family) -> usize {
        let everywhere: BTreeSet<IpAddr> = self
            .pools
            .iter()
            .flat_map(|pool| pool.own.iter().copied())
            .chain(self.held(owner))
            .filter(|address| Family::of(*address) == family)
            .collect();
        let recallable = self.recallable(owner, request, family);
        let shown = |address: IpAddr| {
            request.preferred.contains(&address)
                && self.pool_of(address).is_some()
                && self.is_within(request, address)
                && self.can_be_had(address, owner, request)
        };
        let keeps = |address: IpAddr| self.may_keep(address, owner, request);
        // These whatever the limits.
        let (first, others): (Vec<IpAddr>, Vec<IpAddr>) =
            everywhere.into_iter().partition(|one| keeps(*one) || shown(*one) || recallable.contains(one));
        let mut reached = first.len();
        let key = request.terms.key();
        for pool in self.pools.iter().filter(|pool| self.may_use(pool, request, family)) {
            let joins = |one: IpAddr| {
                key.is_some()
                    && self.holders(one).iter().any(|holder| self.terms[holder].key() == key)
                    && self.can_be_had(one, owner, request)
            };
            let of_namespace =
                |one: IpAddr| self.concerned(one).any(|one| one.namespace() == owner.namespace());
            let is_own = |one: IpAddr| self.concerned(one).any(|one| one.name == owner.name);
            let here: Vec<IpAddr> = others.iter().copied().filter(|one| pool.own.contains(one)).collect();
            let joined = |one: &&IpAddr| joins(**one);
            let own = here.iter().filter(joined).filter(|one| is_own(**one)).count();
            let near = here.iter().filter(joined).filter(|one| of_namespace(**one) && !is_own(**one)).count();
            let far = here.iter().filter(|one| {
                (joins(**one) && !of_namespace(**one)) || self.is_free(**one) || self.yields(**one)
            });
            let [for_namespace, for_owner] = self.rooms(pool, owner, request, family, &first);
            reached += own + for_owner.min(near + for_namespace.min(far.count()));
        }
        reached
    }

    pub(super) fn can_serve(&self, owner: &Service, request: &Request) -> bool {
        let families = request.families.list();
        if request.addresses.is_empty() {
            let count = usize::from(request.count);
            let reached = families.iter().map(|family| self.reachable(owner, request, *family));
            return count > 0
                && match request.families {
                    Families::Single(_) | Families::Require(_) => reached.into_iter().all(|n| n >= count),
                    Families::Prefer(_) => reached.into_iter().any(|n| n > 0),
                };
        }
        let distinct: BTreeSet<_> = request.addresses.iter().collect();
        let of = |family: &Family| distinct.iter().any(|address| Family::of(**address) == *family);
        let all_named = match request.families {
            Families::Single(_) | Families::Prefer(_) => true,
            Families::Require(both) => both.iter().all(of),
        };
        let known = request.pool.as_ref().is_none_or(|name| self.pools.iter().any(|pool| pool.name == *name));
        all_named
            && distinct.len() == request.addresses.len()
            && request.addresses.iter().all(|address| {
                let family = families.contains(&Family::of(*address));
                let had = self.can_be_had(*address, owner, request) || self.stays(*address, owner);
                let given = known
                    && self.is_within(request, *address)
                    && had
                    && self.pool_of(*address).is_some_and(|pool| {
                        let in_use =
                            !self.holders(*address).is_empty() || self.quarantined.contains_key(address);
                        Self::admits(pool, request)
                            && !self.is_closed(pool, request, Family::of(*address))
                            && (in_use || self.is_free(*address))
                            && self.fits_limits(pool, owner, request, *address)
                    });
                family && (self.may_keep(*address, owner, request) || given)
            })
    }

    /// Whether the plan is one that the rules allow, keeps what is to be kept, and takes what is to be taken first.
    pub(super) fn check(&self, owner: &Service, request: &Request, plan: &Plan) -> Result<(), TestCaseError> {
        prop_assert!(self.can_serve(owner, request));
        let answer: Vec<IpAddr> = plan.addresses.iter().map(|planned| planned.address).collect();
        let places: Vec<_> =
            answer.iter().map(|address| request.families.place(Family::of(*address))).collect();
        prop_assert!(places.is_sorted() && places.iter().all(Option::is_some), "{:?}", plan);
        prop_assert_eq!(answer.iter().collect::<BTreeSet<_>>().len(), answer.len(), "none twice");
        for planned in &plan.addresses {
            let address = planned.address;
            prop_assert_eq!(planned.pool.as_ref(), self.pool_of(address).map(|pool| &pool.name));
            let is = match planned.how {
                Acquisition::Kept => self.may_keep(address, owner, request),
                Acquisition::New => {
                    self.holders(address).is_empty() && !self.quarantined.contains_key(&address)
                }
                Acquisition::Joined => {
                    !self.holders(address).is_empty() && self.can_be_had(address, owner, request)
                }
                Acquisition::Reclaimed => {
                    self.may_reclaim(address, owner)
                        || self.may_inherit(address, owner, request)
                        || (request.addresses.contains(&address) && self.stays(address, owner))
                }
                Acquisition::Yielded => self.yields(address) && !self.may_reclaim(address, owner),
            };
            prop_assert!(is, "{:?} {:?}", planned, self);
        }
        let to_release: Vec<_> =
            self.held(owner).into_iter().filter(|address| !answer.contains(address)).collect();
        prop_assert_eq!(&plan.to_release, &to_release);
        if request.addresses.is_empty() {
            self.check_choice(owner, request, plan, &answer)
        } else {
            prop_assert!(plan.missing.is_empty());
            prop_assert_eq!(
                answer.iter().collect::<BTreeSet<_>>(),
                request.addresses.iter().collect::<BTreeSet<_>>()
            );
            Ok(())
        }
    }

    /// Where nothing is named: as many as asked for, what is held before others, and free ones in the order of the pools
    /// and of each pool.
    fn check_choice(
        &self,
        owner: &Service,
        request: &Request,
        plan: &Plan,
        answer: &[IpAddr],
    ) -> Result<(), TestCaseError> {
        for family in request.families.list() {
            let given: Vec<_> =
                plan.addresses.iter().filter(|one| Family::of(one.address) == *family).collect();
            let wanted = usize::from(request.count).min(self.reachable(owner, request, *family));
            prop_assert_eq!(given.len(), wanted, "as many as can be had of {}", family);
            let short = wanted < usize::from(request.count);
            prop_assert_eq!(plan.missing.contains(family), short);
            let keeps = |address: &&IpAddr| {
                Family::of(**address) == *family && self.may_keep(**address, owner, request)
            };
            let needless = plan.to_release.iter().find(keeps).filter(|address| {
                let loose = request.may_replace_unpooled && self.pool_of(**address).is_none();
                !loose && given.iter().any(|one| one.how != Acquisition::Kept)
            });
            prop_assert_eq!(needless, None, "left although another is taken");
            let shown = |address: IpAddr| request.preferred.contains(&address);
            let back = self.recallable(owner, request, *family);
            for one in given.iter().filter(|one| !shown(one.address)) {
                let before: &[IpAddr] = match one.how {
                    Acquisition::Kept | Acquisition::Joined => &[],
                    Acquisition::New | Acquisition::Yielded => &back,
                    Acquisition::Reclaimed => {
                        let place = back.iter().position(|address| *address == one.address);
                        &back[..place.ok_or_else(|| fail("not to be recalled"))?]
                    }
                };
                prop_assert!(before.iter().all(|own| answer.contains(own)), "{:?} before {:?}", one, before);
            }
            for one in given.iter().filter(|one| one.how == Acquisition::New) {
                if shown(one.address) {
                    continue;
                }
                let pool = self.pool_of(one.address).ok_or_else(|| fail("new, in no pool"))?;
                prop_assert!(self.may_use(pool, request, *family) && self.is_free(one.address), "{:?}", one);
                let passed: Vec<_> =
                    self.free(pool, *family).into_iter().filter(|free| !answer.contains(free)).collect();
                let first = match pool.policy.order {
                    Order::Lowest => passed.iter().all(|free| *free > one.address),
                    Order::Highest => passed.iter().all(|free| *free < one.address),
                    Order::LeastRecentlyUsed => true,
                };
                prop_assert!(first, "{:?} before {:?}", one, passed);
                if request.families.list().len() == 1 {
                    let earlier = self.pools.iter().take_while(|other| other.name != pool.name);
                    for other in earlier.filter(|other| self.may_use(other, request, *family)) {
                        let passed = self.free(other, *family);
                        let full = self.is_at_limit(other, owner, request, *family, answer);
                        prop_assert!(
                            full || passed.iter().all(|free| answer.contains(free)),
                            "{}",
                            other.name
                        );
                    }
                }
            }
            for one in given.iter().filter(|one| one.how == Acquisition::Yielded) {
                let until = |address: &IpAddr| (self.quarantined[address].until, *address);
                for pool in self.pools.iter().filter(|pool| self.may_use(pool, request, *family)) {
                    let free = self.free(pool, *family);
                    let full = self.is_at_limit(pool, owner, request, *family, answer);
                    prop_assert!(
                        full || free.iter().all(|free| answer.contains(free)),
                        "{:?} before free",
                        one
                    );
                }
                let pool = self.pool_of(one.address).ok_or_else(|| fail("it yields, in no pool"))?;
                prop_assert!(self.may_use(pool, request, *family), "{:?}", one);
                let mut passed = pool.own.iter().filter(|other| {
                    Family::of(**other) == *family && self.yields(**other) && !answer.contains(other)
                });
                prop_assert!(passed.all(|other| until(other) > until(&one.address)), "the oldest: {:?}", one);
            }
        }
        Ok(())
    }

    pub(super) fn commit(&mut self, owner: &Service, request: &Request, plan: &Plan) {
        for planned in &plan.addresses {
            self.quarantined.remove(&planned.address);
            self.join(planned.address, owner, &request.terms, false);
        }
        self.set_terms(owner, &request.terms);
    }

    pub(super) fn adopt(
        &mut self,
        address: IpAddr,
        owner: &Service,
        terms: &Terms,
        together: bool,
    ) -> Adopted<Service> {
        let holders = self.holders(address).to_vec();
        if !together && self.quarantined.contains_key(&address) {
            return Adopted::Quarantined;
        }
        if holders.contains(owner) {
            self.set_terms(owner, terms);
            return Adopted::Already;
        }
        if !together && !self.fits(address, owner, terms) {
            let others = holders.iter().filter(|holder| holder.name != owner.name);
            let conflict = others.into_iter().find(|holder| terms.fits(&self.terms[holder]).is_err());
            return conflict.map_or(Adopted::Already, |holder| Adopted::Conflict { holder: holder.clone() });
        }
        self.quarantined.remove(&address);
        self.join(address, owner, terms, together);
        if holders.is_empty() { Adopted::New } else { Adopted::Joined }
    }

    /// Says whether others hold it; `None`: the owner did not.
    pub(super) fn leave(&mut self, address: IpAddr, owner: &Service) -> Option<bool> {
        let holders = self.holders.get_mut(&address)?;
        let place = holders.iter().position(|holder| holder == owner)?;
        holders.remove(place);
        let others = !holders.is_empty();
        if !others {
            self.holders.remove(&address);
        }
        if self.held(owner).is_empty() {
            self.terms.remove(owner);
        }
        Some(others)
    }

    pub(super) fn release(&mut self, address: IpAddr, owner: &Service) -> Released {
        match self.leave(address, owner) {
            None => Released::NotHeld,
            Some(true) => Released::StillShared,
            Some(false) => {
                let time = self.pool_of(address).map_or(Duration::from_mins(1), |pool| {
                    pool.policy.quarantine.max(pool.policy.namespace_quarantine)
                });
                if time.is_zero() {
                    return Released::Free;
                }
                let until = self.now.after(time);
                let (former, reason) = (vec![owner.clone()], QuarantineCause::Released);
                let entry = Quarantined { former, until, reason, is_abandoned: false };
                self.quarantined.insert(address, entry);
                Released::Quarantined { until }
            }
        }
    }

    pub(super) fn set_terms(&mut self, owner: &Service, terms: &Terms) {
        if self.held(owner).is_empty() {
            return;
        }
        let before = self.terms.insert(owner.clone(), terms.clone());
        if before.is_none_or(|before| before == *terms) {
            return;
        }
        for address in self.held(owner) {
            let (terms, holders) = (&self.terms, self.holders.entry(address).or_default());
            let others = holders.iter().filter(|other| *other != owner);
            if others.into_iter().any(|other| terms[owner].fits(&terms[other]).is_err()) {
                holders.retain(|holder| holder != owner);
                holders.push(owner.clone());
            }
        }
    }

    pub(super) fn quarantine(&mut self, address: IpAddr, entry: &Quarantined<Service>) {
        for holder in self.holders(address).to_vec() {
            self.leave(address, &holder);
        }
        self.quarantined.insert(address, entry.clone());
    }

    pub(super) fn due(&self) -> Vec<IpAddr> {
        let mut due: Vec<_> = self
            .quarantined
            .iter()
            .filter(|(_, entry)| entry.until <= self.now)
            .map(|(address, entry)| (entry.until, *address))
            .collect();
        due.sort_unstable();
        due.into_iter().map(|(_, address)| address).collect()
    }

    /// Whether `allocator` says the same of every address and count.
    pub(super) fn same(&self, allocator: &Allocator<Service>) -> Result<(), TestCaseError> {
        let holders: Vec<_> = self.holders.iter().map(|(address, all)| (*address, all.as_slice())).collect();
        prop_assert_eq!(allocator.in_use().collect::<Vec<_>>(), holders);
        let quarantined: Vec<_> = self.quarantined.iter().map(|(address, entry)| (*address, entry)).collect();
        prop_assert_eq!(allocator.in_quarantine().collect::<Vec<_>>(), quarantined);
        prop_assert_eq!(
            allocator.pools().map(|pool| &pool.name).collect::<Vec<_>>(),
            self.pools.iter().map(|pool| &pool.name).collect::<Vec<_>>()
        );
        for (service, terms) in &self.terms {
            prop_assert_eq!(allocator.terms(service), Some(terms));
            prop_assert_eq!(allocator.held_by(service).collect::<Vec<_>>(), self.held(service));
        }
        for name in 0..6 {
            let service = Service { name, made: 0 };
            let kept: Vec<_> =
                self.quarantined.keys().copied().filter(|one| self.may_reclaim(*one, &service)).collect();
            prop_assert_eq!(allocator.kept_back_for(&service), kept);
        }
        for pool in &self.pools {
            for family in Family::ALL {
                let own: Vec<IpAddr> =
                    pool.own.iter().copied().filter(|address| Family::of(*address) == family).collect();
                let count =
                    |is: &dyn Fn(IpAddr) -> bool| own.iter().filter(|address| is(**address)).count() as u128;
                let counts = allocator.counts(&pool.name, family);
                prop_assert_eq!(counts.total, own.len() as u128);
                prop_assert_eq!(counts.assigned, count(&|one| !self.holders(one).is_empty()));
                prop_assert_eq!(counts.quarantined, count(&|one| self.quarantined.contains_key(&one)));
                prop_assert_eq!(counts.available(), count(&|one| self.is_free(one)));
                let is_used = |one| !self.holders(one).is_empty() || self.quarantined.contains_key(&one);
                let withdrawn = count(&|one| is_used(one) && !pool.givable.contains(&one));
                prop_assert_eq!(counts.withdrawn, withdrawn);
                prop_assert_eq!(counts.returning(), count(&is_used) - withdrawn);
                for address in own {
                    let its = allocator.pool_of(address).map(|pool| &pool.name);
                    prop_assert_eq!(its, Some(&pool.name));
                }
            }
        }
        Ok(())
    }
}
