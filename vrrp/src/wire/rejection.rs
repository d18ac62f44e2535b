//! Reasons to refuse a received packet.

use std::net::IpAddr;

/// Reason to refuse a received packet; R-numbers as in `docs/dev/rfc9568.md`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// R1: shorter than its headers announce.
    #[error("{length} bytes, fewer than its headers announce: it was cut on the way")]
    Truncated {
        /// Bytes there were.
        length: usize,
    },
    /// R1: not an IPv4 header of protocol 112, or one shorter than 20 bytes.
    #[error("not an IPv4 datagram of protocol 112 (VRRP)")]
    IpHeader,
    /// R2: a version that the virtual router does not speak.
    #[error(
        "VRRP version {0}, which this virtual router does not speak: let all routers of a VRID speak one version"
    )]
    Version(u8),
    /// R3: not an advert.
    #[error("VRRP type {0}, 1 (advert) expected")]
    Type(u8),
    /// R4: the VRID is not configured on the interface it came in by (or is 0).
    #[error("VRID {0} is not configured on this interface")]
    UnknownVrid(u8),
    /// R5, R16: length and address count disagree, as with a trailer of version 2.
    #[error(
        "{length} bytes, {expected} expected for its version and address count: its sender may use authentication, \
         which is not configured here"
    )]
    Length {
        /// Length of the message.
        length: usize,
        /// Length its address count asks for.
        expected: usize,
    },
    /// R6: the checksum holds neither as in RFC 9568 nor as in RFC 5798.
    #[error("wrong checksum, both over the message alone (RFC 9568) and with a pseudo header (RFC 5798)")]
    Checksum,
    /// R7: it may come from beyond a router.
    #[error("TTL {0}, which this virtual router does not accept: the packet may come from beyond a router")]
    Ttl(u8),
    /// R14: sent to a group or to all where unicast is expected, or to another address than the group.
    #[error("sent to {0}, where this virtual router's adverts do not go")]
    Destination(IpAddr),
    /// R8: lists no address (erratum 8299).
    #[error("lists no address: an advert has 1 to 255")]
    NoAddresses,
    /// R9: an interval of 0 (erratum 8301).
    #[error("advertisement interval 0, 10 ms or more expected")]
    ZeroInterval,
    /// Version 2 with an authentication type, which RFC 3768 abolished.
    #[error("VRRPv2 authentication type {0}, 0 (none) expected: RFC 3768 abolished the others")]
    Authentication(u8),
}

impl Rejection {
    /// Labels of all reasons, in the order of [`Rejection::index`].
    pub const LABELS: [&'static str; 12] = [
        "truncated",
        "ip_header",
        "version",
        "type",
        "unknown_vrid",
        "length",
        "checksum",
        "ttl",
        "destination",
        "no_addresses",
        "zero_interval",
        "authentication_type",
    ];

    /// Position of the reason in [`Rejection::LABELS`], for tables of counters.
    pub fn index(self) -> usize {
        match self {
            Self::Truncated { .. } => 0,
            Self::IpHeader => 1,
            Self::Version(_) => 2,
            Self::Type(_) => 3,
            Self::UnknownVrid(_) => 4,
            Self::Length { .. } => 5,
            Self::Checksum => 6,
            Self::Ttl(_) => 7,
            Self::Destination(_) => 8,
            Self::NoAddresses => 9,
            Self::ZeroInterval => 10,
            Self::Authentication(_) => 11,
        }
    }

    /// Short name of the reason, for metrics.
    pub fn label(self) -> &'static str {
        Self::LABELS.get(self.index()).copied().unwrap_or_default()
    }
}
