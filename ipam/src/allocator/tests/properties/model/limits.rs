//! Limits, pools that are a namespace's only ones, and what gives way, written out once more.

use super::*;

impl Model {
    /// Whether the pool is for everybody, and who asks is to have addresses from another only.
    pub(super) fn is_closed(&self, pool: &Members, request: &Request, family: Family) -> bool {
        let namespace = &request.requester.namespace;
        let confines = |other: &&Members| {
            other.policy.when_full == crate::WhenFull::Wait
                && other.policy.auto_assign
                && other.policy.namespaces.contains(namespace)
        };
        let has_family = |other: &Members| other.own.iter().any(|address| Family::of(*address) == family);
        pool.policy.namespaces.is_empty() && self.pools.iter().filter(confines).any(has_family)
    }

    /// Those who hold the address or may have it back.
    pub(super) fn concerned(&self, address: IpAddr) -> impl Iterator<Item = &Service> {
        let entry = self.quarantined.get(&address);
        let former = entry.filter(|entry| entry.reason == QuarantineCause::Released);
        self.holders(address).iter().chain(former.into_iter().flat_map(|entry| &entry.former))
    }

    /// Addresses of the pool and family that count against the limit of a namespace.
    pub(super) fn charged(&self, pool: &str, family: Family, namespace: &str) -> usize {
        let pool = self.pools.iter().find(|one| one.name == pool);
        let own = pool.into_iter().flat_map(|pool| &pool.own).filter(|one| Family::of(**one) == family);
        own.filter(|one| self.concerned(**one).any(|service| service.namespace() == namespace)).count()
    }

    /// Pools with a limit for namespaces, by family, the limit, and what counts against that of the owner's namespace.
    pub(in super::super) fn charged_to(&self, owner: &Service) -> Vec<(String, Family, usize, usize)> {
        let limited =
            self.pools.iter().filter_map(|pool| Some((pool, pool.policy.limits.per_namespace? as usize)));
        let counted = limited.flat_map(|(pool, limit)| Family::ALL.map(|family| (pool, family, limit)));
        let charged = |pool: &Members, family| self.charged(&pool.name, family, owner.namespace());
        counted
            .map(|(pool, family, limit)| (pool.name.clone(), family, limit, charged(pool, family)))
            .collect()
    }

    /// What the limits leave to the namespace and to the owner after `picked`.
    pub(super) fn rooms(
        &self,
        pool: &Members,
        owner: &Service,
        request: &Request,
        family: Family,
        picked: &[IpAddr],
    ) -> [usize; 2] {
        let here = |one: &&IpAddr| Family::of(**one) == family && pool.own.contains(one);
        let in_namespace = |one: IpAddr| self.concerned(one).any(|one| one.namespace() == owner.namespace());
        let is_own = |one: IpAddr| self.concerned(one).any(|one| one.name == owner.name);
        let counts = |one: &&IpAddr| {
            let holders = self.holders(**one);
            holders.contains(owner)
                || self.may_reclaim(**one, owner)
                || (request.inherited.contains(one) && holders.iter().any(|holder| holder.name == owner.name))
        };
        let added = |is: &dyn Fn(IpAddr) -> bool| picked.iter().filter(here).filter(|one| !is(**one)).count();
        let left = |limit: Option<u32>, taken: usize| {
            limit.map_or(usize::MAX, |limit| (limit as usize).saturating_sub(taken))
        };
        let charged = self.charged(&pool.name, family, owner.namespace());
        let of_owner = pool.own.iter().filter(here).filter(counts).count();
        let limits = pool.policy.limits;
        [
            left(limits.per_namespace, charged + added(&in_namespace)),
            left(limits.per_owner, of_owner + added(&is_own)),
        ]
    }

    /// Whether the address gives way where nothing is free.
    pub(super) fn yields(&self, address: IpAddr) -> bool {
        let entry = self.quarantined.get(&address);
        entry.is_some_and(|entry| entry.reason == QuarantineCause::Released && entry.is_abandoned)
            && self.pool_of(address).is_some_and(|pool| pool.givable.contains(&address))
    }

    /// Whether the address is kept back for others of the owner's namespace, which may have it by naming it.
    pub(super) fn stays(&self, address: IpAddr, owner: &Service) -> bool {
        self.quarantined.contains_key(&address)
            && self.pool_of(address).is_some_and(|pool| !pool.policy.namespace_quarantine.is_zero())
            && self.concerned(address).any(|former| former.namespace() == owner.namespace())
    }

    /// Whether the limits let the owner have the address besides those that it names before.
    pub(super) fn fits_limits(
        &self,
        pool: &Members,
        owner: &Service,
        request: &Request,
        address: IpAddr,
    ) -> bool {
        let before: Vec<IpAddr> =
            request.addresses.iter().copied().take_while(|one| *one != address).collect();
        let [for_namespace, for_owner] = self.rooms(pool, owner, request, Family::of(address), &before);
        let in_namespace = self.concerned(address).any(|one| one.namespace() == owner.namespace());
        let own = self.concerned(address).any(|one| one.name == owner.name);
        (in_namespace || for_namespace > 0) && (own || for_owner > 0)
    }

    /// Whether the limits leave the owner nothing more of the pool after `answer`.
    pub(super) fn is_at_limit(
        &self,
        pool: &Members,
        owner: &Service,
        request: &Request,
        family: Family,
        answer: &[IpAddr],
    ) -> bool {
        // What gives way counts as one more, whose ever it was.
        let yielded = answer.iter().filter(|one| self.yields(**one) && pool.own.contains(one)).count();
        self.rooms(pool, owner, request, family, answer).iter().any(|room| *room <= yielded)
    }
}
