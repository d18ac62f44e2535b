//! Adverts as bytes (RFC 9568 §5), within IPv4.
//!
//! Three views of a packet: [`parse`] gives a [`Packet`] that passed every check or the [`Rejection`] of the first it
//! failed; [`Advert`] is what we send; [`sighting`] recognises any VRRP or CARP router, whatever its version, so that its
//! VRID is known to be taken.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+---------------+---------------+---------------+
//! |Version| Type  |     VRID      |   Priority    | Address count |
//! +-------+-------+---------------+---------------+---------------+
//! | Reserved | Advertisement_Interval (cs) |       Checksum       |
//! +------------------------------+--------------------------------+
//! |                       IPv4 address(es)                        |
//! ```

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use crate::units::{Interval, Priority, Vrid};

mod checksum;
mod rejection;
#[cfg(test)]
mod tests;

pub use checksum::Checksum;
pub use rejection::Rejection;

/// IP protocol number of VRRP (RFC 9568 §5.1.1.4), and of CARP.
pub const PROTOCOL: u8 = 112;
/// Group that adverts are sent to (RFC 9568 §5.1.1.2).
pub const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
/// TTL of every advert: one from beyond a router cannot have it (RFC 9568 §5.1.1.3).
pub const TTL: u8 = 255;
/// DSCP CS6, network control, as the IPv4 TOS byte.
pub const TOS: u8 = 0xc0;
/// Length of the IPv4 header that [`Advert::emit`] writes.
pub const IPV4_HEADER: usize = 20;

const HEADER: usize = 8;
const VERSION: u8 = 3;
const TYPE_ADVERT: u8 = 1;
/// Authentication data of version 2.
const V2_TRAILER: usize = 8;
/// A CARP header says 7 where VRRP counts addresses (its length without the first 8 bytes, in words) and is always 36 long.
const CARP_LENGTH: usize = 36;

/// A valid advert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// Source address of the datagram.
    pub source: Ipv4Addr,
    /// Its VRID.
    pub vrid: Vrid,
    /// Its priority; `None` is priority 0, "I resign".
    pub priority: Option<Priority>,
    /// Its sender's advertisement interval.
    pub interval: Interval,
    /// Form of its checksum.
    pub checksum: Checksum,
    addresses: &'a [u8],
}

impl Packet<'_> {
    /// The virtual addresses it lists. Informative: a difference to the own list is no error (R12).
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = Ipv4Addr> + '_ {
        self.addresses.chunks_exact(4).map(|a| Ipv4Addr::new(a[0], a[1], a[2], a[3]))
    }
}

/// Validates a received datagram, IPv4 header included, in the order R1 to R9 (RFC 9568 §7.1). `known` says whether a
/// VRID is configured on the interface it came in by (R4).
pub fn parse(datagram: &[u8], known: impl FnOnce(Vrid) -> bool) -> Result<Packet<'_>, Rejection> {
    let Ipv4 { source, destination, ttl, payload } = Ipv4::parse(datagram)?;
    let Some((&[version_type, vrid, priority, count, interval_high, interval_low, _, _], addresses)) =
        payload.split_first_chunk::<HEADER>()
    else {
        return Err(Rejection::Truncated { length: payload.len() });
    };
    if version_type >> 4 != VERSION {
        return Err(Rejection::Version(version_type >> 4));
    }
    if version_type & 0x0f != TYPE_ADVERT {
        return Err(Rejection::Type(version_type & 0x0f));
    }
    let vrid = Vrid::new(vrid).map_err(|_| Rejection::UnknownVrid(0))?;
    if !known(vrid) {
        return Err(Rejection::UnknownVrid(vrid.get()));
    }
    if addresses.len() != usize::from(count) * 4 {
        return Err(Rejection::Length { length: payload.len(), expected: HEADER + usize::from(count) * 4 });
    }
    let Some(checksum) = Checksum::verify(payload, source, destination) else {
        return Err(Rejection::Checksum);
    };
    if ttl != TTL {
        return Err(Rejection::Ttl(ttl));
    }
    if destination != GROUP {
        return Err(Rejection::Destination(destination));
    }
    if count == 0 {
        return Err(Rejection::NoAddresses);
    }
    // R15: the upper four bits are reserved and ignored.
    let interval = u16::from_be_bytes([interval_high & 0x0f, interval_low]);
    let interval = Interval::from_centiseconds(interval).map_err(|_| Rejection::ZeroInterval)?;
    Ok(Packet { source, vrid, priority: Priority::new(priority).ok(), interval, checksum, addresses })
}

/// A VRRP or CARP router, of whatever version.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sighting {
    /// Source address of its packet.
    pub source: Ipv4Addr,
    /// Its VRID (CARP: vhid).
    pub vrid: u8,
    /// Its VRRP version; 2 for CARP.
    pub version: u8,
    /// Whether it speaks CARP.
    pub carp: bool,
}

/// Recognises a router from its datagram, IPv4 header included. Only from this link (TTL 255) and with a checksum that
/// holds; version 3 with a trailer (keepalived's authentication) is believed without.
pub fn sighting(datagram: &[u8]) -> Option<Sighting> {
    let Ipv4 { source, destination, ttl, payload } = Ipv4::parse(datagram).ok()?;
    let &[version_type, vrid, _, count, ..] = payload else { return None };
    if ttl != TTL || destination != GROUP || version_type & 0x0f != TYPE_ADVERT || vrid == 0 {
        return None;
    }
    let listed = HEADER + usize::from(count) * 4;
    let version = version_type >> 4;
    let carp = version == 2 && payload.len() == CARP_LENGTH && count == 7;
    let genuine = match version {
        2 => (carp || payload.len() == listed + V2_TRAILER) && checksum::plain(payload),
        3 if payload.len() == listed => Checksum::verify(payload, source, destination).is_some(),
        3 => payload.len() > listed,
        _ => false,
    };
    genuine.then_some(Sighting { source, vrid, version, carp })
}

/// The addresses an advert lists: 1 to 255 of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressList(Vec<Ipv4Addr>);

impl AddressList {
    /// Most addresses the count field can say.
    pub const MAX: usize = 255;

    /// The list for a router of these addresses. The list informs and decides nothing in version 3 (R12), so addresses
    /// that do not fit are represented by the lowest, and none (count 0 is illegal, erratum 8299) by the sender's own.
    pub fn representing(addresses: &BTreeSet<Ipv4Addr>, primary: Ipv4Addr) -> Self {
        match addresses.first() {
            None => Self(vec![primary]),
            Some(&lowest) if addresses.len() > Self::MAX => Self(vec![lowest]),
            Some(_) => Self(addresses.iter().copied().collect()),
        }
    }

    /// The addresses.
    pub fn as_slice(&self) -> &[Ipv4Addr] {
        &self.0
    }
}

/// An advert to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Advert {
    /// Source of the datagram: the sender's primary address.
    pub source: Ipv4Addr,
    /// VRID.
    pub vrid: Vrid,
    /// Priority; `None` is priority 0, "I resign".
    pub priority: Option<Priority>,
    /// The sender's advertisement interval.
    pub interval: Interval,
    /// Addresses to list.
    pub addresses: AddressList,
}

impl Advert {
    /// The datagram, IPv4 header included. Identification and header checksum are 0: the kernel fills them in.
    pub fn emit(&self, checksum: Checksum) -> Vec<u8> {
        let list = self.addresses.as_slice();
        let length = IPV4_HEADER + HEADER + list.len() * 4;
        let mut datagram = Vec::with_capacity(length);
        // At most 1048: cannot be cut.
        let [length_high, length_low] = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
        datagram.extend([0x45, TOS, length_high, length_low, 0, 0, 0, 0, TTL, PROTOCOL, 0, 0]);
        datagram.extend(self.source.octets());
        datagram.extend(GROUP.octets());

        let count = u8::try_from(list.len()).unwrap_or(u8::MAX);
        let priority = self.priority.map_or(0, Priority::get);
        datagram.extend([VERSION << 4 | TYPE_ADVERT, self.vrid.get(), priority, count]);
        datagram.extend(self.interval.centiseconds().to_be_bytes());
        datagram.extend([0, 0]);
        for address in list {
            datagram.extend(address.octets());
        }
        let sum = checksum.compute(&datagram[IPV4_HEADER..], self.source, GROUP);
        datagram[IPV4_HEADER + 6..IPV4_HEADER + 8].copy_from_slice(&sum.to_be_bytes());
        datagram
    }
}

/// What matters of an IPv4 datagram.
struct Ipv4<'a> {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    ttl: u8,
    payload: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// R1: honours options (IHL) and the total length, so that Ethernet padding is not taken for payload.
    fn parse(datagram: &'a [u8]) -> Result<Self, Rejection> {
        let truncated = Rejection::Truncated { length: datagram.len() };
        let header = datagram.first_chunk::<IPV4_HEADER>().ok_or(truncated)?;
        let header_length = usize::from(header[0] & 0x0f) * 4;
        let total_length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header[0] >> 4 != 4 || header_length < IPV4_HEADER || header[9] != PROTOCOL {
            return Err(Rejection::IpHeader);
        }
        if total_length < header_length || total_length > datagram.len() {
            return Err(truncated);
        }
        let address = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        Ok(Self {
            source: address(12),
            destination: address(16),
            ttl: header[8],
            payload: &datagram[header_length..total_length],
        })
    }
}
