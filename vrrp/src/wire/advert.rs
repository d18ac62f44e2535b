//! Adverts as they are sent.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::checksum::ChecksumInput;
use super::{Checksum, HEADER_LENGTH, Path, TYPE_ADVERT, V2_AUTHENTICATION_LENGTH, ip, length_of};
use crate::auth::{SignedData, TRAILER_LENGTH, Trailer};
use crate::units::{Family, Interval, Priority, Version, Vrid};

/// The addresses an advert lists: 1 to 255 of one family, link-local ones first, each group in ascending order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressList(pub(super) Vec<IpAddr>);

impl AddressList {
    /// Most addresses the count field can hold.
    pub const MAX: usize = 255;

    /// Returns the number of addresses that fit an unfragmented advert on a link of this MTU, of which `trailer` bytes are reserved.
    pub fn capacity(family: Family, version: Version, mtu: usize, trailer: usize) -> usize {
        let ip = match family {
            Family::V4 => ip::IPV4_HEADER_LENGTH,
            Family::V6 => ip::IPV6_HEADER_LENGTH,
        };
        let authentication = match version {
            Version::V2 => V2_AUTHENTICATION_LENGTH,
            Version::V3 => 0,
        };
        let taken = [ip, HEADER_LENGTH, authentication, trailer].into_iter().sum();
        let room = mtu.saturating_sub(taken);
        (room.checked_div(family.address_length()).unwrap_or_default()).clamp(1, Self::MAX)
    }

    /// The list for a router of these addresses, of which those of the family of `primary` count. The list informs and
    /// decides nothing (R12), so more addresses than `capacity` are represented by the first, and none (count 0 is
    /// illegal, erratum 8299) by the sender's own. In IPv6 a link-local address comes first (RFC 9568 §5.2.9, erratum 8300).
    pub fn representing(addresses: &BTreeSet<IpAddr>, primary: IpAddr, capacity: usize) -> Self {
        let family = Family::of(primary);
        let mut list: Vec<IpAddr> = addresses.iter().copied().filter(|a| Family::of(*a) == family).collect();
        list.sort_by_key(|address| rank(*address));
        if list.is_empty() {
            list.push(primary);
        } else if list.len() > capacity.clamp(1, Self::MAX) {
            list.truncate(1);
        }
        Self(list)
    }

    /// The addresses.
    pub fn as_slice(&self) -> &[IpAddr] {
        &self.0
    }

    /// Returns true if it has this address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.binary_search_by_key(&rank(address), |listed| rank(*listed)).is_ok()
    }
}

/// Returns the key by which the list is ordered.
fn rank(address: IpAddr) -> (bool, IpAddr) {
    (!is_link_local(address), address)
}

/// Returns true for an IPv6 link-local address.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// An advert to send.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "whoever sends it fills it in")]
pub struct Advert {
    /// Source and destination.
    pub path: Path,
    /// TTL or hop limit: [`super::TTL`], for unicast peers another if so configured.
    pub ttl: u8,
    /// VRID.
    pub vrid: Vrid,
    /// Priority; `None` is priority 0, "I resign".
    pub priority: Option<Priority>,
    /// The sender's advertisement interval.
    pub interval: Interval,
    /// Addresses to list, of the family of the path.
    pub addresses: AddressList,
}

impl Advert {
    /// The VRRP message. Values that the version cannot carry (see [`crate::units::Versions::check`]) are cut to its limit.
    pub fn message(&self, version: Version, checksum: Checksum) -> Vec<u8> {
        self.signed_message(version, checksum, |_| None)
    }

    /// The VRRP message, followed by the trailer that `sign` gives for it.
    pub fn signed_message(
        &self,
        version: Version,
        checksum: Checksum,
        sign: impl FnOnce(SignedData<'_>) -> Option<Trailer>,
    ) -> Vec<u8> {
        let list = self.addresses.as_slice();
        let family = self.path.family();
        let around = const { HEADER_LENGTH + V2_AUTHENTICATION_LENGTH + TRAILER_LENGTH };
        let mut message = Vec::with_capacity(length_of(list.len(), family).saturating_add(around));
        let count = u8::try_from(list.len()).unwrap_or(u8::MAX);
        let priority = self.priority.map_or(0, Priority::get);
        message.extend([version.number() << 4 | TYPE_ADVERT, self.vrid.get(), priority, count]);
        match version {
            // Authentication type 0: none. Never interval 0, which is illegal.
            Version::V2 => message.extend([0, self.interval.seconds().max(1)]),
            Version::V3 => message.extend(self.interval.min(Interval::MAX).centiseconds().to_be_bytes()),
        }
        message.extend([0, 0]);
        for address in list {
            match address {
                IpAddr::V4(address) => message.extend(address.octets()),
                IpAddr::V6(address) => message.extend(address.octets()),
            }
        }
        let pseudo = match (version, family, checksum) {
            (Version::V2, Family::V4 | Family::V6, Checksum::Rfc9568 | Checksum::Rfc5798) => {
                message.extend([0; V2_AUTHENTICATION_LENGTH]);
                false
            }
            (Version::V3, Family::V4, form) => form == Checksum::Rfc5798,
            (Version::V3, Family::V6, Checksum::Rfc9568 | Checksum::Rfc5798) => true,
        };
        let (source, destination) = (self.path.source(), self.path.destination());
        let trailer = sign(SignedData { source, vrid: self.vrid, message: &message });
        let sum_of = |message: &[u8]| ChecksumInput { message, source, destination }.compute(pseudo);
        let without_trailer = sum_of(&message);
        message.extend(trailer.into_iter().flatten());
        let sum = match family {
            Family::V4 => without_trailer,
            Family::V6 => sum_of(&message),
        };
        ChecksumInput::write(sum, &mut message);
        message
    }

    /// The message behind its IP header, for a socket that takes one.
    pub fn datagram(&self, version: Version, checksum: Checksum) -> Vec<u8> {
        self.signed_datagram(version, checksum, |_| None)
    }

    /// The message and the trailer that `sign` gives for it, behind their IP header.
    pub fn signed_datagram(
        &self,
        version: Version,
        checksum: Checksum,
        sign: impl FnOnce(SignedData<'_>) -> Option<Trailer>,
    ) -> Vec<u8> {
        let message = self.signed_message(version, checksum, sign);
        let mut datagram = Vec::with_capacity(message.len().saturating_add(ip::IPV6_HEADER_LENGTH));
        self.path.write_header(self.ttl, message.len(), &mut datagram);
        datagram.extend(message);
        datagram
    }
}
