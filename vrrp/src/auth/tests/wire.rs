//! The trailer in adverts on the wire.

use super::*;
use crate::units::{Family, Interval, Priority, Version, Versions};
use crate::wire::{
    AddressList, Addressing, Advert, Checksum, Datagram, ExpectedAdvert, Packet, Path, Rejection,
    foreign_router, parse,
};

fn advert(source: &str, destination: &str, address: &str) -> Advert {
    let [source, destination, address]: [IpAddr; 3] =
        [source, destination, address].map(|a| a.parse().unwrap());
    Advert {
        path: Path::new(source, destination).unwrap(),
        ttl: 255,
        vrid: Vrid::new(51).unwrap(),
        priority: Some(Priority::new(200).unwrap()),
        interval: Interval::SECOND,
        addresses: AddressList::representing(&[address].into(), source, 255),
    }
}

fn received(advert: &Advert, payload: &[u8], trailer: bool) -> Result<Option<Trailer>, Rejection> {
    parsed(advert, payload, trailer, |packet| packet.trailer.copied())
}

fn parsed<T>(
    advert: &Advert,
    payload: &[u8],
    trailer: bool,
    then: impl FnOnce(Packet<'_>) -> T,
) -> Result<T, Rejection> {
    let destination = advert.path.destination();
    let addressing = if destination.is_multicast() {
        Addressing::Multicast { group: destination, unicast: false }
    } else {
        Addressing::Unicast { ttl: 255..=255 }
    };
    let expectation = ExpectedAdvert { versions: Versions::V2AndV3, addressing, trailer };
    let datagram = Datagram { source: advert.path.source(), destination, ttl: 255, payload };
    parse(&datagram, |_| Some(&expectation)).map(then)
}

/// The draft's images whole, checksum included: that of IPv6 covers the trailer, that of IPv4 does not.
#[test]
fn whole_images_of_the_draft_are_made_and_parsed() {
    let ipv4 = advert("198.51.100.10", "224.0.0.18", "192.0.2.100");
    let ipv6 = advert("fe80::10", "fe80::20", "fe80::100");
    for (advert, (_, message, trailer)) in [(ipv4, IPV4), (ipv6, IPV6)] {
        let image = unhex(&[message, trailer].concat());
        let mut signer = Signer::default();
        let now = at_millis(THEN * 1000 + 500);
        let made = advert.signed_message(Version::V3, Checksum::Rfc9568, |subject| {
            Some(signer.sign(&ring(), window(5), subject, now))
        });
        assert_eq!(made, image);
        let trailer: Trailer = unhex(trailer).try_into().unwrap();
        assert_eq!(received(&advert, &image, true), Ok(Some(trailer)));
        let accepted = parsed(&advert, &image, true, |packet| {
            let subject = SignedData { source: packet.source, vrid: packet.vrid, message: packet.message };
            Verifier::default().verify(&ring(), window(5), subject, packet.trailer.unwrap(), at(THEN)).is_ok()
        });
        assert_eq!(accepted, Ok(true));
    }
}

/// Sent by keepalived 2.4.3 with the key of the draft's images: the draft has no image of version 2, nor of a checksum with
/// a pseudo header.
#[test]
fn images_of_keepalived_are_accepted() {
    let version_2 =
        "213364010001b865c00002640000000000000000010100006b01b897560200001ffc6ff658a36116670bc6ec399720da";
    let version_3 = "3133640100640572c0000264010100006b01b847001100007a501cf018b9c7d76188eda64dd24777";
    let advert = advert("192.0.2.1", "224.0.0.18", "192.0.2.100");
    for (image, version, checksum, seconds) in [
        (version_2, Version::V2, Checksum::Rfc9568, 0x6b01_b897),
        (version_3, Version::V3, Checksum::Rfc5798, 0x6b01_b847),
    ] {
        let accepted = parsed(&advert, &unhex(image), true, |packet| {
            let subject = SignedData { source: packet.source, vrid: packet.vrid, message: packet.message };
            let trailer = packet.trailer.unwrap();
            let verified = Verifier::default().verify(&ring(), window(5), subject, trailer, at(seconds));
            (packet.version, packet.checksum, verified.map(|verified| verified.skew))
        });
        assert_eq!(accepted, Ok((version, checksum, Ok(0))));
    }
}

/// R5: a trailer passes only where authentication is configured, and only whole.
#[test]
fn a_trailer_of_another_length_or_where_none_is_expected_is_refused() {
    for (advert, message) in [
        (advert("198.51.100.10", "224.0.0.18", "192.0.2.100"), 12),
        (advert("fe80::10", "ff02::12", "fe80::100"), 24),
    ] {
        let with = |length: usize| {
            let mut payload = advert.message(Version::V3, Checksum::Rfc9568);
            payload.extend(vec![0; length]);
            // Zeros change the sum of IPv6 by their number alone.
            if Family::of(advert.path.source()) == Family::V6 {
                let sum = u16::from_be_bytes([payload[6], payload[7]]) - u16::try_from(length).unwrap();
                payload[6..8].copy_from_slice(&sum.to_be_bytes());
            }
            payload
        };
        assert_eq!(received(&advert, &with(0), true), Ok(None));
        assert_eq!(received(&advert, &with(0), false), Ok(None));
        assert_eq!(received(&advert, &with(28), true), Ok(Some([0; 28])));
        for (length, trailer) in [(28, false), (1, true), (8, true), (27, true), (29, true), (56, true)] {
            let expected = Rejection::Length { length: message + length, expected: message };
            assert_eq!(received(&advert, &with(length), trailer), Err(expected), "{length} {trailer}");
        }
    }
}

#[test]
fn version_2_is_signed_behind_its_authentication_data() {
    let advert = advert("198.51.100.10", "224.0.0.18", "192.0.2.100");
    let mut signer = Signer::default();
    let payload = advert.signed_message(Version::V2, Checksum::Rfc9568, |subject| {
        assert_eq!(subject.message.len(), 20);
        Some(signer.sign(&ring(), window(5), subject, at(THEN)))
    });
    assert_eq!(payload.len(), 48);
    let accepted = parsed(&advert, &payload, true, |packet| {
        let subject = SignedData { source: packet.source, vrid: packet.vrid, message: packet.message };
        Verifier::default().verify(&ring(), window(5), subject, packet.trailer.unwrap(), at(THEN)).is_ok()
    });
    assert_eq!(accepted, Ok(true));
}

#[test]
fn a_router_that_signs_is_recognised() {
    for (advert, altered) in [
        (advert("198.51.100.10", "224.0.0.18", "192.0.2.100"), 11),
        (advert("fe80::10", "ff02::12", "fe80::100"), 23),
    ] {
        let mut payload = advert.signed_message(Version::V3, Checksum::Rfc5798, |_| Some([7; 28]));
        let seen = |payload: &[u8]| {
            let (source, destination) = (advert.path.source(), advert.path.destination());
            foreign_router(&Datagram { source, destination, ttl: 255, payload }).map(|seen| seen.vrid)
        };
        assert_eq!(seen(&payload), Some(51));
        payload[altered] ^= 1;
        assert_eq!(seen(&payload), None);
    }
}
