//! IP headers, written and read.

use super::*;

// shows: rfc9568 C1 to C4, K5
#[test]
fn ip_headers_have_ttl_255_class_cs6_and_a_right_length() {
    let v4 = advert("198.51.100.10", 51, 200, 100, &["192.0.2.100"]);
    let v6 = advert("fe80::10", 51, 200, 100, &["2001:db8::100", "fe80::100"]);
    let v6_header = "6c000000002870fffe800000000000000000000000000010ff020000000000000000000000000012";
    for (advert, header) in [(v4, "45c0002000004000ff70705dc633640ae0000012"), (v6, v6_header)] {
        let datagram = advert.datagram(Version::V3, Checksum::Rfc9568);
        let (found, message) = datagram.split_at(header.len() / 2);
        assert_eq!(hex(found), header);
        assert_eq!(message, advert.message(Version::V3, Checksum::Rfc9568));
    }
}

#[test]
fn a_unicast_advert_carries_its_own_ttl_and_peer() {
    let mut advert = advert("192.0.2.1", 1, 100, 100, &["192.0.2.100"]);
    (advert.path, advert.ttl) = (path("192.0.2.1", "10.9.8.7"), 64);
    let bytes = advert.datagram(Version::V3, Checksum::Rfc5798);
    let datagram = Datagram::from_ipv4(&bytes).unwrap();
    assert_eq!((datagram.destination, datagram.ttl), (ip("10.9.8.7"), 64));
    let expectation = ExpectedAdvert {
        addressing: Addressing::Unicast { ttl: 64..=64 },
        ..expecting(Versions::V3, Family::V4)
    };
    let packet = parse(&datagram, |_| Some(&expectation)).unwrap();
    // The pseudo header is that of the peer, not of the group.
    assert_eq!(packet.checksum, Checksum::Rfc5798);
}

#[test]
fn a_path_has_one_family() {
    assert_eq!(Path::new(ip("192.0.2.1"), ip("ff02::12")), None);
    assert_eq!(Path::new(ip("fe80::1"), ip("224.0.0.18")), None);
}

/// A datagram of an advert with `options` bytes of options and `padding` bytes behind it.
fn with(options: u8, padding: usize) -> Vec<u8> {
    let mut bytes =
        advert("192.0.2.1", 51, 200, 100, &["192.0.2.100"]).datagram(Version::V3, Checksum::Rfc9568);
    bytes[0] += options / 4;
    bytes[3] += options;
    bytes.splice(20..20, std::iter::repeat_n(1, options.into()));
    bytes.extend(std::iter::repeat_n(0xa5, padding));
    bytes
}

// shows: rfc9568 R1
/// IHL 5, 6 and 15.
#[test]
fn options_and_padding_are_not_taken_for_the_message() {
    for options in [0, 4, 40] {
        for padding in [0, 1, 14] {
            let bytes = with(options, padding);
            assert_eq!(bytes[0] & 0x0f, 5 + options / 4);
            let datagram = Datagram::from_ipv4(&bytes).unwrap();
            assert_eq!(hex(datagram.payload), "3133c80100644402c0000264", "{options} {padding}");
            assert_eq!((datagram.source, datagram.destination), (ip("192.0.2.1"), GROUP_V4.into()));
            assert_eq!(datagram.ttl, TTL);
        }
    }
}

// shows: rfc9568 R1
#[test]
fn a_broken_ipv4_header_is_refused() {
    let good = with(0, 0);
    let set = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    let truncated = |length| Rejection::Truncated { length };
    for (name, bytes, expected) in [
        ("empty", vec![], truncated(0)),
        ("half a header", good[..10].to_vec(), truncated(10)),
        ("19 bytes", good[..19].to_vec(), truncated(19)),
        ("IHL 4", set(0, 0x44), Rejection::IpHeader),
        ("IHL 0", set(0, 0x40), Rejection::IpHeader),
        ("IHL 15 beyond the datagram", set(0, 0x4f), truncated(32)),
        ("IPv6", set(0, 0x65), Rejection::IpHeader),
        ("UDP", set(9, 17), Rejection::IpHeader),
        ("total length within the header", set(3, 19), truncated(32)),
        ("total length beyond the datagram", set(3, 33), truncated(32)),
        ("the last byte missing", good[..31].to_vec(), truncated(31)),
    ] {
        assert_eq!(Datagram::from_ipv4(&bytes), Err(expected), "{name}");
    }
    let header_alone = Datagram::from_ipv4(&good[..20]).unwrap_err();
    assert_eq!(header_alone, truncated(20));
}
