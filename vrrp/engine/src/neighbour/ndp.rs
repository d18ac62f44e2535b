//! Neighbour discovery for IPv6 over Ethernet (RFC 4861, RFC 4862) as bytes: solicitations and advertisements.
//!
//! An advertisement has the VIP itself as its source, as one from a host that has it would.
//!
//! The router flag is set, as RFC 9568 §6.4.3 wants it (T1, T17). In a neighbour's cache the flag only says that the sender
//! forwards packets, which a node that serves VIPs by NAT does; it makes nobody a default router (that takes a router
//! advertisement). A clear flag would do harm: a host that has the VIP as its gateway drops a router that says it is none
//! (RFC 4861 §7.2.5).

use std::net::Ipv6Addr;

use windlass_kernel::sockets::group_mac_v6;
use windlass_vrrp::wire::pseudo_header_checksum;

use super::frame::{Frame, Mac};
use super::message::{Claim, NeighbourPacket, Query};

#[cfg(test)]
mod tests;

const ETHERTYPE: u16 = 0x86dd;
const ICMPV6: u8 = 58;
/// Anything lower has passed a router (RFC 4861 §7.1).
const HOP_LIMIT: u8 = 255;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Option types: a link-layer address of the solicitation's source, of the advertisement's target.
const SOURCE_ADDRESS: u8 = 1;
const TARGET_ADDRESS: u8 = 2;
/// Offset of the IPv6 header, of the ICMPv6 message, of the first option.
const IP: usize = 14;
const ICMP: usize = IP + 40;
const OPTIONS: usize = ICMP + 24;

const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// Group in which the holder of `address` is asked (RFC 4291 §2.7.1).
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]))
}

/// Reads a frame, Ethernet header included; `None` if it is no valid solicitation or advertisement (RFC 4861 §7.1.1, §7.1.2).
pub(super) fn parse(frame: &[u8]) -> Option<NeighbourPacket> {
    let header = frame.first_chunk::<ICMP>()?;
    let length = usize::from(u16::from_be_bytes([header[IP + 4], header[IP + 5]]));
    let (source, destination) = (ip(frame, IP + 8)?, ip(frame, IP + 24)?);
    if header[12..14] != ETHERTYPE.to_be_bytes()
        || header[IP] >> 4 != 6
        || header[IP + 6] != ICMPV6
        || header[IP + 7] != HOP_LIMIT
    {
        return None;
    }
    // What follows the IPv6 packet is padding.
    let message = frame.get(ICMP..ICMP.checked_add(length)?)?;
    let target = ip(message, 8)?;
    if message.get(1) != Some(&0) || target.is_multicast() || checksum(source, destination, message) != 0 {
        return None;
    }
    let options = Options::parse(message.get(OPTIONS - ICMP..)?)?;
    let mut from = Mac::default();
    from.copy_from_slice(&header[6..12]);
    match message[0] {
        SOLICITATION => {
            let named = options.source.unwrap_or(from);
            if source.is_unspecified() && (options.source.is_some() || !is_solicited_node(destination)) {
                return None;
            }
            let claim = (!source.is_unspecified()).then_some(Claim { address: source.into(), mac: named });
            let query = Query::Ndp { target, sender: source, sender_mac: named };
            Some(NeighbourPacket { claim, query: (source != target).then_some(query) })
        }
        ADVERTISEMENT => {
            if destination.is_multicast() && message[4] & SOLICITED != 0 {
                return None;
            }
            let mac = options.target.unwrap_or(from);
            Some(NeighbourPacket { claim: Some(Claim { address: target.into(), mac }), query: None })
        }
        _ => None,
    }
}

/// Answer to a solicitation: to its sender, or to all nodes if it was duplicate address detection (RFC 4861 §7.2.4).
pub(super) fn answer(mac: Mac, target: Ipv6Addr, sender: Ipv6Addr, sender_mac: Mac) -> Frame {
    if sender.is_unspecified() {
        announce(target, mac)
    } else {
        advertisement(sender_mac, sender, target, ROUTER | SOLICITED | OVERRIDE, mac)
    }
}

/// An unsolicited advertisement to all nodes (T1; RFC 4861 §7.2.6).
pub(super) fn announce(target: Ipv6Addr, mac: Mac) -> Frame {
    advertisement(group_mac_v6(ALL_NODES), ALL_NODES, target, ROUTER | OVERRIDE, mac)
}

/// Question for another holder of `target`, which claims nothing (RFC 4862 §5.4.2).
pub(super) fn probe(target: Ipv6Addr, mac: Mac) -> Frame {
    let group = solicited_node(target);
    let mut frame = Frame::new(OPTIONS, group_mac_v6(group), mac, ETHERTYPE);
    frame.put(ICMP, &[SOLICITATION]);
    frame.put(ICMP + 8, &target.octets());
    finish(frame, Ipv6Addr::UNSPECIFIED, group)
}

fn advertisement(to: Mac, destination: Ipv6Addr, target: Ipv6Addr, flags: u8, mac: Mac) -> Frame {
    let mut frame = Frame::new(OPTIONS + 8, to, mac, ETHERTYPE);
    frame.put(ICMP, &[ADVERTISEMENT, 0, 0, 0, flags]);
    frame.put(ICMP + 8, &target.octets());
    frame.put(OPTIONS, &[TARGET_ADDRESS, 1]);
    frame.put(OPTIONS + 2, &mac);
    finish(frame, target, destination)
}

/// Writes the IPv6 header and the checksum.
fn finish(mut frame: Frame, source: Ipv6Addr, destination: Ipv6Addr) -> Frame {
    // A frame is shorter than 256 bytes.
    let length = u8::try_from(frame.bytes().len().saturating_sub(ICMP)).unwrap_or(u8::MAX);
    frame.put(IP, &[0x60, 0, 0, 0, 0, length, ICMPV6, HOP_LIMIT]);
    frame.put(IP + 8, &source.octets());
    frame.put(IP + 24, &destination.octets());
    let sum = checksum(source, destination, &frame.bytes()[ICMP..]);
    frame.put(ICMP + 2, &sum.to_be_bytes());
    frame
}

fn ip(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    Some(Ipv6Addr::from(*bytes.get(at..)?.first_chunk::<16>()?))
}

fn is_solicited_node(group: Ipv6Addr) -> bool {
    group == solicited_node(group)
}

/// Computes the checksum over pseudo header and message (RFC 4443 §2.3): what belongs into an empty field; 0 over a message that has
/// the right one.
fn checksum(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> u16 {
    pseudo_header_checksum(source.into(), destination.into(), ICMPV6, message)
}

/// The link-layer addresses in a message's options.
struct Options {
    source: Option<Mac>,
    target: Option<Mac>,
}

impl Options {
    /// `None` if an option has no length or is cut off (RFC 4861 §4.6).
    fn parse(mut rest: &[u8]) -> Option<Self> {
        let mut found = Self { source: None, target: None };
        while let [kind, units, ..] = *rest {
            let length = usize::from(units) * 8;
            let body = rest.get(2..length).filter(|_| length > 0)?;
            match kind {
                SOURCE_ADDRESS => found.source = body.first_chunk::<6>().copied(),
                TARGET_ADDRESS => found.target = body.first_chunk::<6>().copied(),
                _ => {}
            }
            rest = &rest[length..];
        }
        rest.is_empty().then_some(found)
    }
}
