//! The Internet checksum (RFC 1071) in the forms that VRRP routers use.

use std::net::IpAddr;

use super::PROTOCOL;

/// Coverage of the checksum of a VRRPv3 advert for IPv4. Version 2 and IPv6 have one form each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[expect(clippy::exhaustive_enums, reason = "two documents, two readings")]
pub enum Checksum {
    /// The message only (RFC 9568 §5.2.8).
    #[default]
    Rfc9568,
    /// The message and a pseudo header (RFC 5798 §5.2.8 as keepalived and FRR read it).
    Rfc5798,
}

/// A message's bytes that the checksum covers, and the pseudo header if it does.
pub(super) struct ChecksumInput<'a> {
    pub(super) message: &'a [u8],
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
}

impl ChecksumInput<'_> {
    /// The checksum of a message whose checksum field is 0.
    pub(super) fn compute(&self, pseudo: bool) -> u16 {
        let Self { message, source, destination } = *self;
        if pseudo {
            pseudo_header_checksum(source, destination, PROTOCOL, message)
        } else {
            internet_checksum(message)
        }
    }

    /// Writes a message's checksum.
    pub(super) fn write(sum: u16, message: &mut [u8]) {
        if let [_, _, _, _, _, _, high, low, ..] = message {
            [*high, *low] = sum.to_be_bytes();
        }
    }

    /// Returns true if a received message's checksum holds (R6).
    pub(super) fn is_valid(&self, pseudo: bool) -> bool {
        self.compute(pseudo) == 0
    }

    /// Either form of version 3 for IPv4, if one holds.
    pub(super) fn form(&self) -> Option<Checksum> {
        if self.is_valid(false) {
            Some(Checksum::Rfc9568)
        } else if self.is_valid(true) {
            Some(Checksum::Rfc5798)
        } else {
            None
        }
    }
}

/// Returns the Internet checksum (RFC 1071) of bytes whose checksum field is 0, or 0 if their checksum holds.
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

/// Returns the same of a message and its pseudo header (RFC 768 for IPv4, RFC 8200 §8.1 for IPv6), whose fields add up alike in both
/// families.
pub fn pseudo_header_checksum(source: IpAddr, destination: IpAddr, protocol: u8, message: &[u8]) -> u16 {
    let length = u64::try_from(message.len()).unwrap_or(u64::MAX) & 0xffff;
    let parts = [sum(message), address(source), address(destination), u64::from(protocol), length];
    !fold(parts.into_iter().sum())
}

fn address(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => sum(&address.octets()),
        IpAddr::V6(address) => sum(&address.octets()),
    }
}

/// Sum of the 16-bit words, a last byte as if a zero followed it; 64 bits cannot overflow.
fn sum(bytes: &[u8]) -> u64 {
    let word = |bytes: &[u8]| match *bytes {
        [high, low] => u64::from(u16::from_be_bytes([high, low])),
        [high] => u64::from(u16::from_be_bytes([high, 0])),
        _ => 0,
    };
    bytes.chunks(2).map(word).sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16).saturating_add(sum & 0xffff);
    }
    u16::try_from(sum).unwrap_or(u16::MAX)
}
