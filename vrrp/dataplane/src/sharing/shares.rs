//! Addresses that nodes share, their ports, and the node of each lot. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use windlass_kernel::port::Protocol;

/// Number of lots of an address: parts of its connections, each of which one node serves.
pub const LOTS: usize = 120;

/// Addresses that several nodes serve together. Each node has the same.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user")]
pub struct Shares {
    /// Addresses of all nodes that direct packets or serve lots, of both families, by this node's interface to their LAN. This node's
    /// own may be among them. Packets from their link-layer addresses are served where they arrive.
    pub peers: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The shared addresses, for each of their protocols.
    pub services: BTreeMap<(IpAddr, Protocol), Share>,
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
}

/// Parts of a packet that determine its lot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_enums, reason = "a caller must not overlook one")]
pub enum SharedBy {
    /// The client's address and port: each connection by itself.
    #[default]
    Connection,
    /// The client's address: all its connections go to one node.
    Client,
}

/// Interface of this node, as far as sharing needs it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user")]
pub struct SharingLink {
    /// Its index.
    pub index: u32,
    /// Link-layer addresses of other nodes on its LAN, as far as they are known.
    pub peers: BTreeMap<IpAddr, [u8; 6]>,
}
