//! Parsing: the first byte of the input says how the packet is received (see [`Circumstances`]), the second is its TTL,
//! the rest is the packet.

use std::collections::BTreeSet;
use std::net::IpAddr;

use windlass_vrrp::auth::TRAILER_LENGTH;
use windlass_vrrp::units::{Family, Version, Versions};
use windlass_vrrp::wire::{
    self, AddressList, Addressing, Advert, Checksum, Datagram, ExpectedAdvert, Packet, Path, foreign_router,
    parse,
};

use crate::input::Input;

/// A VRID that the receiver does not have.
const UNKNOWN: u8 = 66;

/// Bits of the first byte.
#[derive(Clone, Copy, Debug)]
struct Circumstances(u8);

impl Circumstances {
    /// The checksum is made right, so that what follows it is reached.
    fn right_checksum(self) -> bool {
        self.0 & 0x01 != 0
    }

    /// … in the form of RFC 5798 for IPv4.
    fn pseudo_header(self) -> bool {
        self.0 & 0x02 != 0
    }

    fn unicast(self) -> bool {
        self.0 & 0x04 != 0
    }

    fn trailer_allowed(self) -> bool {
        self.0 & 0x08 != 0
    }

    fn versions(self) -> Versions {
        match self.0 >> 4 & 0x03 {
            0 | 1 => Versions::V3,
            2 => Versions::V2,
            _ => Versions::V2AndV3,
        }
    }

    /// The last 28 bytes are a trailer, which a checksum for IPv4 does not cover.
    fn trailer(self) -> bool {
        self.0 & 0x40 != 0
    }

    /// The packet has an IPv4 header of its own.
    fn raw(self) -> bool {
        self.0 & 0x80 != 0
    }
}

/// One input of `parse_v4`.
pub fn parse_v4(data: &[u8]) {
    let mut input = Input(data);
    let (Some(how), Some(ttl)) = (input.byte().map(Circumstances), input.byte()) else { return };
    if how.raw() {
        if let Ok(datagram) = Datagram::from_ipv4(input.rest()) {
            check(&datagram, how);
        }
        return;
    }
    let source = IpAddr::from([192, 0, 2, 1]);
    let destination = if how.unicast() { IpAddr::from([192, 0, 2, 2]) } else { wire::GROUP_V4.into() };
    receive(source, destination, ttl, input.rest(), how);
}

/// One input of `parse_v6`.
pub fn parse_v6(data: &[u8]) {
    let mut input = Input(data);
    let (Some(how), Some(ttl)) = (input.byte().map(Circumstances), input.byte()) else { return };
    let source = IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 1_u16]);
    let destination =
        if how.unicast() { IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 2_u16]) } else { wire::GROUP_V6.into() };
    receive(source, destination, ttl, input.rest(), how);
}

fn receive(source: IpAddr, destination: IpAddr, ttl: u8, payload: &[u8], how: Circumstances) {
    let mut payload = payload.to_vec();
    if how.right_checksum() && payload.len() >= 8 {
        payload[6..8].fill(0);
        let pseudo = pseudo_header(payload[0] >> 4, source, how.pseudo_header());
        let sum = !sum(covered(&payload, source, how.trailer()), source, destination, pseudo);
        payload[6..8].copy_from_slice(&sum.to_be_bytes());
    }
    check(&Datagram { source, destination, ttl, payload: &payload }, how);
}

fn check(datagram: &Datagram<'_>, how: Circumstances) {
    let addressing = if how.unicast() {
        Addressing::Unicast { ttl: 64..=255 }
    } else {
        Addressing::Multicast { group: wire::default_group(Family::of(datagram.source)), unicast: false }
    };
    let expected = ExpectedAdvert { versions: how.versions(), addressing, trailer: how.trailer_allowed() };
    let seen = foreign_router(datagram);
    if let Some(seen) = seen {
        assert_eq!((seen.source, seen.vrid), (datagram.source, datagram.payload[1]));
        assert!(datagram.ttl == 255 && datagram.destination.is_multicast());
    }
    let mut asked = None;
    let parsed = parse(datagram, |vrid| {
        asked = Some(vrid);
        (vrid.get() != UNKNOWN).then_some(&expected)
    });
    assert_eq!(parsed.is_ok(), acceptable(datagram, &expected), "{parsed:?}");
    let Ok(packet) = parsed else { return };
    assert_eq!(Some(packet.vrid), asked);
    fields_must_be_right(datagram, &packet);
    must_be_emitted_the_same(datagram, &packet);
    if !how.unicast() {
        let (vrid, version) = (packet.vrid.get(), packet.version.number());
        assert_eq!(seen.map(|seen| (seen.vrid, seen.version)), Some((vrid, version)));
    }
}

/// A second reading of RFC 9568 §7.1 and RFC 3768 §7.1, all at once instead of in order.
fn acceptable(datagram: &Datagram<'_>, expected: &ExpectedAdvert) -> bool {
    let &Datagram { source, destination, ttl, payload } = datagram;
    let &[version_type, vrid, _, count, fifth, sixth, _, _, ..] = payload else { return false };
    let version = version_type >> 4;
    let length = length(version, source, count);
    let spoken = match expected.versions {
        Versions::V2 => version == 2,
        Versions::V3 => version == 3,
        Versions::V2AndV3 => version == 2 || version == 3,
    };
    let covered = covered(payload, source, payload.len() > length);
    let summed = |pseudo| sum(covered, source, destination, pseudo) == 0xffff;
    spoken
        && (version == 3 || source.is_ipv4())
        && version_type & 0x0f == 1
        && vrid != 0
        && vrid != UNKNOWN
        && count != 0
        && (payload.len() == length || (expected.trailer && payload.len() == length + TRAILER_LENGTH))
        && (summed(pseudo_header(version, source, false)) || summed(pseudo_header(version, source, true)))
        && match version {
            2 => fifth == 0 && sixth != 0,
            _ => fifth & 0x0f != 0 || sixth != 0,
        }
        && match &expected.addressing {
            Addressing::Multicast { group, unicast: _ } => ttl == 255 && destination == *group,
            Addressing::Unicast { ttl: range } => {
                range.contains(&ttl) && !destination.is_multicast() && destination != IpAddr::from([255; 4])
            }
        }
}

/// Bytes of a message without trailer.
fn length(version: u8, source: IpAddr, count: u8) -> usize {
    let address = if source.is_ipv4() { 4 } else { 16 };
    8 + usize::from(count) * address + if version == 2 { 8 } else { 0 }
}

fn fields_must_be_right(datagram: &Datagram<'_>, packet: &Packet<'_>) {
    let payload = datagram.payload;
    let version = payload[0] >> 4;
    assert_eq!((packet.source, packet.version.number()), (datagram.source, version));
    assert_eq!(payload[1], packet.vrid.get());
    assert_eq!(payload[2], packet.priority.map_or(0, |priority| priority.get()));
    let millis = match packet.version {
        Version::V2 => u32::from(payload[5]) * 1000,
        Version::V3 => u32::from(u16::from_be_bytes([payload[4] & 0x0f, payload[5]])) * 10,
    };
    assert_eq!(millis, packet.interval.millis());
    let length = length(version, datagram.source, payload[3]);
    assert_eq!(packet.message, &payload[..length]);
    assert_eq!(packet.trailer.map_or(&[][..], |trailer| trailer), &payload[length..]);
    let octets: Vec<u8> = packet
        .addresses()
        .flat_map(|address| match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        })
        .collect();
    assert_eq!(octets.len(), packet.addresses().len() * Family::of(datagram.source).address_length());
    assert_eq!(octets, payload[8..8 + octets.len()]);
    assert_eq!(usize::from(payload[3]), packet.addresses().len());
    let pseudo = pseudo_header(version, datagram.source, packet.checksum == Checksum::Rfc5798);
    let covered = covered(payload, datagram.source, payload.len() > length);
    assert_eq!(sum(covered, datagram.source, datagram.destination, pseudo), 0xffff);
}

/// What could be ours is written as it came: only reserved bits, the authentication data of version 2 and the order of the
/// list are free.
fn must_be_emitted_the_same(datagram: &Datagram<'_>, packet: &Packet<'_>) {
    let listed: Vec<_> = packet.addresses().collect();
    let addresses: BTreeSet<_> = listed.iter().copied().collect();
    let list = AddressList::representing(&addresses, packet.source, AddressList::MAX);
    if list.as_slice() != listed {
        return;
    }
    let Some(path) = Path::new(datagram.source, datagram.destination) else {
        panic!("{} to {}", datagram.source, datagram.destination)
    };
    let (vrid, priority, interval) = (packet.vrid, packet.priority, packet.interval);
    let advert = Advert { path, ttl: datagram.ttl, vrid, priority, interval, addresses: list };
    let emitted = advert.signed_message(packet.version, packet.checksum, |subject| {
        assert_eq!(subject.message.len(), packet.message.len());
        packet.trailer.copied()
    });
    let mut received = datagram.payload.to_vec();
    match packet.version {
        Version::V2 => received[packet.message.len() - 8..packet.message.len()].fill(0),
        Version::V3 => received[4] &= 0x0f,
    }
    let unchanged = received == datagram.payload;
    let checksum = |bytes: &[u8]| u16::from_be_bytes([bytes[6], bytes[7]]);
    // 0 and 0xffff are the same number in one's complement.
    if unchanged {
        assert_eq!(checksum(&emitted) % 0xffff, checksum(&received) % 0xffff);
    }
    assert_eq!(emitted[..6], received[..6]);
    assert_eq!(emitted[8..], received[8..]);
    let expected = ExpectedAdvert {
        versions: Versions::V2AndV3,
        addressing: if datagram.destination.is_multicast() {
            Addressing::Multicast { group: datagram.destination, unicast: false }
        } else {
            Addressing::Unicast { ttl: 0..=255 }
        },
        trailer: true,
    };
    let again = parse(&Datagram { payload: &emitted, ..*datagram }, |_| Some(&expected));
    assert_eq!(again.map(|again| again.checksum), Ok(packet.checksum));
}

fn pseudo_header(version: u8, source: IpAddr, rfc5798: bool) -> bool {
    version != 2 && (source.is_ipv6() || rfc5798)
}

fn covered(payload: &[u8], source: IpAddr, trailer: bool) -> &[u8] {
    let message = if trailer && source.is_ipv4() {
        payload.len().saturating_sub(TRAILER_LENGTH).max(8)
    } else {
        payload.len()
    };
    &payload[..message.min(payload.len())]
}

/// Sum of RFC 1071, byte by byte.
fn sum(message: &[u8], source: IpAddr, destination: IpAddr, pseudo: bool) -> u16 {
    let mut bytes = message.to_vec();
    if bytes.len() % 2 == 1 {
        bytes.push(0);
    }
    if pseudo {
        for address in [source, destination] {
            match address {
                IpAddr::V4(address) => bytes.extend(address.octets()),
                IpAddr::V6(address) => bytes.extend(address.octets()),
            }
        }
        bytes.extend([0, 112]);
        bytes.extend(u16::try_from(message.len()).unwrap_or(u16::MAX).to_be_bytes());
    }
    let mut sum = 0_u32;
    for (at, byte) in bytes.into_iter().enumerate() {
        sum += u32::from(byte) << (8 * (1 - at % 2));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or(u16::MAX)
}
