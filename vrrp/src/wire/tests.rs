use proptest::prelude::*;

use super::*;

fn address(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn advert(source: &str, vrid: u8, priority: u8, centiseconds: u16, addresses: &[&str]) -> Advert {
    Advert {
        source: address(source),
        vrid: Vrid::new(vrid).unwrap(),
        priority: Priority::new(priority).ok(),
        interval: Interval::from_centiseconds(centiseconds).unwrap(),
        addresses: AddressList(addresses.iter().map(|a| address(a)).collect()),
    }
}

/// A datagram from 192.0.2.1 to the group around `payload`.
fn datagram(payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + payload.len()).unwrap().to_be_bytes();
    let mut bytes =
        vec![0x45, 0xc0, length[0], length[1], 0, 0, 0, 0, 255, 112, 0, 0, 192, 0, 2, 1, 224, 0, 0, 18];
    bytes.extend(payload);
    bytes
}

/// `payload` with its checksum (bytes 6 and 7) made right in the message-only form.
fn summed(mut payload: Vec<u8>) -> Vec<u8> {
    payload[6..8].fill(0);
    let sum = Checksum::Rfc9568.compute(&payload, address("192.0.2.1"), GROUP);
    payload[6..8].copy_from_slice(&sum.to_be_bytes());
    payload
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn rejection(datagram: &[u8]) -> Rejection {
    parse(datagram, |_| true).expect_err("must be refused")
}

/// vrrp.md §1.4, golden vectors; two of them agree with holo's and keepalived's test data, the last pair with ze's.
#[test]
fn golden_vectors_are_emitted_and_parsed() {
    let single = |priority| advert("198.51.100.10", 51, priority, 100, &["192.0.2.100"]);
    let pair = advert("192.0.2.251", 10, 200, 100, &["192.0.2.1", "192.0.2.2"]);
    for (advert, form, message) in [
        (single(200), Checksum::Rfc9568, "3133c80100644402c0000264"),
        (single(200), Checksum::Rfc5798, "3133c80100643935c0000264"),
        (single(0), Checksum::Rfc9568, "3133000100640c03c0000264"),
        (pair.clone(), Checksum::Rfc9568, "310ac8020064828ac0000201c0000202"),
        (pair, Checksum::Rfc5798, "310ac8020064defbc0000201c0000202"),
    ] {
        let bytes = advert.emit(form);
        assert_eq!(hex(&bytes[IPV4_HEADER..]), message);
        let packet = parse(&bytes, |_| true).unwrap();
        assert_eq!(packet.checksum, form, "{message}");
        assert_eq!((packet.vrid, packet.priority), (advert.vrid, advert.priority), "{message}");
        assert!(packet.addresses().eq(advert.addresses.0.iter().copied()), "{message}");
    }
}

#[test]
fn the_ipv4_header_has_ttl_255_class_cs6_and_the_group() {
    let bytes = advert("198.51.100.10", 51, 200, 100, &["192.0.2.100"]).emit(Checksum::Rfc9568);
    assert_eq!(hex(&bytes[..IPV4_HEADER]), "45c0002000000000ff700000c633640ae0000012");
}

#[test]
fn every_reason_to_refuse_is_told_with_its_value() {
    let good = unhex("3133c80100644402c0000264");
    assert!(parse(&datagram(&good), |_| true).is_ok());
    let with = |at: usize, value: u8| {
        let mut payload = good.clone();
        payload[at] = value;
        datagram(&summed(payload))
    };
    let ip = |at: usize, value: u8| {
        let mut bytes = datagram(&good);
        bytes[at] = value;
        bytes
    };
    let mut wrong_sum = good.clone();
    wrong_sum[6] ^= 1;
    let mut longer = good.clone();
    longer.extend([0; 8]);
    for (name, bytes, expected) in [
        ("empty", vec![], Rejection::Truncated { length: 0 }),
        ("half an IP header", ip(0, 0x45)[..10].to_vec(), Rejection::Truncated { length: 10 }),
        ("IHL 4", ip(0, 0x44), Rejection::IpHeader),
        ("IHL 15 beyond the datagram", ip(0, 0x4f), Rejection::Truncated { length: 32 }),
        ("IPv6", ip(0, 0x65), Rejection::IpHeader),
        ("UDP", ip(9, 17), Rejection::IpHeader),
        ("total length beyond the datagram", ip(3, 33), Rejection::Truncated { length: 32 }),
        ("message of 7 bytes", datagram(&good[..7]), Rejection::Truncated { length: 7 }),
        ("version 2", with(0, 0x21), Rejection::Version(2)),
        ("version 4", with(0, 0x41), Rejection::Version(4)),
        ("type 2", with(0, 0x32), Rejection::Type(2)),
        ("VRID 0", with(1, 0), Rejection::UnknownVrid(0)),
        ("count 2, one address", with(3, 2), Rejection::Length { length: 12, expected: 16 }),
        ("trailer of version 2", datagram(&longer), Rejection::Length { length: 20, expected: 12 }),
        ("checksum", datagram(&wrong_sum), Rejection::Checksum),
        ("checksum 0", datagram(&unhex("3133c80100640000c0000264")), Rejection::Checksum),
        ("TTL 64", ip(8, 64), Rejection::Ttl(64)),
        ("unicast", ip(16, 10), Rejection::Destination(address("10.0.0.18"))),
        ("count 0", datagram(&summed(unhex("3133c80000640000"))), Rejection::NoAddresses),
        ("interval 0", with(5, 0), Rejection::ZeroInterval),
    ] {
        assert_eq!(rejection(&bytes), expected, "{name}");
    }
    let unknown = parse(&datagram(&good), |_| false).unwrap_err();
    assert_eq!(unknown, Rejection::UnknownVrid(51));
    assert_eq!(unknown.to_string(), "VRID 51 is not configured on this interface");
}

/// Each pair of neighbouring checks in one packet that fails both: the earlier one is told.
#[test]
fn checks_are_made_in_the_order_of_the_ladder() {
    for (bytes, first) in [
        ("4232c8016064ffff", "version"),
        ("3232c8016064ffff", "type"),
        ("3100c8016064ffff", "unknown_vrid"),
        ("3132c8016064ffff", "length"),
        ("3132c80060640001", "checksum"),
    ] {
        assert_eq!(rejection(&datagram(&unhex(bytes))).label(), first, "{bytes}");
    }
}

#[test]
fn reserved_bits_options_and_padding_are_tolerated() {
    let reserved = datagram(&summed(unhex("3133c801f0640000c0000264")));
    assert_eq!(parse(&reserved, |_| true).unwrap().interval.centiseconds(), 100);

    let mut padded = datagram(&unhex("3133c80100644402c0000264"));
    padded.extend([0; 14]);
    assert!(parse(&padded, |_| true).is_ok());

    let mut options = padded[..32].to_vec();
    options.splice(20..20, [1; 4]);
    (options[0], options[3]) = (0x46, 36);
    assert_eq!(parse(&options, |_| true).unwrap().priority.map(Priority::get), Some(200));
}

#[test]
fn an_advert_of_255_addresses_is_parsed_whole() {
    let addresses: BTreeSet<Ipv4Addr> = (1..=255).map(|n| Ipv4Addr::new(203, 0, 113, n)).collect();
    let mut advert = advert("192.0.2.1", 1, 1, 4095, &[]);
    advert.addresses = AddressList::representing(&addresses, advert.source);
    let bytes = advert.emit(Checksum::Rfc9568);
    assert_eq!(bytes.len(), 1048);
    assert!(parse(&bytes, |_| true).unwrap().addresses().eq(addresses));
}

#[test]
fn a_list_that_does_not_fit_is_represented_by_one_address() {
    let primary = address("192.0.2.1");
    let many: BTreeSet<Ipv4Addr> = (0..256).map(|n| Ipv4Addr::from(0xcb00_7100 + n)).collect();
    assert_eq!(AddressList::representing(&many, primary).as_slice(), [address("203.0.113.0")]);
    assert_eq!(AddressList::representing(&BTreeSet::new(), primary).as_slice(), [primary]);
}

#[test]
fn routers_of_every_kind_are_sighted() {
    // Version 2, golden vector of vrrp.md §1.4.
    let v2 = datagram(&unhex("21331e010001b5c50a0001050000000000000000"));
    assert_eq!(rejection(&v2), Rejection::Version(2));
    let seen = |vrid, version, carp| Some(Sighting { source: address("192.0.2.1"), vrid, version, carp });
    assert_eq!(sighting(&v2), seen(51, 2, false));
    // CARP: version 2, type 1, vhid 7, advskew, authlen 7, 36 bytes (R16).
    let carp = datagram(&summed([vec![0x21, 7, 100, 7, 0, 1], vec![0; 30]].concat()));
    assert_eq!(rejection(&carp), Rejection::Version(2));
    assert_eq!(sighting(&carp), seen(7, 2, true));
    let v3 = datagram(&unhex("3133c80100644402c0000264"));
    assert_eq!(sighting(&v3), seen(51, 3, false));
    let with_trailer = datagram(&unhex("3133c80100644402c00002640102030405060708"));
    assert_eq!(sighting(&with_trailer), seen(51, 3, false));
}

#[test]
fn nothing_is_sighted_in_what_no_router_on_this_link_sent() {
    let mut routed = datagram(&unhex("3133c80100644402c0000264"));
    routed[8] = 64;
    assert_eq!(sighting(&routed), None);
    for garbage in
        ["", "3133c8", "3133c80100644403c0000264", "4133c80100644402c0000264", "3100c80100644402c0000264"]
    {
        assert_eq!(sighting(&datagram(&unhex(garbage))), None, "{garbage}");
    }
}

#[test]
fn every_reason_has_its_own_label() {
    let distinct: BTreeSet<_> = Rejection::LABELS.iter().collect();
    assert_eq!(distinct.len(), Rejection::LABELS.len());
    assert_eq!(Rejection::ZeroInterval.label(), "zero_interval");
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..1200)) {
        let _ = parse(&bytes, |_| true);
        let _ = sighting(&bytes);
    }

    /// Bytes that get past the IPv4 header, so that the rest of the ladder is reached.
    #[test]
    fn any_message_is_parsed_or_refused_without_panic(mut payload in proptest::collection::vec(any::<u8>(), 0..1100)) {
        if let Some(first) = payload.first_mut() {
            *first = 0x31 | (*first & 0x10);
        }
        let _ = parse(&datagram(&payload), |_| true);
        let _ = sighting(&datagram(&payload));
    }

    #[test]
    fn what_is_emitted_is_parsed_the_same(
        (source, vrid, priority, centiseconds) in (any::<u32>(), 1..=255_u8, any::<u8>(), 1..=4095_u16),
        addresses in proptest::collection::btree_set(any::<u32>().prop_map(Ipv4Addr::from), 0..=255),
        rfc5798 in any::<bool>(),
    ) {
        let source = Ipv4Addr::from(source);
        let advert = Advert {
            source,
            vrid: Vrid::new(vrid).unwrap(),
            priority: Priority::new(priority).ok(),
            interval: Interval::from_centiseconds(centiseconds).unwrap(),
            addresses: AddressList::representing(&addresses, source),
        };
        let bytes = advert.emit(if rfc5798 { Checksum::Rfc5798 } else { Checksum::Rfc9568 });
        let packet = parse(&bytes, |known| known == advert.vrid).unwrap();
        prop_assert_eq!(packet.source, advert.source);
        prop_assert_eq!(packet.vrid, advert.vrid);
        prop_assert_eq!(packet.priority, advert.priority);
        prop_assert_eq!(packet.interval, advert.interval);
        prop_assert!(packet.addresses().eq(advert.addresses.as_slice().iter().copied()));
        prop_assert!(sighting(&bytes).is_some());
    }

    /// A single changed bit never yields another valid advert: the checksum catches it or the header check does.
    #[test]
    fn a_flipped_bit_in_the_message_is_noticed(bit in 0..96_usize) {
        let mut payload = unhex("3133c80100644402c0000264");
        payload[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(parse(&datagram(&payload), |_| true).is_err());
    }
}
