//! Attributes in the forms that different peers read.

use super::*;
use crate::tests::{Listener, Route};

const VIP: &str = "203.0.113.10";

fn seen(peering: &Peering, attributes: &Attributes) -> Route {
    let mut listener = Listener::default();
    listener.receive(&announcement(peering, attributes, &[VIP]));
    listener.table[&prefix(VIP)].clone()
}

// shows: bgp B44
#[test]
fn external_peers_see_the_path_repeated_and_internal_ones_the_preference() {
    let attributes = Attributes { prepend: 2, local_preference: 300, med: Some(7), ..Attributes::default() };
    let external = external(64512);
    let route = seen(&external, &attributes);
    assert_eq!(hex(route.value(2).unwrap()), "02030000fc000000fc000000fc00");
    assert_eq!((route.value(4), route.value(5)), (Some(&[0, 0, 0, 7][..]), None));
    let route = seen(&Peering { is_internal: true, ..external }, &attributes);
    assert_eq!((route.value(2), route.value(5)), (Some(&[][..]), Some(&[0, 0, 1, 44][..])));
}

// shows: bgp B45
#[test]
fn a_peer_that_reads_two_bytes_gets_a_path_of_four_beside_it_where_it_needs_one() {
    let two_octet = |number| Peering { four_octet: false, ..external(number) };
    let small = seen(&two_octet(64512), &Attributes::default());
    assert_eq!((hex(small.value(2).unwrap()), small.value(17)), ("0201fc00".to_owned(), None));
    let large = seen(&two_octet(4_200_000_001), &Attributes { prepend: 1, ..Attributes::default() });
    assert_eq!(hex(large.value(2).unwrap()), "02025ba05ba0");
    assert_eq!(hex(large.value(17).unwrap()), "0202fa56ea01fa56ea01");
    let internal = Peering { is_internal: true, ..two_octet(4_200_000_001) };
    assert_eq!(seen(&internal, &Attributes::default()).value(17), None);
}

// shows: bgp B46
#[test]
fn a_degraded_route_is_longer_less_preferred_and_marked() {
    let attributes = Attributes { prepend: 1, ..Attributes::default() }.degraded();
    let external = external(64512);
    let route = seen(&external, &attributes);
    assert_eq!(route.value(2).unwrap().len(), 2 + 7 * 4);
    assert_eq!(hex(route.value(8).unwrap()), "ffff0000");
    let route = seen(&Peering { is_internal: true, ..external }, &attributes);
    assert_eq!(route.value(5), Some(&[0; 4][..]));
}

// shows: bgp B46
#[test]
fn communities_are_sorted_and_without_duplicates() {
    let unsorted = [Community::NO_EXPORT, Community::new(1, 2), Community::NO_EXPORT, Community::new(1, 1)];
    let route =
        seen(&external(64512), &Attributes { communities: communities(&unsorted), ..Attributes::default() });
    assert_eq!(route.attributes.last().unwrap(), &(0xc0, 8, unhex("00010001 00010002 ffffff01")));
}

// shows: bgp B53
#[test]
fn a_peer_on_the_link_gets_the_global_and_the_link_local_next_hop() {
    let global = NODE_V6.parse().unwrap();
    let next_hop = NextHopV6(global, Some("fe80::11".parse().unwrap()));
    let peering = Peering { ipv4: Some(NextHop::V6(next_hop)), ..external(64512) };
    let route = seen(&peering, &Attributes::default());
    assert_eq!(hex(&route.next_hop), "20010db8000000010000000000000011fe800000000000000000000000000011");
}
