//! Nodes and the segments that they are in: worked out once for each state they have, however often VIPs are placed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use windlass_api::{Capability, LoadSharing, NodeNetwork, RankedNode, VirtualIPSpec};
use windlass_common::listing::first_of;

use super::segment::Segments;
use crate::nodes::lans::Lans;
use crate::placement::announcements::{Announcements, ParsedAnnouncement};
use crate::placement::node_traits::NodeTraits;

/// Need of a VIP that the agents that may announce it have to meet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Any will do.
    #[default]
    Nothing,
    /// The agent blocks clients that may not use the VIP. Used if some agents do not: see [`Capability::SourceRanges`].
    Guard,
    /// The agent also shares the VIP with others. Used if some agents do not: see [`Capability::LoadSharing`].
    Sharing,
}

/// The nodes, as far as it matters to a plan.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    /// Names of the nodes.
    pub(super) nodes: BTreeSet<String>,
    pub(super) networks: Vec<Arc<NodeNetwork>>,
    /// LANs that the nodes agree on.
    lans: Lans,
    /// Segments of all nodes.
    of_all: SegmentsByAnnouncement,
    /// Segments of the nodes that block clients that may not use an address; `None`: all nodes do.
    of_guarding: Option<SegmentsByAnnouncement>,
    /// Names of the nodes whose agents do not block them. A node without a report is not among them: nothing is known of it.
    unguarded: BTreeSet<String>,
    /// Segments of the nodes that share an address; `None`: all nodes do, or no Announcement asks for it.
    of_sharing: Option<SegmentsByAnnouncement>,
    /// Names of the nodes whose agents do not share.
    unsharing: BTreeSet<String>,
}

/// The segments of nodes.
#[derive(Debug, Default)]
struct SegmentsByAnnouncement {
    /// Segments of nodes that announce without an Announcement.
    everywhere: Segments,
    /// Segments for Announcements that leave some nodes or interfaces out, prefer some, or judge nodes otherwise, by name.
    by_announcement: BTreeMap<String, Segments>,
}

impl SegmentsByAnnouncement {
    fn new(announcements: &Announcements, segments: impl Fn(&ParsedAnnouncement) -> Segments) -> Self {
        let special = announcements.iter().filter(|one| !one.has_default_nodes());
        let by_announcement = special.filter_map(|one| Some((one.name.clone()?, segments(one)))).collect();
        Self { everywhere: segments(announcements.get_or_none(None)), by_announcement }
    }

    fn get(&self, of: &ParsedAnnouncement) -> &Segments {
        let own = of.name.as_ref().and_then(|name| self.by_announcement.get(name));
        own.unwrap_or(&self.everywhere)
    }
}

impl Topology {
    /// The segments of `nodes`, as their agents report them, for each Announcement.
    pub(crate) fn new(
        nodes: &BTreeMap<String, NodeTraits>,
        networks: Vec<Arc<NodeNetwork>>,
        announcements: &Announcements,
    ) -> Self {
        let lacking = |capability| -> BTreeSet<String> {
            let lacking = networks.iter().filter(|network| !network.spec.capabilities.contains(&capability));
            lacking.filter_map(|network| network.metadata.name.clone()).collect()
        };
        let unguarded = lacking(Capability::SourceRanges);
        let is_asked_for = announcements.iter().any(|one| one.load_sharing != LoadSharing::None);
        let mut unsharing = lacking(Capability::LoadSharing);
        unsharing.extend(unguarded.iter().cloned());
        unsharing.retain(|_| is_asked_for);
        // Of all interfaces of all nodes, so that a LAN is the same segment for each Announcement.
        let of_nodes = networks.iter().filter_map(|one| Some((one.metadata.name.clone()?, &one.spec)));
        let lans = Lans::new(of_nodes.filter(|(node, _)| nodes.contains_key(node)));
        let without = |left_out: &BTreeSet<String>| {
            let segments = |of: &ParsedAnnouncement| Segments::new(&networks, nodes, left_out, &lans, of);
            SegmentsByAnnouncement::new(announcements, segments)
        };
        let of_all = without(&BTreeSet::new());
        let of_guarding = (!unguarded.is_empty()).then(|| without(&unguarded));
        let of_sharing = (!unsharing.is_empty()).then(|| without(&unsharing));
        let nodes = nodes.keys().cloned().collect();
        Self { nodes, networks, lans, of_all, of_guarding, unguarded, of_sharing, unsharing }
    }

    /// Returns the segments of the nodes that an Announcement selects.
    pub(crate) fn segments(&self, of: &ParsedAnnouncement) -> &Segments {
        self.of_all.get(of)
    }

    /// Returns the segments of the nodes that an Announcement selects and that meet the need of VIPs.
    pub(super) fn segments_for(&self, need: Need, of: &ParsedAnnouncement) -> &Segments {
        self.by_need(need).get(of)
    }

    /// Returns the segments of all nodes that meet the need of VIPs.
    pub(super) fn segments_everywhere(&self, need: Need) -> &Segments {
        &self.by_need(need).everywhere
    }

    fn by_need(&self, need: Need) -> &SegmentsByAnnouncement {
        let special = match need {
            Need::Nothing => None,
            Need::Guard => self.of_guarding.as_ref(),
            Need::Sharing => self.of_sharing.as_ref(),
        };
        special.unwrap_or(&self.of_all)
    }

    /// Returns the need of a VIP that not all nodes meet.
    pub(crate) fn need(&self, vip: &VirtualIPSpec, is_shared: bool) -> Need {
        if self.of_sharing.is_some() && is_shared {
            Need::Sharing
        } else if self.of_guarding.is_some() && vip.needs_guard() {
            Need::Guard
        } else {
            Need::Nothing
        }
    }

    /// Returns true if the agent of a node does not meet the need of VIPs, by its report.
    pub(super) fn lacks(&self, node: &str, need: Need) -> bool {
        match need {
            Need::Nothing => false,
            Need::Guard => self.unguarded.contains(node),
            Need::Sharing => self.unsharing.contains(node),
        }
    }

    /// The nodes of `segment` and the versions of their agents, as `n1 (agent 0.1.0), n2 (agent 0.1.0)`: a few of them.
    pub(super) fn agents(&self, segment: IpNet, of: &ParsedAnnouncement) -> String {
        const NAMED: usize = 3;
        // Agents of captured nodes write what they like.
        const LONGEST_VERSION: usize = 32;
        let nodes = self.segments(of).by_node(segment);
        let version = |node: &str| {
            let network = self.networks.iter().find(|one| one.metadata.name.as_deref() == Some(node));
            let version = network.map_or("", |network| network.spec.agent_version.as_str());
            version.chars().take(LONGEST_VERSION).collect::<String>()
        };
        first_of(nodes.keys().map(|node| format!("{node} (agent {})", version(node))), NAMED)
    }

    /// The segment that a virtual router of `segment` is in: another one where its LAN has another prefix length since.
    pub(super) fn current(&self, segment: IpNet) -> IpNet {
        self.lans.current(segment).unwrap_or(segment)
    }

    /// Returns true if a candidate's node is still on `segment` with its interface and address.
    pub(super) fn is_at(&self, old: &RankedNode, segment: IpNet) -> bool {
        let network = self.networks.iter().find(|one| one.metadata.name.as_ref() == Some(&old.name));
        let interfaces = network.into_iter().flat_map(|network| &network.spec.interfaces);
        let mut its = interfaces.filter(|interface| interface.name == old.interface);
        its.any(|interface| {
            let nets: Vec<IpNet> = interface.addresses.iter().filter_map(|text| text.parse().ok()).collect();
            let mut addresses = nets.iter().map(IpNet::addr).chain(interface.link_local.map(IpAddr::V6));
            nets.iter().any(|net| self.lans.of_address(*net).contains(&segment))
                && addresses.any(|address| address == old.address)
        })
    }

    /// Returns true if each of these candidates that has a report lists the key there.
    pub(super) fn have_key(&self, candidates: &[RankedNode], key_id: u8) -> bool {
        self.networks.iter().all(|network| {
            let is_one = candidates.iter().any(|node| Some(&node.name) == network.metadata.name.as_ref());
            !is_one || network.spec.vrrp_keys.contains(&key_id)
        })
    }

    /// Returns the nodes that have reported that they know a virtual router in this generation.
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
