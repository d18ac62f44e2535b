//! Those who wait, in groups, and the groups by what they wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use windlass_api::ServiceRef;
use windlass_ipam::{Allocator, Families, Family, Pool, Request};

use super::Waiter;

/// Whose turn it is: the lower the sooner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    urgency: Urgency,
    created: Option<Timestamp>,
    owner: ServiceRef,
}

/// How much depends on the next address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// It names its addresses: no other will do.
    Named,
    /// It has none.
    Need,
    /// It has some, and wants more or another.
    Wish,
}

impl Turn {
    pub(super) const fn new(urgency: Urgency, created: Option<Timestamp>, owner: ServiceRef) -> Self {
        Self { urgency, created, owner }
    }

    pub(super) const fn owner(&self) -> &ServiceRef {
        &self.owner
    }
}

/// Who belongs together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// All that want the same of the same pools, whoever they are: if the first cannot be served, none can.
    Alike {
        families: Vec<Family>,
        /// How many of each; `None`: one more of any is worth having.
        count: Option<u8>,
        pools: BTreeSet<String>,
    },
    /// One for which more counts: the addresses it names, its sharing key, what it has, what is kept back for it.
    Alone(ServiceRef),
}

/// What a group waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
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
    kind: Kind,
    turns: BTreeSet<Turn>,
    places: BTreeSet<Place>,
}

/// The groups; none is empty.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_id: BTreeMap<GroupId, Group>,
    by_kind: BTreeMap<Kind, GroupId>,
    by_place: BTreeMap<Place, BTreeSet<GroupId>>,
    last: GroupId,
}

impl Groups {
    /// `turn` is one of those of `kind`, who wait at `places`.
    pub(super) fn join(&mut self, kind: Kind, places: BTreeSet<Place>, turn: Turn) -> GroupId {
        if let Some(id) = self.by_kind.get(&kind)
            && let Some(group) = self.by_id.get_mut(id)
        {
            group.turns.insert(turn);
            return *id;
        }
        self.last += 1;
        for place in &places {
            self.by_place.entry(place.clone()).or_default().insert(self.last);
        }
        self.by_kind.insert(kind.clone(), self.last);
        self.by_id.insert(self.last, Group { kind, turns: [turn].into(), places });
        self.last
    }

    pub(super) fn leave(&mut self, id: GroupId, turn: &Turn) {
        let Some(group) = self.by_id.get_mut(&id) else { return };
        group.turns.remove(turn);
        if !group.turns.is_empty() {
            return;
        }
        let Some(group) = self.by_id.remove(&id) else { return };
        self.by_kind.remove(&group.kind);
        for place in group.places {
            if let Some(groups) = self.by_place.get_mut(&place) {
                groups.remove(&id);
                if groups.is_empty() {
                    self.by_place.remove(&place);
                }
            }
        }
    }

    /// Whose turn it is first in the group; `None` if the group is gone.
    pub(super) fn first(&self, id: GroupId) -> Option<&Turn> {
        self.by_id.get(&id)?.turns.first()
    }

    /// Every group.
    pub(super) fn all(&self) -> impl Iterator<Item = GroupId> {
        self.by_id.keys().copied()
    }

    /// The groups that wait at `place`.
    pub(super) fn at(&self, place: &Place) -> impl Iterator<Item = GroupId> {
        self.by_place.get(place).into_iter().flatten().copied()
    }

    /// Every address that somebody waits for.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.by_place.keys().filter_map(|place| match place {
            Place::Address(address) => Some(*address),
            Place::Pool(..) | Place::Key(_) => None,
        })
    }
}

/// The group of a waiter, and what it waits for.
pub(super) fn of(waiter: &Waiter, allocator: &Allocator<ServiceRef>) -> (Kind, BTreeSet<Place>) {
    let Waiter { owner, created: _, request, missing } = waiter;
    let held: Vec<IpAddr> = allocator.held_by(owner).collect();
    let pools = allocator.pools();
    let open: BTreeSet<String> =
        pools.filter(|pool| is_open(pool, request)).map(|pool| pool.name.clone()).collect();
    let (all, some_will_do) = match request.families {
        Families::Single(family) => (vec![family], false),
        Families::Require(both) => (both.to_vec(), false),
        Families::Prefer(both) => (both.to_vec(), true),
    };
    // What it holds counts too if it may not keep it, as by those it shares it with, or who may join it by the key that it
    // gives up: more than the pools decides then.
    let shares = allocator.terms(owner).is_some_and(|terms| terms.key().is_some())
        || held.iter().any(|address| allocator.holders(*address).len() > 1);
    let keeps = held.is_empty() || (request.pool.is_none() && !request.may_replace_unpooled && !shares);
    let simple = keeps && request.addresses.is_empty() && request.terms.key().is_none();
    let families = if missing.is_empty() || !simple { all } else { missing.clone() };
    let mut places = BTreeSet::new();
    if request.addresses.is_empty() {
        for family in &families {
            places.extend(open.iter().map(|pool| Place::Pool(pool.clone(), *family)));
        }
    }
    let lacks = |address: &&IpAddr| !held.contains(address);
    let named = request.addresses.iter().chain(&request.preferred).filter(lacks);
    places.extend(named.map(|address| Place::Address(*address)));
    if !keeps {
        places.extend(held.iter().map(|address| Place::Address(*address)));
    }
    places.extend(request.terms.key().map(|key| Place::Key(key.to_owned())));
    let shown = request.preferred.iter().any(|address| lacks(&address));
    // Nobody else can be served by these.
    let kept_back = allocator.kept_back_for(owner).iter().chain(&request.inherited);
    let own: Vec<Place> = kept_back.copied().map(Place::Address).collect();
    let as_others = simple && !shown && own.is_empty();
    places.extend(own);
    let kind = match (as_others, held.is_empty(), some_will_do) {
        (true, true, false) => {
            Kind::Alike { families: sorted(families), count: Some(request.count), pools: open }
        }
        (true, _, true) => Kind::Alike { families: sorted(families), count: None, pools: open },
        (true, false, false) | (false, _, _) => Kind::Alone(owner.clone()),
    };
    (kind, places)
}

fn sorted(mut families: Vec<Family>) -> Vec<Family> {
    families.sort_unstable();
    families
}

/// Whether the pool gives anything new to this request, if it has it.
fn is_open(pool: &Pool, request: &Request) -> bool {
    let asked = request.pool.as_ref().map_or(pool.policy.auto_assign, |named| *named == pool.name);
    asked
        && !pool.policy.disabled
        && pool.policy.admits_namespace(&request.requester)
        && pool.policy.admits_labels(&request.requester)
}
