//! ARP for IPv4 over Ethernet (RFC 826) as bytes, and what to do with a packet heard.

use std::net::Ipv4Addr;

use crate::sockets::Mac;

#[cfg(test)]
mod tests;

/// Length of an Ethernet header and an ARP packet.
pub(crate) const FRAME: usize = 42;
const BROADCAST: Mac = [0xff; 6];
const REQUEST: u8 = 1;
const REPLY: u8 = 2;

/// What matters of a request or reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arp {
    pub(crate) request: bool,
    pub(crate) sender_mac: Mac,
    pub(crate) sender: Ipv4Addr,
    pub(crate) target: Ipv4Addr,
}

impl Arp {
    /// Reads a frame, Ethernet header included; `None` if it is no ARP request or reply for IPv4 over Ethernet.
    pub(crate) fn parse(frame: &[u8]) -> Option<Self> {
        let frame = frame.first_chunk::<FRAME>()?;
        // Ethertype ARP; hardware Ethernet, protocol IPv4, lengths 6 and 4, operation's high byte.
        if frame[12..21] != [0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0] || !matches!(frame[21], REQUEST | REPLY) {
            return None;
        }
        let address = |at: usize| Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3]);
        let mut sender_mac = Mac::default();
        sender_mac.copy_from_slice(&frame[22..28]);
        Some(Self { request: frame[21] == REQUEST, sender_mac, sender: address(28), target: address(38) })
    }

    /// What the station with `mac` should do about it, given which addresses it is Active for.
    pub(crate) fn judge(&self, mac: Mac, active_for: impl Fn(Ipv4Addr) -> bool) -> Response {
        if self.sender_mac == mac {
            Response::Nothing
        } else if active_for(self.sender) {
            Response::Conflict(self.sender)
        } else if self.request && self.sender != self.target && active_for(self.target) {
            Response::Reply
        } else {
            Response::Nothing
        }
    }

    /// The reply to this request that says that its target is at `mac`. An RFC 5227 probe (sender 0.0.0.0) is answered
    /// like any other request.
    pub(crate) fn reply(&self, mac: Mac) -> [u8; FRAME] {
        frame(self.sender_mac, REPLY, (mac, self.target), (self.sender_mac, self.sender))
    }
}

/// What a packet calls for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Response {
    Nothing,
    /// It asks for an address we are Active for.
    Reply,
    /// It claims this address, which we are Active for.
    Conflict(Ipv4Addr),
}

/// Gratuitous ARP in both forms, broadcast: some hosts update their cache only from one of them (RFC 5227 §3).
pub(crate) fn gratuitous(address: Ipv4Addr, mac: Mac) -> [[u8; FRAME]; 2] {
    [
        frame(BROADCAST, REQUEST, (mac, address), (Mac::default(), address)),
        frame(BROADCAST, REPLY, (mac, address), (mac, address)),
    ]
}

fn frame(destination: Mac, operation: u8, sender: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[..6].copy_from_slice(&destination);
    frame[6..12].copy_from_slice(&sender.0);
    frame[12..22].copy_from_slice(&[0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, operation]);
    frame[22..28].copy_from_slice(&sender.0);
    frame[28..32].copy_from_slice(&sender.1.octets());
    frame[32..38].copy_from_slice(&target.0);
    frame[38..].copy_from_slice(&target.1.octets());
    frame
}
