//! Claim and query in a frame of either family.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use windlass_vrrp::Family;

use super::frame::{Frame, Mac};
use super::{arp, ndp};

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

impl NeighbourPacket {
    /// Reads a frame, Ethernet header included; `None` if it is neither ARP nor neighbour discovery, or not valid.
    pub(super) fn parse(frame: &[u8]) -> Option<Self> {
        match frame.get(12..14)? {
            [0x08, 0x06] => arp::parse(frame),
            [0x86, 0xdd] => ndp::parse(frame),
            _ => None,
        }
    }
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

    /// Builds the answer: the address is at `mac`.
    pub(super) fn answer(&self, mac: Mac) -> Frame {
        match *self {
            Self::Arp { target, sender, sender_mac } => arp::reply(mac, target, sender, sender_mac),
            Self::Ndp { target, sender, sender_mac } => ndp::answer(mac, target, sender, sender_mac),
        }
    }
}

/// Forms in which an address of this family is announced.
pub(super) fn forms(family: Family) -> usize {
    match family {
        Family::V4 => 2,
        Family::V6 => 1,
    }
}

/// The announcement of `address` at `mac`, in one of its [`forms`].
pub(super) fn announcement(address: IpAddr, form: usize, mac: Mac) -> Frame {
    match (address, form) {
        (IpAddr::V4(address), 0) => arp::announce_as_request(address, mac),
        (IpAddr::V4(address), _) => arp::announce_as_reply(address, mac),
        (IpAddr::V6(address), _) => ndp::announce(address, mac),
    }
}

/// Builds the question for another holder of `address`, which claims nothing.
pub(super) fn probe(address: IpAddr, mac: Mac) -> Frame {
    match address {
        IpAddr::V4(address) => arp::probe(address, mac),
        IpAddr::V6(address) => ndp::probe(address, mac),
    }
}
