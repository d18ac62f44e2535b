//! Nodes and the segments that they are in: worked out once for each state they have, however often VIPs are placed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use windlass_api::NodeNetwork;

use super::PoolPlacement;
use super::segment::Segments;

/// The nodes, as far as it matters to a plan.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    /// Nodes by name, and whether they are in the stable node set (service-contract S-24): the others rank below.
    pub(super) nodes: BTreeMap<String, bool>,
    pub(super) networks: Vec<Arc<NodeNetwork>>,
    pub(super) segments: Segments,
}

impl Topology {
    /// The segments of `nodes`, as their agents report them.
    pub(crate) fn new(nodes: BTreeMap<String, bool>, networks: Vec<Arc<NodeNetwork>>) -> Self {
        let segments = Segments::new(&networks, &nodes);
        Self { nodes, networks, segments }
    }

    /// Where the nodes are.
    pub(crate) const fn segments(&self) -> &Segments {
        &self.segments
    }

    /// The segment for a VIP of `pool` with this address.
    pub(crate) fn segment(&self, address: IpAddr, pool: &PoolPlacement) -> Option<IpNet> {
        self.segments.find(address, pool.interface.as_deref())
    }
}
