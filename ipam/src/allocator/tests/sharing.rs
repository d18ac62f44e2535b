//! Several Services on one address (section 2B).

use super::*;

/// A pool of one address, which `s4` holds with key `web` and port TCP 80.
fn shared() -> Fixture {
    let mut fixture = Fixture::new([pool("a", &["1.2.3.4/32"])]);
    assert_eq!(fixture.given("s4", v4().shared("web", &["tcp/80"])), "1.2.3.4");
    fixture
}

// shows: allocation 17
#[test]
fn s17_a_sole_holder_may_change_its_key() {
    let mut fixture = shared();
    assert_eq!(fixture.given("s4", v4().shared("other", &["tcp/80"])), "1.2.3.4");
    assert_eq!(fixture.given("s3", v4().shared("web", &["tcp/443"])), "-");
    assert_eq!(fixture.given("s3", v4().shared("other", &["tcp/443"])), "1.2.3.4");
}

// shows: allocation 18, 22, 24
#[test]
fn s18_and_s22_and_s24_who_may_join_and_why_others_may_not() {
    let with = |request: Request, namespaces: &[&str]| {
        let mut request = request;
        if let Some(sharing) = &mut request.terms.sharing {
            sharing.with = namespaces.iter().map(ToString::to_string).collect();
        }
        request
    };
    let web = || v4().shared("web", &["tcp/80"]);
    let mine = || v4().shared("web", &["tcp/443"]);
    let local = |selector| mine().local(selector);
    // Terms of the holder, terms of who asks, why not.
    let rows: [(Request, Request, Option<&str>); 13] = [
        (web(), mine(), None),
        (web(), v4().shared("web", &["udp/80", "sctp/80"]), None),
        (web(), v4().shared("web", &["tcp/443", "tcp/80"]), Some("its holder listens on port TCP 80 too")),
        (
            web(),
            v4().shared("mail", &["tcp/25"]),
            Some("its holder has the sharing key \"web\", not \"mail\""),
        ),
        (v4(), mine(), Some("its holder has no sharing key")),
        (
            web(),
            local("app=x"),
            Some(
                "its holder's traffic goes to other nodes: externalTrafficPolicy must be Cluster for both, or Local for \
                 both with equal selectors",
            ),
        ),
        (web().local("app=x"), local("app=x"), None),
        (
            web().local("app=y"),
            local("app=x"),
            Some(
                "its holder's traffic goes to other nodes: externalTrafficPolicy must be Cluster for both, or Local for \
                 both with equal selectors",
            ),
        ),
        (
            web().of("other"),
            mine(),
            Some("this Service does not name the holder's namespace \"other\" as one it shares with"),
        ),
        (
            web().of("other"),
            with(mine(), &["other"]),
            Some("its holder does not name namespace \"ns\" as one it shares with"),
        ),
        (
            with(web().of("other"), &["ns"]),
            mine(),
            Some("this Service does not name the holder's namespace \"other\" as one it shares with"),
        ),
        (with(web().of("other"), &["ns"]), with(mine(), &["other"]), None),
        (
            with(web().of("other"), &["ns"]),
            with(web(), &["other"]),
            Some("its holder listens on port TCP 80 too"),
        ),
    ];
    for (holder, asks, why) in rows {
        let mut fixture = Fixture::new([pool("a", &["1.2.3.4/32"])]);
        fixture.given("s4", holder.clone());
        let named = fixture.give("s3", asks.clone().named(&["1.2.3.4"]));
        let expected = match why {
            None => Ok("1.2.3.4".to_owned()),
            Some(why) => Err(format!("address 1.2.3.4 cannot be shared with Service s4: {why}")),
        };
        assert_eq!(named, expected, "{holder:?} {asks:?}");
        assert_eq!(fixture.held("s4"), "1.2.3.4");
        fixture.release("s3");
        assert_eq!(fixture.given("s3", asks.clone()) == "1.2.3.4", why.is_none(), "without a name: {asks:?}");
    }
}

// shows: allocation 19
#[test]
fn s19_a_sharer_may_change_its_ports() {
    let mut fixture = shared();
    fixture.given("s3", v4().shared("web", &["tcp/443"]));
    assert_eq!(fixture.given("s3", v4().shared("web", &["udp/53"])), "1.2.3.4");
    assert_eq!(fixture.given("s2", v4().shared("web", &["tcp/443"])), "1.2.3.4", "the port is free again");
}

// shows: allocation 20
#[test]
fn s20_a_sharer_that_changes_and_fits_no_more_loses_the_address_and_the_others_keep_it() {
    // Whoever joined first: the one that changes leaves.
    for (changes, port, given_from_pool) in [("s3", "tcp/443", "s4"), ("s4", "tcp/80", "s3")] {
        let other = if port == "tcp/80" { "tcp/443" } else { "tcp/80" };
        for changed in [
            v4().shared("other", &[port]),
            v4().shared("web", &[port]).local("app=x"),
            v4().shared("web", &[port, other]),
            v4(),
        ] {
            let mut fixture = shared();
            fixture.given("s3", v4().shared("web", &["tcp/443"]));
            let lost: Vec<_> = fixture
                .allocator
                .sharing_conflicts(&changes, &changed.terms)
                .iter()
                .map(|one| (one.address, one.holder))
                .collect();
            assert_eq!(lost, [(ip("1.2.3.4"), given_from_pool)]);
            assert_eq!(fixture.given(changes, changed.clone()), "-", "there is no other address");
            assert_eq!(
                (fixture.held(changes), fixture.held(given_from_pool)),
                (String::new(), "1.2.3.4".into())
            );
            // With another address in the pool it gets that one.
            fixture.allocator.replace_pools([pool("a", &["1.2.3.4/31"])]);
            assert_eq!(fixture.given(changes, v4().shared("web", &[port])), "1.2.3.4");
            assert_eq!(fixture.given(changes, changed), "1.2.3.5");
            assert_eq!(
                (fixture.held(changes), fixture.held(given_from_pool)),
                ("1.2.3.5".into(), "1.2.3.4".into())
            );
            assert_eq!(
                fixture.given(given_from_pool, v4().shared("web", &[other])),
                "1.2.3.4",
                "asked again, it stays"
            );
        }
    }
}

#[test]
fn while_the_one_that_changed_has_not_left_yet_the_others_stay_asked_or_not() {
    let mut fixture = shared();
    fixture.given("s3", v4().shared("web", &["tcp/443"]));
    fixture.given("s2", v4().shared("web", &["tcp/25"]));
    fixture.allocator.replace_pools([pool("a", &["1.2.3.4/31"])]);
    let changed = v4().shared("web", &["tcp/80", "tcp/443"]);
    let plan = fixture.allocator.prepare(&"s4", &changed).expect("another address").commit();
    assert_eq!((plan.addresses[0].address, plan.to_release), (ip("1.2.3.5"), vec![ip("1.2.3.4")]));
    assert_eq!(fixture.allocator.holders(ip("1.2.3.4")), ["s3", "s2", "s4"], "it was not withdrawn yet");
    for (owner, port) in [("s3", "tcp/443"), ("s2", "tcp/25")] {
        assert_eq!(fixture.given(owner, v4().shared("web", &[port])), "1.2.3.4", "{owner}");
    }
    // A harmless change of one that stays is none of the other's business.
    assert_eq!(fixture.given("s2", v4().shared("web", &["tcp/26"])), "1.2.3.4");
}

#[test]
fn after_a_restart_the_one_that_is_said_to_have_changed_last_leaves() {
    let clashing = |port: &str| v4().shared("web", &["tcp/443", port]).terms;
    for last in ["s3", "s4"] {
        let mut allocator = Allocator::new([pool("a", &["1.2.3.4/31"])]);
        for (owner, port) in [("s4", "tcp/80"), ("s3", "tcp/25")] {
            allocator.adopt_together(ip("1.2.3.4"), &owner, &clashing(port));
        }
        let first = |allocator: &Allocator<&str>| {
            ["s4", "s3"]
                .map(|one| allocator.sharing_conflicts(&one, allocator.terms(&one).expect("terms")).len())
        };
        assert_eq!(first(&allocator), [0, 1], "nothing is known of a change: who joined later");
        allocator.give_way(ip("1.2.3.4"), &last);
        assert_eq!(first(&allocator), if last == "s3" { [0, 1] } else { [1, 0] });
    }
}

#[test]
fn who_gives_way_at_one_address_keeps_its_place_at_another() {
    let mut allocator = Allocator::new([pool("a", &["1.2.3.4/31"])]);
    let alone = v4().terms;
    let places = [("1.2.3.4", ["s1", "s2"]), ("1.2.3.5", ["s1", "s3"])];
    for (address, owners) in places {
        for owner in owners {
            allocator.adopt_together(ip(address), &owner, &alone);
        }
    }
    allocator.give_way(ip("1.2.3.5"), &"s1");
    assert_eq!(allocator.holders(ip("1.2.3.4")), ["s1", "s2"]);
    assert_eq!(allocator.holders(ip("1.2.3.5")), ["s3", "s1"]);
}

// shows: allocation 21
#[test]
fn s21_a_sharer_that_leaves_takes_nothing_with_it() {
    let mut fixture = shared();
    fixture.allocator.replace_pools([pool("a", &["1.2.3.4/31"])]);
    fixture.given("s3", v4().shared("web", &["tcp/443"]));
    assert_eq!(fixture.given("s4", v4().shared("web", &["tcp/80"]).named(&["1.2.3.5"])), "1.2.3.5");
    assert_eq!(fixture.held("s3"), "1.2.3.4");
    assert_eq!(fixture.allocator.holders(ip("1.2.3.4")), ["s3"]);
}

// shows: allocation 23
#[test]
fn s23_in_an_exhausted_pool_a_matching_key_still_gets_an_address() {
    let rows = [(v4(), "1.2.3.4"), (v6(), "1000::4"), (require(), "1.2.3.4 1000::4")];
    for (any, address) in rows {
        let mut fixture = Fixture::new([pool("a", &["1.2.3.4/32", "1000::4/128"])]);
        assert_eq!(fixture.given("s1", any.clone().shared("web", &["tcp/80"])), address);
        assert_eq!(fixture.given("s2", any.clone()), "-");
        assert_eq!(fixture.given("s2", any.shared("web", &["tcp/443"])), address);
    }
}

// shows: allocation 23
#[test]
fn s23_a_held_address_with_the_key_is_joined_before_a_free_one_is_taken() {
    let mut fixture = Fixture::new([pool("a", &["1.2.3.0/29"])]);
    fixture.given("s1", v4().shared("web", &["tcp/80"]).named(&["1.2.3.5"]));
    fixture.given("s2", v4().shared("web", &["tcp/80"]).named(&["1.2.3.3"]));
    assert_eq!(fixture.given("s3", v4().shared("web", &["tcp/443"])), "1.2.3.3", "the lowest");
    assert_eq!(fixture.given("s4", v4().shared("web", &["tcp/443"])), "1.2.3.5", "443 is taken on the first");
    assert_eq!(fixture.given("s5", v4().shared("web", &["tcp/443"])), "1.2.3.0", "and on the second");
}

// shows: allocation 23
#[test]
fn s23_a_refusal_names_the_addresses_that_could_not_be_joined() {
    let mut fixture = shared();
    assert_eq!(
        fixture.refused("s3", v4().shared("web", &["tcp/80"])),
        "no free IPv4 address; pool \"a\" has no free address (its one is in use): free an address or add some to a \
         pool; 1.2.3.4 of Service s4 cannot be shared: its holder listens on port TCP 80 too"
    );
}

// shows: allocation 25
#[test]
fn s25_sharers_are_looked_at_again_when_their_terms_change() {
    let mut fixture = Fixture::new([pool("a", &["1.2.3.4/32"])]);
    let cluster = |port: &str| v4().shared("web", &[port]);
    assert_eq!(fixture.given("svc", cluster("tcp/80")), "1.2.3.4");
    assert_eq!(fixture.given("svc1", cluster("tcp/81")), "1.2.3.4");
    assert_eq!(fixture.given("svc1", cluster("tcp/81").local("app=x")), "-");
    assert_eq!(fixture.held("svc"), "1.2.3.4");
    assert_eq!(fixture.given("svc", cluster("tcp/80").local("app=x")), "1.2.3.4", "alone, it may");
    assert_eq!(fixture.given("svc1", cluster("tcp/81").local("app=x")), "1.2.3.4");
    // The earlier one changes: it loses the address, and the later one stays.
    assert_eq!(fixture.given("svc", cluster("tcp/80").local("app=y")), "-");
    assert_eq!(fixture.given("svc1", cluster("tcp/81").local("app=x")), "1.2.3.4");
    assert_eq!(fixture.given("svc", cluster("tcp/80").local("app=x")), "1.2.3.4", "it fits again");
}

// shows: allocation 28
#[test]
fn s28_a_shared_address_counts_once_until_the_last_has_left() {
    let mut fixture = Fixture::new([pool("a", &["1.2.3.0/30"])]);
    for (owner, port) in [("s1", "tcp/1"), ("s2", "tcp/2"), ("s3", "tcp/3")] {
        fixture.given(owner, v4().shared("web", &[port]));
    }
    for owner in ["s2", "s1", "s3"] {
        assert_eq!(fixture.allocator.counts("a", Family::V4).assigned, 1);
        fixture.release(owner);
    }
    assert_eq!(fixture.allocator.counts("a", Family::V4).assigned, 0);
}

#[test]
fn no_more_join_than_an_address_can_have_holders() {
    let mut allocator = Allocator::<u64>::new([pool("a", &["1.2.3.4/31"])]);
    for owner in 0..=64 {
        let request = v4().shared("web", &[&format!("tcp/{}", 1000 + owner)]);
        let plan = allocator.prepare(&owner, &request).expect("shared").commit();
        let expected = if owner < 64 { "1.2.3.4" } else { "1.2.3.5" };
        assert_eq!(plan.addresses[0].address, ip(expected), "{owner}");
    }
    let request = v4().shared("web", &["tcp/80"]).named(&["1.2.3.4"]);
    let refused = allocator.plan(&70, &request).expect_err("crowded").to_string();
    assert_eq!(
        refused,
        "address 1.2.3.4 cannot be shared with Service 0: 64 Services hold it, and no more can"
    );
}

#[test]
fn what_the_cluster_shows_is_adopted_whatever_the_terms() {
    let mut allocator = Allocator::new([pool("a", &["1.2.3.4/31"])]);
    let alone = Terms::alone("ns");
    assert_eq!(allocator.adopt(ip("1.2.3.4"), &"s1", &alone), Adopted::New);
    assert_eq!(allocator.adopt(ip("1.2.3.4"), &"s1", &alone), Adopted::Already);
    assert_eq!(allocator.adopt(ip("1.2.3.4"), &"s2", &alone), Adopted::Conflict { holder: "s1" });
    assert_eq!(allocator.adopt_together(ip("1.2.3.4"), &"s2", &alone), Adopted::Joined);
    assert_eq!(allocator.holders(ip("1.2.3.4")), ["s1", "s2"]);
    assert_eq!(allocator.adopt(ip("9.9.9.9"), &"s3", &alone), Adopted::New, "also outside the pools");
    let web = v4().shared("web", &["tcp/80"]).terms;
    assert_eq!(allocator.adopt(ip("1.2.3.5"), &"s4", &web), Adopted::New);
    let more = v4().shared("web", &["tcp/81"]).terms;
    assert_eq!(allocator.adopt(ip("1.2.3.5"), &"s5", &more), Adopted::Joined);
}
