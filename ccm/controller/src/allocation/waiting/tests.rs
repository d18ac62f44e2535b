mod model;

use std::cell::Cell;
use std::collections::BTreeSet;

use windlass_ipam::{Families, Moment, Policy, Port, Protocol, Selector, Sharing, WhenFull};

use super::*;

/// An allocator that counts the plans made.
struct CountingSource {
    allocator: Allocator<ServiceRef>,
    plans: Cell<usize>,
}

impl AddressSource for CountingSource {
    fn allocator(&self) -> &Allocator<ServiceRef> {
        &self.allocator
    }

    fn plan(&self, owner: &ServiceRef, request: &Request) -> Option<Plan> {
        self.plans.set(self.plans.get() + 1);
        self.allocator.plan(owner, request).ok()
    }

    fn allocate(&mut self, owner: &ServiceRef, request: &Request) -> Option<Plan> {
        Some(self.allocator.prepare(owner, request).ok()?.commit())
    }
}

/// Pools, and Services that ask in turn.
struct Harness {
    source: CountingSource,
    waiting: Waiting,
    pools: Vec<Pool>,
}

fn owner(namespace: &str, name: &str) -> ServiceRef {
    ServiceRef { namespace: namespace.to_owned(), name: name.to_owned(), uid: format!("uid-{name}") }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

fn at_once() -> Policy {
    Policy { quarantine: std::time::Duration::ZERO, ..Policy::default() }
}

fn pool(name: &str, ranges: &[&str]) -> Pool {
    Pool::new(name, ranges.iter().map(|range| range.parse().expect(range))).with_policy(at_once())
}

fn any(families: Families) -> Request {
    Request::any(families, "ns")
}

fn v4() -> Request {
    any(Families::Single(Family::V4))
}

fn named(address: &str) -> Request {
    Request { addresses: vec![ip(address)], ..v4() }
}

fn of_pool(pool: &str) -> Request {
    Request { pool: Some(pool.to_owned()), ..v4() }
}

fn keyed(key: &str, port: u16) -> Request {
    let mut request = v4();
    request.terms.sharing = Some(Sharing { key: key.to_owned(), with: BTreeSet::new() });
    request.terms.ports = [Port { protocol: Protocol::Tcp, number: port }].into();
    request
}

impl Harness {
    fn new(pools: Vec<Pool>) -> Self {
        let source = CountingSource { allocator: Allocator::new(pools.iter().cloned()), plans: Cell::new(0) };
        Self { source, waiting: Waiting::default(), pools }
    }

    /// Somebody asks at `minute`, and waits if it has to.
    fn ask(&mut self, name: &str, minute: i64, request: Request) {
        let created = Some(Timestamp::from_second(minute * 60).expect("a time"));
        let owner = owner("ns", name);
        let missing = match self.source.allocate(&owner, &request) {
            Some(plan) if plan.missing.is_empty() => return,
            Some(plan) => plan.missing,
            None => Vec::new(),
        };
        self.waiting.insert(&self.source.allocator, WaitingService { owner, created, request, missing });
    }

    fn retry(&mut self, trigger: Trigger<'_>) -> Vec<String> {
        self.source.plans.set(0);
        self.waiting.retry(&mut self.source, &[trigger]).into_iter().map(|owner| owner.name).collect()
    }

    fn release(&mut self, address: &str) -> Vec<String> {
        let address = ip(address);
        for holder in self.source.allocator.holders(address).to_vec() {
            self.source.allocator.release(address, &holder, Moment(0));
        }
        self.retry(Trigger::Address(address))
    }

    fn pools(&mut self, pools: Vec<Pool>) -> Vec<String> {
        self.source.allocator.replace_pools(pools.iter().cloned());
        let before = std::mem::replace(&mut self.pools, pools);
        self.retry(Trigger::Pools(&before))
    }

    fn plans(&self) -> usize {
        self.source.plans.get()
    }
}

#[test]
fn a_freed_address_goes_to_the_oldest_that_can_use_it_at_once_57() {
    let mut desk = Harness::new(vec![pool("p", &["192.0.2.0/31"]), pool("q", &["203.0.113.0/32"])]);
    for (name, request) in [("a", of_pool("p")), ("b", of_pool("p")), ("c", of_pool("q"))] {
        desk.ask(name, 0, request);
    }
    desk.ask("young", 3, v4());
    desk.ask("elsewhere", 1, of_pool("q"));
    desk.ask("old", 2, v4());
    assert_eq!(desk.release("192.0.2.1"), ["old"]);
    assert_eq!(desk.source.allocator.holders(ip("192.0.2.1")), [owner("ns", "old")]);
    // Who comes now is too late, and those that still wait keep their turn.
    desk.ask("late", 0, v4());
    assert_eq!(desk.release("203.0.113.0"), ["late"], "it is older, and takes any pool");
    assert_eq!(desk.release("192.0.2.0"), ["young"]);
    assert_eq!(desk.release("203.0.113.0"), ["elsewhere"]);
    assert!(desk.waiting.is_empty());
}

// shows: allocation 113
#[test]
fn who_waits_under_the_name_of_one_that_lets_go_gets_that_and_nobody_else_does_113() {
    let kept_back = pool("p", &["192.0.2.0/31"]).with_policy(Policy::default());
    let mut desk = Harness::new(vec![kept_back]);
    desk.ask("web", 0, v4());
    desk.ask("holder", 0, v4());
    desk.ask("older", 1, v4());
    let anew = ServiceRef { uid: "uid-anew".to_owned(), ..owner("ns", "web") };
    let created = Some(Timestamp::from_second(120).expect("a time"));
    let waiter = WaitingService { owner: anew.clone(), created, request: v4(), missing: Vec::new() };
    desk.waiting.insert(&desk.source.allocator, waiter);
    desk.ask("young", 3, v4());
    assert!(desk.release("192.0.2.1").is_empty(), "kept back for holder");
    assert_eq!(desk.plans(), 0);
    assert_eq!(desk.release("192.0.2.0"), ["web"]);
    assert_eq!((desk.source.allocator.holders(ip("192.0.2.0")), desk.plans()), (&[anew][..], 1));
    desk.source.allocator.end_quarantine(ip("192.0.2.1"));
    assert_eq!(desk.retry(Trigger::Address(ip("192.0.2.1"))), ["older"]);
    assert_eq!(desk.waiting.len(), 1);
}

#[test]
fn who_shows_an_address_joins_the_one_of_its_name_that_is_given_it() {
    let of_app = Selector { labels: [("app".to_owned(), "x".to_owned())].into(), ..Selector::default() };
    let policy = Policy { service_selectors: vec![of_app], ..Policy::default() };
    let mut desk = Harness::new(vec![pool("p", &["192.0.2.0/32"]).with_policy(policy)]);
    let mut of_x = v4();
    of_x.requester.labels = [("app".to_owned(), "x".to_owned())].into();
    desk.ask("holder", 0, of_x.clone());
    desk.ask("web", 2, of_x);
    // Older, so that it is tried first: the pool is not for it, and the address is kept back for another.
    let anew = ServiceRef { uid: "uid-anew".to_owned(), ..owner("ns", "web") };
    let request = Request { preferred: vec![ip("192.0.2.0")], ..v4() };
    let waiter = WaitingService { owner: anew.clone(), created: None, request, missing: Vec::new() };
    desk.waiting.insert(&desk.source.allocator, waiter);
    assert!(desk.release("192.0.2.0").is_empty(), "kept back for holder");
    assert!(desk.source.allocator.set_abandoned(ip("192.0.2.0"), true));
    assert_eq!(desk.retry(Trigger::Address(ip("192.0.2.0"))), ["web", "web"]);
    assert_eq!(desk.source.allocator.holders(ip("192.0.2.0")), [owner("ns", "web"), anew]);
}

// shows: allocation 112
#[test]
fn who_names_an_address_has_it_before_those_that_take_any_112() {
    let mut desk = Harness::new(vec![pool("p", &["192.0.2.0/31"])]);
    desk.ask("a", 0, v4());
    desk.ask("b", 0, v4());
    desk.ask("any", 1, v4());
    desk.ask("by-name", 2, named("192.0.2.0"));
    assert_eq!(desk.release("192.0.2.1"), ["any"], "not the one that is named");
    desk.ask("any-2", 1, v4());
    assert_eq!(desk.release("192.0.2.0"), ["by-name"]);
    // One that it can have only with another is not kept back.
    let both = Request { addresses: vec![ip("192.0.2.0"), ip("192.0.2.1")], ..v4() };
    desk.ask("both", 0, both);
    assert_eq!(desk.release("192.0.2.0"), ["any-2"]);
    assert_eq!(desk.release("192.0.2.1"), [""; 0]);
    assert_eq!(desk.release("192.0.2.0"), ["both"]);
}

// shows: allocation 58
#[test]
fn thousands_that_cannot_use_an_address_are_not_tried() {
    let families = Families::Require([Family::V4, Family::V6]);
    let prefer = Families::Prefer([Family::V4, Family::V6]);
    let mut desk = Harness::new(vec![
        pool("p", &["192.0.2.0/32"]),
        pool("q", &["203.0.113.0/32", "2001:db8::/128"]),
        pool("r", &["198.51.100.0/24"]),
    ]);
    for (name, of) in [("a", "p"), ("b", "q")] {
        desk.ask(name, 0, of_pool(of));
    }
    for number in 0..10_000 {
        desk.ask(&format!("q{number}"), 1, of_pool("q"));
        desk.ask(&format!("unknown{number}"), 1, of_pool("unknown"));
        desk.ask(&format!("named{number}"), 1, named("203.0.113.0"));
        desk.ask(&format!("keyed{number}"), 1, Request { pool: Some("q".to_owned()), ..keyed("k", 80) });
    }
    for number in 0..200 {
        desk.ask(&format!("prefer{number}"), 0, any(prefer));
        desk.ask(&format!("require{number}"), 0, Request { pool: Some("q".to_owned()), ..any(families) });
    }
    desk.ask("p", 9, of_pool("p"));
    assert_eq!(desk.release("192.0.2.0"), ["p"]);
    assert!(desk.plans() <= 2, "{} plans", desk.plans());
    assert_eq!(desk.release("192.0.2.0"), [""; 0]);
    assert!(desk.plans() <= 2, "{} plans", desk.plans());
    assert_eq!(desk.release("198.51.100.0"), [""; 0], "nobody waits for more IPv4 of r");
    assert!(desk.plans() <= 2, "{} plans", desk.plans());
    // The oldest of q's that can be served at all.
    assert_eq!(desk.release("2001:db8::"), ["prefer1"]);
    assert!(desk.plans() <= 4, "{} plans", desk.plans());
}

#[test]
fn a_pool_that_grows_serves_all_it_can_in_order() {
    let mut desk = Harness::new(vec![pool("p", &["192.0.2.0/32"])]);
    desk.ask("a", 0, v4());
    for number in 0..6 {
        desk.ask(&format!("w{number}"), 10 - number, v4());
    }
    desk.ask("n", 99, named("192.0.2.3"));
    assert_eq!(desk.pools(vec![pool("p", &["192.0.2.0/30"])]), ["n", "w5", "w4"]);
    assert!(desk.plans() <= 4, "{} plans", desk.plans());
    // A new pool, and one that is open no more.
    let closed = Policy { disabled: true, ..at_once() };
    let open = pool("q", &["203.0.113.0/31"]);
    assert_eq!(
        desk.pools(vec![pool("p", &["192.0.2.0/24"]).with_policy(closed), open.clone()]),
        ["w3", "w2"]
    );
    // Nothing that concerns them.
    assert_eq!(desk.pools(vec![pool("r", &["2001:db8::/64"]), open]), [""; 0]);
    assert!(desk.plans() <= 1, "{} plans", desk.plans());
}

#[test]
fn a_relabelled_namespace_serves_its_own_and_asks_nobody_else_36() {
    let of_team = Selector { labels: [("team".to_owned(), "x".to_owned())].into(), ..Selector::default() };
    let policy = Policy { namespace_selectors: vec![of_team], ..at_once() };
    let mut desk = Harness::new(vec![pool("p", &["192.0.2.0/30"]).with_policy(policy)]);
    for number in 0..100 {
        let waiter = WaitingService {
            owner: owner("other", &format!("o{number}")),
            created: None,
            request: Request::any(Families::Single(Family::V4), "other"),
            missing: Vec::new(),
        };
        desk.waiting.insert(&desk.source.allocator, waiter);
    }
    desk.ask("b", 2, v4());
    desk.ask("a", 1, v4());
    desk.ask("by-name", 3, named("192.0.2.3"));
    assert_eq!(desk.retry(Trigger::Namespace("ns", &[("team".to_owned(), "y".to_owned())].into())), [""; 0]);
    let labels = [("team".to_owned(), "x".to_owned())].into();
    assert_eq!(desk.retry(Trigger::Namespace("ns", &labels)), ["by-name", "a", "b"]);
    assert!(desk.plans() <= 5, "{} plans", desk.plans());
}

#[test]
fn those_that_share_a_key_follow_the_first_of_them() {
    let mut desk = Harness::new(vec![pool("p", &["192.0.2.0/32"])]);
    desk.ask("a", 0, v4());
    desk.ask("other", 1, keyed("other", 80));
    desk.ask("x", 3, keyed("k", 80));
    desk.ask("y", 2, keyed("k", 81));
    desk.ask("z", 4, keyed("k", 80));
    desk.waiting.remove(&owner("ns", "other"));
    assert_eq!(desk.release("192.0.2.0"), ["y", "x"], "z has the same port as x");
    // A port that is let go.
    desk.source.allocator.release(ip("192.0.2.0"), &owner("ns", "x"), Moment(0));
    assert_eq!(desk.retry(Trigger::Address(ip("192.0.2.0"))), ["z"]);
}

#[test]
fn a_missing_family_is_added_when_it_can_be_had_47() {
    let prefer = any(Families::Prefer([Family::V4, Family::V6]));
    let mut desk = Harness::new(vec![pool("p", &["192.0.2.0/30"])]);
    desk.ask("young", 2, prefer.clone());
    desk.ask("old", 1, prefer.clone());
    let before: Vec<IpAddr> = desk.source.allocator.held_by(&owner("ns", "old")).collect();
    assert_eq!(before.len(), 1);
    let grown = |v6: &str| vec![pool("p", &["192.0.2.0/30", v6])];
    assert_eq!(desk.pools(grown("2001:db8::/128")), ["old"]);
    let after: Vec<IpAddr> = desk.source.allocator.held_by(&owner("ns", "old")).collect();
    assert_eq!(after, [before[0], ip("2001:db8::")]);
    assert_eq!(desk.pools(grown("2001:db8::/127")), ["young"]);
    // One that has nothing gets what there is, and waits on for the rest.
    for name in ["b", "c"] {
        desk.ask(name, 0, v4());
    }
    desk.ask("none", 3, prefer);
    assert_eq!(desk.release("192.0.2.2"), ["none"]);
    assert_eq!(desk.release("2001:db8::1"), ["none"]);
    assert!(desk.waiting.is_empty());
}

#[test]
fn who_may_not_keep_what_it_has_is_tried_when_another_pool_takes_it_over() {
    let mut desk = Harness::new(vec![pool("b", &["192.0.2.1/32"])]);
    let of_b = Request { pool: Some("b".to_owned()), ..any(Families::Prefer([Family::V4, Family::V6])) };
    desk.ask("w", 0, of_b);
    let b = || pool("b", &["192.0.2.9/32"]);
    assert_eq!(desk.pools(vec![b()]), [""; 0], "it keeps what is in no pool");
    assert_eq!(desk.pools(vec![pool("a", &["192.0.2.1/32"]), b()]), ["w"]);
}

#[test]
fn an_address_that_is_kept_back_goes_to_its_former_service_made_anew() {
    let kept = Policy::default();
    let mut desk = Harness::new(vec![pool("p", &["192.0.2.0/31"]).with_policy(kept)]);
    desk.ask("a", 0, v4());
    let anew = ServiceRef { uid: "another".to_owned(), ..owner("ns", "a") };
    let waiter = |owner: ServiceRef| WaitingService {
        owner,
        created: None,
        request: named("192.0.2.0"),
        missing: Vec::new(),
    };
    for one in [owner("ns", "stranger"), anew.clone()] {
        desk.waiting.insert(&desk.source.allocator, waiter(one));
    }
    assert_eq!(desk.release("192.0.2.0"), ["a"]);
    assert_eq!(desk.source.allocator.holders(ip("192.0.2.0")), std::slice::from_ref(&anew));
    // A stranger gets it when the time is over.
    desk.source.allocator.release(ip("192.0.2.0"), &anew, Moment(0));
    assert_eq!(desk.retry(Trigger::Address(ip("192.0.2.0"))), [""; 0]);
    desk.source.allocator.end_quarantine(ip("192.0.2.0"));
    assert_eq!(desk.retry(Trigger::Address(ip("192.0.2.0"))), ["stranger"]);
}

#[test]
fn when_nothing_is_known_everybody_is_tried_in_order() {
    let mut desk = Harness::new(vec![]);
    desk.ask("joins", 1, keyed("k", 81));
    desk.ask("any", 2, v4());
    desk.ask("first", 3, keyed("k", 80));
    desk.ask("by-name", 4, named("192.0.2.1"));
    desk.source.allocator.replace_pools([pool("p", &["192.0.2.0/31"])]);
    desk.waiting.remove(&owner("ns", "any"));
    let first = WaitingService {
        owner: owner("ns", "first"),
        created: None,
        request: keyed("k", 80),
        missing: Vec::new(),
    };
    desk.waiting.insert(&desk.source.allocator, first);
    assert_eq!(desk.retry(Trigger::Everything), ["by-name", "first", "joins"]);
}

#[test]
fn who_may_not_keep_what_it_shares_is_tried_when_the_other_leaves() {
    let mut desk = Harness::new(vec![pool("p", &["192.0.2.0/32", "2001:db8::/128"])]);
    desk.ask("first", 0, keyed("k", 80));
    desk.ask("second", 0, keyed("k", 81));
    desk.ask(
        "second",
        0,
        Request { families: Families::Require([Family::V4, Family::V6]), ..keyed("l", 80) },
    );
    assert_eq!(desk.source.allocator.holders(ip("192.0.2.0")).len(), 2, "it waits with what it has");
    desk.source.allocator.release(ip("192.0.2.0"), &owner("ns", "first"), Moment(0));
    assert_eq!(desk.retry(Trigger::Address(ip("192.0.2.0"))), ["second"]);
}

#[test]
fn who_shares_with_one_that_is_served_and_gives_up_its_key_stays() {
    let mut desk =
        Harness::new(vec![pool("p", &["192.0.2.0/32", "2001:db8::1/128"]), pool("q", &["2001:db8::/128"])]);
    desk.ask("first", 0, Request { families: Families::Single(Family::V6), ..keyed("k", 82) });
    desk.ask("other", 0, v4());
    desk.ask("first", 0, v4());
    let both = Families::Prefer([Family::V4, Family::V6]);
    desk.ask("sharer", 1, Request { families: both, ..keyed("k", 80) });
    let together = [owner("ns", "first"), owner("ns", "sharer")];
    assert_eq!(desk.source.allocator.holders(ip("2001:db8::1")), together);
    assert_eq!(desk.release("192.0.2.0"), ["first"]);
    let plan = desk.source.allocator.plan(&owner("ns", "first"), &v4()).expect("served");
    assert_eq!(plan.to_release, [ip("2001:db8::1")], "who changed leaves");
    let sharer = desk.source.allocator.held_by(&owner("ns", "sharer")).collect::<Vec<_>>();
    assert_eq!(sharer, [ip("2001:db8::1")]);
}
