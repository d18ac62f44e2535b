//! The index against the naive way: try everybody, in order, again and again from the beginning.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const NAMESPACES: [&str; 2] = ["n0", "n1"];
const ADDRESSES: [&str; 5] = ["192.0.2.0", "192.0.2.1", "192.0.2.9", "2001:db8::", "2001:db8::1"];

/// One thing that happens.
#[derive(Debug, Clone)]
enum Event {
    /// Somebody asks, and waits if it has to.
    Ask { who: usize, minute: i64, request: Box<Request> },
    /// A holder of some address lets go of it; of all that it has, if it waits for more.
    Release { which: usize, holder: usize },
    /// The oldest quarantine ends.
    Lift,
    /// Those for whom it is kept back are gone, or are there.
    Abandon { which: usize, is_abandoned: bool },
    /// The pools are others.
    Pools(Vec<Pool>),
    /// A namespace has this team.
    Relabel(usize, Option<&'static str>),
    /// Somebody waits no longer.
    Forget(usize),
}

/// Two of them are one Service under two UIDs.
fn party(who: usize) -> ServiceRef {
    let mut party = owner(NAMESPACES[who % 2], &format!("s{}", who / 2));
    if who >= 8 {
        party.name = "s0".to_owned();
    }
    party
}

fn families() -> impl Strategy<Value = Families> {
    let (v4, v6) = (Family::V4, Family::V6);
    prop::sample::select(vec![
        Families::Single(v4),
        Families::Single(v6),
        Families::Prefer([v4, v6]),
        Families::Prefer([v6, v4]),
        Families::Require([v4, v6]),
    ])
}

/// Mostly one address of any pool, which many wait for at once; else anything.
fn request() -> impl Strategy<Value = Request> {
    let many = (unusual(), prop::sample::select(vec![Family::V4, Family::V4, Family::V6])).prop_map(
        |(unusual, family)| {
            let Request { requester, terms, .. } = unusual;
            Request { requester, terms, ..Request::any(Families::Single(family), "") }
        },
    );
    prop_oneof![many, unusual()]
}

fn unusual() -> impl Strategy<Value = Request> {
    let address = || prop::sample::select(ADDRESSES.to_vec());
    let named = prop_oneof![
        5 => Just(Vec::new()),
        1 => prop::collection::btree_set(address(), 1..3).prop_map(|set| set.into_iter().collect()),
    ];
    let shown = prop_oneof![5 => Just(Vec::new()), 1 => prop::collection::vec(address(), 1..3)];
    let pool =
        prop_oneof![4 => Just(None), 1 => prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(Some)];
    let sharing = prop_oneof![
        2 => Just(None),
        1 => (prop::sample::select(vec!["k", "k", "l"]), prop::bool::weighted(0.8)).prop_map(Some),
    ];
    (
        families(),
        prop::sample::select(vec![1, 1, 1, 2]),
        named,
        shown,
        pool,
        sharing,
        80..83_u16,
        prop::sample::select(vec!["x", "y"]),
    )
        .prop_map(|(families, count, named, shown, pool, sharing, port, app)| {
            let mut request = Request::any(families, "");
            request.count = count;
            let fits = |text: &&str| families.list().contains(&Family::of(ip(text)));
            request.addresses = named.into_iter().filter(fits).map(ip).collect();
            request.preferred = shown.into_iter().map(ip).collect();
            request.pool = pool.map(str::to_owned);
            request.requester.labels = [("app".to_owned(), app.to_owned())].into();
            request.terms.ports = [Port { protocol: Protocol::Tcp, number: port }].into();
            request.terms.sharing = sharing.map(|(key, everywhere)| Sharing {
                key: key.to_owned(),
                with: NAMESPACES.iter().filter(|_| everywhere).map(|name| (*name).to_owned()).collect(),
            });
            request
        })
}

fn pools() -> impl Strategy<Value = Vec<Pool>> {
    let select = |key: &str, value: &str| Selector {
        labels: [(key.to_owned(), value.to_owned())].into(),
        ..Selector::default()
    };
    let of_team = Policy { namespace_selectors: vec![select("team", "t")], priority: 1, ..at_once() };
    let of_app = Policy { service_selectors: vec![select("app", "x")], ..Policy::default() };
    let by_name = Policy { auto_assign: false, ..at_once() };
    let disabled = Policy { disabled: true, ..at_once() };
    let pick = |variants: Vec<Option<Pool>>| prop::sample::select(variants);
    (
        pick(vec![
            Some(pool("a", &["192.0.2.0/32"])),
            Some(pool("a", &["192.0.2.0/32"])),
            Some(pool("a", &["192.0.2.0/31"])),
            Some(pool("a", &["192.0.2.0/31", "2001:db8::/128"])),
            Some(pool("a", &["192.0.2.0/32", "2001:db8::1/128"])),
            Some(pool("a", &["192.0.2.0/31"]).with_policy(disabled)),
        ]),
        pick(vec![
            None,
            Some(pool("b", &["192.0.2.1/32", "192.0.2.9/32"]).with_policy(of_team.clone())),
            Some(pool("b", &["192.0.2.9/32"]).with_policy(of_app)),
            Some(pool("b", &["192.0.2.9/32"])),
        ]),
        pick(vec![
            None,
            Some(pool("c", &["2001:db8::1/128"]).with_policy(by_name)),
            Some(pool("c", &["2001:db8::/127"])),
            Some(pool("c", &["2001:db8::/127", "192.0.2.9/32"]).with_policy(of_team)),
        ]),
    )
        .prop_flat_map(|(a, b, c)| {
            let limit = || prop::option::weighted(0.25, 1..3_u32);
            let tenants = prop::collection::vec((limit(), limit(), prop::bool::weighted(0.3)), 3);
            (Just([a, b, c]), tenants)
        })
        .prop_map(|(pools, tenants)| {
            let limited = |(pool, (per_namespace, per_owner, waits)): (Option<Pool>, _)| {
                let mut pool = pool?;
                pool.policy.limits = Limits { per_namespace, per_owner };
                pool.policy.when_full = if waits { WhenFull::Wait } else { WhenFull::UseOthers };
                Some(pool)
            };
            pools.into_iter().zip(tenants).filter_map(limited).collect()
        })
}

fn event() -> impl Strategy<Value = Event> {
    let who = 0..10_usize;
    prop_oneof![
        6 => (who.clone(), 0..4_i64, request())
            .prop_map(|(who, minute, request)| Event::Ask { who, minute, request: Box::new(request) }),
        7 => (0..8_usize, 0..3_usize).prop_map(|(which, holder)| Event::Release { which, holder }),
        2 => Just(Event::Lift),
        2 => (0..8_usize, prop::bool::ANY)
            .prop_map(|(which, is_abandoned)| Event::Abandon { which, is_abandoned }),
        1 => pools().prop_map(Event::Pools),
        1 => (0..2_usize, prop::sample::select(vec![None, Some("t"), Some("u")]))
            .prop_map(|(which, team)| Event::Relabel(which, team)),
        1 => who.prop_map(Event::Forget),
    ]
}

/// Serves the first that can be served, until none can.
fn naive(source: &mut CountingSource, waiters: &mut BTreeMap<ServiceRef, WaitingService>) -> Vec<ServiceRef> {
    let mut served = Vec::new();
    'again: loop {
        let mut all: Vec<&WaitingService> = waiters.values().collect();
        // Who names addresses, then who has nothing, then who wants more than it has.
        all.sort_by_key(|waiter| {
            let takes_any = waiter.request.addresses.is_empty();
            let has = takes_any && source.allocator.held_by(&waiter.owner).next().is_some();
            (takes_any, has, waiter.created, &waiter.owner)
        });
        for waiter in all {
            let Ok(plan) = source.allocator.plan(&waiter.owner, &waiter.request) else { continue };
            if plan.addresses.iter().all(|planned| planned.how == Acquisition::Kept) {
                continue;
            }
            let owner = waiter.owner.clone();
            source.allocate(&owner, &waiter.request).expect("planned");
            served.push(owner.clone());
            if plan.missing.is_empty() {
                waiters.remove(&owner);
            } else if let Some(waiter) = waiters.get_mut(&owner) {
                waiter.missing = plan.missing;
            }
            continue 'again;
        }
        return served;
    }
}

/// What was the case before, and what is waited for, kept apart from the index.
struct Model {
    desk: Harness,
    waiters: BTreeMap<ServiceRef, WaitingService>,
    teams: [Labels; 2],
    groups: usize,
}

impl Model {
    fn labels(&self, owner: &ServiceRef) -> &Labels {
        &self.teams[usize::from(owner.namespace == NAMESPACES[1])]
    }

    fn wait(&mut self, waiter: WaitingService) {
        self.desk.waiting.insert(&self.desk.source.allocator, waiter.clone());
        self.waiters.insert(waiter.owner.clone(), waiter);
    }

    fn forget(&mut self, owner: &ServiceRef) {
        self.desk.waiting.remove(owner);
        self.waiters.remove(owner);
    }

    /// Serves after `triggers` both ways.
    fn retry(&mut self, triggers: &[Trigger<'_>]) -> Result<(), TestCaseError> {
        let mut other = CountingSource { allocator: self.desk.source.allocator.clone(), plans: Cell::new(0) };
        let expected = naive(&mut other, &mut self.waiters);
        self.desk.source.plans.set(0);
        let served = self.desk.waiting.retry(&mut self.desk.source, triggers);
        prop_assert_eq!(&served, &expected, "after {:?}", triggers);
        prop_assert!(self.desk.source.allocator == other.allocator);
        let still: BTreeMap<ServiceRef, WaitingService> = self
            .desk
            .waiting
            .waiters
            .iter()
            .map(|(owner, (waiter, ..))| (owner.clone(), waiter.clone()))
            .collect();
        prop_assert_eq!(&still, &self.waiters);
        // Each that is served gives at most every group one chance more.
        let bound = (served.len() + 1) * (self.groups + 1);
        prop_assert!(self.desk.plans() <= bound, "{} plans for {} served", self.desk.plans(), served.len());
        Ok(())
    }

    fn apply(&mut self, event: Event) -> Result<(), TestCaseError> {
        self.groups = self.waiters.len();
        match event {
            Event::Ask { who, minute, mut request } => {
                let owner = party(who);
                request.requester.namespace.clone_from(&owner.namespace);
                request.requester.namespace_labels.clone_from(self.labels(&owner));
                request.terms.namespace.clone_from(&owner.namespace);
                let same_terms = self.desk.source.allocator.terms(&owner) == Some(&request.terms);
                let placed = self.desk.source.allocate(&owner, &request);
                self.forget(&owner);
                let missing = match &placed {
                    Some(plan) if plan.missing.is_empty() => None,
                    Some(plan) => Some(plan.missing.clone()),
                    None => Some(Vec::new()),
                };
                if let Some(missing) = missing {
                    let created = Some(Timestamp::from_second(minute).expect("a time"));
                    self.wait(WaitingService { owner, created, request: *request, missing });
                }
                let planned = placed.iter().flat_map(|plan| &plan.addresses);
                let left = placed.iter().flat_map(|plan| &plan.to_release).filter(|_| !same_terms);
                let triggers: Vec<_> = planned
                    .filter(|planned| !same_terms || planned.how != Acquisition::Kept)
                    .map(|planned| planned.address)
                    .chain(left.copied())
                    .map(Trigger::Address)
                    .collect();
                self.retry(&triggers)
            }
            Event::Release { which, holder } => {
                let allocator = &self.desk.source.allocator;
                let used: Vec<(IpAddr, &[ServiceRef])> = allocator.in_use().collect();
                let Some((address, holders)) = used.get(which % used.len().max(1)) else { return Ok(()) };
                let (address, owner) = (*address, holders[holder % holders.len()].clone());
                let held: Vec<IpAddr> = allocator.held_by(&owner).collect();
                let waits = self.waiters.contains_key(&owner);
                let gone = if waits { held } else { vec![address] };
                self.forget(&owner);
                for address in &gone {
                    self.desk.source.allocator.release(*address, &owner, Moment(0));
                }
                let triggers: Vec<_> = gone.into_iter().map(Trigger::Address).collect();
                self.retry(&triggers)
            }
            Event::Lift => {
                let Some(address) = self.desk.source.allocator.ended_quarantines(Moment(u64::MAX)).next()
                else {
                    return Ok(());
                };
                self.desk.source.allocator.end_quarantine(address);
                self.retry(&[Trigger::Address(address)])
            }
            Event::Abandon { which, is_abandoned } => {
                let allocator = &mut self.desk.source.allocator;
                let kept_back: Vec<IpAddr> = allocator.in_quarantine().map(|(address, _)| address).collect();
                let Some(address) = kept_back.get(which % kept_back.len().max(1)) else { return Ok(()) };
                let changes = allocator.set_abandoned(*address, is_abandoned);
                if changes { self.retry(&[Trigger::Address(*address)]) } else { Ok(()) }
            }
            Event::Pools(pools) => {
                self.desk.source.allocator.replace_pools(pools.iter().cloned());
                let before = std::mem::replace(&mut self.desk.pools, pools);
                self.retry(&[Trigger::Pools(&before)])
            }
            Event::Relabel(which, team) => {
                let labels: Labels =
                    team.map(|team| ("team".to_owned(), team.to_owned())).into_iter().collect();
                self.teams[which].clone_from(&labels);
                for waiter in self.waiters.values_mut() {
                    if waiter.owner.namespace == NAMESPACES[which] {
                        waiter.request.requester.namespace_labels.clone_from(&labels);
                    }
                }
                self.retry(&[Trigger::Namespace(NAMESPACES[which], &labels)])
            }
            Event::Forget(who) => {
                self.forget(&party(who));
                Ok(())
            }
        }
    }
}

proptest! {
    #[test]
    fn the_same_services_are_served_in_the_same_order_as_if_everybody_were_tried(
        first in pools(),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut model = Model {
            desk: Harness::new(first),
            waiters: BTreeMap::new(),
            teams: [Labels::new(), Labels::new()],
            groups: 0,
        };
        for event in events {
            model.apply(event)?;
        }
        // Nothing was forgotten on the way.
        model.retry(&[Trigger::Everything])?;
    }
}
