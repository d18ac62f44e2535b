use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn duplicate(address: &str, mac: &str) -> DuplicateAddress {
    DuplicateAddress { interface: "eth0".into(), address: address.parse().unwrap(), mac: mac.into() }
}

#[test]
fn a_host_is_listed_once_and_forgotten_when_it_is_not_seen_or_its_address_is_no_vip() {
    let start = Instant::now();
    let mut duplicates = Duplicates::default();
    let (one, two) = (duplicate("192.0.2.200", "a"), duplicate("2001:db8::200", "a"));
    duplicates.see(two.clone(), start);
    duplicates.see(one.clone(), start);
    duplicates.see(one.clone(), start + 300 * SECOND);
    assert_eq!(duplicates.list(start + 599 * SECOND, |_| true), [one.clone(), two]);
    assert_eq!(duplicates.list(start + 600 * SECOND, |_| true), std::slice::from_ref(&one));
    assert_eq!(duplicates.list(start + 600 * SECOND, |address| address != one.address), []);
    assert_eq!(duplicates.list(start + 600 * SECOND, |_| true), [], "forgotten for good");
}

#[test]
fn all_hosts_of_an_address_that_is_free_again_are_forgotten() {
    let start = Instant::now();
    let mut duplicates = Duplicates::default();
    for mac in ["a", "b"] {
        duplicates.see(duplicate("192.0.2.200", mac), start);
    }
    duplicates.see(duplicate("192.0.2.201", "a"), start);
    duplicates.clear("eth1", "192.0.2.200".parse().unwrap());
    assert_eq!(duplicates.list(start, |_| true).len(), 3);
    duplicates.clear("eth0", "192.0.2.200".parse().unwrap());
    assert_eq!(duplicates.list(start, |_| true), [duplicate("192.0.2.201", "a")]);
}

#[test]
fn a_flood_of_hosts_is_bounded() {
    let start = Instant::now();
    let mut duplicates = Duplicates::default();
    for number in 0..2000 {
        duplicates.see(duplicate("192.0.2.200", &number.to_string()), start);
    }
    assert_eq!(duplicates.list(start, |_| true).len(), MOST);
}
