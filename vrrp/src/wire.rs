//! Adverts as bytes (RFC 9568 §5, RFC 3768 §5), within IPv4 and IPv6.
//!
//! Three views of a packet: [`parse`] returns a [`Packet`] that passed every check or the [`Rejection`] of the first it failed;
//! [`Advert`] is a packet to send ([`AdvertTemplate`] where it is signed); [`foreign_router()`] recognises any VRRP or CARP router,
//! whatever its version, so that its VRID is known to be taken.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+---------------+---------------+---------------+
//! |Version| Type  |     VRID      |   Priority    | Address count |
//! +-------+-------+---------------+---------------+---------------+
//! | Reserved | Advertisement_Interval (cs) |       Checksum       |   version 2: authentication type (8 bits),
//! +------------------------------+--------------------------------+              interval in seconds (8 bits)
//! |                     IPv4 or IPv6 address(es)                  |
//! +---------------------------------------------------------------+
//! |            version 2: authentication data, 8 bytes            |
//! +---------------------------------------------------------------+
//! |     trailer, where authentication is configured (optional)    |
//! ```
//!
//! # Trailer
//! The length of a message follows from its version and address count (R5). A trailer may follow where
//! [`ExpectedAdvert::trailer`] is set; it is handed over in [`Packet::trailer`] unjudged. The checksum does not cover it in
//! IPv4. In IPv6 it does: there kernels compute and check it (RFC 3542 §3.1), and they know only the payload.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use crate::auth::{TRAILER_LENGTH, Trailer};
use crate::units::{Family, Interval, Priority, Version, Versions, Vrid};

mod advert;
mod checksum;
mod foreign_router;
mod ip;
mod rejection;
mod template;
#[cfg(test)]
mod tests;

pub use advert::{AddressList, Advert};
pub use checksum::{Checksum, internet_checksum, pseudo_header_checksum};
pub use foreign_router::{ForeignRouter, foreign_router, listed_addresses};
pub use ip::{Datagram, Path};
pub use rejection::Rejection;
pub use template::AdvertTemplate;

use checksum::ChecksumInput;

/// IP protocol number of VRRP (RFC 9568 §5.1.1.4), and of CARP.
pub const PROTOCOL: u8 = 112;
/// Group that adverts for IPv4 are sent to by default (RFC 9568 §5.1.1.2).
pub const GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
/// Group that adverts for IPv6 are sent to by default (RFC 9568 §5.1.2.2).
pub const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x12);
/// TTL or hop limit of every advert to a group: one from beyond a router cannot have it (RFC 9568 §5.1.1.3, §5.1.2.3).
pub const TTL: u8 = 255;
/// DSCP CS6, network control, as the IPv4 TOS byte or the IPv6 traffic class.
pub const TOS: u8 = 0xc0;

const HEADER_LENGTH: usize = 8;
const TYPE_ADVERT: u8 = 1;
/// Authentication data of version 2.
const V2_AUTHENTICATION_LENGTH: usize = 8;

/// The default group of a family.
pub fn default_group(family: Family) -> IpAddr {
    match family {
        Family::V4 => GROUP_V4.into(),
        Family::V6 => GROUP_V6.into(),
    }
}

/// The addresses of a family, one after the other.
fn addresses(bytes: &[u8], family: Family) -> impl ExactSizeIterator<Item = IpAddr> + Clone + '_ {
    bytes.chunks_exact(family.address_length()).map(|bytes| match (<[u8; 16]>::try_from(bytes), bytes) {
        (Ok(octets), _) => IpAddr::from(octets),
        (Err(_), [a, b, c, d, ..]) => IpAddr::from([*a, *b, *c, *d]),
        (Err(_), _) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    })
}

/// Returns the length of `count` addresses of a family, in bytes.
fn length_of(count: usize, family: Family) -> usize {
    count.saturating_mul(family.address_length())
}

/// Addressing of a virtual router's adverts.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a packet has one peer or a group")]
pub enum Addressing {
    /// Sent to this group; TTL 255.
    Multicast {
        /// The group.
        group: IpAddr,
        /// True if adverts sent to one host are accepted, too.
        unicast: bool,
    },
    /// Sent to each peer by itself; a TTL in this range.
    Unicast {
        /// TTLs accepted. 255 alone keeps out packets from beyond a router.
        ttl: RangeInclusive<u8>,
    },
}

/// Expected form of a virtual router's adverts.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "whoever receives fills it in")]
pub struct ExpectedAdvert {
    /// Versions it speaks.
    pub versions: Versions,
    /// Addressing of its adverts.
    pub addressing: Addressing,
    /// True if an authentication trailer may follow the message. The caller judges it, and its absence.
    pub trailer: bool,
}

/// A valid advert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Packet<'a> {
    /// Source address of the datagram.
    pub source: IpAddr,
    /// Its VRID.
    pub vrid: Vrid,
    /// Its version.
    pub version: Version,
    /// Its priority; `None` is priority 0, "I resign".
    pub priority: Option<Priority>,
    /// Its sender's advertisement interval.
    pub interval: Interval,
    /// True if it was sent to one host.
    pub unicast: bool,
    /// Form of its checksum.
    pub checksum: Checksum,
    /// The message without trailer.
    pub message: &'a [u8],
    /// The trailer behind it; none unless [`ExpectedAdvert::trailer`] allows one.
    pub trailer: Option<&'a Trailer>,
    addresses: &'a [u8],
}

impl Packet<'_> {
    /// The virtual addresses it lists. Informative: a difference to the own list is no error (R12).
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = IpAddr> + Clone + '_ {
        addresses(self.addresses, Family::of(self.source))
    }

    /// Returns true if it lists exactly the addresses of `list`.
    pub fn lists(&self, list: &AddressList) -> bool {
        self.addresses().len() == list.as_slice().len()
            && self.addresses().all(|address| list.contains(address))
    }

    /// Returns true if the list breaks the rule that in IPv6 a link-local address comes first (R10, erratum 8300). Many senders break
    /// it, so it is counted only.
    pub fn lacks_link_local(&self) -> bool {
        match Family::of(self.source) {
            Family::V4 => false,
            Family::V6 => !self.addresses().next().is_some_and(advert::is_link_local),
        }
    }
}

/// Validates a received advert in the order R1 to R9 (RFC 9568 §7.1). `expect` returns the expected form of a VRID's adverts on the
/// interface it came in by, `None` if it is not configured there (R4). Copies and allocates nothing.
pub fn parse<'a, 'e>(
    datagram: &Datagram<'a>,
    expect: impl FnOnce(Vrid) -> Option<&'e ExpectedAdvert>,
) -> Result<Packet<'a>, Rejection> {
    let Datagram { source, destination, ttl: _, payload } = *datagram;
    let Some((&[version_type, vrid, priority, count, fifth, sixth, _, _], rest)) =
        payload.split_first_chunk::<HEADER_LENGTH>()
    else {
        return Err(Rejection::Truncated { length: payload.len() });
    };
    let family = Family::of(source);
    let version = match (version_type >> 4, family) {
        (2, Family::V4) => Version::V2,
        (3, Family::V4 | Family::V6) => Version::V3,
        (other, Family::V4 | Family::V6) => return Err(Rejection::Version(other)),
    };
    if version_type & 0x0f != TYPE_ADVERT {
        return Err(Rejection::Type(version_type & 0x0f));
    }
    let vrid = Vrid::new(vrid).map_err(|_| Rejection::UnknownVrid(0))?;
    let Some(expected) = expect(vrid) else {
        return Err(Rejection::UnknownVrid(vrid.get()));
    };
    if !expected.versions.accept(version) {
        return Err(Rejection::Version(version.number()));
    }
    let listed = length_of(usize::from(count), family);
    let body = match version {
        Version::V2 => listed.saturating_add(V2_AUTHENTICATION_LENGTH),
        Version::V3 => listed,
    };
    let length = HEADER_LENGTH.saturating_add(body);
    let trailer = match rest.len().checked_sub(body) {
        Some(0) => None,
        Some(TRAILER_LENGTH) if expected.trailer => payload.last_chunk(),
        Some(_) | None => return Err(Rejection::Length { length: payload.len(), expected: length }),
    };
    let (Some(message), Some(addresses)) = (payload.get(..length), rest.get(..listed)) else {
        return Err(Rejection::Truncated { length: payload.len() });
    };
    let covers = |message| ChecksumInput { message, source, destination };
    let checksum = match (version, family) {
        (Version::V2, Family::V4 | Family::V6) => {
            covers(message).is_valid(false).then_some(Checksum::Rfc9568)
        }
        (Version::V3, Family::V4) => covers(message).form(),
        (Version::V3, Family::V6) => covers(payload).is_valid(true).then_some(Checksum::Rfc9568),
    };
    let checksum = checksum.ok_or(Rejection::Checksum)?;
    check_addressing(&expected.addressing, datagram)?;
    if count == 0 {
        return Err(Rejection::NoAddresses);
    }
    let interval = match version {
        Version::V2 if fifth != 0 => return Err(Rejection::Authentication(fifth)),
        Version::V2 => Interval::from_seconds(sixth),
        // R15: the upper four bits are reserved and ignored.
        Version::V3 => Interval::from_centiseconds(u16::from_be_bytes([fifth & 0x0f, sixth])),
    };
    Ok(Packet {
        source,
        vrid,
        version,
        priority: Priority::new(priority).ok(),
        interval: interval.map_err(|_| Rejection::ZeroInterval)?,
        unicast: is_one_host(destination),
        checksum,
        message,
        trailer,
        addresses,
    })
}

/// R7 and R14.
fn check_addressing(addressing: &Addressing, datagram: &Datagram<'_>) -> Result<(), Rejection> {
    let Datagram { source, destination, ttl, payload: _ } = *datagram;
    let (ttl_fits, destination_fits) = match addressing {
        Addressing::Multicast { group, unicast } => {
            (ttl == TTL, destination == *group || (*unicast && is_one_host(destination)))
        }
        Addressing::Unicast { ttl: accepted } => (accepted.contains(&ttl), is_one_host(destination)),
    };
    if !ttl_fits {
        return Err(Rejection::Ttl(ttl));
    }
    if !destination_fits || Family::of(source) != Family::of(destination) {
        return Err(Rejection::Destination(destination));
    }
    Ok(())
}

/// Returns true if it is neither a group nor the broadcast address.
fn is_one_host(address: IpAddr) -> bool {
    !address.is_multicast() && address != IpAddr::V4(Ipv4Addr::BROADCAST)
}
