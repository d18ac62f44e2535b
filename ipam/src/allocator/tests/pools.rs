//! What pools hold, and what becomes of addresses when they are edited (sections 2A, 2F, 3).

use super::*;

fn avoiding(name: &str, ranges: &[&str]) -> Pool {
    pool_with(name, ranges, |policy| policy.avoid_class_c = true)
}

// shows: allocation 10
#[test]
fn s10_addresses_that_are_avoided_are_not_given_by_name_either() {
    let mut fixture = Fixture::new([avoiding("a", &["1.2.4.0/24", "1000::/64"])]);
    for address in ["1.2.4.0", "1.2.4.255"] {
        assert_eq!(
            fixture.refused("s1", v4().named(&[address])),
            format!("address {address} of pool \"a\" is reserved and never given: ask for another address")
        );
    }
    assert_eq!(fixture.given("s1", v4().named(&["1.2.4.254"])), "1.2.4.254");
    assert_eq!(fixture.given("s2", v6().named(&["1000::"])), "1000::", "IPv6 has no such addresses");
}

// shows: allocation 13
#[test]
fn s13_six_of_eight_addresses_can_be_given_where_two_are_avoided() {
    let mut fixture = Fixture::new([
        pool("a", &["1.2.3.0/31", "1.2.3.254/31"]),
        avoiding("b", &["1.2.4.0/31", "1.2.4.254/31"]),
    ]);
    let expected = ["1.2.3.0", "1.2.3.1", "1.2.3.254", "1.2.3.255", "1.2.4.1", "1.2.4.254", "-"];
    let given = ["s1", "s2", "s3", "s4", "s5", "s6", "s7"].map(|owner| fixture.given(owner, v4()));
    assert_eq!(given, expected);
}

#[test]
fn what_a_pool_reserves_is_not_given() {
    let mut reserving = pool("a", &["1.2.3.0/29"]);
    reserving.reserved = [ip("1.2.3.0"), ip("1.2.3.2"), ip("9.9.9.9")].into_iter().collect();
    let mut fixture = Fixture::new([reserving]);
    assert_eq!(fixture.given("s1", v4()), "1.2.3.1");
    assert_eq!(fixture.given("s2", v4()), "1.2.3.3");
    let counts = fixture.allocator.counts("a", Family::V4);
    assert_eq!((counts.total, counts.reserved, counts.assigned, counts.available()), (8, 2, 2, 4));
    // One that is held all the same counts as assigned, and as reserved again when it is let go.
    assert_eq!(fixture.allocator.adopt(ip("1.2.3.2"), &"s3", &Terms::alone("ns")), Adopted::New);
    let counts = fixture.allocator.counts("a", Family::V4);
    assert_eq!((counts.reserved, counts.assigned, counts.available()), (1, 3, 4));
    fixture.release("s3");
    let counts = fixture.allocator.counts("a", Family::V4);
    assert_eq!((counts.reserved, counts.assigned, counts.available()), (2, 2, 4));
    assert_eq!(fixture.given("s4", v4()), "1.2.3.4");
}

// shows: allocation 64, 68 to 73
#[test]
fn s68_to_s73_pool_edits_change_what_can_be_given_and_never_what_was_given() {
    let rows: [(&str, Vec<Pool>, &str); 9] = [
        ("68 same", vec![pool("a", &["1.2.3.0/30"])], "1.2.3.3"),
        ("68 grown", vec![pool("a", &["1.2.3.0/29"])], "1.2.3.3"),
        ("68 shrunk", vec![pool("a", &["1.2.3.0/31"])], "-"),
        ("69 renamed", vec![pool("z", &["1.2.3.0/30"])], "1.2.3.3"),
        ("69 split", vec![pool("a", &["1.2.3.0/31"]), pool("b", &["1.2.3.2/31"])], "1.2.3.3"),
        ("70 avoiding .0", vec![avoiding("a", &["1.2.3.0/30"])], "1.2.3.3"),
        ("71, 72 no pool", vec![], "-"),
        ("73 a second", vec![pool("0", &["1.2.2.0/30"]), pool("a", &["1.2.3.0/30"])], "1.2.2.0"),
        ("disabled", vec![pool_with("a", &["1.2.3.0/30"], |policy| policy.disabled = true)], "-"),
    ];
    for (name, pools, next) in rows {
        let mut fixture = Fixture::new([pool("a", &["1.2.3.0/30"])]);
        for owner in ["s1", "s2", "s3"] {
            fixture.given(owner, v4());
        }
        fixture.allocator.replace_pools(pools);
        let held = ["s1", "s2", "s3"].map(|owner| fixture.given(owner, v4()));
        assert_eq!(held, ["1.2.3.0", "1.2.3.1", "1.2.3.2"], "{name}");
        assert_eq!(fixture.given("s4", v4()), next, "{name}");
    }
}

// shows: allocation 69
#[test]
fn s69_an_address_is_said_to_be_of_the_pool_that_holds_it_now() {
    let mut fixture = Fixture::new([pool("a", &["1.2.3.0/31"])]);
    fixture.given("s1", v4());
    for (pools, name) in [(vec![pool("b", &["1.2.3.0/31"])], Some("b")), (vec![], None)] {
        fixture.allocator.replace_pools(pools);
        let plan = fixture.allocator.plan(&"s1", &v4()).expect("kept");
        assert_eq!((plan.addresses[0].pool.as_deref(), plan.addresses[0].how), (name, Acquisition::Kept));
    }
}

// shows: allocation 73
#[test]
fn s73_an_address_in_no_pool_is_exchanged_only_if_that_is_allowed_and_another_can_be_had() {
    let may = || Request { may_replace_unpooled: true, ..v4() };
    let mut fixture = Fixture::new([pool("a", &["1.2.3.0/31"])]);
    fixture.given("s1", v4());
    assert_eq!(fixture.given("s1", may()), "1.2.3.0", "it is in a pool");
    fixture.allocator.replace_pools([]);
    assert_eq!(fixture.given("s1", may()), "1.2.3.0", "there is no other");
    fixture.allocator.replace_pools([pool("b", &["1.2.4.0/31"])]);
    assert_eq!(fixture.given("s1", v4()), "1.2.3.0", "it is not allowed");
    let plan = fixture.allocator.plan(&"s1", &may()).expect("free");
    assert_eq!((plan.addresses[0].address, plan.to_release), (ip("1.2.4.0"), vec![ip("1.2.3.0")]));
    assert_eq!(fixture.given("s1", may().named(&["1.2.3.0"])), "1.2.3.0", "it is asked for by name");
}

// shows: allocation 60
#[test]
fn s60_who_asks_for_an_address_outside_the_pools_keeps_what_it_has() {
    let mut fixture = Fixture::new([pool("a", &["1.2.3.0/31"])]);
    fixture.given("s1", v4());
    fixture.refused("s1", v4().named(&["9.9.9.9"]));
    assert_eq!(fixture.held("s1"), "1.2.3.0");
}

// shows: allocation 74
#[test]
fn s74_a_service_made_anew_after_its_pool_was_deleted_does_not_get_the_old_address() {
    let mut fixture = Fixture::new([pool("a", &["1.2.3.0/31"])]);
    fixture.given("s1", v4());
    fixture.allocator.replace_pools([]);
    fixture.release("s1");
    for request in [v4(), v4().shown(&["1.2.3.0"]), v4().named(&["1.2.3.0"])] {
        assert_eq!(fixture.given("s1", request), "-");
    }
}

// shows: allocation 75, 76, 109
#[test]
fn s75_and_s76_and_s109_counts_are_exact_whatever_the_size() {
    let rows: [(Pool, u128, u128); 9] = [
        (pool("a", &["1.2.3.0/24"]), 256, 0),
        (pool("a", &["1.2.3.0/24", "1.2.4.0/25"]), 384, 0),
        (pool("a", &["1.2.3.0/24", "1.2.3.128/25"]), 256, 0),
        (avoiding("a", &["1.2.3.0/24", "1.2.4.0/25"]), 381, 0),
        (avoiding("a", &["1.2.3.0/32"]), 0, 0),
        (avoiding("a", &["1.2.3.0/31", "1000::/127"]), 1, 2),
        (avoiding("a", &["10.0.0.0/8", "2001:db8::/64"]), (1 << 24) - (2 << 16), 1 << 64),
        (pool("a", &["2001:db8::/64", "2001:db8:1::/120", "1.2.3.0/24"]), 256, (1 << 64) + 256),
        (pool("a", &["2000::/3"]), 0, 1 << 125),
    ];
    for (pool, v4, v6) in rows {
        let total = Family::ALL.map(|family| pool.addresses.count(family));
        let allocator = Allocator::<&str>::new([pool]);
        for ((family, available), total) in [(Family::V4, v4), (Family::V6, v6)].into_iter().zip(total) {
            let counts = allocator.counts("a", family);
            assert_eq!((counts.total, counts.available()), (total, available));
            assert_eq!((counts.reserved, counts.assigned), (total - available, 0));
        }
    }
    assert_eq!(Allocator::<&str>::default().counts("b", Family::V4), Counts::default());
}

// shows: allocation 75
#[test]
fn s75_counts_follow_what_is_given_and_freed() {
    let mut fixture = Fixture::new([pool("a", &["192.168.10.0/30", "1000::/126"])]);
    let counts = |fixture: &Fixture| {
        Family::ALL.map(|family| {
            let counts = fixture.allocator.counts("a", family);
            (counts.available(), counts.assigned)
        })
    };
    assert_eq!(counts(&fixture), [(4, 0), (4, 0)]);
    fixture.given("s1", require());
    assert_eq!(counts(&fixture), [(3, 1), (3, 1)]);
    fixture.allocator.replace_pools([pool("a", &["192.168.10.0/29", "1000::/125"])]);
    assert_eq!(counts(&fixture), [(7, 1), (7, 1)]);
    fixture.release("s1");
    assert_eq!(counts(&fixture), [(8, 0), (8, 0)]);
}

#[test]
fn an_address_that_several_pools_list_belongs_to_the_first_in_the_order_of_the_search() {
    let mut fixture = Fixture::new([
        pool("b", &["1.2.3.0/30"]),
        pool_with("c", &["1.2.3.2/31", "1.2.3.8/31"], |policy| policy.priority = 1),
        pool("a", &["1.2.3.1"]),
    ]);
    let owners = ["1.2.3.0", "1.2.3.1", "1.2.3.2", "1.2.3.3", "1.2.3.8", "1.2.3.9"].map(|address| {
        fixture.allocator.pool_of(ip(address)).map(|pool| pool.name.clone()).unwrap_or_default()
    });
    assert_eq!(owners, ["b", "a", "c", "c", "c", "c"]);
    let totals = ["a", "b", "c"].map(|name| fixture.allocator.counts(name, Family::V4).total);
    assert_eq!(totals, [1, 1, 4]);
    assert_eq!(fixture.given("s1", v4().from("b")), "1.2.3.0");
    assert_eq!(fixture.given("s2", v4().from("b")), "-");
}

#[test]
fn the_highest_is_given_first_where_the_pool_says_so() {
    for (avoid, expected) in
        [(false, ["1.2.4.0", "1.2.3.255", "1.2.3.254"]), (true, ["1.2.3.254", "1.2.3.253", "-"])]
    {
        let mut fixture = Fixture::new([pool_with("a", &["1.2.3.253-1.2.4.0"], |policy| {
            policy.order = crate::Order::Highest;
            policy.avoid_class_c = avoid;
        })]);
        assert_eq!(["s1", "s2", "s3"].map(|owner| fixture.given(owner, v4())), expected);
    }
}

#[test]
fn the_least_recently_used_is_given_where_the_pool_says_so() {
    let lru =
        |ranges: &[&str]| pool_with("a", ranges, |policy| policy.order = crate::Order::LeastRecentlyUsed);
    let mut fixture = Fixture::new([lru(&["1.2.3.0/30"])]);
    for owner in ["s1", "s2", "s3"] {
        fixture.given(owner, v4());
    }
    for owner in ["s2", "s1", "s3"] {
        fixture.now = Moment(fixture.now.0 + 1);
        fixture.release(owner);
    }
    // What is known of releases outlives an edit of the pools.
    fixture.allocator.replace_pools([lru(&["1.2.3.0/30", "9.9.9.9"])]);
    fixture.allocator.replace_pools([lru(&["1.2.3.0/30"])]);
    let given = ["s4", "s5", "s6", "s7", "s8"].map(|owner| fixture.given(owner, v4()));
    assert_eq!(given, ["1.2.3.3", "1.2.3.1", "1.2.3.0", "1.2.3.2", "-"]);
}

#[test]
fn a_pool_too_large_to_walk_gives_addresses_and_knows_what_it_gave() {
    // 20,000 owners in a /64 and as many in a /8: walking either would not end.
    let mut allocator = Allocator::<u64>::new([avoiding("a", &["10.0.0.0/8", "2001:db8::/64"])]);
    for owner in 0..20_000 {
        allocator.prepare(&owner, &require()).expect("free").commit();
    }
    assert_eq!(allocator.counts("a", Family::V4).assigned, 20_000);
    allocator.release(ip("2001:db8::7"), &7, Moment(0));
    let plan = allocator.plan(&20_001, &require()).expect("free");
    let addresses = list(plan.addresses.iter().map(|planned| planned.address));
    // 254 of each 256: 20,000 = 78 * 254 + 188.
    assert_eq!(addresses, "10.0.78.189 2001:db8::7");
}

#[test]
fn the_end_of_the_address_space_is_not_overrun() {
    for avoid in [false, true] {
        let mut fixture = Fixture::new([pool_with(
            "a",
            &["255.255.255.253-255.255.255.254", "feff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127"],
            |policy| policy.avoid_class_c = avoid,
        )]);
        assert_eq!(
            ["s1", "s2", "s3"].map(|owner| fixture.given(owner, require()) != "-"),
            [true, true, false]
        );
        let alone = Terms::alone("ns");
        for address in ["255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "0.0.0.0", "::"] {
            assert_eq!(fixture.allocator.adopt(ip(address), &"s4", &alone), Adopted::New);
        }
        assert_eq!(fixture.given("s5", v6()), "-");
        fixture.release("s4");
    }
}

#[test]
fn what_is_held_answers_a_request_whose_pool_lost_it_to_another_unless_the_request_changed() {
    let (before, after) =
        (pool("pa", &["1.2.3.0/29"]), [pool("pa", &["1.2.3.4/30"]), pool("pb", &["1.2.3.0/30"])]);
    let elsewhere = [pool("pa", &["1.2.3.4/30"]), pool("pz", &["1.2.3.0/30"])];
    for pools in [after.to_vec(), elsewhere.to_vec(), vec![pool("pb", &["1.2.3.0/29"])]] {
        let mut fixture = Fixture::new([before.clone()]);
        assert_eq!(fixture.given("s1", v4().from("pa")), "1.2.3.0");
        fixture.allocator.replace_pools(pools);
        let given_from_pool = |request: Request| Request { given_from_pool: vec![ip("1.2.3.0")], ..request };
        for request in
            [v4().from("pa"), v4().from("pa").named(&["1.2.3.0"]), v4().from("pa").shown(&["1.2.3.5"])]
        {
            let plan = fixture.allocator.plan(&"s1", &given_from_pool(request)).expect("it stays");
            assert_eq!(
                (plan.addresses[0].address, plan.addresses[0].how),
                (ip("1.2.3.0"), Acquisition::Kept)
            );
        }
    }
    // Another pool is asked for: that is followed.
    let mut fixture = Fixture::new([pool("pa", &["1.2.3.0/30"]), pool("pb", &["1.2.3.4/30"])]);
    assert_eq!(fixture.given("s1", v4().from("pa")), "1.2.3.0");
    assert_eq!(fixture.given("s1", v4().from("pb")), "1.2.3.4");
}
