//! Settings of a session, and what both sides make of their offers.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::units::{Asn, Family, HoldTime, RouterId};
use crate::wire::{Capabilities, ErrorCode, NextHop, NextHopV6, Notification, Open, Peering};

/// Shortest time between two KEEPALIVEs (RFC 4271 §4.4).
const SHORTEST_KEEPALIVE: Duration = Duration::from_secs(1);

/// AS that the peer must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpectedAs {
    /// This one.
    Exactly(Asn),
    /// Any but the own one.
    External,
    /// The own one.
    Internal,
}

/// Settings of a session. A change of them needs a new one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The own AS.
    pub local_as: Asn,
    /// The own identifier.
    pub router_id: RouterId,
    /// The peer's AS.
    pub expected_as: ExpectedAs,
    /// Families that are offered, at least one.
    pub families: BTreeSet<Family>,
    /// Hold time that is offered.
    pub hold_time: HoldTime,
    /// Time between two KEEPALIVEs, if it is to be shorter than a third of the negotiated hold time.
    pub keepalive: Option<Duration>,
    /// IPv4 routes get an IPv6 next hop if the peer takes it (RFC 8950).
    pub extended_next_hop: bool,
}

/// The node's addresses for the peer, as the connection determines them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextHops {
    /// Next hop of IPv4 routes.
    pub ipv4: Option<Ipv4Addr>,
    /// Next hop of IPv6 routes, and of IPv4 routes after RFC 8950.
    pub ipv6: Option<NextHopV6>,
}

/// Capabilities that are offered. Old peers refuse what they do not know, so that the next attempt offers less.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Offer {
    #[default]
    Full,
    WithoutExtendedNextHop,
    /// None at all: IPv4 and AS numbers of two bytes.
    Nothing,
}

impl Offer {
    /// The next smaller offer that still serves these settings, or the same.
    pub(super) fn reduced(self, config: &Config) -> Self {
        let needs_none = config.families == Capabilities::none().families
            && config.local_as.get() == u32::from(config.local_as.in_two_bytes());
        match self {
            Self::Full if config.extended_next_hop => Self::WithoutExtendedNextHop,
            Self::Full | Self::WithoutExtendedNextHop if needs_none => Self::Nothing,
            Self::Full | Self::WithoutExtendedNextHop | Self::Nothing => self,
        }
    }

    pub(super) fn open(self, config: &Config) -> Open {
        let capabilities = match self {
            Self::Nothing => Capabilities::none(),
            Self::Full | Self::WithoutExtendedNextHop => Capabilities {
                families: config.families.clone(),
                route_refresh: true,
                extended_next_hop: config.extended_next_hop && self == Self::Full,
                four_octet_as: Some(config.local_as.get()),
            },
        };
        let Config { local_as: asn, router_id, hold_time, .. } = *config;
        Open { asn, hold_time, router_id, capabilities }
    }
}

/// Properties of a session that follow from both offers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Negotiated {
    /// The peer's AS.
    pub peer_as: Asn,
    /// The peer's identifier.
    pub router_id: RouterId,
    /// Families that both sides offer.
    pub families: BTreeSet<Family>,
    /// The smaller of both hold times.
    pub hold_time: HoldTime,
    /// Time between two KEEPALIVEs; `None` if none are sent.
    pub keepalive: Option<Duration>,
    /// True if IPv4 routes may have an IPv6 next hop.
    pub extended_next_hop: bool,
    /// True if both sides read AS numbers of four bytes.
    pub four_octet: bool,
}

impl Negotiated {
    /// Judges the peer's offer (RFC 4271 §6.2). The error is the NOTIFICATION that refuses it.
    pub(super) fn new(config: &Config, own: &Open, peer: &Open) -> Result<Self, Notification> {
        let is_internal = peer.asn == config.local_as;
        let is_expected = match config.expected_as {
            ExpectedAs::Exactly(asn) => peer.asn == asn,
            ExpectedAs::External => !is_internal,
            ExpectedAs::Internal => is_internal,
        };
        if !is_expected {
            return Err(ErrorCode::BAD_PEER_AS.into());
        }
        if is_internal && peer.router_id == config.router_id {
            return Err(ErrorCode::BAD_IDENTIFIER.into());
        }
        let (ours, theirs) = (&own.capabilities, &peer.capabilities);
        let families: BTreeSet<Family> = ours.families.intersection(&theirs.families).copied().collect();
        if families.is_empty() {
            let mut data = Vec::new();
            ours.encode_multiprotocol(&mut data);
            return Err(Notification { error: ErrorCode::UNSUPPORTED_CAPABILITY, data });
        }
        let hold_time = own.hold_time.min(peer.hold_time);
        let third = hold_time.duration().and_then(|hold| hold.checked_div(3));
        let keepalive =
            third.map(|third| config.keepalive.unwrap_or(third).min(third).max(SHORTEST_KEEPALIVE));
        Ok(Self {
            peer_as: peer.asn,
            router_id: peer.router_id,
            families,
            hold_time,
            keepalive,
            extended_next_hop: ours.extended_next_hop && theirs.extended_next_hop,
            four_octet: ours.four_octet_as.is_some() && theirs.four_octet_as.is_some(),
        })
    }

    /// Form of the routes for this peer. A family without next hop is not sent.
    pub(super) fn peering(&self, local_as: Asn, next_hops: NextHops) -> Peering {
        let of = |family| self.families.contains(&family);
        let extended = next_hops.ipv6.filter(|_| self.extended_next_hop).map(NextHop::V6);
        Peering {
            local_as,
            is_internal: self.peer_as == local_as,
            four_octet: self.four_octet,
            ipv4: extended.or(next_hops.ipv4.map(NextHop::V4)).filter(|_| of(Family::V4)),
            ipv6: next_hops.ipv6.filter(|_| of(Family::V6)),
        }
    }
}
