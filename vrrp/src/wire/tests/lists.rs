//! Lists of addresses: what fits, what represents them, what is compared.

use std::collections::BTreeSet;

use super::*;

// shows: rfc9568 P8
/// RFC 9568 §5.2.9.
#[test]
fn the_capacity_of_an_advert_follows_from_the_mtu() {
    for (family, version, mtu, trailer, capacity) in [
        (Family::V4, Version::V3, 1047, 0, 254),
        (Family::V4, Version::V3, 1048, 0, 255),
        (Family::V4, Version::V3, 1500, 0, 255),
        (Family::V4, Version::V2, 1055, 0, 254),
        (Family::V4, Version::V2, 1056, 0, 255),
        (Family::V4, Version::V3, 1048, 32, 247),
        (Family::V6, Version::V3, 1280, 0, 77),
        (Family::V6, Version::V3, 1450, 0, 87),
        (Family::V6, Version::V3, 1500, 0, 90),
        (Family::V6, Version::V3, 1500, 32, 88),
        (Family::V6, Version::V3, 9000, 0, 255),
        // One address is always listed: count 0 is illegal.
        (Family::V4, Version::V3, 0, 0, 1),
        (Family::V6, Version::V3, 48, 0, 1),
    ] {
        let found = AddressList::capacity(family, version, mtu, trailer);
        assert_eq!(found, capacity, "{family} {version:?} MTU {mtu} trailer {trailer}");
    }
}

// shows: rfc9568 P8
#[test]
fn a_full_advert_fills_the_mtu_and_not_more() {
    for (source, version, mtu) in [
        ("192.0.2.1", Version::V3, 576),
        ("192.0.2.1", Version::V2, 576),
        ("192.0.2.1", Version::V3, 1500),
        ("fe80::1", Version::V3, 1280),
        ("fe80::1", Version::V3, 1500),
    ] {
        let mut advert = advert(source, 1, 1, 100, &[]);
        let family = advert.path.family();
        let capacity = AddressList::capacity(family, version, mtu, 0);
        advert.addresses = AddressList::representing(&many(family, capacity), ip(source), capacity);
        assert_eq!(advert.addresses.as_slice().len(), capacity);
        let room = mtu - advert.datagram(version, Checksum::Rfc9568).len();
        assert!(room < family.address_length() || capacity == AddressList::MAX, "{room} bytes left of {mtu}");
    }
}

fn many(family: Family, count: usize) -> BTreeSet<IpAddr> {
    (0..u16::try_from(count).unwrap())
        .map(|n| match family {
            Family::V4 => Ipv4Addr::from(0xcb00_7100 + u32::from(n)).into(),
            Family::V6 => Ipv6Addr::from((0x2001_0db8 << 96) + u128::from(n)).into(),
        })
        .collect()
}

// shows: rfc9568 P3
#[test]
fn a_list_that_does_not_fit_is_represented_by_one_address() {
    let primary = ip("192.0.2.1");
    let representing = |count, capacity| {
        AddressList::representing(&many(Family::V4, count), primary, capacity).as_slice().to_vec()
    };
    assert_eq!(representing(256, 255), [ip("203.0.113.0")]);
    assert_eq!(representing(256, usize::MAX), [ip("203.0.113.0")]);
    assert_eq!(representing(11, 10), [ip("203.0.113.0")]);
    assert_eq!(representing(10, 10).len(), 10);
    assert_eq!(representing(2, 0), [ip("203.0.113.0")]);
    assert_eq!(representing(0, 10), [primary]);
}

// shows: rfc9568 P6
#[test]
fn a_list_has_one_family_and_link_local_addresses_first() {
    let addresses: BTreeSet<IpAddr> =
        ["192.0.2.9", "192.0.2.8", "2001:db8::2", "2001:db8::1", "fe80::9", "fe80::8"].map(ip).into();
    let list = |primary| AddressList::representing(&addresses, ip(primary), 255);
    assert_eq!(list("192.0.2.1").as_slice(), ["192.0.2.8", "192.0.2.9"].map(ip));
    assert_eq!(list("fe80::1").as_slice(), ["fe80::8", "fe80::9", "2001:db8::1", "2001:db8::2"].map(ip));
    assert_eq!(AddressList::representing(&addresses, ip("fe80::1"), 3).as_slice(), [ip("fe80::8")]);
    assert!(addresses.iter().all(|a| list("fe80::1").contains(*a) || list("192.0.2.1").contains(*a)));
    assert!(!list("fe80::1").contains(ip("192.0.2.8")));
}

// shows: rfc9568 R12
/// R12.
#[test]
fn an_advert_with_another_list_is_valid_and_told_apart() {
    let list = advert("192.0.2.1", 51, 200, 100, &["192.0.2.100", "192.0.2.101"]).addresses;
    let expectation = expecting(Versions::V3, Family::V4);
    for (addresses, same) in [
        (&["192.0.2.100", "192.0.2.101"][..], true),
        (&["192.0.2.100", "192.0.2.102"], false),
        (&["192.0.2.100"], false),
        (&["192.0.2.100", "192.0.2.101", "192.0.2.102"], false),
    ] {
        let advert = advert("192.0.2.1", 51, 200, 100, addresses);
        let bytes = advert.message(Version::V3, Checksum::Rfc9568);
        let packet = parse(&from_neighbour(&bytes), |_| Some(&expectation)).unwrap();
        assert_eq!(packet.lists(&list), same, "{addresses:?}");
    }
    let reversed = corrected("3133c80200640000c0000265c0000264");
    assert!(parse(&from_neighbour(&reversed), |_| Some(&expectation)).unwrap().lists(&list));
}

// shows: rfc9568 R10
/// R10 (erratum 8300): many senders break it, so it is told and does not refuse.
#[test]
fn a_list_that_does_not_begin_with_a_link_local_address_is_valid_and_told_apart() {
    for (source, addresses, lacks) in [
        ("fe80::1", &["2001:db8::100"][..], true),
        ("fe80::1", &["2001:db8::100", "fe80::100"], false),
        ("192.0.2.1", &["192.0.2.100"], false),
    ] {
        let advert = advert(source, 51, 200, 100, addresses);
        let expectation = expecting(Versions::V3, advert.path.family());
        let bytes = advert.message(Version::V3, Checksum::Rfc9568);
        let packet = parse(&received(advert.path, TTL, &bytes), |_| Some(&expectation)).unwrap();
        assert_eq!(packet.lacks_link_local(), lacks, "{addresses:?}");
    }
    let mut second = advert("fe80::1", 51, 200, 100, &[]);
    second.addresses = AddressList(["2001:db8::100", "fe80::100"].map(ip).into());
    let bytes = second.message(Version::V3, Checksum::Rfc9568);
    let expectation = expecting(Versions::V3, Family::V6);
    let packet = parse(&received(second.path, TTL, &bytes), |_| Some(&expectation)).unwrap();
    assert!(packet.lacks_link_local(), "in the second place it does not count");
}

// shows: rfc9568 P9, R5
#[test]
fn adverts_of_255_addresses_are_parsed_whole() {
    for (source, version, length) in
        [("192.0.2.1", Version::V3, 1048), ("192.0.2.1", Version::V2, 1056), ("fe80::1", Version::V3, 4128)]
    {
        let mut advert = advert(source, 1, 1, 400, &[]);
        let family = advert.path.family();
        advert.addresses = AddressList::representing(&many(family, 255), ip(source), 255);
        assert_eq!(advert.datagram(version, Checksum::Rfc9568).len(), length);
        let bytes = advert.message(version, Checksum::Rfc9568);
        let versions = if version == Version::V2 { Versions::V2 } else { Versions::V3 };
        let expectation = expecting(versions, family);
        let packet = parse(&received(advert.path, TTL, &bytes), |_| Some(&expectation)).unwrap();
        assert_eq!(packet.addresses().len(), 255);
        assert!(packet.addresses().eq(many(family, 255)));
        assert!(packet.lists(&advert.addresses));
        // A count that promises more than there is reads nothing beyond.
        let cut = parse(&received(advert.path, TTL, &bytes[..bytes.len() - 1]), |_| Some(&expectation));
        assert!(matches!(cut, Err(Rejection::Length { .. })), "{cut:?}");
    }
}
