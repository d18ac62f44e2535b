//! Adverts built before they are due.

use std::collections::BTreeSet;
use std::io;

use socket2::SockAddr;
use windlass_vrrp::auth::TRAILER_LENGTH;
use windlass_vrrp::wire::{self, AddressList, Advert, AdvertTemplate, Path};
use windlass_vrrp::{Family, Priority, Vrid};

use crate::config::{Hold, RouterConfig, Transport};
use crate::sockets::{LinkSockets, Mac, group_mac};

use super::trust::Trust;

/// Everything that a router sends: nothing is built when an advert is due, at most it is signed.
#[derive(Default)]
pub(super) struct Prepared {
    adverts: Vec<Item>,
    resignations: Vec<Item>,
}

/// A packet and how it leaves.
struct Item {
    content: Content,
    via: Via,
}

enum Content {
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
pub(super) struct Sent {
    pub(super) packets: u64,
    pub(super) errors: u64,
    /// Why the last one was refused.
    pub(super) refusal: Option<io::Error>,
}

impl Prepared {
    /// What this router sends by these sockets: for each version, to the group or to each peer.
    pub(super) fn new(config: &RouterConfig, sockets: &LinkSockets) -> Self {
        Self {
            adverts: items(config, Some(config.priority), sockets),
            resignations: items(config, None, sockets),
        }
    }

    /// Sends an advert or a resignation, to everyone it is for.
    pub(super) fn send(
        &mut self,
        resign: bool,
        family: Family,
        sockets: &LinkSockets,
        trust: &mut Trust,
    ) -> Sent {
        let mut sent = Sent::default();
        let Ok(raw) = sockets.family(family) else { return sent };
        for item in if resign { &mut self.resignations } else { &mut self.adverts } {
            let bytes = match &mut item.content {
                Content::Whole(bytes) => Some(&bytes[..]),
                Content::Signed(template) => template.sign(|data| trust.sign(data)),
            };
            let outcome = bytes.map(|bytes| match &item.via {
                Via::Packet(target) => raw.outlet.send(bytes, target),
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

fn items(config: &RouterConfig, priority: Option<Priority>, sockets: &LinkSockets) -> Vec<Item> {
    let (ttl, destinations) = match &config.transport {
        Transport::Multicast { .. } => (wire::TTL, config.group().into_iter().collect::<BTreeSet<_>>()),
        Transport::Unicast { ttl, .. } => (*ttl, config.peers.clone()),
    };
    let family = config.family();
    let Ok(raw) = sockets.family(family) else { return Vec::new() };
    let paths = destinations.into_iter().filter_map(|destination| Path::new(config.source, destination));
    let trailer = if config.signs() { TRAILER_LENGTH } else { 0 };
    let mut items = Vec::new();
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
                Some(_) | None => (Vec::new(), Via::Packet(raw.outlet.target(path))),
            };
            let content = if config.signs() {
                Content::Signed(AdvertTemplate::new(&advert, *version, config.checksum, &lead))
            } else {
                Content::Whole([lead, advert.datagram(*version, config.checksum)].concat())
            };
            items.push(Item { content, via });
        }
    }
    items
}

/// Of the frame of an advert.
fn header(to: Mac, vrid: Vrid, family: Family) -> Vec<u8> {
    let ethertype: [u8; 2] = match family {
        Family::V4 => [0x08, 0x00],
        Family::V6 => [0x86, 0xdd],
    };
    [&to[..], &vrid.mac(family), &ethertype].concat()
}
