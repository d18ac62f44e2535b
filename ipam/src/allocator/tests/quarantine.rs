//! Addresses that are kept back after their release (scenario 113).

use super::*;

/// An owner under a name, made anew with another number: as a Service with its UID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Recreated(&'static str, u8);

impl Owner for Recreated {
    type StableKey = &'static str;

    fn stable_key(&self) -> &'static str {
        self.0
    }

    fn namespace(&self) -> &'static str {
        "ns"
    }
}

impl std::fmt::Display for Recreated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

const NOW: Moment = Moment(5_000);
const MINUTE: Moment = Moment(65_000);

/// A pool of two addresses; `a` held the first and let go of it.
fn released() -> Allocator<Recreated> {
    let mut allocator = Allocator::new([pool_with("p", &["1.2.3.0/31"], |policy| {
        policy.quarantine = Policy::default().quarantine;
    })]);
    allocator.prepare(&Recreated("a", 1), &v4()).expect("free").commit();
    let outcome = allocator.release(ip("1.2.3.0"), &Recreated("a", 1), NOW);
    assert_eq!(outcome, Released::Quarantined { until: MINUTE });
    allocator
}

fn given(
    allocator: &Allocator<Recreated>,
    owner: Recreated,
    request: &Request,
) -> Result<(String, Acquisition), String> {
    let plan = allocator.plan(&owner, request).map_err(|error| error.to_string())?;
    Ok((plan.addresses[0].address.to_string(), plan.addresses[0].how))
}

// shows: allocation 113
#[test]
fn s113_a_released_address_is_given_to_nobody_else_until_it_is_lifted() {
    let mut allocator = released();
    assert_eq!(given(&allocator, Recreated("b", 1), &v4()), Ok(("1.2.3.1".into(), Acquisition::New)));
    assert_eq!(
        given(&allocator, Recreated("b", 1), &v4().named(&["1.2.3.0"])),
        Err("address 1.2.3.0 cannot be given for now: Service a released it a short time ago, and its pool \
             keeps it for that Service: wait, or ask for another address"
            .into())
    );
    assert_eq!(
        given(&allocator, Recreated("b", 1), &v4().shown(&["1.2.3.0"])),
        Ok(("1.2.3.1".into(), Acquisition::New))
    );
    let counts = allocator.counts("p", Family::V4);
    assert_eq!((counts.assigned, counts.quarantined, counts.available()), (0, 1, 1));
    assert_eq!(allocator.next_quarantine_end(), Some(MINUTE));
    assert_eq!(allocator.ended_quarantines(Moment(MINUTE.0 - 1)).count(), 0);
    assert_eq!(allocator.ended_quarantines(MINUTE).collect::<Vec<_>>(), [ip("1.2.3.0")]);
    assert!(allocator.end_quarantine(ip("1.2.3.0")));
    assert!(!allocator.end_quarantine(ip("1.2.3.0")));
    assert_eq!(given(&allocator, Recreated("b", 1), &v4()), Ok(("1.2.3.0".into(), Acquisition::New)));
    assert_eq!((allocator.counts("p", Family::V4).quarantined, allocator.next_quarantine_end()), (0, None));
}

// shows: allocation 113
#[test]
fn s113_the_same_service_gets_it_back_at_once() {
    for (owner, request, expected) in [
        (Recreated("a", 1), v4(), ("1.2.3.0", Acquisition::Reclaimed)),
        (Recreated("a", 2), v4(), ("1.2.3.0", Acquisition::Reclaimed)),
        (Recreated("a", 2), v4().from("p"), ("1.2.3.0", Acquisition::Reclaimed)),
        (Recreated("a", 1), v4().named(&["1.2.3.0"]), ("1.2.3.0", Acquisition::Reclaimed)),
        (Recreated("a", 2), v4().named(&["1.2.3.0"]), ("1.2.3.0", Acquisition::Reclaimed)),
        (Recreated("a", 1), v4().shown(&["1.2.3.0"]), ("1.2.3.0", Acquisition::Reclaimed)),
        (Recreated("a", 1), v4().named(&["1.2.3.1"]), ("1.2.3.1", Acquisition::New)),
        (Recreated("b", 1), v4(), ("1.2.3.1", Acquisition::New)),
    ] {
        let mut allocator = released();
        let (address, how) = expected;
        assert_eq!(given(&allocator, owner, &request), Ok((address.into(), how)));
        allocator.prepare(&owner, &request).expect("planned").commit();
        assert_eq!(allocator.holders(ip(address)), [owner]);
        let counts = allocator.counts("p", Family::V4);
        assert_eq!((counts.assigned, counts.quarantined), (1, u128::from(how == Acquisition::New)));
    }
}

// shows: allocation 121
#[test]
fn an_address_that_another_host_has_is_given_to_nobody() {
    let mut allocator = released();
    let taken = Quarantined {
        former: vec![Recreated("a", 1)],
        until: MINUTE,
        reason: QuarantineCause::AddressTaken,
        is_abandoned: false,
    };
    allocator.quarantine(ip("1.2.3.0"), taken.clone());
    assert_eq!(allocator.quarantined(ip("1.2.3.0")), Some(&taken));
    let message = "address 1.2.3.0 cannot be given for now: another host on the LAN uses it: free it there, \
                   or ask for another address";
    let asked = v4().named(&["1.2.3.0"]);
    assert_eq!(given(&allocator, Recreated("a", 1), &asked), Err(message.into()));
    // One that is held is held no more.
    allocator.prepare(&Recreated("c", 1), &v4()).expect("free").commit();
    allocator.quarantine(ip("1.2.3.1"), taken);
    assert_eq!(allocator.in_use().count(), 0);
    assert_eq!(allocator.counts("p", Family::V4).quarantined, 2);
    assert!(allocator.plan(&Recreated("c", 1), &v4()).is_err());
}

#[test]
fn a_shared_address_is_kept_back_only_after_the_last_has_left() {
    let mut allocator = released();
    for (name, port) in [("b", "tcp/1"), ("c", "tcp/2")] {
        allocator.prepare(&Recreated(name, 1), &v4().shared("k", &[port])).expect("free").commit();
    }
    assert_eq!(allocator.release(ip("1.2.3.1"), &Recreated("b", 1), NOW), Released::StillShared);
    assert_eq!(allocator.release(ip("1.2.3.1"), &Recreated("b", 1), NOW), Released::NotHeld);
    assert_eq!(
        allocator.release(ip("1.2.3.1"), &Recreated("c", 1), NOW),
        Released::Quarantined { until: MINUTE }
    );
    let former = allocator.quarantined(ip("1.2.3.1")).map(|entry| entry.former.clone());
    assert_eq!(former, Some(vec![Recreated("c", 1)]), "the last one");
}

#[test]
fn what_is_kept_back_stays_so_when_pools_change() {
    let mut allocator = released();
    allocator.replace_pools([]);
    assert!(allocator.quarantined(ip("1.2.3.0")).is_some());
    allocator.replace_pools([pool("q", &["1.2.3.0/31"])]);
    assert_eq!(allocator.counts("q", Family::V4).quarantined, 1);
    assert_eq!(given(&allocator, Recreated("b", 1), &v4()), Ok(("1.2.3.1".into(), Acquisition::New)));
}

#[test]
fn an_address_is_kept_back_as_long_as_its_pool_says() {
    let rows = [
        (Some(Duration::ZERO), Released::Free),
        (Some(Duration::from_secs(5)), Released::Quarantined { until: Moment(10_000) }),
        (Some(Duration::MAX), Released::Quarantined { until: Moment(u64::MAX) }),
        (None, Released::Quarantined { until: MINUTE }),
    ];
    for (quarantine, expected) in rows {
        let mut allocator = Allocator::new([]);
        if let Some(quarantine) = quarantine {
            allocator
                .replace_pools([pool_with("p", &["1.2.3.0/31"], |policy| policy.quarantine = quarantine)]);
        }
        allocator.adopt(ip("1.2.3.0"), &"s", &Terms::alone("ns"));
        assert_eq!(allocator.release(ip("1.2.3.0"), &"s", NOW), expected, "{quarantine:?}");
    }
}

#[test]
fn what_was_never_had_is_not_kept_back() {
    let mut allocator = released();
    allocator.prepare(&Recreated("b", 1), &v4()).expect("free").commit();
    assert!(allocator.disown(ip("1.2.3.1"), &Recreated("b", 1)));
    assert!(!allocator.disown(ip("1.2.3.1"), &Recreated("b", 1)));
    assert_eq!(given(&allocator, Recreated("c", 1), &v4()), Ok(("1.2.3.1".into(), Acquisition::New)));
}

#[test]
fn what_is_kept_back_is_adopted_only_as_the_cluster_shows_it() {
    let mut allocator = released();
    let alone = Terms::alone("ns");
    assert_eq!(allocator.adopt(ip("1.2.3.0"), &Recreated("b", 1), &alone), Adopted::Quarantined);
    assert_eq!(allocator.adopt_together(ip("1.2.3.0"), &Recreated("b", 1), &alone), Adopted::New);
    assert_eq!((allocator.quarantined(ip("1.2.3.0")), allocator.next_quarantine_end()), (None, None));
}

#[test]
fn a_pool_that_is_disabled_or_for_others_gives_nothing_back() {
    let mut allocator = released();
    allocator.replace_pools([pool_with("p", &["1.2.3.0/31"], |policy| policy.disabled = true)]);
    assert_eq!(
        given(&allocator, Recreated("a", 2), &v4().named(&["1.2.3.0"])),
        Err("address 1.2.3.0 cannot be given: pool \"p\" is disabled".into())
    );
    let shown = v4().shown(&["1.2.3.0"]);
    assert_eq!(
        given(&allocator, Recreated("a", 1), &shown),
        Ok(("1.2.3.0".into(), Acquisition::Reclaimed)),
        "it has it still"
    );
}

/// How `a`, made anew, comes by what it asks for where its former self let go of 1.2.3.1 and 1.2.3.2 of pool `p`.
fn reclaimed(change: impl FnOnce(&mut Pool), request: &Request) -> String {
    let pool = |change: &dyn Fn(&mut Policy), name, ranges: &[&str]| {
        pool_with(name, ranges, |policy| {
            policy.quarantine = Policy::QUARANTINE;
            change(policy);
        })
    };
    let mut p = pool(&|_| {}, "p", &["1.2.3.0/29", "2001:db8::/126"]);
    let q = pool(&|policy| policy.priority = 50, "q", &["5.6.7.0/29"]);
    let mut allocator = Allocator::new([p.clone()]);
    for owner in [Recreated("other", 1), Recreated("a", 1), Recreated("a", 1), Recreated("sharer", 1)] {
        let count = u8::try_from(allocator.held_by(&owner).count() + 1).expect("few");
        let request = match owner.0 {
            "sharer" => v4().shared("k", &["tcp/1"]),
            _ => v4().times(count),
        };
        allocator.prepare(&owner, &request).expect("free").commit();
    }
    for address in ["1.2.3.2", "1.2.3.1"] {
        allocator.release(ip(address), &Recreated("a", 1), NOW);
    }
    change(&mut p);
    allocator.replace_pools([p, q]);
    let plan = allocator.plan(&Recreated("a", 2), request).expect("there are others");
    let words = plan.addresses.iter().map(|planned| format!("{:?} {}", planned.how, planned.address));
    words.collect::<Vec<_>>().join(", ")
}

// shows: allocation 113
#[test]
fn s113_what_a_service_needs_it_takes_from_what_is_kept_back_for_it_where_it_might_be_given_it() {
    let request = || v4().shared("k", &["tcp/2"]);
    for (case, change, request, expected) in [
        ("the lowest first", (|_| {}) as fn(&mut Pool), v4(), "Reclaimed 1.2.3.1"),
        (
            "before a pool that is searched first",
            |_| {},
            v4().times(3),
            "Reclaimed 1.2.3.1, Reclaimed 1.2.3.2, New 5.6.7.0",
        ),
        ("what it shows comes before", |_| {}, v4().shown(&["1.2.3.2"]), "Reclaimed 1.2.3.2"),
        ("what it names comes before", |_| {}, v4().named(&["1.2.3.4"]), "New 1.2.3.4"),
        ("its pool by name", |p| p.policy.auto_assign = false, v4().from("p"), "Reclaimed 1.2.3.1"),
        ("another pool by name", |_| {}, v4().from("q"), "New 5.6.7.0"),
        ("another family", |_| {}, v6(), "New 2001:db8::"),
        ("both families", |_| {}, require(), "Reclaimed 1.2.3.1, New 2001:db8::"),
        ("by its key", |_| {}, request(), "Joined 1.2.3.3"),
        ("by its key and more", |_| {}, request().times(2), "Joined 1.2.3.3, Reclaimed 1.2.3.1"),
        ("a key that nobody has", |_| {}, v4().shared("l", &["tcp/2"]), "Reclaimed 1.2.3.1"),
        ("disabled", |p| p.policy.disabled = true, v4(), "New 5.6.7.0"),
        ("not for all", |p| p.policy.auto_assign = false, v4(), "New 5.6.7.0"),
        ("for another namespace", |p| p.policy.namespaces = ["other".into()].into(), v4(), "New 5.6.7.0"),
        ("for other labels", |p| p.policy.service_selectors = vec![labels("x", "y")], v4(), "New 5.6.7.0"),
        (
            "one is reserved since",
            |p| p.reserved = [ip("1.2.3.1")].into_iter().collect(),
            v4(),
            "Reclaimed 1.2.3.2",
        ),
        (
            "no pool has it",
            |p| p.addresses = [ip("1.2.3.2")].into_iter().collect(),
            v4(),
            "Reclaimed 1.2.3.2",
        ),
    ] {
        assert_eq!(reclaimed(change, &request), expected, "{case}");
    }
}

#[test]
fn an_address_that_is_avoided_since_is_not_given_back() {
    for (address, expected) in [("1.2.3.0", "1.2.3.1"), ("1.2.3.1", "1.2.3.1")] {
        let mut allocator = Allocator::new([pool("p", &["1.2.3.0/31"])]);
        let former = vec![Recreated("a", 1)];
        allocator.quarantine(
            ip(address),
            Quarantined { former, until: MINUTE, reason: QuarantineCause::Released, is_abandoned: false },
        );
        allocator.replace_pools([pool_with("p", &["1.2.3.0/31"], |policy| policy.avoid_class_c = true)]);
        assert_eq!(given(&allocator, Recreated("a", 2), &v4()).map(|(given, _)| given), Ok(expected.into()));
    }
}

#[test]
fn what_several_had_is_kept_back_for_each_of_them() {
    let mut allocator = released();
    let former = vec![Recreated("a", 1), Recreated("b", 1), Recreated("c", 1)];
    allocator.quarantine(
        ip("1.2.3.0"),
        Quarantined { former, until: MINUTE, reason: QuarantineCause::Released, is_abandoned: false },
    );
    for (owner, how) in [
        ("a", Ok(Acquisition::Reclaimed)),
        ("b", Ok(Acquisition::Reclaimed)),
        ("c", Ok(Acquisition::Reclaimed)),
    ] {
        let asked = v4().named(&["1.2.3.0"]);
        assert_eq!(given(&allocator, Recreated(owner, 2), &asked).map(|(_, how)| how), how, "{owner}");
    }
    let refused = given(&allocator, Recreated("d", 1), &v4().named(&["1.2.3.0"]));
    assert_eq!(
        refused,
        Err("address 1.2.3.0 cannot be given for now: Service a and 2 more released it a short time ago, and \
             its pool keeps it for them: wait, or ask for another address"
            .into())
    );
}

#[test]
fn a_successor_takes_the_place_of_its_predecessor_unless_it_changed() {
    let mut allocator = Allocator::new([pool("p", &["1.2.3.0/31"])]);
    let vip = ip("1.2.3.0");
    for owner in [Recreated("a", 1), Recreated("b", 1)] {
        // The second by a hand: they do not share.
        allocator.adopt_together(vip, &owner, &v4().terms);
    }
    let request = Request { inherited: vec![vip], ..v4() };
    let changed = Request { inherited: vec![vip], ..v4().shared("k", &["tcp/80"]) };
    assert_eq!(given(&allocator, Recreated("a", 2), &changed), Ok(("1.2.3.1".into(), Acquisition::New)));
    allocator.prepare(&Recreated("a", 2), &request).expect("its predecessor's").commit();
    assert_eq!(allocator.holders(vip), [Recreated("a", 1), Recreated("a", 2), Recreated("b", 1)]);
    let to_release = |owner: Recreated| !allocator.sharing_conflicts(&owner, &v4().terms).is_empty();
    assert_eq!([Recreated("a", 2), Recreated("b", 1)].map(to_release), [false, true]);
}

// shows: allocation 78
#[test]
fn holders_that_are_known_again_have_the_order_in_which_they_are_listed_whatever_became_of_their_terms() {
    let (old, other, new) = (Recreated("a", 1), Recreated("b", 1), Recreated("a", 2));
    let (port, none) = (v4().shared("web", &["tcp/4"]).terms, v4().shared("web", &[]).terms);
    let mut allocator = Allocator::new([pool("p", &["1.2.3.0/32"])]);
    for (owner, terms) in [(old, &port), (other, &none), (new, &none), (old, &none)] {
        allocator.adopt(ip("1.2.3.0"), &owner, terms);
    }
    assert_eq!(allocator.holders(ip("1.2.3.0")), [old, other, new], "on other terms it does not succeed");
    let mut rebuilt = Allocator::new([pool("p", &["1.2.3.0/32"])]);
    for owner in allocator.holders(ip("1.2.3.0")) {
        rebuilt.adopt_together(ip("1.2.3.0"), owner, &none);
    }
    assert_eq!(rebuilt.holders(ip("1.2.3.0")), [old, other, new]);
    assert_eq!(rebuilt, allocator);
}
