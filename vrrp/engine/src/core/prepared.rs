//! Adverts built before they are due.

use std::collections::BTreeSet;
use std::io;

use socket2::SockAddr;
use windlass_vrrp::auth::TRAILER_LENGTH;
use windlass_vrrp::wire::{self, AddressList, Advert, AdvertTemplate, Path};
use windlass_vrrp::{Family, Priority, Vrid};

use crate::config::{Hold, RouterConfig, Transport};
use crate::sockets::{LinkSockets, Mac, group_mac};

use super::peer_authentication::PeerAuthentication;

/// Everything that a router sends: nothing is built when an advert is due, at most it is signed.
#[derive(Default)]
pub(super) struct PreparedAdverts {
    adverts: Vec<PreparedPacket>,
    resignations: Vec<PreparedPacket>,
}

/// A packet and how it leaves.
struct PreparedPacket {
    content: PacketContent,
    via: Via,
}

enum PacketContent {
    /// The same each time.
    Whole(Vec<u8>),
    /// To be signed each time.
    Signed(AdvertTemplate),
}

enum Via {
    /// By the raw socket of the family.
    Packet(SockAddr),
    /// As a frame from the virtual router MAC address (RFC 9568 §7.2, T19).
    Frame,
}

/// Packets sent and refused.
#[derive(Default)]
pub(super) struct SendOutcome {
    pub(super) packets: u64,
    pub(super) errors: u64,
    /// Why the last one was refused.
    pub(super) refusal: Option<io::Error>,
}

impl PreparedAdverts {
    /// What this router sends by these sockets: for each version, to the group or to each peer.
    pub(super) fn new(config: &RouterConfig, sockets: &LinkSockets) -> Self {
        Self {
            adverts: packets(config, Some(config.priority), sockets),
            resignations: packets(config, None, sockets),
        }
    }

    /// Sends an advert or a resignation, to everyone it is for.
    pub(super) fn send(
        &mut self,
        resign: bool,
        family: Family,
        sockets: &LinkSockets,
        peer_authentication: &mut PeerAuthentication,
    ) -> SendOutcome {
        let mut sent = SendOutcome::default();
        let Ok(raw) = sockets.family(family) else { return sent };
        for packet in if resign { &mut self.resignations } else { &mut self.adverts } {
            let bytes = match &mut packet.content {
                PacketContent::Whole(bytes) => Some(&bytes[..]),
                PacketContent::Signed(template) => template.sign(|data| peer_authentication.sign(data)),
            };
            let outcome = bytes.map(|bytes| match &packet.via {
                Via::Packet(target) => raw.sender.send(bytes, target),
                Via::Frame => sockets.frames.send(bytes),
            });
            match outcome {
                Some(Ok(())) => sent.packets += 1,
                Some(Err(error)) => {
                    sent.errors += 1;
                    sent.refusal = Some(error);
                }
                None => sent.errors += 1,
            }
        }
        sent
    }
}

fn packets(config: &RouterConfig, priority: Option<Priority>, sockets: &LinkSockets) -> Vec<PreparedPacket> {
    let (ttl, destinations) = match &config.transport {
        Transport::Multicast { .. } => (wire::TTL, config.group().into_iter().collect::<BTreeSet<_>>()),
        Transport::Unicast { ttl, .. } => (*ttl, config.peers.clone()),
    };
    let family = config.family();
    let Ok(raw) = sockets.family(family) else { return Vec::new() };
    let paths = destinations.into_iter().filter_map(|destination| Path::new(config.source, destination));
    let trailer = if config.signs() { TRAILER_LENGTH } else { 0 };
    let mut packets = Vec::new();
    for path in paths {
        for version in config.versions.sent() {
            let capacity = AddressList::capacity(family, *version, sockets.mtu(), trailer);
            let advert = Advert {
                path,
                ttl,
                vrid: config.vrid,
                priority,
                interval: config.interval,
                addresses: AddressList::representing(&config.addresses, config.source, capacity),
            };
            let (lead, via) = match group_mac(path.destination()) {
                Some(group) if config.hold == Hold::Vmac => (header(group, config.vrid, family), Via::Frame),
                // To a single peer, whose link-layer address only the kernel knows, the interface's own address leads.
                Some(_) | None => (Vec::new(), Via::Packet(raw.sender.target(path))),
            };
            let content = if config.signs() {
                PacketContent::Signed(AdvertTemplate::new(&advert, *version, config.checksum, &lead))
            } else {
                PacketContent::Whole([lead, advert.datagram(*version, config.checksum)].concat())
            };
            packets.push(PreparedPacket { content, via });
        }
    }
    packets
}

/// Of the frame of an advert.
fn header(to: Mac, vrid: Vrid, family: Family) -> Vec<u8> {
    let ethertype: [u8; 2] = match family {
        Family::V4 => [0x08, 0x00],
        Family::V6 => [0x86, 0xdd],
    };
    [&to[..], &vrid.mac(family), &ethertype].concat()
}
