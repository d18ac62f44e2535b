//! Both families, and several addresses (section 2D).

use super::*;

fn named(name: &str, count: u8) -> Vec<Pool> {
    let dual = || pool("dual", &["1.2.3.0/30", "1000::/126"]);
    match (name, count) {
        ("dual", _) => vec![dual()],
        ("v4, v6, dual", _) => vec![pool("a4", &["1.1.1.0/30"]), pool("b6", &["1001::/126"]), dual()],
        ("v6, v4", _) => vec![pool("a6", &["1001::/126"]), pool("b4", &["1.1.1.0/30"])],
        ("v4", _) => vec![pool("a4", &["1.1.1.0/30"])],
        ("v4 exhausted", _) => vec![pool("dual", &["1000::/126"])],
        (other, _) => panic!("{other}"),
    }
}

const SIX_FIRST: [Family; 2] = [Family::V6, Family::V4];

// shows: allocation 40 to 46
#[test]
fn s40_to_s46_families_as_the_policy_asks() {
    let six_first = |families| Request::any(families, "ns");
    let rows: [(&str, &str, Request, &str, &[Family]); 14] = [
        ("40", "dual", require(), "1.2.3.0 1000::", &[]),
        ("40, IPv6 first", "dual", six_first(Families::Require(SIX_FIRST)), "1000:: 1.2.3.0", &[]),
        ("42 Require", "v4 exhausted", require(), "-", &[]),
        ("42 Prefer", "v4 exhausted", prefer(), "1000::", &[Family::V4]),
        ("43", "v4, v6, dual", prefer(), "1.2.3.0 1000::", &[]),
        ("43 Require", "v4, v6, dual", require(), "1.2.3.0 1000::", &[]),
        ("44", "v6, v4", prefer(), "1.1.1.0 1001::", &[]),
        ("44, IPv6 first", "v6, v4", six_first(Families::Prefer(SIX_FIRST)), "1001:: 1.1.1.0", &[]),
        ("44 Require", "v6, v4", require(), "1.1.1.0 1001::", &[]),
        ("45 pool", "v4, v6, dual", prefer().from("a4"), "1.1.1.0", &[Family::V6]),
        ("45 named v4", "dual", prefer().named(&["1.2.3.3"]), "1.2.3.3", &[]),
        ("45 named v6", "dual", prefer().named(&["1000::3"]), "1000::3", &[]),
        ("46", "dual", v4(), "1.2.3.0", &[]),
        ("46 v6", "dual", v6(), "1000::", &[]),
    ];
    for (name, pools, request, expected, missing) in rows {
        let mut fixture = Fixture::new(named(pools, 1));
        if let Ok(plan) = fixture.allocator.plan(&"s1", &request) {
            assert_eq!(plan.missing, missing, "{name}");
        }
        assert_eq!(fixture.given("s1", request), expected, "{name}");
    }
}

// shows: allocation 42
#[test]
fn s42_a_required_family_that_is_short_gives_nothing_of_the_other() {
    let mut fixture = Fixture::new(named("v4 exhausted", 1));
    assert_eq!(
        fixture.refused("s1", require()),
        "no free IPv4 address; pool \"dual\" has none of that family: add addresses of that family to a pool"
    );
    assert_eq!(fixture.allocator.in_use().count(), 0);
}

// shows: allocation 47
#[test]
fn s47_a_pool_that_gains_a_family_adds_it_and_the_first_address_stays() {
    let mut fixture = Fixture::new([pool("a", &["1.2.3.0/30"])]);
    fixture.given("s0", v4());
    assert_eq!(fixture.given("s1", prefer()), "1.2.3.1");
    fixture.release("s0");
    fixture.allocator.replace_pools([pool("0", &["1001::/126"]), pool("a", &["1.2.3.0/30", "1000::/126"])]);
    assert_eq!(
        fixture.given("s1", prefer()),
        "1.2.3.1 1000::",
        "from the pool of the first, if that has one"
    );
    fixture.release("s1");
    fixture.allocator.replace_pools([pool("a", &["1.2.3.0/30"])]);
    assert_eq!(fixture.given("s1", prefer()), "1.2.3.0");
    fixture.allocator.replace_pools([pool("0", &["1001::/126"]), pool("a", &["1.2.3.0/30"])]);
    assert_eq!(fixture.given("s1", prefer()), "1.2.3.0 1001::", "else from another");
}

// shows: allocation 48
#[test]
fn s48_what_is_held_stays_when_a_family_is_required_that_cannot_be_had() {
    let mut fixture = Fixture::new(named("v4", 1));
    assert_eq!(fixture.given("s1", prefer()), "1.1.1.0");
    assert_eq!(fixture.given("s1", require()), "-");
    assert_eq!(fixture.held("s1"), "1.1.1.0");
    assert_eq!(fixture.given("s1", prefer()), "1.1.1.0");
}

// shows: allocation 49, 50
#[test]
fn s49_and_s50_pools_that_come_and_go_change_no_address() {
    let mut fixture = Fixture::new([pool("b", &["1.2.3.0/30"])]);
    fixture.given("s1", v4());
    fixture.allocator.replace_pools([pool("a", &["1.1.1.0/30", "1001::/126"]), pool("b", &["1.2.3.0/30"])]);
    assert_eq!(fixture.given("s1", v4()), "1.2.3.0");

    let mut fixture = Fixture::new(named("dual", 1));
    fixture.given("s1", prefer());
    fixture
        .allocator
        .replace_pools([pool("dual", &["1000::/126"]), pool("b", &["1.1.1.0/30", "1001::/126"])]);
    assert_eq!(fixture.given("s1", prefer()), "1.2.3.0 1000::", "both stay, the IPv4 address in no pool");
}

// shows: allocation 16, 51, 52
#[test]
fn s16_and_s51_and_s52_addresses_named_against_the_families() {
    let rows: [(Request, &str); 9] = [
        (
            require().named(&["1.2.3.1"]),
            "no IPv6 address is named, and the Service requires both families: name one of each",
        ),
        (
            require().named(&["1000::1"]),
            "no IPv4 address is named, and the Service requires both families: name one of each",
        ),
        (
            v4().named(&["1000::1"]),
            "address 1000::1 is not an IPv4 address: ask for one of the Service's own family",
        ),
        (
            v6().named(&["1.2.3.1"]),
            "address 1.2.3.1 is not an IPv6 address: ask for one of the Service's own family",
        ),
        (
            v4().named(&["1.2.3.1", "1000::1"]),
            "address 1000::1 is not an IPv4 address: ask for one of the Service's own family",
        ),
        (v4().named(&["1.2.3.1", "1.2.3.1"]), "address 1.2.3.1 is named twice: name it once"),
        (
            v4().named(&["1.2.3.1", "9.9.9.9"]),
            "address 9.9.9.9 is in no pool: ask for another, or add it to a pool (there are b, dual)",
        ),
        (v4().times(0), "0 addresses are asked for: ask for 1 or more"),
        (
            v4().times(5).from("dual"),
            "no 5 free IPv4 addresses; pool \"dual\" has only 4 free: ask for fewer or add some to a pool",
        ),
    ];
    for (request, expected) in rows {
        let mut fixture = Fixture::new([named("dual", 1).remove(0), pool("b", &["1.1.1.0/30"])]);
        assert_eq!(fixture.refused("s1", request.clone()), expected, "{request:?}");
        assert_eq!(fixture.allocator.in_use().count(), 0, "{request:?}");
    }
    let mut fixture = Fixture::new([named("dual", 1).remove(0), pool("b", &["1.1.1.0/30"])]);
    assert_eq!(
        fixture.given("s1", require().named(&["1000::1", "1.2.3.1"])),
        "1.2.3.1 1000::1",
        "in family order"
    );
    assert_eq!(
        fixture.given("s2", v4().named(&["1.2.3.3", "1.1.1.1"])),
        "1.2.3.3 1.1.1.1",
        "several, of two pools"
    );
}

// shows: allocation 15, 53
#[test]
fn s15_and_s53_an_address_of_a_family_no_longer_asked_for_is_left() {
    for (before, after, one, other) in [(v4(), v6(), "1.2.3.0", "1000::"), (v6(), v4(), "1000::", "1.2.3.0")]
    {
        let mut fixture = Fixture::new(named("dual", 1));
        assert_eq!(fixture.given("s1", before), one);
        let plan = fixture.allocator.plan(&"s1", &after).expect("free");
        assert_eq!(plan.to_release, [ip(one)]);
        assert_eq!(fixture.given("s1", after), other);
        assert_eq!(fixture.held("s1"), other);
    }
}

// shows: allocation 54, 55, 62
#[test]
fn s54_and_s55_and_s62_what_the_status_shows_is_taken_if_it_can_be_had() {
    let rows: [(Request, &str); 8] = [
        (v4().shown(&["1.2.3.2"]), "1.2.3.2"),
        (v4().shown(&["9.9.9.9"]), "1.2.3.0"),
        (v4().shown(&["1000::2"]), "1.2.3.0"),
        (v4().shown(&["1.2.3.3", "1.2.3.2", "1.2.3.1"]), "1.2.3.3"),
        (prefer().shown(&["1000::2"]), "1.2.3.0 1000::2"),
        (prefer().shown(&["9.9.9.9", "1.2.3.2"]), "1.2.3.2 1000::"),
        (v4().shown(&["1.2.3.2"]).from("b"), "1.1.1.0"),
        (v4().shown(&["1.2.3.2"]).named(&["1.2.3.3"]), "1.2.3.3"),
    ];
    for (request, expected) in rows {
        let mut fixture = Fixture::new([
            named("dual", 1).remove(0),
            pool_with("b", &["1.1.1.0/30"], |policy| policy.priority = 101),
        ]);
        assert_eq!(fixture.given("s1", request.clone()), expected, "{request:?}");
    }
    let mut fixture = Fixture::new(named("dual", 1));
    fixture.given("s1", v4().named(&["1.2.3.2"]));
    assert_eq!(fixture.given("s2", v4().shown(&["1.2.3.2"])), "1.2.3.0", "another holds it");
    assert_eq!(fixture.given("s1", v4().shown(&["1.2.3.3"])), "1.2.3.2", "what is held stays");
}

#[test]
fn of_what_is_held_that_stays_first_what_the_status_shows() {
    let mut fixture = Fixture::new(named("dual", 1));
    fixture.given("s1", v4().named(&["1.2.3.1", "1.2.3.2"]));
    let plan = fixture.allocator.plan(&"s1", &v4().shown(&["1.2.3.2"])).expect("held");
    assert_eq!((plan.addresses[0].address, plan.to_release), (ip("1.2.3.2"), vec![ip("1.2.3.1")]));
}

#[test]
fn several_addresses_of_each_family_are_given_and_grow_and_shrink() {
    let mut fixture = Fixture::new(named("dual", 1));
    assert_eq!(fixture.given("s1", v4().times(3)), "1.2.3.0 1.2.3.1 1.2.3.2");
    assert_eq!(fixture.given("s1", v4().times(2)), "1.2.3.0 1.2.3.1");
    assert_eq!(fixture.given("s1", v4().times(4)), "1.2.3.0 1.2.3.1 1.2.3.2 1.2.3.3");
    assert_eq!(fixture.given("s1", v4().times(5)), "-", "all or nothing");
    assert_eq!(fixture.held("s1"), "1.2.3.0 1.2.3.1 1.2.3.2 1.2.3.3");
    assert_eq!(fixture.given("s2", prefer().times(2)), "1000:: 1000::1");
    let plan = fixture.allocator.plan(&"s2", &prefer().times(5)).expect("what can be had");
    assert_eq!((plan.addresses.len(), plan.missing), (4, vec![Family::V4, Family::V6]));
}

#[test]
fn several_addresses_may_come_from_several_pools_and_may_be_shared() {
    let mut fixture = Fixture::new(named("v4, v6, dual", 1));
    assert_eq!(fixture.given("s1", v4().times(6)), "1.1.1.0 1.1.1.1 1.1.1.2 1.1.1.3 1.2.3.0 1.2.3.1");
    let mut fixture = Fixture::new(named("v4", 1));
    fixture.given("s1", v4().shared("web", &["tcp/80"]));
    assert_eq!(fixture.given("s2", v4().times(2).shared("web", &["tcp/81"])), "1.1.1.0 1.1.1.1");
}
