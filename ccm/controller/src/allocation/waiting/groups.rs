//! Waiting Services in groups, and the groups by what they wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use windlass_api::ServiceRef;
use windlass_ipam::{Allocator, Families, Family, Limits, Pool};

use super::WaitingService;

/// Position among the waiting Services: the lowest comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueuePosition {
    precedence: Precedence,
    created: Option<Timestamp>,
    owner: ServiceRef,
}

/// Precedence of Services over others, whatever their age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Precedence {
    /// It names its addresses: no other will do.
    NamesAddresses,
    /// It has none.
    HasNone,
    /// It has some, and wants more or another.
    WantsMore,
}

impl QueuePosition {
    pub(super) const fn new(precedence: Precedence, created: Option<Timestamp>, owner: ServiceRef) -> Self {
        Self { precedence, created, owner }
    }

    pub(super) const fn owner(&self) -> &ServiceRef {
        &self.owner
    }
}

/// Common properties of the Services of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GroupKey {
    /// They want the same from the same pools: if the first cannot be served, none can.
    Interchangeable {
        families: Vec<Family>,
        /// Number of addresses of each family; `None`: one more of any is useful.
        count: Option<u8>,
        /// Each with the families that it gives.
        pools: BTreeSet<(String, Family)>,
        /// Their namespace, if its limit counts.
        namespace: Option<String>,
    },
    /// A single Service for which more matters: the addresses that it names, holds or may have back, or its sharing key.
    Single(ServiceRef),
}

/// Resource that a group waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// An address of this family of this pool.
    Pool(String, Family),
    /// This address.
    Address(IpAddr),
    /// An address that is shared under this key.
    Key(String),
}

/// Number of a group, never used again.
pub(super) type GroupId = u64;

#[derive(Debug)]
struct Group {
    key: GroupKey,
    positions: BTreeSet<QueuePosition>,
    targets: BTreeSet<Target>,
}

/// The groups; none is empty.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_id: BTreeMap<GroupId, Group>,
    by_key: BTreeMap<GroupKey, GroupId>,
    by_target: BTreeMap<Target, BTreeSet<GroupId>>,
    last: GroupId,
}

impl Groups {
    /// Adds `position` to the group of `group_key`, whose Services wait at `targets`.
    pub(super) fn join(
        &mut self,
        group_key: GroupKey,
        targets: BTreeSet<Target>,
        position: QueuePosition,
    ) -> GroupId {
        if let Some(id) = self.by_key.get(&group_key)
            && let Some(group) = self.by_id.get_mut(id)
        {
            group.positions.insert(position);
            return *id;
        }
        self.last += 1;
        for target in &targets {
            self.by_target.entry(target.clone()).or_default().insert(self.last);
        }
        self.by_key.insert(group_key.clone(), self.last);
        self.by_id.insert(self.last, Group { key: group_key, positions: [position].into(), targets });
        self.last
    }

    pub(super) fn leave(&mut self, id: GroupId, position: &QueuePosition) {
        let Some(group) = self.by_id.get_mut(&id) else { return };
        group.positions.remove(position);
        if !group.positions.is_empty() {
            return;
        }
        let Some(group) = self.by_id.remove(&id) else { return };
        self.by_key.remove(&group.key);
        for target in group.targets {
            if let Some(groups) = self.by_target.get_mut(&target) {
                groups.remove(&id);
                if groups.is_empty() {
                    self.by_target.remove(&target);
                }
            }
        }
    }

    /// The first position in the group; `None` if the group is gone.
    pub(super) fn first(&self, id: GroupId) -> Option<&QueuePosition> {
        self.by_id.get(&id)?.positions.first()
    }

    /// Returns every group.
    pub(super) fn all(&self) -> impl Iterator<Item = GroupId> {
        self.by_id.keys().copied()
    }

    /// The groups that wait at `target`.
    pub(super) fn at(&self, target: &Target) -> impl Iterator<Item = GroupId> {
        self.by_target.get(target).into_iter().flatten().copied()
    }

    /// Returns every address that a group waits for.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.by_target.keys().filter_map(|target| match target {
            Target::Address(address) => Some(*address),
            Target::Pool(..) | Target::Key(_) => None,
        })
    }
}

/// The group of a waiter, and what it waits for.
pub(super) fn of(waiter: &WaitingService, allocator: &Allocator<ServiceRef>) -> (GroupKey, BTreeSet<Target>) {
    let WaitingService { owner, created: _, request, missing } = waiter;
    let held: Vec<IpAddr> = allocator.held_by(owner).collect();
    let (all, some_will_do) = match request.families {
        Families::Single(family) => (vec![family], false),
        Families::Require(both) => (both.to_vec(), false),
        Families::Prefer(both) => (both.to_vec(), true),
    };
    let is_open = |pool: &&Pool, family: Family| allocator.refuses(pool, request, family).is_none();
    let open: Vec<(&Pool, Family)> = all
        .iter()
        .flat_map(|family| {
            allocator.pools().filter(|pool| is_open(pool, *family)).map(|pool| (pool, *family))
        })
        .collect();
    let limits = |is: fn(Limits) -> bool| open.iter().any(|(pool, _)| is(pool.policy.limits));
    let namespace = limits(|limits| limits.per_namespace.is_some()).then(|| owner.namespace.clone());
    // What it has may count against its own limit.
    let counts_itself = !held.is_empty() && limits(|limits| limits.per_owner.is_some());
    // What it holds counts too if it may not keep it, as by those it shares it with, or who may join it by the key that it
    // gives up: more than the pools decides then.
    let shares = allocator.terms(owner).is_some_and(|terms| terms.key().is_some())
        || held.iter().any(|address| allocator.holders(*address).len() > 1);
    let keeps = held.is_empty() || (request.pool.is_none() && !request.may_replace_unpooled && !shares);
    let simple = keeps && request.addresses.is_empty() && request.terms.key().is_none();
    let families = if missing.is_empty() || !simple { all } else { missing.clone() };
    let open: BTreeSet<(String, Family)> = open
        .into_iter()
        .filter(|(_, family)| families.contains(family))
        .map(|(pool, family)| (pool.name.clone(), family))
        .collect();
    let mut targets = BTreeSet::new();
    if request.addresses.is_empty() {
        targets.extend(open.iter().map(|(pool, family)| Target::Pool(pool.clone(), *family)));
    }
    // Those that it names may be free, and be too many for a limit of their pool.
    targets.extend(request.addresses.iter().filter_map(|address| {
        let pool = allocator.pool_of(*address).filter(|pool| pool.policy.limits != Limits::default())?;
        Some(Target::Pool(pool.name.clone(), Family::of(*address)))
    }));
    let lacks = |address: &&IpAddr| !held.contains(address);
    let named = request.addresses.iter().chain(&request.preferred).filter(lacks);
    targets.extend(named.map(|address| Target::Address(*address)));
    if !keeps {
        targets.extend(held.iter().map(|address| Target::Address(*address)));
    }
    targets.extend(request.terms.key().map(|key| Target::Key(key.to_owned())));
    let shown = request.preferred.iter().any(|address| lacks(&address));
    // Nobody else can be served by these.
    let kept_back = allocator.kept_back_for(owner).iter().chain(&request.inherited);
    let own: Vec<Target> = kept_back.copied().map(Target::Address).collect();
    let as_others = simple && !shown && own.is_empty() && !counts_itself;
    targets.extend(own);
    let group_key = match (as_others, held.is_empty(), some_will_do) {
        (true, true, false) => {
            let count = Some(request.count);
            GroupKey::Interchangeable { families: sorted(families), count, pools: open, namespace }
        }
        (true, _, true) => {
            GroupKey::Interchangeable { families: sorted(families), count: None, pools: open, namespace }
        }
        (true, false, false) | (false, _, _) => GroupKey::Single(owner.clone()),
    };
    (group_key, targets)
}

fn sorted(mut families: Vec<Family>) -> Vec<Family> {
    families.sort_unstable();
    families
}
