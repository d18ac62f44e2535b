//! Contents of a frame of ARP or of neighbour discovery: a claim, a query, or both.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::frame::Mac;

/// Claim and query of a frame; it may have both, as an ARP request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NeighbourPacket {
    pub(super) claim: Option<Claim>,
    pub(super) query: Option<Query>,
}

/// "I have this address."
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Claim {
    pub(super) address: IpAddr,
    /// Link-layer address at which it is claimed to be.
    pub(super) mac: Mac,
}

/// "Who has this address?"
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Query {
    /// ARP request or probe (sender 0.0.0.0).
    Arp { target: Ipv4Addr, sender: Ipv4Addr, sender_mac: Mac },
    /// Neighbour solicitation, or duplicate address detection (sender ::).
    Ndp { target: Ipv6Addr, sender: Ipv6Addr, sender_mac: Mac },
}

impl Query {
    /// The address asked for.
    pub(super) fn target(&self) -> IpAddr {
        match self {
            Self::Arp { target, .. } => (*target).into(),
            Self::Ndp { target, .. } => (*target).into(),
        }
    }

    /// Link-layer address of the sender.
    pub(super) fn sender_mac(&self) -> Mac {
        match self {
            Self::Arp { sender_mac, .. } | Self::Ndp { sender_mac, .. } => *sender_mac,
        }
    }
}
