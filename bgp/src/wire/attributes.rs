//! Path attributes of an announced route.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::communities::{Communities, Community, ExtendedCommunity, LargeCommunity};
use super::writer::{OPTIONAL, TRANSITIVE, attribute};
use crate::units::{Asn, Family};

const ORIGIN: u8 = 1;
const AS_PATH: u8 = 2;
const NEXT_HOP: u8 = 3;
const MED: u8 = 4;
const LOCAL_PREF: u8 = 5;
const COMMUNITIES: u8 = 8;
const EXTENDED_COMMUNITIES: u8 = 16;
const AS4_PATH: u8 = 17;
const LARGE_COMMUNITIES: u8 = 32;

/// The route comes from the announcing AS itself.
const IGP: u8 = 0;
/// Segment of an AS path in order.
const AS_SEQUENCE: u8 = 2;
/// Repetitions of the own AS that a degraded route has: a path through two tiers of a fabric is shorter.
const DEGRADED_PREPEND: u8 = 5;

/// Attributes that the administrator and the node's health decide.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Attributes {
    /// Times that an external peer sees the own AS more than once. A path has at most 255.
    pub prepend: u8,
    /// LOCAL_PREF, sent to internal peers.
    pub local_preference: u32,
    /// MULTI_EXIT_DISC.
    pub med: Option<u32>,
    /// Communities.
    pub communities: Communities<Community>,
    /// Large communities.
    pub large: Communities<LargeCommunity>,
    /// Extended communities.
    pub extended: Communities<ExtendedCommunity>,
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            prepend: 0,
            local_preference: 100,
            med: None,
            communities: Communities::default(),
            large: Communities::default(),
            extended: Communities::default(),
        }
    }
}

impl Attributes {
    /// The same for a node that serves only if no healthy one does: routers prefer any plain route.
    #[must_use]
    pub fn degraded(&self) -> Self {
        Self {
            prepend: self.prepend.saturating_add(DEGRADED_PREPEND),
            local_preference: 0,
            communities: self.communities.clone().with(Community::GRACEFUL_SHUTDOWN),
            ..self.clone()
        }
    }

    /// The attributes without MP_REACH, ascending by type.
    pub fn encode(&self, peering: &Peering, next_hop: NextHop) -> Vec<u8> {
        let out = &mut Vec::new();
        attribute(out, TRANSITIVE, ORIGIN, &[IGP]);
        let path = self.as_path(peering);
        let asn = peering.local_as;
        if peering.four_octet {
            attribute(out, TRANSITIVE, AS_PATH, &sequence(path, asn.get().to_be_bytes()));
        } else {
            attribute(out, TRANSITIVE, AS_PATH, &sequence(path, asn.in_two_bytes().to_be_bytes()));
        }
        match next_hop {
            NextHop::V4(address) => attribute(out, TRANSITIVE, NEXT_HOP, &address.octets()),
            NextHop::V6(_) => {}
        }
        if let Some(med) = self.med {
            attribute(out, OPTIONAL, MED, &med.to_be_bytes());
        }
        if peering.is_internal {
            attribute(out, TRANSITIVE, LOCAL_PREF, &self.local_preference.to_be_bytes());
        }
        self.communities.encode(out, COMMUNITIES, |community| community.0.to_be_bytes());
        self.extended.encode(out, EXTENDED_COMMUNITIES, |community| community.0.to_be_bytes());
        if !peering.four_octet && path > 0 && asn.get() > u16::MAX.into() {
            let value = sequence(path, asn.get().to_be_bytes());
            attribute(out, OPTIONAL | TRANSITIVE, AS4_PATH, &value);
        }
        self.large.encode(out, LARGE_COMMUNITIES, |community| {
            let mut bytes = [0; 12];
            let words = community.0.iter().flat_map(|word| word.to_be_bytes());
            bytes.iter_mut().zip(words).for_each(|(to, from)| *to = from);
            bytes
        });
        std::mem::take(out)
    }

    /// Number of times that the path has the own AS.
    fn as_path(&self, peering: &Peering) -> u8 {
        if peering.is_internal { 0 } else { self.prepend.saturating_add(1) }
    }
}

/// An AS path of one segment, or the empty path.
fn sequence<const N: usize>(length: u8, asn: [u8; N]) -> Vec<u8> {
    let asns = std::iter::repeat_n(asn, length.into()).flatten();
    let head: &[u8] = if length == 0 { &[] } else { &[AS_SEQUENCE, length] };
    head.iter().copied().chain(asns).collect()
}

/// IPv6 address to which the peer sends packets for a route, and the link-local one if the first is global and the peer is on the link
/// (RFC 2545 §3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextHopV6(pub Ipv6Addr, pub Option<Ipv6Addr>);

impl NextHopV6 {
    /// Appends the address or addresses.
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend(self.0.octets());
        out.extend(self.1.iter().flat_map(Ipv6Addr::octets));
    }
}

/// Address to which the peer sends packets for a route: the node's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextHop {
    /// In the attribute NEXT_HOP, for IPv4 routes.
    V4(Ipv4Addr),
    /// In MP_REACH, for IPv6 routes, and for IPv4 routes after RFC 8950.
    V6(NextHopV6),
}

/// Properties of an established session that decide the form of routes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peering {
    /// The own AS.
    pub local_as: Asn,
    /// True if the peer is in the same AS.
    pub is_internal: bool,
    /// True if the peer reads AS numbers of four bytes.
    pub four_octet: bool,
    /// Next hop of IPv4 routes, if they are sent.
    pub ipv4: Option<NextHop>,
    /// Next hop of IPv6 routes, if they are sent.
    pub ipv6: Option<NextHopV6>,
}

impl Peering {
    /// Next hop of a family; `None` if its routes are not sent.
    pub fn next_hop(&self, family: Family) -> Option<NextHop> {
        match family {
            Family::V4 => self.ipv4,
            Family::V6 => self.ipv6.map(NextHop::V6),
        }
    }
}
