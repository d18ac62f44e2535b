//! Fields of an IP header that matter to VRRP, read and written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{PROTOCOL, Rejection, TOS, checksum};
use crate::units::Family;

/// Length of the IPv4 header that is written.
pub(super) const IPV4_HEADER_LENGTH: usize = 20;
/// Length of an IPv6 header.
pub(super) const IPV6_HEADER_LENGTH: usize = 40;

/// A VRRP message and the fields of its IP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "whoever received it fills it in")]
pub struct Datagram<'a> {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// TTL or hop limit with which it arrived.
    pub ttl: u8,
    /// The VRRP message.
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// From a received IPv4 datagram. Honours options (IHL) and the total length, so that Ethernet padding is not taken for
    /// payload (R1). IPv6 sockets deliver the header's fields beside the message: there is nothing to parse.
    pub fn from_ipv4(datagram: &'a [u8]) -> Result<Self, Rejection> {
        let truncated = Rejection::Truncated { length: datagram.len() };
        let header = datagram.first_chunk::<IPV4_HEADER_LENGTH>().ok_or(truncated)?;
        let &[version, _, l1, l2, _, _, _, _, ttl, protocol, _, _, s1, s2, s3, s4, d1, d2, d3, d4] = header;
        let header_length = usize::from((version & 0x0f) << 2);
        let total_length = usize::from(u16::from_be_bytes([l1, l2]));
        if version >> 4 != 4 || header_length < IPV4_HEADER_LENGTH || protocol != PROTOCOL {
            return Err(Rejection::IpHeader);
        }
        Ok(Self {
            source: IpAddr::from([s1, s2, s3, s4]),
            destination: IpAddr::from([d1, d2, d3, d4]),
            ttl,
            payload: datagram.get(header_length..total_length).ok_or(truncated)?,
        })
    }
}

/// Source and destination of an advert: two addresses of one family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(clippy::exhaustive_enums, reason = "VRRP has two families")]
pub enum Path {
    /// In IPv4.
    V4 {
        /// The sender's primary address.
        source: Ipv4Addr,
        /// A group or a peer.
        destination: Ipv4Addr,
    },
    /// In IPv6.
    V6 {
        /// The sender's link-local address.
        source: Ipv6Addr,
        /// A group or a peer.
        destination: Ipv6Addr,
    },
}

impl Path {
    /// The path between two addresses, if they are of one family.
    pub fn new(source: IpAddr, destination: IpAddr) -> Option<Self> {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Some(Self::V4 { source, destination }),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Some(Self::V6 { source, destination }),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
        }
    }

    /// Its family.
    pub fn family(self) -> Family {
        match self {
            Self::V4 { .. } => Family::V4,
            Self::V6 { .. } => Family::V6,
        }
    }

    /// Its source.
    pub fn source(self) -> IpAddr {
        match self {
            Self::V4 { source, .. } => source.into(),
            Self::V6 { source, .. } => source.into(),
        }
    }

    /// Its destination.
    pub fn destination(self) -> IpAddr {
        match self {
            Self::V4 { destination, .. } => destination.into(),
            Self::V6 { destination, .. } => destination.into(),
        }
    }

    /// Appends the IP header of a message of this length. The identification of IPv4 is 0, which "don't fragment" allows
    /// (RFC 6864 §4.1): an advert never needs fragments.
    pub(super) fn write_header(self, ttl: u8, message_length: usize, into: &mut Vec<u8>) {
        match self {
            Self::V4 { source, destination } => {
                let [high, low] = length_field(message_length.saturating_add(IPV4_HEADER_LENGTH));
                let ([s1, s2, s3, s4], [d1, d2, d3, d4]) = (source.octets(), destination.octets());
                let mut header: [u8; IPV4_HEADER_LENGTH] = [
                    0x45, TOS, high, low, 0, 0, 0x40, 0, ttl, PROTOCOL, 0, 0, s1, s2, s3, s4, d1, d2, d3, d4,
                ];
                [header[10], header[11]] = checksum::internet_checksum(&header).to_be_bytes();
                into.extend(header);
            }
            Self::V6 { source, destination } => {
                let [high, low] = length_field(message_length);
                // Version 6, traffic class as in IPv4, no flow label.
                into.extend([0x60 | TOS >> 4, TOS << 4, 0, 0, high, low, PROTOCOL, ttl]);
                into.extend(source.octets());
                into.extend(destination.octets());
            }
        }
    }
}

/// An advert of 255 addresses is shorter than the field can hold.
fn length_field(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes()
}
