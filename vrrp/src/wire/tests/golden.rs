//! Messages computed by others: some agree with holo's, keepalived's or ze's test data.

use super::*;

struct Golden {
    advert: Advert,
    version: Version,
    checksum: Checksum,
    message: &'static str,
}

fn golden() -> Vec<Golden> {
    let single = |priority| advert("198.51.100.10", 51, priority, 100, &["192.0.2.100"]);
    let pair = || advert("192.0.2.251", 10, 200, 100, &["192.0.2.1", "192.0.2.2"]);
    let v2 = advert("192.0.2.1", 51, 30, 100, &["10.0.1.5"]);
    let v6 = advert("fe80::10", 51, 200, 100, &["2001:db8::100", "fe80::100"]);
    let (rfc9568, rfc5798) = (Checksum::Rfc9568, Checksum::Rfc5798);
    let v6_message = "3133c8020064d9edfe80000000000000000000000000010020010db8000000000000000000000100";
    [
        (v2, Version::V2, rfc9568, "21331e010001b5c50a0001050000000000000000"),
        (single(200), Version::V3, rfc9568, "3133c80100644402c0000264"),
        (single(200), Version::V3, rfc5798, "3133c80100643935c0000264"),
        (single(0), Version::V3, rfc9568, "3133000100640c03c0000264"),
        (pair(), Version::V3, rfc9568, "310ac8020064828ac0000201c0000202"),
        (pair(), Version::V3, rfc5798, "310ac8020064defbc0000201c0000202"),
        (v6, Version::V3, rfc9568, v6_message),
    ]
    .map(|(advert, version, checksum, message)| Golden { advert, version, checksum, message })
    .into()
}

fn speaking(version: Version) -> Versions {
    match version {
        Version::V2 => Versions::V2,
        Version::V3 => Versions::V3,
    }
}

// shows: rfc9568 C6, K2, K3, P1, P7
#[test]
fn golden_vectors_are_emitted_and_parsed() {
    for Golden { advert, version, checksum, message } in golden() {
        assert_eq!(hex(&advert.message(version, checksum)), message);
        let expectation = expecting(speaking(version), advert.path.family());
        let bytes = unhex(message);
        let packet = parse(&received(advert.path, TTL, &bytes), |_| Some(&expectation)).unwrap();
        assert_eq!((packet.version, packet.checksum), (version, checksum), "{message}");
        assert_eq!((packet.vrid, packet.priority), (advert.vrid, advert.priority), "{message}");
        assert_eq!((packet.source, packet.interval), (advert.path.source(), Interval::SECOND), "{message}");
        assert!(packet.addresses().eq(advert.addresses.as_slice().iter().copied()), "{message}");
        assert_eq!((packet.message, packet.trailer), (&*bytes, None), "{message}");
    }
}

// shows: rfc9568 R6
#[test]
fn a_flipped_bit_in_a_message_is_noticed() {
    for Golden { advert, message, .. } in golden() {
        let family = advert.path.family();
        let versions = match family {
            Family::V4 => Versions::V2AndV3,
            Family::V6 => Versions::V3,
        };
        let expectation = expecting(versions, family);
        for bit in 0..message.len() * 4 {
            let mut bytes = unhex(message);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let parsed = parse(&received(advert.path, TTL, &bytes), |_| Some(&expectation));
            assert!(parsed.is_err(), "{message} bit {bit}: {parsed:?}");
        }
    }
}

// shows: rfc9568 K1 to K4, R6
/// R6: both readings of version 3 for IPv4; one form for version 2 and for IPv6.
#[test]
fn only_version_3_for_ipv4_has_two_checksums() {
    let rows = [
        (Version::V2, "192.0.2.1", "21331e010001b5c50a0001050000000000000000", [true, false]),
        (Version::V3, "192.0.2.1", "3133c80100640000c0000264", [true, true]),
        (Version::V3, "fe80::1", "3133c80100640000fe800000000000000000000000000100", [false, true]),
    ];
    for (version, source, message, accepted) in rows {
        let path = advert(source, 51, 1, 100, &[]).path;
        let expectation = expecting(speaking(version), path.family());
        for (pseudo, accepted) in [false, true].into_iter().zip(accepted) {
            let bytes = unhex(message);
            let bytes = summed(&bytes, bytes.len(), path, pseudo);
            let parsed = parse(&received(path, TTL, &bytes), |_| Some(&expectation)).map(|_| ());
            let expected = if accepted { Ok(()) } else { Err(Rejection::Checksum) };
            assert_eq!(parsed, expected, "{version:?} from {source}, pseudo header {pseudo}");
        }
    }
}

/// RFC 1071 §1: an odd last byte is the upper half of a word. A trailer of another make may have one.
#[test]
fn the_checksum_of_an_odd_number_of_bytes_is_padded_behind() {
    let (source, destination) = (ip("192.0.2.1"), ip("224.0.0.18"));
    assert_eq!(ChecksumInput { message: &[1, 2, 3], source, destination }.compute(false), !0x0402);
}

// shows: rfc9568 K3
#[test]
fn the_pseudo_header_binds_the_addresses() {
    let bytes = unhex("3133c80100643935c0000264");
    let expectation = expecting(Versions::V3, Family::V4);
    let refused = parse(&received(path("198.51.100.11", "224.0.0.18"), TTL, &bytes), |_| Some(&expectation))
        .map(|_| ());
    assert_eq!(refused, Err(Rejection::Checksum));
}

// shows: rfc9568 C8
/// RFC 9568 §7.3.
#[test]
fn the_virtual_router_mac_address_names_family_and_vrid() {
    let vrid = Vrid::new(51).unwrap();
    assert_eq!(hex(&vrid.mac(Family::V4)), "00005e000133");
    assert_eq!(hex(&vrid.mac(Family::V6)), "00005e000233");
}
