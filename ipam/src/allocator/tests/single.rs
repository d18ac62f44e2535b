//! One Service, one address (section 2A).

use super::*;

/// The same four scenarios for both families: range, two addresses, request.
fn both() -> [(&'static str, &'static str, &'static str, Request); 2] {
    [("1.2.3.4/31", "1.2.3.4", "1.2.3.5", v4()), ("1000::4/127", "1000::4", "1000::5", v6())]
}

// shows: allocation 1, 5
#[test]
fn s01_and_s05_the_same_owner_asks_again_and_keeps_its_address() {
    for (range, one, _, any) in both() {
        let mut fixture = Fixture::new([pool("a", &[range])]);
        for request in [any.clone().named(&[one]), any.clone().named(&[one]), any.clone(), any.from("a")] {
            assert_eq!(fixture.given("s1", request), one);
        }
        assert_eq!(fixture.allocator.in_use().count(), 1);
    }
}

// shows: allocation 2, 6
#[test]
fn s02_and_s06_a_held_address_is_refused_to_others_by_the_name_of_its_holder() {
    for (range, one, _, any) in both() {
        let mut fixture = Fixture::new([pool("a", &[range])]);
        fixture.given("s1", any.clone().named(&[one]));
        assert_eq!(
            fixture.refused("s2", any.named(&[one])),
            format!(
                "address {one} is held by Service s1: ask for another address, free this one, or give both Services one \
                 sharing key"
            )
        );
        assert_eq!(fixture.held("s2"), "");
    }
}

// shows: allocation 3, 7
#[test]
fn s03_and_s07_who_asks_for_an_address_of_another_keeps_its_own() {
    for (range, one, two, any) in both() {
        let mut fixture = Fixture::new([pool("a", &[range])]);
        fixture.given("s1", any.clone().named(&[one]));
        fixture.given("s2", any.clone().named(&[two]));
        fixture.refused("s1", any.named(&[two]));
        assert_eq!(fixture.held("s1"), one);
    }
}

// shows: allocation 4, 8
#[test]
fn s04_and_s08_what_a_moved_service_left_is_free_where_nothing_is_kept_back() {
    for (range, one, two, any) in both() {
        let mut fixture = Fixture::new([pool("a", &[range])]);
        fixture.given("s1", any.clone().named(&[one]));
        fixture.given("s2", any.clone().named(&[two]));
        fixture.release("s1");
        assert_eq!(fixture.given("s2", any.clone().named(&[one])), one);
        assert_eq!(fixture.given("s1", any.named(&[two])), two);
    }
}

// shows: allocation 9
#[test]
fn s09_an_address_in_no_pool_is_refused() {
    let mut fixture = Fixture::new([pool("a", &["1.2.3.4/31"]), pool("b", &["1.2.4.4/31"])]);
    assert_eq!(
        fixture.refused("s1", v4().named(&["9.9.9.9"])),
        "address 9.9.9.9 is in no pool: ask for another, or add it to a pool (there are a, b)"
    );
    assert_eq!(
        Fixture::new([]).refused("s1", v4().named(&["9.9.9.9"])),
        "address 9.9.9.9 is in no pool: ask for another, or add it to a pool (there is no pool)"
    );
}

// shows: allocation 11
#[test]
fn s11_when_all_are_given_the_next_waits_until_one_is_freed() {
    let rows = [
        (v4(), "1.2.3.4", "1.2.3.6"),
        (v6(), "1000::4", "1000::6"),
        (require(), "1.2.3.4 1000::4", "1.2.3.6 1000::6"),
    ];
    for (any, first, third) in rows {
        let mut fixture = Fixture::new([
            pool("a", &["1.2.3.4/31", "1000::4/127"]),
            pool("b", &["1.2.3.6/31", "1000::6/127"]),
        ]);
        assert_eq!(fixture.given("s1", any.clone()), first);
        for owner in ["s2", "s3", "s4"] {
            assert_ne!(fixture.given(owner, any.clone()), "-", "{owner}");
        }
        assert_eq!(fixture.given("s5", any.clone()), "-");
        assert_eq!(fixture.given("s6", any.clone()), "-");
        fixture.release("s3");
        assert_eq!(fixture.given("s5", any.clone()), third);
        assert_eq!(fixture.given("s6", any), "-");
    }
}

// shows: allocation 12
#[test]
fn s12_a_pool_that_does_not_exist_is_named_with_those_that_do() {
    let mut fixture = Fixture::new([pool("a", &["1.2.3.4/31"]), pool("b", &["1.2.4.4/31"])]);
    assert_eq!(
        fixture.refused("s1", v4().from("nonexistent")),
        "pool \"nonexistent\" does not exist: there are a, b"
    );
}
