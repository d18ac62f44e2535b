//! Every check of a message, and that they are made in their order (R1 to R9, R14).

use super::*;

/// A valid advert of `version` from `source`, to be spoilt.
#[derive(Clone)]
struct Specimen {
    path: Path,
    ttl: u8,
    known: bool,
    versions: Versions,
    message: Vec<u8>,
    /// Version 2 ends in authentication data.
    tail: usize,
    /// Bytes behind the message.
    extra: usize,
    /// XORed onto the right checksum.
    damage: u8,
    cut: bool,
}

impl Specimen {
    fn new(version: Version, source: &str) -> Self {
        let advert = advert(source, 51, 200, 100, &[]);
        let message = advert.message(version, Checksum::Rfc9568);
        let (versions, tail) = match version {
            Version::V2 => (Versions::V2, V2_AUTHENTICATION_LENGTH),
            Version::V3 => (Versions::V3, 0),
        };
        Self {
            path: advert.path,
            ttl: TTL,
            known: true,
            versions,
            message,
            tail,
            extra: 0,
            damage: 0,
            cut: false,
        }
    }

    fn all() -> [Self; 3] {
        [
            Self::new(Version::V2, "192.0.2.1"),
            Self::new(Version::V3, "192.0.2.1"),
            Self::new(Version::V3, "fe80::1"),
        ]
    }

    fn is_v2(&self) -> bool {
        self.tail > 0
    }

    fn judge(&self) -> Result<(), Rejection> {
        let pseudo = self.path.family() == Family::V6;
        let mut payload = summed(&self.message, self.message.len(), self.path, pseudo);
        payload[6] ^= self.damage;
        payload.extend(std::iter::repeat_n(0, self.extra));
        payload.truncate(if self.cut { 7 } else { payload.len() });
        let expectation = expecting(self.versions, self.path.family());
        parse(&received(self.path, self.ttl, &payload), |_| self.known.then_some(&expectation)).map(|_| ())
    }
}

type Defect = (&'static str, fn(&mut Specimen));

/// In the order of the checks. Two are called `version`: one that nobody speaks is told before the VRID is looked at.
const DEFECTS: [Defect; 13] = [
    ("truncated", |s| s.cut = true),
    ("version", |s| s.message[0] = 0x40 | s.message[0] & 0x0f),
    ("type", |s| s.message[0] = s.message[0] & 0xf0 | 2),
    ("unknown_vrid", |s| s.message[1] = 0),
    ("unknown_vrid", |s| s.known = false),
    ("version", |s| s.versions = if s.is_v2() { Versions::V3 } else { Versions::V2 }),
    ("length", |s| s.extra = 1),
    ("checksum", |s| s.damage = 1),
    ("ttl", |s| s.ttl = 64),
    ("destination", |s| {
        s.path = match s.path.family() {
            Family::V4 => path("192.0.2.1", "192.0.2.2"),
            Family::V6 => path("fe80::1", "fe80::2"),
        }
    }),
    ("no_addresses", |s| {
        s.message.drain(HEADER_LENGTH..s.message.len() - s.tail);
        s.message[3] = 0;
    }),
    ("authentication_type", |s| s.message[4] = 1),
    ("zero_interval", |s| s.message[5] = 0),
];

/// Defects that a message of this version can have.
fn defects(specimen: &Specimen) -> Vec<Defect> {
    DEFECTS.into_iter().filter(|(label, _)| specimen.is_v2() || *label != "authentication_type").collect()
}

// shows: rfc9568 R1 to R9, R14
#[test]
fn checks_are_made_in_the_order_of_the_ladder() {
    for good in Specimen::all() {
        assert_eq!(good.judge(), Ok(()), "{:?}", good.path);
        let defects = defects(&good);
        for (index, (label, spoil)) in defects.iter().enumerate() {
            let mut bad = good.clone();
            spoil(&mut bad);
            assert_eq!(bad.judge().unwrap_err().label(), *label, "{:?}", good.path);
            for (later, spoil_later) in &defects[index + 1..] {
                let mut worse = good.clone();
                spoil_later(&mut worse);
                spoil(&mut worse);
                let told = worse.judge().unwrap_err().label();
                assert_eq!(told, *label, "{:?}: {label} comes before {later}", good.path);
            }
        }
    }
}

// shows: rfc9568 P2, R3, R4, R8, R9
#[test]
fn every_reason_to_refuse_is_told_with_its_value() {
    let v3 = expecting(Versions::V3, Family::V4);
    let refusal = |payload: &[u8]| parse(&from_neighbour(payload), |_| Some(&v3)).unwrap_err();
    for (name, payload, expected) in [
        ("empty", vec![], Rejection::Truncated { length: 0 }),
        ("7 bytes", unhex("3133c801006444"), Rejection::Truncated { length: 7 }),
        ("version 4", corrected("4133c80100640000c0000264"), Rejection::Version(4)),
        ("type 2", corrected("3233c80100640000c0000264"), Rejection::Type(2)),
        ("VRID 0", corrected("3100c80100640000c0000264"), Rejection::UnknownVrid(0)),
        (
            "count 2, one address",
            corrected("3133c80200640000c0000264"),
            Rejection::Length { length: 12, expected: 16 },
        ),
        (
            "version 3 with the authentication data of version 2",
            corrected("3133c80100640000c00002640000000000000000"),
            Rejection::Length { length: 20, expected: 12 },
        ),
        ("checksum", unhex("3133c80100644403c0000264"), Rejection::Checksum),
        ("checksum 0", unhex("3133c80100640000c0000264"), Rejection::Checksum),
        ("count 0", corrected("3133c80000640000"), Rejection::NoAddresses),
        ("interval 0", corrected("3133c80100000000c0000264"), Rejection::ZeroInterval),
    ] {
        assert_eq!(refusal(&payload), expected, "{name}");
    }
    let unknown = parse(&from_neighbour(&unhex("3133c80100644402c0000264")), |_| None).unwrap_err();
    assert_eq!(unknown, Rejection::UnknownVrid(51));
    assert_eq!(unknown.to_string(), "VRID 51 is not configured on this interface");
}

// shows: rfc9568 R2
#[test]
fn a_router_hears_only_the_versions_it_speaks() {
    for (version, versions, heard) in [
        (Version::V2, Versions::V2, true),
        (Version::V2, Versions::V3, false),
        (Version::V2, Versions::V2AndV3, true),
        (Version::V3, Versions::V2, false),
        (Version::V3, Versions::V3, true),
        (Version::V3, Versions::V2AndV3, true),
    ] {
        let expected = if heard { Ok(()) } else { Err(Rejection::Version(version.number())) };
        let judged = Specimen { versions, ..Specimen::new(version, "192.0.2.1") }.judge();
        assert_eq!(judged, expected, "{version:?} at {versions:?}");
    }
}

// shows: rfc9568 R2
#[test]
fn version_2_has_no_ipv6() {
    let v6 = path("fe80::1", "ff02::12");
    let bytes =
        summed(&unhex("21331e010001000000000000000000000000000000000000000000000000000a"), 32, v6, true);
    let expectation = expecting(Versions::V2AndV3, Family::V6);
    let refused = parse(&received(v6, TTL, &bytes), |_| Some(&expectation)).map(|_| ());
    assert_eq!(refused, Err(Rejection::Version(2)));
}

// shows: rfc9568 R17
/// RFC 3768 §5.3.6: what is not 0 is discarded; a password of RFC 2338 does not help.
#[test]
fn a_version_2_advert_with_a_password_is_refused() {
    let bytes = corrected("21331e01010100000a00010573656372657430aa");
    let expectation = expecting(Versions::V2, Family::V4);
    let refused = parse(&from_neighbour(&bytes), |_| Some(&expectation)).map(|_| ());
    assert_eq!(refused, Err(Rejection::Authentication(1)));
    // Authentication data that means nothing is ignored (RFC 3768 §5.3.10).
    let bytes = corrected("21331e01000100000a00010573656372657430aa");
    assert!(parse(&from_neighbour(&bytes), |_| Some(&expectation)).is_ok());
}

// shows: rfc9568 R7, R14
/// R7 and R14.
#[test]
fn ttl_and_destination_fit_how_the_peers_are_reached() {
    let group = |group: &str| Addressing::Multicast { group: ip(group), unicast: false };
    let either = |group: &str| Addressing::Multicast { group: ip(group), unicast: true };
    let unicast = |ttl| Addressing::Unicast { ttl };
    let (ok, ttl) = (Ok(()), |ttl| Err(Rejection::Ttl(ttl)));
    let destination = |text| Err(Rejection::Destination(ip(text)));
    for (addressing, to, hops, expected) in [
        (group("224.0.0.18"), "224.0.0.18", 255, ok),
        (group("224.0.0.18"), "224.0.0.18", 254, ttl(254)),
        (group("224.0.0.18"), "224.0.0.18", 64, ttl(64)),
        (group("224.0.0.18"), "224.0.0.18", 0, ttl(0)),
        (group("224.0.0.18"), "224.0.0.19", 255, destination("224.0.0.19")),
        (group("224.0.0.18"), "192.0.2.2", 255, destination("192.0.2.2")),
        (group("239.1.2.3"), "239.1.2.3", 255, ok),
        (group("239.1.2.3"), "224.0.0.18", 255, destination("224.0.0.18")),
        (either("224.0.0.18"), "224.0.0.18", 255, ok),
        (either("224.0.0.18"), "192.0.2.2", 255, ok),
        (either("224.0.0.18"), "192.0.2.2", 254, ttl(254)),
        (either("224.0.0.18"), "224.0.0.19", 255, destination("224.0.0.19")),
        (either("224.0.0.18"), "255.255.255.255", 255, destination("255.255.255.255")),
        (either("ff02::12"), "fe80::2", 255, ok),
        (either("ff02::12"), "fe80::2", 64, ttl(64)),
        (unicast(255..=255), "192.0.2.2", 255, ok),
        (unicast(255..=255), "192.0.2.2", 254, ttl(254)),
        (unicast(60..=64), "192.0.2.2", 60, ok),
        (unicast(60..=64), "192.0.2.2", 64, ok),
        (unicast(60..=64), "192.0.2.2", 59, ttl(59)),
        (unicast(60..=64), "192.0.2.2", 255, ttl(255)),
        (unicast(0..=255), "224.0.0.18", 255, destination("224.0.0.18")),
        (unicast(0..=255), "255.255.255.255", 255, destination("255.255.255.255")),
        (group("ff02::12"), "ff02::12", 255, ok),
        (group("ff02::12"), "ff02::12", 64, ttl(64)),
        (group("ff02::12"), "ff02::1", 255, destination("ff02::1")),
        (group("ff02::12"), "fe80::2", 255, destination("fe80::2")),
        (unicast(255..=255), "fe80::2", 255, ok),
        (unicast(0..=255), "ff02::12", 255, destination("ff02::12")),
    ] {
        let source = if ip(to).is_ipv4() { "192.0.2.1" } else { "fe80::1" };
        let advert = Advert { path: path(source, to), ..advert(source, 51, 200, 100, &[]) };
        let bytes = advert.message(Version::V3, Checksum::Rfc9568);
        let expectation =
            ExpectedAdvert { addressing: addressing.clone(), ..expecting(Versions::V3, Family::V4) };
        let judged = parse(&received(advert.path, hops, &bytes), |_| Some(&expectation)).map(|_| ());
        assert_eq!(judged, expected, "{addressing:?}: to {to}, TTL {hops}");
    }
}

// shows: rfc9568 R14
#[test]
fn a_datagram_of_two_families_is_refused() {
    let bytes = unhex("3133c80100644402c0000264");
    let mixed = Datagram { destination: ip("ff02::12"), ..from_neighbour(&bytes) };
    for addressing in [
        Addressing::Multicast { group: ip("ff02::12"), unicast: true },
        Addressing::Unicast { ttl: 255..=255 },
    ] {
        let expectation = ExpectedAdvert { addressing, ..expecting(Versions::V3, Family::V6) };
        let refused = parse(&mixed, |_| Some(&expectation)).map(|_| ());
        assert_eq!(refused, Err(Rejection::Destination(ip("ff02::12"))));
    }
}

// shows: rfc9568 P4, P5, R9, R15
/// R15, and the whole range of R9.
#[test]
fn reserved_bits_are_ignored_and_intervals_are_exact() {
    for (version, bytes, millis) in [
        (Version::V3, "3133c801f0640000c0000264", 1000),
        (Version::V3, "3133c80100010000c0000264", 10),
        (Version::V3, "3133c8010fff0000c0000264", 40_950),
        (Version::V3, "3133c801ffff0000c0000264", 40_950),
        (Version::V2, "21331e01000100000a0001050000000000000000", 1000),
        (Version::V2, "21331e0100ff00000a0001050000000000000000", 255_000),
    ] {
        let expectation = expecting(Versions::V2AndV3, Family::V4);
        let bytes = corrected(bytes);
        let packet = parse(&from_neighbour(&bytes), |_| Some(&expectation)).unwrap();
        assert_eq!((packet.version, packet.interval.millis()), (version, millis));
    }
}

// shows: rfc9568 P5
#[test]
fn an_interval_is_sent_as_far_as_the_version_can_say_it() {
    let sent = |interval, version| {
        let advert = Advert { interval, ..advert("192.0.2.1", 1, 1, 1, &[]) };
        hex(&advert.message(version, Checksum::Rfc9568)[4..6])
    };
    assert_eq!(sent(Interval::MAX, Version::V3), "0fff");
    assert_eq!(sent(Interval::from_seconds(255).unwrap(), Version::V3), "0fff");
    assert_eq!(sent(Interval::from_seconds(255).unwrap(), Version::V2), "00ff");
    assert_eq!(sent(Interval::MAX, Version::V2), "0028");
    // Never 0, with which a receiver would time out at once.
    assert_eq!(sent(Interval::from_millis(400).unwrap(), Version::V2), "0001");
}

// shows: rfc9568 K6, R5
/// R5. The checksum covers the message in IPv4, the trailer as well in IPv6.
#[test]
fn a_trailer_is_taken_where_one_is_expected() {
    for (source, message) in [
        ("192.0.2.1", "3133c80100640000c0000264"),
        ("192.0.2.1", "21331e01000100000a0001050000000000000000"),
        ("fe80::1", "3133c80100640000fe800000000000000000000000000100"),
    ] {
        let path = advert(source, 51, 1, 100, &[]).path;
        let versions = if message.starts_with("21") { Versions::V2 } else { Versions::V3 };
        let without = expecting(versions, path.family());
        let with = ExpectedAdvert { trailer: true, ..without.clone() };
        let message = unhex(message);
        for extra in [0, 1, 8, TRAILER_LENGTH - 1, TRAILER_LENGTH, TRAILER_LENGTH + 1] {
            let bytes = [message.clone(), vec![0xa5; extra]].concat();
            let (covered, pseudo) = match path.family() {
                Family::V4 => (message.len(), false),
                Family::V6 => (bytes.len(), true),
            };
            let bytes = summed(&bytes, covered, path, pseudo);
            let datagram = received(path, TTL, &bytes);
            let parsed = |expectation| {
                parse(&datagram, |_| Some(expectation)).map(|p| (p.message.len(), p.trailer.copied()))
            };
            let refused = Err(Rejection::Length { length: bytes.len(), expected: message.len() });
            let bare = Ok((message.len(), None));
            let signed = Ok((message.len(), Some([0xa5; TRAILER_LENGTH])));
            assert_eq!(parsed(&without), if extra == 0 { bare } else { refused }, "{source} {extra}");
            let expected = match extra {
                0 => bare,
                TRAILER_LENGTH => signed,
                _ => refused,
            };
            assert_eq!(parsed(&with), expected, "{source} {extra}");
        }
    }
}

#[test]
fn every_reason_has_its_own_label() {
    let distinct: std::collections::BTreeSet<_> = Rejection::LABELS.iter().collect();
    assert_eq!(distinct.len(), Rejection::LABELS.len());
    let told: std::collections::BTreeSet<_> = DEFECTS.iter().map(|(label, _)| label).collect();
    // A broken IP header is met before there is a message.
    assert_eq!(told.len() + 1, Rejection::LABELS.len());
}
