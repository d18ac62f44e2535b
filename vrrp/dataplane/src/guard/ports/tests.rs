use std::sync::Arc;

use windlass_kernel::netfilter::contents::update;
use windlass_kernel::netfilter::element::octets;
use windlass_kernel::port::ProtocolPort;
use windlass_vrrp::Family;

use super::*;
use crate::guard::Guarded;
use crate::guard::ruleset::Contents;

const WEB: ProtocolPort = ProtocolPort { protocol: Protocol::Tcp, port: 80 };
const DNS: ProtocolPort = ProtocolPort { protocol: Protocol::Udp, port: 53 };

fn vip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn with(ports: &[(&str, &[ProtocolPort])]) -> Restrictions {
    let mut restrictions = Restrictions::default();
    for (address, ports) in ports {
        restrictions.only_ports(vip(address), ports.iter().copied());
    }
    restrictions
}

fn differing(family: Family, one: &Restrictions, other: &Restrictions) -> impl Iterator<Item = IpAddr> {
    one.differing_for_the_guard(other).into_iter().filter(move |vip| Family::of(*vip) == family)
}

#[test]
fn a_vip_whose_ports_are_known_has_each_protocol_and_its_ports_and_another_one_nothing() {
    let all = with(&[("192.0.2.1", &[WEB, DNS]), ("192.0.2.2", &[]), ("2001:db8::1", &[DNS])]);
    let none = Restrictions::default();
    let four = |tail: &[u8]| Element::of([&[192, 0, 2, 1], tail].concat());
    let six = |tail: &[u8]| Element::of([octets(vip("2001:db8::1")).as_slice(), tail].concat());
    let protocols: [[u8; 4]; 3] = [[6, 0, 0, 0], [17, 0, 0, 0], [132, 0, 0, 0]];
    assert_eq!(
        owned(differing(Family::V4, &all, &none), &all, &none),
        protocols.map(|protocol| four(&protocol)).into()
    );
    assert_eq!(
        owned(differing(Family::V6, &all, &none), &all, &none),
        protocols.map(|protocol| six(&protocol)).into()
    );
    let web_and_dns = [four(&[6, 0, 0, 0, 0, 80, 0, 0]), four(&[17, 0, 0, 0, 0, 53, 0, 0])];
    assert_eq!(ports(differing(Family::V4, &all, &none), &all, &none), web_and_dns.into());
    assert_eq!(
        ports(differing(Family::V6, &all, &none), &all, &none),
        [six(&[17, 0, 0, 0, 0, 53, 0, 0])].into()
    );
}

#[test]
fn another_port_costs_one_element_and_an_address_that_goes_takes_all_of_its_own() {
    let one = with(&[("192.0.2.1", &[WEB]), ("192.0.2.2", &[WEB, DNS])]);
    let more = with(&[("192.0.2.1", &[WEB, DNS]), ("192.0.2.2", &[WEB, DNS])]);
    let fewer = with(&[("192.0.2.2", &[WEB, DNS])]);
    // From, to: elements added to and deleted from the addresses, and the ports.
    for (from, to, expected) in [
        (&one, &one, [0, 0, 0, 0]),
        (&one, &more, [0, 0, 1, 0]),
        (&more, &one, [0, 0, 0, 1]),
        (&one, &fewer, [0, 3, 0, 1]),
        (&fewer, &one, [3, 0, 1, 0]),
    ] {
        let found = [
            owned(differing(Family::V4, to, from), to, from).len(),
            owned(differing(Family::V4, from, to), from, to).len(),
            ports(differing(Family::V4, to, from), to, from).len(),
            ports(differing(Family::V4, from, to), from, to).len(),
        ];
        assert_eq!(found, expected, "{from:?} to {to:?}");
    }
}

/// Else what is for a new port would be refused between the two, or what is for another let through.
#[test]
fn a_change_of_ports_is_one_step() {
    let contents = |restrictions| {
        let guarded = Guarded { restrictions: Arc::new(restrictions), ..Guarded::default() };
        Contents { guarded, ..Contents::default() }
    };
    let batch =
        update("w", &contents(with(&[("192.0.2.1", &[WEB])])), &contents(with(&[("192.0.2.1", &[DNS])])));
    let steps: Vec<_> = (1..=batch.last()).filter_map(|at| batch.what(at)).collect();
    assert_eq!(
        steps,
        [
            "delete elements from the set ports4 of the table inet w",
            "add elements to the set ports4 of the table inet w",
            "delete elements from the set open4 of the table inet w",
            "add elements to the set open4 of the table inet w"
        ]
    );
}
