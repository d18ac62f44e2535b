//! Claim and query in a frame of either family.

use std::net::IpAddr;

use windlass_vrrp::Family;

use super::frame::{Frame, Mac};
pub(super) use super::message::{Claim, NeighbourPacket, Query};
use super::{arp, ndp};

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
