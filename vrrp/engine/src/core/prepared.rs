//! Adverts built before they are due.

#![cfg_attr(not(test), expect(clippy::arithmetic_side_effects, reason = "counts of packets"))]

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use socket2::SockAddr;
use windlass_kernel::sockets::{FamilySockets, LinkSockets, Mac, group_mac};
use windlass_vrrp::auth::{SignedData, TRAILER_LENGTH, Trailer};
use windlass_vrrp::wire::{self, AddressList, Advert, AdvertTemplate, Checksum, Path};
use windlass_vrrp::{Family, Priority, Version, Vrid};

use crate::config::{Hold, RouterConfig, Transport};

use super::peer_authentication::PeerAuthentication;

/// Everything that a router sends: nothing is built when an advert is due, at most it is signed. But for what goes to a single
/// peer because multicast does not reach it: to have that at hand for each would take more memory than all else.
#[derive(Default)]
pub(super) struct PreparedAdverts {
    adverts: Vec<PreparedPacket>,
    resignations: Vec<PreparedPacket>,
    /// The adverts as they are built for single peers, in the order of the versions; none without unicast fallback.
    copies: Vec<CopyModel>,
}

/// An advert to the group of which copies are made.
struct CopyModel {
    advert: Advert,
    version: Version,
    checksum: Checksum,
    signs: bool,
    /// Trailer of the advert which was sent to the group last.
    trailer: Option<Trailer>,
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
    /// Reason for the last refusal.
    pub(super) refusal: Option<io::Error>,
}

impl PreparedAdverts {
    /// Builds the packets that this router sends by these sockets: for each version, to the group or to each peer.
    pub(super) fn new(config: &RouterConfig, sockets: &LinkSockets) -> Self {
        Self {
            adverts: packets(config, Some(config.priority), sockets),
            resignations: packets(config, None, sockets),
            copies: copy_models(config, sockets),
        }
    }

    /// Sends an advert or a resignation to all its receivers and then by unicast to the peers that are to have a copy. A copy has the
    /// trailer of the original: a peer that receives both, in whichever order, knows that they are one.
    pub(super) fn send(
        &mut self,
        resign: bool,
        copies: impl Iterator<Item = IpAddr>,
        family: Family,
        sockets: &LinkSockets,
        peer_authentication: &mut PeerAuthentication,
    ) -> SendOutcome {
        let mut sent = SendOutcome::default();
        let Ok(raw) = sockets.family(family) else { return sent };
        let packets = if resign { &mut self.resignations } else { &mut self.adverts };
        for (number, packet) in packets.iter_mut().enumerate() {
            let bytes = match &mut packet.content {
                PacketContent::Whole(bytes) => Some(&bytes[..]),
                PacketContent::Signed(template) => template.sign(|data| {
                    let trailer = peer_authentication.sign(data);
                    if let Some(model) = self.copies.get_mut(number) {
                        model.trailer = trailer;
                    }
                    trailer
                }),
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
        for peer in copies {
            for model in &self.copies {
                sent.count(&model.send(peer, resign, raw, |_| model.trailer));
            }
        }
        sent
    }

    /// Sends an advert or a resignation to this peer alone.
    pub(super) fn send_to(
        &self,
        peer: IpAddr,
        resign: bool,
        family: Family,
        sockets: &LinkSockets,
        peer_authentication: &mut PeerAuthentication,
    ) -> SendOutcome {
        let mut sent = SendOutcome::default();
        let Ok(raw) = sockets.family(family) else { return sent };
        for model in &self.copies {
            sent.count(&model.send(peer, resign, raw, |data| peer_authentication.sign(data)));
        }
        sent
    }
}

impl SendOutcome {
    /// Counts a packet to a single peer as sent or refused. It proves nothing about packets to the group.
    fn count(&mut self, copy: &io::Result<()>) {
        match copy {
            Ok(()) => self.packets += 1,
            Err(_) => self.errors += 1,
        }
    }
}

impl CopyModel {
    fn send(
        &self,
        peer: IpAddr,
        resign: bool,
        raw: &FamilySockets,
        sign: impl FnOnce(SignedData<'_>) -> Option<Trailer>,
    ) -> io::Result<()> {
        let path = Path::new(self.advert.path.source(), peer).ok_or(io::ErrorKind::InvalidInput)?;
        let priority = self.advert.priority.filter(|_| !resign);
        let advert = Advert { path, priority, ..self.advert.clone() };
        let sign = |data: SignedData<'_>| if self.signs { sign(data) } else { None };
        let datagram = advert.signed_datagram(self.version, self.checksum, sign);
        raw.sender.send(&datagram, &raw.sender.target(path))
    }
}

fn copy_models(config: &RouterConfig, sockets: &LinkSockets) -> Vec<CopyModel> {
    let path = config.group().and_then(|group| Path::new(config.source, group));
    let Some(path) = path.filter(|_| config.falls_back()) else { return Vec::new() };
    let model = |version: &Version| CopyModel {
        advert: advert(config, path, wire::TTL, *version, Some(config.priority), sockets),
        version: *version,
        checksum: config.checksum,
        signs: config.signs(),
        trailer: None,
    };
    config.versions.sent().iter().map(model).collect()
}

/// Returns the number of VIPs that an advert of this router can list.
pub(super) fn capacity(config: &RouterConfig, version: Version, mtu: usize) -> usize {
    let trailer = if config.signs() { TRAILER_LENGTH } else { 0 };
    AddressList::capacity(config.family(), version, mtu, trailer)
}

fn advert(
    config: &RouterConfig,
    path: Path,
    ttl: u8,
    version: Version,
    priority: Option<Priority>,
    sockets: &LinkSockets,
) -> Advert {
    let capacity = capacity(config, version, sockets.mtu());
    Advert {
        path,
        ttl,
        vrid: config.vrid,
        priority,
        interval: config.interval,
        addresses: AddressList::representing(&config.addresses, config.source, capacity),
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
    let mut packets = Vec::new();
    for path in paths {
        for version in config.versions.sent() {
            let advert = advert(config, path, ttl, *version, priority, sockets);
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

/// Returns the Ethernet header of an advert.
fn header(to: Mac, vrid: Vrid, family: Family) -> Vec<u8> {
    let ethertype: [u8; 2] = match family {
        Family::V4 => [0x08, 0x00],
        Family::V6 => [0x86, 0xdd],
    };
    [&to[..], &vrid.mac(family), &ethertype].concat()
}
