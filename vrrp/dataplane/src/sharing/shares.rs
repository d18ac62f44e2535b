//! Addresses that nodes share, their ports, and the node of each lot. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

use windlass_kernel::port::Protocol;

use super::hash::{LOTS, SharedBy, place};

/// Most former servers of a lot that count.
pub const FORMER: usize = 3;

/// Addresses that several nodes serve together. Each node has the same.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user")]
pub struct Shares {
    /// Addresses of all nodes that direct packets or serve lots, of both families, by this node's interface to their LAN. This node's
    /// own may be among them. Packets from their link-layer addresses are served where they arrive.
    pub peers: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The shared addresses, for each of their protocols.
    pub services: BTreeMap<(IpAddr, Protocol), Arc<Share>>,
}

impl Shares {
    /// Returns true if this address is shared.
    pub fn has(&self, vip: IpAddr) -> bool {
        self.services.range((vip, Protocol::Tcp)..=(vip, Protocol::Sctp)).next().is_some()
    }
}

/// Ports of a shared address, and the nodes that serve them.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user")]
pub struct Share {
    /// This node's interface to the LAN of the address.
    pub interface: String,
    /// The shared ports. Packets to others are left to the rules of the node where they arrive.
    pub ports: BTreeSet<u16>,
    /// Parts of a packet that determine its lot.
    pub by: SharedBy,
    /// Addresses of nodes, of the shared address's family. A lot of a node that is not among [`Shares::peers`] of the interface, whose
    /// link-layer address is unknown, or that is this node itself is served where its packets arrive.
    pub servers: Vec<IpAddr>,
    /// Index in [`Self::servers`] of the node of each lot. A lot without such a node is served where its packets arrive.
    pub lots: [u8; LOTS],
    /// Former servers of each lot, newest first, while they may have connections of it: a node that does not know the connection of a packet
    /// sends it on to the other servers of its lot, one after the other. The first [`FORMER`] count; an index of no server stands for none.
    pub former: Vec<[u8; LOTS]>,
}

impl Share {
    /// Returns true if each lot has a former server.
    pub fn all_have_moved(&self) -> bool {
        let has_former = |lot: usize| {
            let node = |lots: &[u8; LOTS]| self.servers.get(usize::from(lots[lot]));
            self.former.iter().take(FORMER).any(|lots| node(lots).is_some())
        };
        (0..LOTS).all(has_former)
    }

    /// Returns the node that serves new connections of a lot.
    pub fn server(&self, lot: u8) -> Option<IpAddr> {
        self.at(&self.lots, lot)
    }

    /// Returns the nodes that serve the lot or served it, if it has former servers: these may have connections of it. In the order of
    /// the lot, which is the same on all nodes, whichever former servers each knows of.
    fn ring(&self, lot: u8) -> BTreeSet<(u32, IpAddr)> {
        let all = std::iter::once(&self.lots).chain(self.former.iter().take(FORMER));
        let nodes = all.filter_map(|lots| self.at(lots, lot));
        let ring: BTreeSet<_> = nodes.map(|node| (place(lot, node), node)).collect();
        if ring.len() > 1 { ring } else { BTreeSet::new() }
    }

    /// Returns the nodes that a packet of this lot passes which `own` does not know, the next one first. Each node sends on in the same
    /// direction, so that the packet meets all that may know it also while some nodes know of a change and others do not.
    pub fn after(&self, lot: u8, own: IpAddr) -> Vec<IpAddr> {
        let (ring, own) = (self.ring(lot), (place(lot, own), own));
        let behind = ring.range((Bound::Excluded(own), Bound::Unbounded));
        behind.chain(ring.range(..own)).map(|(_, node)| *node).collect()
    }

    /// Returns the nodes to which packets from clients are sent, the best first: those of TCP to the server of new connections, which passes
    /// on what it does not know. Every packet of UDP may begin a flow, so its server is the last to be asked.
    pub(super) fn directed(&self, lot: u8, protocol: Protocol) -> Vec<IpAddr> {
        let Some(server) = self.server(lot) else { return Vec::new() };
        let mut others = match protocol {
            Protocol::Udp => self.after(lot, server),
            Protocol::Tcp | Protocol::Sctp => Vec::new(),
        };
        others.push(server);
        others
    }

    pub(super) fn at(&self, lots: &[u8; LOTS], lot: u8) -> Option<IpAddr> {
        self.servers.get(usize::from(*lots.get(usize::from(lot))?)).copied()
    }
}

/// Interface of this node, as far as sharing needs it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user")]
pub struct SharingLink {
    /// Its index.
    pub index: u32,
    /// This node's addresses among [`Shares::peers`].
    pub own: BTreeSet<IpAddr>,
    /// Link-layer addresses of other nodes on its LAN, as far as they are known.
    pub peers: BTreeMap<IpAddr, [u8; 6]>,
}
