//! Nodes and the segments that they are in: worked out once for each state they have, however often VIPs are placed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use windlass_api::{NodeNetwork, RankedNode};
use windlass_ipam::Labels;

use super::segment::Segments;
use crate::controller::placement::announcements::{Announcements, ParsedAnnouncement};

/// What of a node matters to a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeTraits {
    /// In the stable node set (service-contract S-24): the others rank below.
    pub(crate) is_stable: bool,
    /// Cordoned or drained, if an Announcement asks for that.
    pub(crate) is_unschedulable: bool,
    /// If an Announcement asks for them.
    pub(crate) labels: Labels,
}

/// The nodes, as far as it matters to a plan.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    /// Names of the nodes.
    pub(super) nodes: BTreeSet<String>,
    pub(super) networks: Vec<Arc<NodeNetwork>>,
    /// Those of nodes that announce without an Announcement.
    everywhere: Segments,
    /// Those of Announcements that leave some nodes or interfaces out, prefer some, or judge nodes otherwise, by name.
    by_announcement: BTreeMap<String, Segments>,
}

impl Topology {
    /// The segments of `nodes`, as their agents report them, for each Announcement.
    pub(crate) fn new(
        nodes: &BTreeMap<String, NodeTraits>,
        networks: Vec<Arc<NodeNetwork>>,
        announcements: &Announcements,
    ) -> Self {
        let segments = |of: &ParsedAnnouncement| Segments::new(&networks, nodes, of);
        let special = announcements.iter().filter(|one| !one.has_default_nodes());
        let by_announcement = special.filter_map(|one| Some((one.name.clone()?, segments(one)))).collect();
        let everywhere = segments(announcements.get_or_none(None));
        let nodes = nodes.keys().cloned().collect();
        Self { nodes, networks, everywhere, by_announcement }
    }

    /// Where the nodes are that an Announcement leaves.
    pub(crate) fn segments(&self, of: &ParsedAnnouncement) -> &Segments {
        let own = of.name.as_ref().and_then(|name| self.by_announcement.get(name));
        own.unwrap_or(&self.everywhere)
    }

    /// Whether a candidate's node is on `segment` still with its interface and address.
    pub(super) fn is_at(&self, old: &RankedNode, segment: IpNet) -> bool {
        let network = self.networks.iter().find(|one| one.metadata.name.as_ref() == Some(&old.name));
        let interfaces = network.into_iter().flat_map(|network| &network.spec.interfaces);
        let mut its = interfaces.filter(|interface| interface.name == old.interface);
        its.any(|interface| {
            let nets: Vec<IpNet> = interface.addresses.iter().filter_map(|text| text.parse().ok()).collect();
            let mut addresses = nets.iter().map(IpNet::addr).chain(interface.link_local.map(IpAddr::V6));
            nets.iter().any(|net| net.trunc() == segment) && addresses.any(|address| address == old.address)
        })
    }

    /// Whether each of these candidates has the key, as far as it has said which it has.
    pub(super) fn have_key(&self, candidates: &[RankedNode], key_id: u8) -> bool {
        self.networks.iter().all(|network| {
            let is_one = candidates.iter().any(|node| Some(&node.name) == network.metadata.name.as_ref());
            !is_one || network.spec.vrrp_keys.contains(&key_id)
        })
    }

    /// The nodes that have told that they know a virtual router in this generation.
    pub(super) fn knowing(&self, router: &str, generation: i64) -> BTreeSet<&str> {
        let knows = |network: &&Arc<NodeNetwork>| {
            network.spec.known_routers.iter().any(|one| one.name == router && one.generation >= generation)
        };
        self.networks.iter().filter(knows).filter_map(|network| network.metadata.name.as_deref()).collect()
    }

    /// The segment for a VIP with this address.
    pub(crate) fn segment(&self, address: IpAddr, of: &ParsedAnnouncement) -> Option<IpNet> {
        self.segments(of).find(address)
    }
}
