//! Frames by which a node tests the path to a server: UDP datagrams with any source address. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use windlass_dataplane::sharing::SharingLink;
use windlass_kernel::sockets::Mac;
use windlass_vrrp::Family;
use windlass_vrrp::wire::{internet_checksum, pseudo_header_checksum};

#[cfg(test)]
mod tests;

/// UDP port of all nodes.
pub(in crate::sharing) const PORT: u16 = 10113;
/// Length of the UDP datagram: its header and what [`Message::write`] adds.
const UDP_LENGTH: u8 = 40;
/// Lengths of the frames, by IPv4 and by IPv6.
pub(in crate::sharing) const FRAMES: [u32; 2] = [74, 94];
/// Beginning of the datagrams' data.
const MAGIC: [u8; 4] = *b"WLPP";
const UDP: u8 = 17;
/// TTL or hop limit. One that arrives was sent on the same LAN.
const HOP_LIMIT: u8 = 255;

/// Returns the source address that stands for those of clients. No host has it (RFC 7600, RFC 6666).
pub(super) const fn stranger(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::new(192, 0, 0, 8)),
        Family::V6 => IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 8)),
    }
}

/// A question to a server, or its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sharing) struct Message {
    /// Link-layer addresses of receiver and sender.
    pub(in crate::sharing) to: Mac,
    pub(in crate::sharing) from: Mac,
    pub(in crate::sharing) source: IpAddr,
    pub(in crate::sharing) destination: IpAddr,
    pub(in crate::sharing) is_answer: bool,
    /// Random number of the question, which an answer repeats.
    pub(in crate::sharing) nonce: u64,
    /// The shared address: source of the answer to a question from [`stranger`].
    pub(in crate::sharing) shared: IpAddr,
}

impl Message {
    /// Returns the questions to a server: from the node's own address, and from the [`stranger`]'s.
    pub(in crate::sharing) fn questions(self) -> [Self; 2] {
        [self, Self { source: stranger(Family::of(self.destination)), ..self }]
    }

    /// Returns the answer to this question, at the node with this interface. `None`: it is no question of a known node about a shared address
    /// to an address of this node.
    pub(in crate::sharing) fn answer(
        &self,
        link: &SharingLink,
        is_shared: impl Fn(&IpAddr) -> bool,
    ) -> Option<Self> {
        let family = Family::of(self.destination);
        let mut peers = link.peers.iter();
        let (asking, _) = peers.find(|(peer, mac)| **mac == self.from && Family::of(**peer) == family)?;
        let is_valid = !self.is_answer && link.own.contains(&self.destination) && is_shared(&self.shared);
        let source = if self.source == stranger(family) { self.shared } else { self.destination };
        is_valid.then_some(Self {
            to: self.from,
            from: self.to,
            source,
            destination: *asking,
            is_answer: true,
            ..*self
        })
    }

    /// Returns the frame; `None`: the addresses are of two families.
    pub(in crate::sharing) fn write(&self) -> Option<Vec<u8>> {
        let port = PORT.to_be_bytes();
        let mut udp = [port, port, [0, UDP_LENGTH], [0, 0]].concat();
        udp.extend(MAGIC);
        udp.extend([u8::from(self.is_answer), 0, 0, 0]);
        udp.extend(self.nonce.to_be_bytes());
        udp.extend(mapped(self.shared).octets());
        let sum = match pseudo_header_checksum(self.source, self.destination, UDP, &udp) {
            0 => u16::MAX,
            sum => sum,
        };
        udp.splice(6..8, sum.to_be_bytes());
        let mut frame = [self.to, self.from].concat();
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                const LENGTH: u8 = UDP_LENGTH + 20;
                let mut header = vec![0x45, 0, 0, LENGTH, 0, 0, 0x40, 0, HOP_LIMIT, UDP, 0, 0];
                header.extend([source.octets(), destination.octets()].concat());
                let sum = internet_checksum(&header);
                header.splice(10..12, sum.to_be_bytes());
                frame.extend([0x08, 0x00]);
                frame.extend(header);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, UDP_LENGTH, UDP, HOP_LIMIT]);
                frame.extend([source.octets(), destination.octets()].concat());
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return None,
        }
        frame.extend(udp);
        Some(frame)
    }

    /// Reads a frame of this family that has passed the filter of the socket.
    pub(in crate::sharing) fn read(family: Family, frame: &[u8]) -> Option<Self> {
        let (to, rest) = frame.split_first_chunk()?;
        let (from, rest) = rest.split_first_chunk()?;
        let (_, rest) = rest.split_first_chunk::<2>()?;
        let (ttl, source, destination, rest) = match family {
            Family::V4 => {
                let (&[.., ttl, _, _, _], rest) = rest.split_first_chunk::<12>()?;
                let (source, rest) = rest.split_first_chunk::<4>()?;
                let (destination, rest) = rest.split_first_chunk::<4>()?;
                (ttl, IpAddr::from(*source), IpAddr::from(*destination), rest)
            }
            Family::V6 => {
                let (&[.., ttl], rest) = rest.split_first_chunk::<8>()?;
                let (source, rest) = rest.split_first_chunk::<16>()?;
                let (destination, rest) = rest.split_first_chunk::<16>()?;
                (ttl, IpAddr::from(*source), IpAddr::from(*destination), rest)
            }
        };
        let (_, rest) = rest.split_first_chunk::<8>()?;
        let (magic, rest) = rest.split_first_chunk::<4>()?;
        let (&[kind, ..], rest) = rest.split_first_chunk::<4>()?;
        let (nonce, rest) = rest.split_first_chunk()?;
        let shared = rest.first_chunk::<16>()?;
        let is_valid = ttl == HOP_LIMIT && *magic == MAGIC && kind <= 1;
        is_valid.then(|| Self {
            to: *to,
            from: *from,
            source,
            destination,
            is_answer: kind == 1,
            nonce: u64::from_be_bytes(*nonce),
            shared: Ipv6Addr::from(*shared).to_canonical(),
        })
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}
