use windlass_kernel::port::Protocol;

use super::*;

const WEB: ProtocolPort = ProtocolPort { protocol: Protocol::Tcp, port: 80 };

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn ranges_are_kept_in_as_few_as_say_the_same_and_of_the_addresss_family() {
    let mut restrictions = Restrictions::default();
    let vip: IpAddr = "192.0.2.50".parse().unwrap();
    restrictions.restrict(vip, [WEB], nets(&["10.0.0.0/9", "10.128.0.0/9", "10.1.0.0/16", "2001:db8::/32"]));
    assert_eq!(restrictions.of(vip).unwrap()[&WEB][..], nets(&["10.0.0.0/8"]));
    let six: IpAddr = "2001:db8::50".parse().unwrap();
    restrictions.restrict(six, [WEB], nets(&["10.0.0.0/8"]));
    assert_eq!(restrictions.of(six).unwrap()[&WEB][..], nets(&[]), "nobody");
}

#[test]
fn a_port_that_is_restricted_twice_is_open_only_to_whom_both_let_in() {
    let table: [(&[&str], &[&str], &[&str]); 4] = [
        (&["10.0.0.0/8"], &["10.1.0.0/16", "192.0.2.0/24"], &["10.1.0.0/16"]),
        (&["10.1.0.0/16"], &["10.0.0.0/8"], &["10.1.0.0/16"]),
        (&["10.0.0.0/8"], &["10.0.0.0/8"], &["10.0.0.0/8"]),
        (&["10.0.0.0/8"], &["192.0.2.0/24"], &[]),
    ];
    for (first, second, both) in table {
        let mut restrictions = Restrictions::default();
        let vip: IpAddr = "192.0.2.50".parse().unwrap();
        restrictions.restrict(vip, [WEB], nets(first));
        restrictions.restrict(vip, [WEB], nets(second));
        assert_eq!(restrictions.of(vip).unwrap()[&WEB][..], nets(both), "{first:?} {second:?}");
    }
}

#[test]
fn ports_that_are_restricted_together_have_their_ranges_once() {
    let mut restrictions = Restrictions::default();
    let vip: IpAddr = "192.0.2.50".parse().unwrap();
    let ports = (1..=1024).map(|port| ProtocolPort { port, ..WEB });
    restrictions.restrict(vip, ports, nets(&["10.0.0.0/8"]));
    let lists: Vec<_> = restrictions.iter().map(|(_, _, ranges)| ranges).collect();
    assert_eq!(lists.len(), 1024);
    assert!(lists.iter().all(|ranges| Arc::ptr_eq(ranges, lists[0])));
    restrictions.restrict(vip, [], nets(&["10.0.0.0/8"]));
    assert_eq!(restrictions.iter().count(), 1024);
}

#[test]
fn addresses_may_be_taken_from_other_restrictions_one_by_one() {
    let vip = |last: u8| IpAddr::from([192, 0, 2, last]);
    let mut some = Restrictions::default();
    some.restrict(vip(1), [WEB], nets(&["10.0.0.0/8"]));
    some.restrict(vip(2), [WEB], nets(&["10.0.0.0/8"]));
    some.only_ports(vip(4), [WEB]);
    let mut others = Restrictions::default();
    others.restrict(vip(2), [WEB], nets(&["10.0.0.0/8"]));
    others.restrict(vip(3), [WEB], nets(&[]));
    others.only_ports(vip(1), [WEB]);
    assert_eq!(some.differing(&others), [vip(1), vip(3), vip(4)].into());
    assert_eq!(some.differing(&some), [].into());
    assert_eq!(some.as_other_of(&others, &some.differing(&others)), others);
    let mixed = some.as_other_of(&others, &[vip(1)]);
    assert_eq!(mixed.differing(&others), [vip(3), vip(4)].into());
    assert_eq!(mixed.differing(&some), [vip(1)].into());
}

#[test]
fn a_large_change_is_made_address_by_address_and_each_part_leads_on() {
    let vip = |last: u8| IpAddr::from([192, 0, 2, last]);
    let ports = |count| (1..=count).map(|port| ProtocolPort { port, ..WEB });
    let mut installed = Restrictions::default();
    installed.only_ports(vip(1), ports(100));
    installed.restrict(vip(2), ports(100), nets(&["10.0.0.0/8", "192.0.2.0/24"]));
    let mut wanted = Restrictions::default();
    wanted.only_ports(vip(3), ports(200));
    wanted.only_ports(vip(4), ports(10));
    wanted.end_connections(vip(5));
    // 200, 500, 400 and 20 elements.
    let mut steps = Vec::new();
    let mut now = installed.clone();
    while let Some(part) = wanted.first_part_since(&now, 400) {
        assert!(part.ended().contains(&vip(5)), "what has few elements is in every part");
        assert_ne!(part, now);
        steps.push(now.differing(&part));
        now = part;
    }
    steps.push(now.differing(&wanted));
    assert_eq!(steps, [[vip(1)].into(), [vip(2)].into(), [vip(3)].into(), BTreeSet::from([vip(4)])]);
    assert_eq!(wanted.first_part_since(&wanted, 1), None);
    assert_eq!(wanted.first_part_since(&installed, 2000), None);
}
