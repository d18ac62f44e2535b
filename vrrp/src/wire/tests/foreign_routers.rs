//! Foreign routers: whatever speaks VRRP or CARP on the link takes a VRID.

use super::*;

const V6_MESSAGE: &str = "3133c80100640000fe800000000000000000000000000100";

/// CARP: version 2, type 1, vhid 7, advskew 100, authlen 7, 36 bytes (R16).
fn carp() -> Vec<u8> {
    [vec![0x21, 7, 100, 7, 0, 1, 0, 0], (0..28).collect()].concat()
}

// shows: rfc9568 R16
#[test]
fn a_carp_frame_is_no_advert_but_its_vhid_is_taken() {
    let (v4, v6) = (path("192.0.2.1", "224.0.0.18"), path("fe80::1", "ff02::12"));
    for (path, pseudo) in [(v4, false), (v6, false), (v6, true)] {
        let bytes = summed(&carp(), 36, path, pseudo);
        let datagram = received(path, TTL, &bytes);
        let seen = ForeignRouter { source: path.source(), vrid: 7, version: 2, carp: true };
        assert_eq!(foreign_router(&datagram), Some(seen), "{path:?}");
        for versions in [Versions::V2, Versions::V3, Versions::V2AndV3] {
            for trailer in [false, true] {
                let expectation = ExpectedAdvert { trailer, ..expecting(versions, path.family()) };
                let refused = parse(&datagram, |_| Some(&expectation)).unwrap_err();
                let expected = match (path.family(), versions.accept(Version::V2)) {
                    (Family::V4, true) => Rejection::Length { length: 36, expected: 44 },
                    (Family::V4, false) | (Family::V6, _) => Rejection::Version(2),
                };
                assert_eq!(refused, expected, "{path:?} {versions:?}");
            }
        }
    }
}

/// Adverts that have the length or the count of a CARP frame, but not both and its version.
#[test]
fn an_advert_that_resembles_a_carp_frame_is_not_taken_for_one() {
    for (version, addresses) in [(Version::V2, 5_u8), (Version::V2, 7), (Version::V3, 7)] {
        let mut advert = advert("192.0.2.1", 51, 100, 100, &[]);
        advert.addresses =
            AddressList((1..=addresses).map(|n| Ipv4Addr::new(203, 0, 113, n).into()).collect());
        let bytes = advert.message(version, Checksum::Rfc9568);
        assert!(bytes.len() == 36 || bytes[3] == 7);
        let seen = foreign_router(&from_neighbour(&bytes)).map(|s| (s.vrid, s.version, s.carp));
        assert_eq!(seen, Some((51, version.number(), false)), "{addresses} addresses");
    }
}

// shows: rfc9568 R18
#[test]
fn foreign_routers_of_every_kind_are_recognised() {
    let (v4, v6) = (path("192.0.2.1", "224.0.0.18"), path("fe80::1", "ff02::12"));
    let private = path("192.0.2.1", "239.1.2.3");
    let trailer = "0102030405060708";
    for (path, message, pseudo, version) in [
        (v4, "21331e010001b5c50a0001050000000000000000", false, 2),
        // Version 2 with a password (RFC 2338).
        (v4, "21331e01010100000a00010573656372657430aa", false, 2),
        (v4, "3133c80100640000c0000264", false, 3),
        (v4, "3133c80100640000c0000264", true, 3),
        // FRR resigns with count 0 after its last address was deleted.
        (v4, "3133000000640000", false, 3),
        (v6, V6_MESSAGE, true, 3),
        (private, "3133c80100640000c0000264", false, 3),
    ] {
        let seen = Some(ForeignRouter { source: path.source(), vrid: 51, version, carp: false });
        let bytes = unhex(message);
        let bytes = summed(&bytes, bytes.len(), path, pseudo);
        assert_eq!(foreign_router(&received(path, TTL, &bytes)), seen, "{message}");
        // Authentication: the checksum covers the message in IPv4, all in IPv6.
        let longer = unhex(&format!("{message}{trailer}"));
        let covered = if path.family() == Family::V4 { bytes.len() } else { longer.len() };
        let longer = summed(&longer, covered, path, pseudo);
        assert_eq!(foreign_router(&received(path, TTL, &longer)), seen, "{message} with a trailer");
    }
}

// shows: rfc9568 R18
#[test]
fn nothing_is_recognised_in_what_no_router_on_this_link_sent() {
    let good = unhex("3133c80100644402c0000264");
    assert!(foreign_router(&from_neighbour(&good)).is_some());
    assert_eq!(foreign_router(&received(path("192.0.2.1", "224.0.0.18"), 64, &good)), None, "routed");
    assert_eq!(foreign_router(&received(path("192.0.2.1", "192.0.2.2"), TTL, &good)), None, "unicast");
    for garbage in [
        "",
        "3133c8",
        "3133c801",
        "3133c80100644403c0000264",
        "3133c80100644403c00002640102030405060708",
        "3133c80200644301c0000264",
        "21331e010001b5c50a000105",
        "21331e010001b5c60a0001050000000000000000",
    ] {
        assert_eq!(foreign_router(&from_neighbour(&unhex(garbage))), None, "{garbage}");
    }
    // Right checksums, but version 4, type 2, VRID 0.
    for message in ["4133c80100640000c0000264", "3233c80100640000c0000264", "3100c80100640000c0000264"] {
        assert_eq!(foreign_router(&from_neighbour(&corrected(message))), None, "{message}");
    }
    let v2_in_v6 = path("fe80::1", "ff02::12");
    let bytes = summed(&unhex("21331e010001000000000000000000000000000000000000"), 24, v2_in_v6, true);
    assert_eq!(foreign_router(&received(v2_in_v6, TTL, &bytes)), None, "version 2 in IPv6");
}
