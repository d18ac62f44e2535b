//! The basic scenarios of an allocator (allocation-scenarios 1–9, 11–14, 62, 68–69, 73, 76, 82–84), and properties.

mod properties;

use super::*;
use crate::AddressRange;

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

fn pool(name: &str, ranges: &[&str]) -> Pool {
    Pool::new(name, ranges.iter().map(|range| range.parse::<AddressRange>().expect(range)), true)
}

fn any() -> Request {
    Request::default()
}

fn from(pool: &str) -> Request {
    Request { pool: Some(pool.into()), address: None }
}

fn exactly(address: &str) -> Request {
    Request { pool: None, address: Some(ip(address)) }
}

fn message(result: Result<Allocation, AllocateError>) -> String {
    result.expect_err("this must be refused").to_string()
}

#[test]
fn the_same_owner_asks_again_and_gets_the_same_address() {
    for range in ["1.2.3.4/31", "1000::4/127"] {
        let mut allocator = Allocator::new([pool("a", &[range])]);
        let family = allocator.pools().next().map_or(Family::V4, |pool| {
            if pool.addresses.count(Family::V4) > 0 { Family::V4 } else { Family::V6 }
        });
        let first = allocator.allocate(&"s1", family, &any()).expect("free");
        assert_eq!(allocator.allocate(&"s1", family, &any()), Ok(first.clone()));
        assert_eq!(allocator.allocate(&"s1", family, &from("a")), Ok(first.clone()));
        assert_eq!(allocator.in_use().collect::<Vec<_>>(), [(first.address, &"s1")]);
    }
}

#[test]
fn a_held_address_is_refused_to_others_and_stays_with_its_holder() {
    for (range, one, two) in [("1.2.3.4/31", "1.2.3.4", "1.2.3.5"), ("1000::4/127", "1000::4", "1000::5")] {
        let family = Family::of(ip(one));
        let mut allocator = Allocator::new([pool("a", &[range])]);
        allocator.allocate(&"s1", family, &exactly(one)).expect("free");
        assert_eq!(
            message(allocator.allocate(&"s2", family, &exactly(one))),
            format!("address {one} is held by another Service: ask for another address, or free this one")
        );
        assert_eq!(allocator.held_by(&"s2").count(), 0, "a refusal changes nothing");
        allocator.allocate(&"s2", family, &exactly(two)).expect("free");
        assert!(allocator.allocate(&"s1", family, &exactly(two)).is_err());
        assert_eq!(allocator.held_by(&"s1").collect::<Vec<_>>(), [ip(one)]);
        // s1 leaves, s2 moves there, and what s2 left is free at once.
        assert!(allocator.release(ip(one), &"s1"));
        allocator.allocate(&"s2", family, &exactly(one)).expect("free");
        assert!(allocator.release(ip(two), &"s2"));
        allocator.allocate(&"s1", family, &exactly(two)).expect("free");
    }
}

#[test]
fn lowest_free_first_and_a_freed_address_is_given_again() {
    let mut allocator = Allocator::new([pool("a", &["1.2.3.0/31", "1.2.3.10-1.2.3.11"])]);
    let mut given = |owner| allocator.allocate(&owner, Family::V4, &any()).map(|a| a.address.to_string());
    assert_eq!(
        [given("s1"), given("s2"), given("s3"), given("s4")].map(Result::unwrap),
        ["1.2.3.0", "1.2.3.1", "1.2.3.10", "1.2.3.11"]
    );
    assert!(given("s5").is_err());
    assert!(given("s6").is_err());
    assert!(allocator.release(ip("1.2.3.1"), &"s2"));
    assert_eq!(allocator.allocate(&"s5", Family::V4, &any()).map(|a| a.address), Ok(ip("1.2.3.1")));
    assert!(allocator.allocate(&"s6", Family::V4, &any()).is_err());
}

#[test]
fn only_the_holder_can_release() {
    let mut allocator = Allocator::new([pool("a", &["1.2.3.0/31"])]);
    allocator.allocate(&"s1", Family::V4, &any()).expect("free");
    assert!(!allocator.release(ip("1.2.3.0"), &"s2"));
    assert!(!allocator.release(ip("1.2.3.1"), &"s1"));
    assert_eq!(allocator.holder(ip("1.2.3.0")), Some(&"s1"));
}

#[test]
fn a_refusal_names_the_pools_considered_and_why_each_said_no() {
    let reserved = Pool { auto_assign: false, ..pool("reserved", &["1.2.4.0/30"]) };
    let mut allocator = Allocator::new([
        pool("lan", &["1.2.3.0/32"]),
        pool("six", &["2001:db8::/64"]),
        pool("two", &["1.2.5.0/31"]),
        reserved,
    ]);
    for owner in ["s1", "s2", "s3"] {
        allocator.allocate(&owner, Family::V4, &any()).expect("free");
    }
    let rows = [
        (
            any(),
            "no free IPv4 address; pool \"lan\": its one address is in use; pool \"reserved\": is only for Services \
             that name it; pool \"six\": has none of that family; pool \"two\": all 2 addresses are in use: free an \
             address or add some to a pool",
        ),
        (
            from("lan"),
            "no free IPv4 address; pool \"lan\": its one address is in use: free an address or add some to a pool",
        ),
        (from("wan"), "pool \"wan\" does not exist: there are lan, reserved, six, two"),
        (
            exactly("9.9.9.9"),
            "address 9.9.9.9 is in no pool: ask for another, or add it to a pool (there are lan, reserved, six, two)",
        ),
        (
            Request { pool: Some("two".into()), address: Some(ip("1.2.3.9")) },
            "address 1.2.3.9 is not in pool \"two\" (1.2.5.0-1.2.5.1): ask for another address or another pool",
        ),
        (
            exactly("2001:db8::1"),
            "address 2001:db8::1 is not an IPv4 address: ask for one of the Service's own family",
        ),
    ];
    let before = allocator.clone();
    for (request, expected) in rows {
        assert_eq!(message(allocator.allocate(&"s9", Family::V4, &request)), expected, "{request:?}");
        assert_eq!(allocator, before, "a refusal changes nothing");
    }
    assert_eq!(
        message(Allocator::default().allocate(&"s1", Family::V4, &any())),
        "no free IPv4 address: there is no pool; create an IPPool"
    );
}

#[test]
fn a_pool_without_auto_assign_serves_only_those_who_name_it_or_its_address() {
    let mut allocator = Allocator::new([
        Pool { auto_assign: false, ..pool("a", &["1.2.3.0/31"]) },
        pool("b", &["1.2.4.0/31"]),
    ]);
    let mut given = |owner, request| allocator.allocate(&owner, Family::V4, &request).map(|a| a.address);
    assert_eq!(given("s1", any()), Ok(ip("1.2.4.0")));
    assert_eq!(given("s2", any()), Ok(ip("1.2.4.1")));
    assert!(given("s3", any()).is_err());
    assert_eq!(given("s3", from("a")), Ok(ip("1.2.3.0")));
    assert_eq!(given("s4", exactly("1.2.3.1")), Ok(ip("1.2.3.1")));
}

#[test]
fn an_owner_that_names_another_pool_gets_a_second_address_and_keeps_the_first() {
    let mut allocator = Allocator::new([pool("a", &["1.2.3.0/31"]), pool("b", &["1.2.4.0/31"])]);
    allocator.allocate(&"s1", Family::V4, &any()).expect("free");
    allocator.allocate(&"s1", Family::V4, &from("b")).expect("free");
    assert_eq!(allocator.held_by(&"s1").collect::<Vec<_>>(), [ip("1.2.3.0"), ip("1.2.4.0")]);
}

#[test]
fn families_are_given_apart() {
    let mut allocator = Allocator::new([pool("a", &["1.2.3.0/31", "2001:db8::/64"])]);
    assert_eq!(allocator.allocate(&"s1", Family::V4, &any()).map(|a| a.address), Ok(ip("1.2.3.0")));
    assert_eq!(allocator.allocate(&"s1", Family::V6, &any()).map(|a| a.address), Ok(ip("2001:db8::")));
}

#[test]
fn adopting_is_idempotent_and_a_conflict_is_a_value() {
    let mut allocator = Allocator::new([pool("a", &["1.2.3.0/31"])]);
    assert_eq!(allocator.adopt(ip("1.2.3.0"), &"s1"), Adopted::New);
    assert_eq!(allocator.adopt(ip("1.2.3.0"), &"s1"), Adopted::Already);
    assert_eq!(allocator.adopt(ip("1.2.3.0"), &"s2"), Adopted::Conflict { holder: "s1" });
    assert_eq!(allocator.adopt(ip("9.9.9.9"), &"s3"), Adopted::New, "also outside the pools");
    assert_eq!(allocator.allocate(&"s2", Family::V4, &any()).map(|a| a.address), Ok(ip("1.2.3.1")));
}

#[test]
fn replacing_pools_changes_what_can_be_given_and_never_what_was_given() {
    let mut allocator = Allocator::new([pool("a", &["1.2.3.0/30"])]);
    for owner in ["s1", "s2", "s3"] {
        allocator.allocate(&owner, Family::V4, &any()).expect("free");
    }
    let held: Vec<_> = allocator.in_use().map(|(address, owner)| (address, *owner)).collect();
    let rows: [(&str, Vec<Pool>, Option<&str>); 6] = [
        ("same", vec![pool("a", &["1.2.3.0/30"])], Some("1.2.3.3")),
        ("grown", vec![pool("a", &["1.2.3.0/29"])], Some("1.2.3.3")),
        ("shrunk", vec![pool("a", &["1.2.3.0/31"])], None),
        ("renamed", vec![pool("z", &["1.2.3.0/30"])], Some("1.2.3.3")),
        ("split", vec![pool("a", &["1.2.3.0/31"]), pool("b", &["1.2.3.2/31"])], Some("1.2.3.3")),
        ("gone", vec![], None),
    ];
    for (name, pools, next) in rows {
        allocator.replace_pools(pools);
        let now: Vec<_> = allocator.in_use().map(|(address, owner)| (address, *owner)).collect();
        assert_eq!(now, held, "{name}");
        for owner in ["s1", "s2", "s3"] {
            let kept = allocator.allocate(&owner, Family::V4, &any()).map(|a| a.address);
            assert_eq!(kept.ok(), allocator.held_by(&owner).next(), "{name}");
        }
        let found = allocator.find(&"s4", Family::V4, &any()).ok().map(|a| a.address);
        assert_eq!(found, next.map(ip), "{name}");
    }
}

#[test]
fn an_address_is_said_to_be_of_the_pool_that_holds_it_now() {
    let mut allocator = Allocator::new([pool("a", &["1.2.3.0/31"])]);
    allocator.allocate(&"s1", Family::V4, &any()).expect("free");
    allocator.replace_pools([pool("b", &["1.2.3.0/31"])]);
    let given = allocator.allocate(&"s1", Family::V4, &any()).expect("kept");
    assert_eq!(given.pool.as_deref(), Some("b"));
    allocator.replace_pools([]);
    let given = allocator.allocate(&"s1", Family::V4, &any()).expect("kept");
    assert_eq!(given, Allocation { address: ip("1.2.3.0"), pool: None });
}

#[test]
fn counts_are_exact() {
    let rows: [(&[&str], u128, u128); 5] = [
        (&["1.2.3.0/24"], 256, 0),
        (&["1.2.3.0/24", "1.2.4.0/25"], 384, 0),
        (&["1.2.3.0/24", "1.2.3.128/25"], 256, 0),
        (&["10.0.0.0/8", "2001:db8::/64"], 1 << 24, 1 << 64),
        (&["2000::/3"], 0, 1 << 125),
    ];
    for (ranges, v4, v6) in rows {
        let allocator = Allocator::<&str>::new([pool("a", ranges)]);
        assert_eq!(allocator.counts("a", Family::V4), Counts { total: v4, assigned: 0 }, "{ranges:?}");
        assert_eq!(allocator.counts("a", Family::V6), Counts { total: v6, assigned: 0 }, "{ranges:?}");
    }
    let mut allocator = Allocator::new([pool("a", &["1.2.3.0/24"])]);
    allocator.adopt(ip("1.2.3.7"), &"s1");
    allocator.adopt(ip("1.2.3.8"), &"s2");
    allocator.adopt(ip("9.9.9.9"), &"s3");
    let counts = allocator.counts("a", Family::V4);
    assert_eq!((counts.assigned, counts.available()), (2, 254));
    assert_eq!(allocator.counts("b", Family::V4), Counts::default());
}

#[test]
fn a_pool_too_large_to_walk_gives_addresses_and_knows_what_it_gave() {
    // 20,000 owners in a /64 and as many in a /8: walking either would not end.
    let mut allocator = Allocator::new([pool("a", &["10.0.0.0/8", "2001:db8::/64"])]);
    for owner in 0..20_000_u32 {
        allocator.allocate(&owner, Family::V4, &any()).expect("free");
        allocator.allocate(&owner, Family::V6, &any()).expect("free");
    }
    assert_eq!(allocator.counts("a", Family::V4).assigned, 20_000);
    assert!(allocator.release(ip("2001:db8::7"), &7));
    assert_eq!(allocator.find(&20_001, Family::V6, &any()).map(|a| a.address), Ok(ip("2001:db8::7")));
    assert_eq!(allocator.find(&20_001, Family::V4, &any()).map(|a| a.address), Ok(ip("10.0.78.32")));
}

#[test]
fn the_end_of_the_address_space_is_not_overrun() {
    let mut allocator = Allocator::new([
        pool("a", &["255.255.255.253-255.255.255.254"]),
        pool("b", &["feff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127"]),
    ]);
    for (owner, v4, v6) in [("s1", true, true), ("s2", true, true), ("s3", false, false)] {
        assert_eq!(allocator.allocate(&owner, Family::V4, &any()).is_ok(), v4, "{owner}");
        assert_eq!(allocator.allocate(&owner, Family::V6, &any()).is_ok(), v6, "{owner}");
    }
    allocator.adopt(ip("255.255.255.255"), &"s4");
    allocator.adopt(ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), &"s4");
    assert!(allocator.find(&"s5", Family::V4, &any()).is_err());
    assert!(allocator.release(ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), &"s4"));
}
