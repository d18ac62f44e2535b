//! Any VRRP or CARP router, whatever its version, so that its VRID is known to be taken.

use std::net::IpAddr;

use super::checksum::ChecksumInput;
use super::{Datagram, HEADER_LENGTH, TTL, TYPE_ADVERT, V2_AUTHENTICATION_LENGTH, addresses, length_of};
use crate::units::Family;

/// A CARP header has 7 where VRRP counts addresses (its length without the first 8 bytes, in words) and is always 36 long.
const CARP_LENGTH: usize = 36;

/// A VRRP or CARP router, of whatever version.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct ForeignRouter {
    /// Source address of its packet.
    pub source: IpAddr,
    /// Its VRID (CARP: vhid).
    pub vrid: u8,
    /// Its VRRP version; 2 for CARP.
    pub version: u8,
    /// True if it speaks CARP.
    pub carp: bool,
}

/// Recognises a router from its datagram. Only from this link (TTL 255), sent to a group, and with a checksum that holds.
/// A message may have a trailer of any kind.
pub fn foreign_router(datagram: &Datagram<'_>) -> Option<ForeignRouter> {
    let Datagram { source, destination, ttl, payload } = *datagram;
    let &[version_type, vrid, _, count, ..] = payload else { return None };
    if ttl != TTL || !destination.is_multicast() || version_type & 0x0f != TYPE_ADVERT || vrid == 0 {
        return None;
    }
    let family = Family::of(source);
    let listed = HEADER_LENGTH.saturating_add(length_of(usize::from(count), family));
    let version = version_type >> 4;
    let carp = version == 2 && payload.len() == CARP_LENGTH && count == 7;
    let covers = |message| ChecksumInput { message, source, destination };
    let genuine = match (version, family) {
        (2, Family::V4) if carp => covers(payload).is_valid(false),
        (2, Family::V6) => carp && (covers(payload).is_valid(true) || covers(payload).is_valid(false)),
        (2, Family::V4) => payload
            .get(..listed.saturating_add(V2_AUTHENTICATION_LENGTH))
            .is_some_and(|message| covers(message).is_valid(false)),
        (3, Family::V4) => payload.get(..listed).is_some_and(|message| covers(message).form().is_some()),
        (3, Family::V6) => payload.len() >= listed && covers(payload).is_valid(true),
        (_, Family::V4 | Family::V6) => false,
    };
    genuine.then_some(ForeignRouter { source, vrid, version, carp })
}

/// The virtual addresses that the advert lists of a router that [`foreign_router()`] recognised: none of CARP's, whose adverts have none.
pub fn listed_addresses<'a>(
    datagram: &'a Datagram<'_>,
    router: &ForeignRouter,
) -> impl Iterator<Item = IpAddr> + 'a {
    let family = Family::of(datagram.source);
    let count = datagram.payload.get(3).copied().filter(|_| !router.carp).map_or(0, usize::from);
    let listed = datagram.payload.get(HEADER_LENGTH..).and_then(|rest| rest.get(..length_of(count, family)));
    addresses(listed.unwrap_or_default(), family)
}
