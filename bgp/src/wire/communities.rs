//! Communities: marks of a route that routers' policies read.

use std::collections::BTreeSet;

use super::writer::{OPTIONAL, TRANSITIVE, attribute};
use crate::units::Asn;

/// Community (RFC 1997): a number of 32 bits, read as `a:b`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Community(pub u32);

impl Community {
    /// GRACEFUL_SHUTDOWN (RFC 8326): the route is about to go; prefer others.
    pub const GRACEFUL_SHUTDOWN: Self = Self(0xffff_0000);
    /// NO_EXPORT (RFC 1997).
    pub const NO_EXPORT: Self = Self(0xffff_ff01);
    /// NO_ADVERTISE (RFC 1997).
    pub const NO_ADVERTISE: Self = Self(0xffff_ff02);
    /// NOPEER (RFC 3765).
    pub const NO_PEER: Self = Self(0xffff_ff04);

    /// `high:low`.
    pub fn new(high: u16, low: u16) -> Self {
        Self(u32::from(high) << 16 | u32::from(low))
    }
}

/// Large community (RFC 8092): `a:b:c`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LargeCommunity(pub [u32; 3]);

/// Extended community (RFC 4360): a type and a value of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ExtendedCommunity(pub u64);

impl ExtendedCommunity {
    /// Route target of an AS (RFC 4360 §4): the routing tables that are to have the route. `None`: an AS of four bytes leaves 16 bits for the
    /// number (RFC 5668).
    pub fn route_target(asn: u32, number: u32) -> Option<Self> {
        Self::of_as(2, asn, number)
    }

    /// Site of origin (RFC 4360 §5): the site that is not to get the route back. `None` as for [`Self::route_target`].
    pub fn site_of_origin(asn: u32, number: u32) -> Option<Self> {
        Self::of_as(3, asn, number)
    }

    fn of_as(subtype: u64, asn: u32, number: u32) -> Option<Self> {
        let (kind, value) = match (u16::try_from(asn), u16::try_from(number)) {
            (Ok(asn), _) => (0, u64::from(asn) << 32 | u64::from(number)),
            (Err(_), Ok(number)) => (2, u64::from(asn) << 16 | u64::from(number)),
            (Err(_), Err(_)) => return None,
        };
        Some(Self(kind << 56 | subtype << 48 | value))
    }

    /// Link bandwidth in bytes per second, passed on to other autonomous systems (RFC 10005).
    pub fn link_bandwidth(asn: Asn, bytes_per_second: f32) -> Self {
        let asn = u64::from(asn.in_two_bytes());
        Self(0x0004 << 48 | asn << 32 | u64::from(bytes_per_second.to_bits()))
    }
}

/// Set of at most 64 communities of a kind.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Communities<T>(BTreeSet<T>);

/// More communities than a route may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0} communities of a kind: a route may have at most 64, so that its attributes fit a message")]
pub struct TooManyCommunities(pub usize);

impl<T: Ord> Default for Communities<T> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<T: Ord> Communities<T> {
    /// Most communities of a kind.
    pub const MAX: usize = 64;

    /// The set, refused if it has more than 64.
    pub fn new(communities: impl IntoIterator<Item = T>) -> Result<Self, TooManyCommunities> {
        let set: BTreeSet<T> = communities.into_iter().collect();
        if set.len() > Self::MAX { Err(TooManyCommunities(set.len())) } else { Ok(Self(set)) }
    }

    /// The set with one more, which may be the 65th.
    pub(super) fn with(mut self, community: T) -> Self {
        self.0.insert(community);
        self
    }

    /// Appends the attribute of this type, sorted; nothing for the empty set.
    pub(super) fn encode<const N: usize>(&self, out: &mut Vec<u8>, kind: u8, bytes: impl Fn(&T) -> [u8; N]) {
        if !self.0.is_empty() {
            let value: Vec<u8> = self.0.iter().flat_map(bytes).collect();
            attribute(out, OPTIONAL | TRANSITIVE, kind, &value);
        }
    }
}
