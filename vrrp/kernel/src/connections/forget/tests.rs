use super::*;

#[test]
fn few_ipv4_addresses_are_listed_one_by_one_and_all_else_by_family() {
    let v4 = |count: u8| (1..=count).map(|last| IpAddr::from([192, 0, 2, last]));
    let v6: IpAddr = "2001:db8::50".parse().unwrap();
    let tcp = |family| Selection::of(family).with_protocol(6);
    assert_eq!(selections(&BTreeSet::new()), []);
    assert_eq!(selections(&v4(2).collect()), v4(2).map(|vip| tcp(Family::V4).to(vip)).collect::<Vec<_>>());
    assert_eq!(selections(&v4(4).collect()).len(), 4);
    assert_eq!(selections(&v4(5).collect()), [tcp(Family::V4)]);
    assert_eq!(selections(&v4(5).chain([v6]).collect()), [tcp(Family::V4), tcp(Family::V6)]);
}
