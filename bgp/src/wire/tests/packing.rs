//! Many prefixes in few messages.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::tests::Listener;

fn vips(family: Family, count: u32) -> Vec<Prefix> {
    let vip = |number: u32| match family {
        Family::V4 => std::net::IpAddr::from(Ipv4Addr::from(0x0a00_0000 + number)).try_into().unwrap(),
        Family::V6 => {
            let address = Ipv6Addr::from((0x2001_0db8_u128 << 96) + u128::from(number));
            std::net::IpAddr::from(address).try_into().unwrap()
        }
    };
    (0..count).map(vip).collect()
}

/// The numbers of prefixes of messages that announce, and of those that withdraw, all of them.
fn packed(family: Family, count: u32, peering: &Peering) -> (Vec<usize>, Vec<usize>) {
    let next_hop = peering.next_hop(family).unwrap();
    let attributes = Attributes::default().encode(peering, next_hop);
    let vips = vips(family, count);
    let mut listener = Listener::default();
    let mut pack = |is_announced: bool| {
        let mut numbers = Vec::new();
        let mut rest = &vips[..];
        while !rest.is_empty() {
            let mut out = Vec::new();
            let prefixes = rest.iter().copied();
            let number = if is_announced {
                announce(&mut out, family, next_hop, &attributes, prefixes)
            } else {
                withdraw(&mut out, family, prefixes)
            };
            assert_eq!(listener.receive(&out), out.len());
            numbers.push(number);
            rest = &rest[number..];
        }
        assert_eq!(listener.table.len(), if is_announced { vips.len() } else { 0 });
        numbers
    };
    (pack(true), pack(false))
}

// shows: bgp B42
#[test]
fn a_message_has_as_many_prefixes_as_fit_4096_bytes() {
    let peering = external(64512);
    for (family, announced, withdrawn) in [(Family::V4, 810, 814), (Family::V6, 237, 239)] {
        for count in [1, announced, announced + 1, withdrawn, withdrawn + 1, 10_000] {
            let expected = |limit: u32| {
                let (full, rest) = (count / limit, count % limit);
                let rest = (rest > 0).then_some(rest);
                (0..full).map(|_| limit).chain(rest).map(|n| usize::try_from(n).unwrap()).collect::<Vec<_>>()
            };
            assert_eq!(
                packed(family, count, &peering),
                (expected(announced), expected(withdrawn)),
                "{count}"
            );
        }
    }
}

// shows: bgp B42, B46
#[test]
fn the_largest_attributes_leave_room_for_prefixes() {
    let largest = Attributes {
        prepend: u8::MAX,
        local_preference: 0,
        med: Some(0),
        communities: Communities::new((1..65).map(Community)).unwrap(),
        large: Communities::new((0..64).map(|n| LargeCommunity([n; 3]))).unwrap(),
        extended: Communities::new((0..64).map(ExtendedCommunity)).unwrap(),
    };
    let peering = Peering { four_octet: false, ..external(4_200_000_001) };
    let bytes = announcement(&peering, &largest.degraded(), &["2001:db8:f::10", "2001:db8:f::11"]);
    let mut listener = Listener::default();
    assert_eq!(listener.receive(&bytes), bytes.len());
    let route = &listener.table[&prefix("2001:db8:f::10")];
    assert_eq!(route.value(2).unwrap().len(), 2 + 255 * 2, "AS_PATH");
    assert_eq!(route.value(8).unwrap().len(), 65 * 4, "the 65th is GRACEFUL_SHUTDOWN");
    assert_eq!(Communities::new((0..65).map(Community)), Err(TooManyCommunities(65)));
}
