//! ARP for IPv4 over Ethernet (RFC 826, RFC 5227) as bytes.

use std::net::Ipv4Addr;

use super::frame::{Frame, Mac};
use super::message::{Claim, NeighbourPacket, Query};

#[cfg(test)]
mod tests;

/// Length of an Ethernet header and an ARP packet.
const LENGTH: usize = 42;
const ETHERTYPE: u16 = 0x0806;
const BROADCAST: Mac = [0xff; 6];
const NOBODY: Mac = [0; 6];
const REQUEST: u8 = 1;
const REPLY: u8 = 2;

/// Reads a frame, Ethernet header included; `None` if it is no ARP request or reply for IPv4 over Ethernet.
pub(super) fn parse(frame: &[u8]) -> Option<NeighbourPacket> {
    let frame = frame.first_chunk::<LENGTH>()?;
    // Ethertype ARP; hardware Ethernet, protocol IPv4, lengths 6 and 4, operation's high byte.
    if frame[12..21] != [0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0] || !matches!(frame[21], REQUEST | REPLY) {
        return None;
    }
    let (mac, rest) = frame[22..].split_first_chunk()?;
    let (sender, rest) = rest.split_first_chunk::<4>()?;
    let (_, target) = rest.split_last_chunk::<4>()?;
    let (mac, sender, target): (Mac, _, _) = (*mac, Ipv4Addr::from(*sender), Ipv4Addr::from(*target));
    // A host that has an address names it in every packet; a probe (RFC 5227 §1.1) has none yet.
    let claim = (!sender.is_unspecified()).then_some(Claim { address: sender.into(), mac });
    let query =
        (frame[21] == REQUEST && sender != target).then_some(Query::Arp { target, sender, sender_mac: mac });
    Some(NeighbourPacket { claim, query })
}

/// Reply that `target` is at `mac`. A probe (sender 0.0.0.0) is answered like any other request.
pub(super) fn reply(mac: Mac, target: Ipv4Addr, sender: Ipv4Addr, sender_mac: Mac) -> Frame {
    frame(sender_mac, REPLY, (mac, target), (sender_mac, sender))
}

/// Gratuitous ARP, broadcast, as a request (RFC 5227 §3: what every host understands).
pub(super) fn announce_as_request(address: Ipv4Addr, mac: Mac) -> Frame {
    frame(BROADCAST, REQUEST, (mac, address), (NOBODY, address))
}

/// Gratuitous ARP, broadcast, as a reply: some hosts update their cache from nothing else.
pub(super) fn announce_as_reply(address: Ipv4Addr, mac: Mac) -> Frame {
    frame(BROADCAST, REPLY, (mac, address), (mac, address))
}

/// Question for another holder of `address`, which claims nothing (RFC 5227 §2.1.1).
pub(super) fn probe(address: Ipv4Addr, mac: Mac) -> Frame {
    frame(BROADCAST, REQUEST, (mac, Ipv4Addr::UNSPECIFIED), (NOBODY, address))
}

fn frame(destination: Mac, operation: u8, sender: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> Frame {
    let mut frame = Frame::new(LENGTH, destination, sender.0, ETHERTYPE);
    frame.put(14, &[0, 1, 0x08, 0, 6, 4, 0, operation]);
    frame.put(22, &sender.0);
    frame.put(28, &sender.1.octets());
    frame.put(32, &target.0);
    frame.put(38, &target.1.octets());
    frame
}
