//! What holds for all messages.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::*;

fn v4() -> impl Strategy<Value = IpAddr> {
    any::<u32>().prop_map(|bits| Ipv4Addr::from(bits).into())
}

/// Every other one link-local.
fn v6() -> impl Strategy<Value = IpAddr> {
    (any::<u128>(), any::<bool>()).prop_map(|(bits, link_local)| {
        Ipv6Addr::from(if link_local { 0xfe80 << 112 | bits >> 16 } else { bits }).into()
    })
}

/// Paths to a group and to a peer.
fn paths(family: Family) -> BoxedStrategy<Path> {
    let any_address = || match family {
        Family::V4 => v4().boxed(),
        Family::V6 => v6().boxed(),
    };
    let peer = any_address().prop_filter("is a peer", |address| is_one_host(*address));
    let destination = prop_oneof![Just(default_group(family)), peer];
    (any_address(), destination)
        .prop_map(|(source, destination)| Path::new(source, destination).unwrap())
        .boxed()
}

/// All versions and families, checksums of both forms, 1 to 255 addresses.
fn adverts() -> impl Strategy<Value = (Advert, Version, Checksum)> {
    let forms = prop_oneof![Just(Checksum::Rfc9568), Just(Checksum::Rfc5798)];
    let of = |version, family| {
        let intervals = match version {
            Version::V2 => (1..=255_u8).prop_map(|s| Interval::from_seconds(s).unwrap()).boxed(),
            Version::V3 => (1..=4095_u16).prop_map(|cs| Interval::from_centiseconds(cs).unwrap()).boxed(),
        };
        let addresses = match family {
            Family::V4 => btree_set(v4(), 1..=255).boxed(),
            Family::V6 => btree_set(v6(), 1..=255).boxed(),
        };
        (paths(family), any::<u8>(), 1..=255_u8, any::<u8>(), intervals, addresses).prop_map(
            move |(path, ttl, vrid, priority, interval, addresses)| {
                let advert = Advert {
                    path,
                    ttl: if path.destination().is_multicast() { TTL } else { ttl },
                    vrid: Vrid::new(vrid).unwrap(),
                    priority: Priority::new(priority).ok(),
                    interval,
                    addresses: AddressList::representing(&addresses, path.source(), AddressList::MAX),
                };
                (advert, version)
            },
        )
    };
    let kinds =
        prop_oneof![of(Version::V2, Family::V4), of(Version::V3, Family::V4), of(Version::V3, Family::V6)];
    (kinds, forms).prop_map(|((advert, version), form)| (advert, version, form))
}

/// What a router expects that speaks with the sender of this advert.
fn expectation_of(advert: &Advert) -> ExpectedAdvert {
    let destination = advert.path.destination();
    let addressing = if destination.is_multicast() {
        Addressing::Multicast { group: destination, unicast: false }
    } else {
        Addressing::Unicast { ttl: 0..=255 }
    };
    let versions = match advert.path.family() {
        Family::V4 => Versions::V2AndV3,
        Family::V6 => Versions::V3,
    };
    ExpectedAdvert { versions, addressing, trailer: false }
}

/// What of a datagram reaches the parser: in IPv6 the kernel has taken the header off.
fn arrived<'a>(datagram: &'a [u8], advert: &Advert) -> Datagram<'a> {
    match advert.path.family() {
        Family::V4 => Datagram::from_ipv4(datagram).unwrap(),
        Family::V6 => received(advert.path, datagram[7], &datagram[40..]),
    }
}

/// The advert that a packet is one of.
fn sent_as(packet: &Packet<'_>, path: Path, ttl: u8) -> Advert {
    Advert {
        path,
        ttl,
        vrid: packet.vrid,
        priority: packet.priority,
        interval: packet.interval,
        addresses: AddressList(packet.addresses().collect()),
    }
}

/// Bytes of a message that mean nothing to a receiver made as we send them, its checksum among them.
fn canonical(message: &[u8], version: Version) -> Vec<u8> {
    let mut message = message.to_vec();
    message[6..8].fill(0);
    match version {
        Version::V2 => {
            let data = message.len() - V2_AUTHENTICATION_LENGTH;
            message[data..].fill(0);
        }
        Version::V3 => message[4] &= 0x0f,
    }
    message
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))] // 0.52 ms each

    // shows: rfc9568 P1
    #[test]
    fn what_is_emitted_is_parsed_the_same((advert, version, form) in adverts()) {
        let bytes = advert.datagram(version, form);
        let datagram = arrived(&bytes, &advert);
        prop_assert_eq!((datagram.source, datagram.destination), (advert.path.source(), advert.path.destination()));
        prop_assert_eq!(datagram.ttl, advert.ttl);
        let expectation = expectation_of(&advert);
        let packet = parse(&datagram, |vrid| (vrid == advert.vrid).then_some(&expectation)).unwrap();
        prop_assert_eq!((packet.source, packet.version), (advert.path.source(), version));
        prop_assert_eq!(sent_as(&packet, advert.path, datagram.ttl), advert.clone());
        prop_assert!(packet.lists(&advert.addresses));
        // Where both forms give the same sum, the first is told.
        let same_sum = advert.message(version, Checksum::Rfc9568) == advert.message(version, Checksum::Rfc5798);
        prop_assert!(packet.checksum == form || same_sum);
        let seen = foreign_router(&datagram).map(|s| (s.source, s.vrid, s.version, s.carp));
        let expected = (packet.source, advert.vrid.get(), version.number(), false);
        prop_assert_eq!(seen, advert.path.destination().is_multicast().then_some(expected));
    }

    // shows: rfc9568 R19
    #[test]
    fn any_bytes_are_parsed_or_refused_without_panic(
        bytes in vec(any::<u8>(), 0..1200),
        paths in prop_oneof![paths(Family::V4), paths(Family::V6)],
        trailer in any::<bool>(),
    ) {
        let expectation = ExpectedAdvert { trailer, ..expecting(Versions::V2AndV3, paths.family()) };
        for datagram in [Datagram::from_ipv4(&bytes).ok(), Some(received(paths, TTL, &bytes))].into_iter().flatten() {
            let _ = parse(&datagram, |_| Some(&expectation));
            let _ = foreign_router(&datagram);
        }
    }

    // shows: rfc9568 R19
    /// Damaged on the way or by an attacker who knows the checksum. What is still accepted says what its bytes say.
    #[test]
    fn a_changed_message_is_refused_or_means_what_it_says(
        (advert, version, form) in adverts(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        // The header matters most: one byte of it may be changed too.
        (at, value) in (0..16_usize, any::<u8>()),
        length in prop_oneof![-30..30_isize, Just(isize::try_from(TRAILER_LENGTH).unwrap())],
        (mend, trailer) in (any::<bool>(), any::<bool>()),
    ) {
        let mut bytes = advert.message(version, form);
        for (index, value) in changes {
            *index.get_mut(&mut bytes) = value;
        }
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
        bytes.resize(bytes.len().saturating_add_signed(length), 0xa5);
        if mend && bytes.len() >= HEADER_LENGTH {
            let pseudo = version == Version::V3 && form == Checksum::Rfc5798 || advert.path.family() == Family::V6;
            bytes = summed(&bytes, bytes.len(), advert.path, pseudo);
        }
        let expectation = ExpectedAdvert { trailer, ..expectation_of(&advert) };
        let datagram = received(advert.path, advert.ttl, &bytes);
        let _ = foreign_router(&datagram);
        if let Ok(packet) = parse(&datagram, |_| Some(&expectation)) {
            prop_assert!(trailer || packet.trailer.is_none());
            prop_assert_eq!([packet.message, packet.trailer.map_or(&[][..], |t| &t[..])].concat(), bytes.clone());
            let again = sent_as(&packet, advert.path, advert.ttl).message(packet.version, packet.checksum);
            prop_assert_eq!(canonical(&again, packet.version), canonical(packet.message, packet.version));
        }
    }
}
