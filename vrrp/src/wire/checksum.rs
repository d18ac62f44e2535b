//! The Internet checksum (RFC 1071) in the two forms that VRRPv3 routers for IPv4 use.

use std::net::Ipv4Addr;

use super::PROTOCOL;

/// What the checksum of a VRRPv3 advert for IPv4 covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "two documents, two readings")]
pub enum Checksum {
    /// The message only (RFC 9568 §5.2.8).
    Rfc9568,
    /// The message and a pseudo header (RFC 5798 §5.2.8 as keepalived and FRR read it).
    Rfc5798,
}

impl Checksum {
    /// The checksum of a message whose checksum field is 0.
    pub fn compute(self, message: &[u8], source: Ipv4Addr, destination: Ipv4Addr) -> u16 {
        let message_sum = sum(message);
        !fold(match self {
            Self::Rfc9568 => message_sum,
            Self::Rfc5798 => message_sum + pseudo_header(message.len(), source, destination),
        })
    }

    /// The form in which a received message's checksum holds, if in one (R6).
    pub fn verify(message: &[u8], source: Ipv4Addr, destination: Ipv4Addr) -> Option<Self> {
        let message_sum = sum(message);
        if fold(message_sum) == 0xffff {
            Some(Self::Rfc9568)
        } else if fold(message_sum + pseudo_header(message.len(), source, destination)) == 0xffff {
            Some(Self::Rfc5798)
        } else {
            None
        }
    }
}

/// Whether a message's checksum holds without pseudo header, as in version 2 and CARP.
pub(super) fn plain(message: &[u8]) -> bool {
    fold(sum(message)) == 0xffff
}

/// Sum of the 16-bit words; a datagram is too short to overflow it.
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(2);
    let last = words.remainder().first().map_or(0, |&byte| u32::from(byte) << 8);
    words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u32>() + last
}

fn pseudo_header(length: usize, source: Ipv4Addr, destination: Ipv4Addr) -> u32 {
    let length = u32::try_from(length).unwrap_or(u32::MAX) & 0xffff;
    sum(&source.octets()) + sum(&destination.octets()) + u32::from(PROTOCOL) + length
}

fn fold(sum: u32) -> u16 {
    let once = (sum >> 16) + (sum & 0xffff);
    let twice = (once >> 16) + (once & 0xffff);
    u16::try_from(twice).unwrap_or(u16::MAX)
}
