//! VIPs that several nodes serve together: which VIPs, which nodes, and their lots.
//!
//! A VIP of Services with `externalTrafficPolicy: Local` that is shared is placed as one of `Cluster`: any node may direct its packets. It
//! is shared while two nodes or more can serve it, and from then on for as long as a lot has former servers: pods that are replaced move no
//! address.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use jiff::Timestamp;
use windlass_api::{
    ExternalTrafficPolicy, LoadSharing, SHARING_NODES, SharedBy, VirtualIP, VirtualRouterSpec, load_shared,
};
use windlass_common::priorities;

use super::ranking;
use super::segment::Candidate;
use super::topology::{Need, Topology};
use super::{PlacementPlan, PlanInput, Planner};
use crate::placement::announcements::ParsedAnnouncement;
use crate::placement::endpoints::{EndpointState, ServingNodes};
use crate::placement::sharing::{Next, Weights, next, shown_address};

/// Fewest nodes that share an address.
const FEWEST_SERVERS: usize = 2;

/// Nodes that serve a shared VIP.
enum Servers<'a> {
    /// Nodes with endpoints.
    Endpoints(Weights<'a>),
    /// All that are good in its virtual router, in equal parts.
    Ranked,
}

/// Nodes of a segment that can share, by their names.
type Candidates<'a> = BTreeMap<&'a str, &'a Candidate>;

/// Nodes that can share, by segment and Announcement: each as it is first asked for.
#[derive(Default)]
struct CandidateCache<'a>(HashMap<(IpNet, Option<&'a str>), Candidates<'a>>);

impl<'a> CandidateCache<'a> {
    /// The nodes that can share an address of an Announcement: also those that it leaves out, which may have its pods.
    fn get(
        &mut self,
        topology: &'a Topology,
        segment: IpNet,
        announcement: &'a ParsedAnnouncement,
    ) -> &Candidates<'a> {
        self.0.entry((segment, announcement.name.as_deref())).or_insert_with(|| {
            let mut all = topology.segments_everywhere(Need::Sharing).by_node(segment);
            all.extend(topology.segments_for(Need::Sharing, announcement).by_node(segment));
            all
        })
    }
}

/// The VIPs that are shared.
#[derive(Default)]
pub(super) struct SharedVips<'a> {
    servers: BTreeMap<IpAddr, Servers<'a>>,
    /// Reasons that others are not, which are to be by their Announcements; see [`load_shared`].
    not_shared: BTreeMap<IpAddr, &'static str>,
    candidates: CandidateCache<'a>,
}

impl<'a> SharedVips<'a> {
    pub(super) fn new(input: &'a PlanInput) -> Self {
        let mut all = Self::default();
        for vip in input.wanted_vips() {
            let announcement = input.announcement(vip);
            match all.decide(input, vip, announcement) {
                Some(Ok(servers)) => drop(all.servers.insert(vip.spec.address, servers)),
                Some(Err(reason)) => {
                    let reason = few_endpoints(input, vip).unwrap_or(reason);
                    all.not_shared.insert(vip.spec.address, reason);
                }
                None => {}
            }
        }
        all
    }

    /// Returns true if the VIP is shared.
    pub(super) fn contains(&self, vip: &VirtualIP) -> bool {
        self.servers.contains_key(&vip.spec.address)
    }

    /// Returns the servers of a VIP, or the reason that there are none. `None`: it is not to be shared, or not announced.
    fn decide(
        &mut self,
        input: &'a PlanInput,
        vip: &'a VirtualIP,
        announcement: &'a ParsedAnnouncement,
    ) -> Option<Result<Servers<'a>, &'static str>> {
        let address = vip.spec.address;
        let policy = vip.spec.external_traffic_policy;
        match (announcement.load_sharing, policy) {
            (LoadSharing::None, _) | (LoadSharing::Local, ExternalTrafficPolicy::Cluster) => return None,
            (LoadSharing::Local | LoadSharing::All, ExternalTrafficPolicy::Local)
            | (LoadSharing::All, ExternalTrafficPolicy::Cluster) => {}
        }
        if announcement.vrrp.virtual_mac {
            return Some(Err(load_shared::VIRTUAL_MAC_ADDRESS));
        }
        // Nodes share the ports that they know.
        if vip.spec.ports.is_empty() {
            return Some(Err(load_shared::NO_ROOM));
        }
        input.topology.segment(address, announcement)?;
        let sharing = input.topology.segments_for(Need::Sharing, announcement);
        let Some(segment) = sharing.find(address) else { return Some(Err(load_shared::AGENT_TOO_OLD)) };
        let topology = &*input.topology;
        match policy {
            ExternalTrafficPolicy::Cluster => {
                let good = sharing.candidates(segment).into_iter().filter(|one| is_good(one)).count();
                let mut all = topology.segments(announcement).candidates(segment).into_iter();
                let are_old = all.any(|one| topology.lacks(&one.node, Need::Sharing));
                Some(if good >= FEWEST_SERVERS { Ok(Servers::Ranked) } else { Err(too_few(good, are_old)) })
            }
            ExternalTrafficPolicy::Local => {
                static NONE: ServingNodes = ServingNodes::new();
                let serving = input.serving.get(&address).unwrap_or(&NONE);
                let candidates = self.candidates.get(topology, segment, announcement);
                let weights = weights(serving, candidates, by(input, vip));
                // Where pods are on nodes that cannot share alone, the address is placed as without sharing.
                let stays = || {
                    let keeps = || next(vip, &weights, &input.sharing, input.now).lots.have_former();
                    if weights.is_empty() { serving.is_empty() } else { keeps() }
                };
                if weights.len() >= FEWEST_SERVERS || (vip.spec.load_sharing.is_some() && stays()) {
                    return Some(Ok(Servers::Endpoints(weights)));
                }
                let mut ready = serving.iter().filter(|(_, node)| node.state == EndpointState::Ready);
                let are_old = ready.any(|(node, _)| topology.lacks(node, Need::Sharing));
                Some(Err(too_few(weights.len(), are_old)))
            }
        }
    }

    /// Adds the lots of all VIPs to the plan, which has their virtual routers. Returns the time at which they are to be others.
    pub(super) fn add_lots(self, input: &'a PlanInput, plan: &mut PlacementPlan<'a>) -> Option<Timestamp> {
        let Self { servers, not_shared, mut candidates } = self;
        plan.not_shared = not_shared;
        let topology = &*input.topology;
        let mut first = None;
        for vip in input.wanted_vips() {
            let address = vip.spec.address;
            let is_shared = servers.contains_key(&address);
            if !is_shared && vip.spec.load_sharing.is_none() {
                continue;
            }
            let router =
                vip.metadata.name.as_ref().and_then(|name| plan.routers.get(plan.routers_by_vip.get(name)?));
            let announcement = input.announcement(vip);
            let segment = router.and_then(|router| router.segment.parse().ok());
            let segment = segment.or_else(|| topology.segment(address, announcement));
            let Some(segment) = segment else { continue };
            let candidates = candidates.get(topology, segment, announcement);
            let weights = match servers.get(&address) {
                Some(Servers::Endpoints(weights)) => weights.clone(),
                Some(Servers::Ranked) => ranked(router.map(AsRef::as_ref), candidates),
                None => only(router.map(AsRef::as_ref), candidates),
            };
            let Next { lots, is_uneven, look_again } = next(vip, &weights, &input.sharing, input.now);
            first = first.into_iter().chain(look_again).min();
            if is_uneven {
                plan.uneven.insert(address);
            }
            let address_of =
                |node: &str| candidates.get(node).map(|one| one.source).or_else(|| shown_address(vip, node));
            if (is_shared || (lots.have_former() && !weights.is_empty()))
                && let Some(shared) = lots.write(by(input, vip), address_of)
            {
                plan.shared_loads.insert(address, shared);
            }
        }
        first
    }
}

/// Returns true if new connections may go to a node.
fn is_good(candidate: &Candidate) -> bool {
    candidate.healthy && !candidate.fails
}

fn by(input: &PlanInput, vip: &VirtualIP) -> SharedBy {
    if input.by_client.contains(&vip.spec.address) { SharedBy::Client } else { SharedBy::Connection }
}

/// Returns the reason of a VIP of `Local` Services whose ready endpoints are on less than two nodes. It precedes all others: those ask for
/// a change that would gain nothing.
fn few_endpoints(input: &PlanInput, vip: &VirtualIP) -> Option<&'static str> {
    if vip.spec.external_traffic_policy.is_cluster() {
        return None;
    }
    let nodes = input.serving.get(&vip.spec.address).into_iter().flat_map(BTreeMap::values);
    let ready = nodes.filter(|node| node.state == EndpointState::Ready).count();
    (ready < FEWEST_SERVERS).then(|| too_few(ready, false))
}

/// Returns the reason that an address with so few servers is not shared. `are_old`: agents of others cannot share it.
const fn too_few(servers: usize, are_old: bool) -> &'static str {
    match (servers, are_old) {
        (_, true) => load_shared::AGENT_TOO_OLD,
        (0, false) => load_shared::NO_SERVER,
        (_, false) => load_shared::ONE_SERVER,
    }
}

/// Returns the reason that an address is not shared in a sentence, with the remedy.
pub(crate) fn why_not_shared(address: IpAddr, reason: &str) -> String {
    let why = match reason {
        load_shared::ONE_SERVER => "one node alone has a ready endpoint. Run pods on more nodes",
        load_shared::NO_SERVER => "no node of its subnet has a ready endpoint",
        load_shared::AGENT_TOO_OLD => {
            "less than two nodes that could serve it have LoadSharing in spec.capabilities of their NodeNetworks. Update \
             their agents, or see what they lack with windlass check --host"
        }
        load_shared::VIRTUAL_MAC_ADDRESS => {
            "its Announcement has virtualMAC. Remove that, or set loadSharing: None"
        }
        load_shared::NO_ROOM => "its Services have more ports than a VirtualIP lists",
        other => other,
    };
    format!("one node serves all connections to {address}: {why}")
}

/// Weights of the nodes with endpoints that serve best: by their numbers of ready endpoints, or of clients in equal parts. Nodes that are
/// drained or fail count while there is no other.
fn weights<'a>(serving: &'a ServingNodes, candidates: &Candidates<'a>, by: SharedBy) -> Weights<'a> {
    let standing = |name: &str, state: EndpointState| Some((state, is_good(candidates.get(name)?)));
    let best = serving.iter().filter_map(|(name, node)| standing(name, node.state)).max();
    let best = serving.iter().filter(|(name, node)| best.is_some() && standing(name, node.state) == best);
    let weight = |ready: usize| match by {
        SharedBy::Connection => ready.max(1),
        SharedBy::Client => 1,
    };
    let mut all: Vec<_> = best.map(|(name, node)| (Reverse(weight(node.ready)), name.as_str())).collect();
    all.sort_unstable();
    all.truncate(SHARING_NODES);
    all.into_iter().map(|(Reverse(weight), name)| (name, weight)).collect()
}

/// Equal weights of the nodes that are good in a virtual router.
fn ranked<'a>(router: Option<&VirtualRouterSpec>, candidates: &Candidates<'a>) -> Weights<'a> {
    let good =
        router.into_iter().flat_map(|router| &router.nodes).filter(|node| priorities::is_good(node.priority));
    let good = good.filter_map(|node| candidates.get_key_value(node.name.as_str()));
    good.take(SHARING_NODES).map(|(name, _)| (*name, 1)).collect()
}

/// The node that gets an address that is not shared any more.
fn only<'a>(router: Option<&VirtualRouterSpec>, candidates: &Candidates<'a>) -> Weights<'a> {
    let node = router.and_then(ranking::preferred).and_then(|node| candidates.get_key_value(node));
    node.map(|(name, _)| (*name, 1)).into_iter().collect()
}

impl Planner<'_> {
    /// The policy by which a VIP is placed: every node may direct the packets of one that is shared.
    pub(super) fn policy(&self, vip: &VirtualIP) -> ExternalTrafficPolicy {
        if self.shared.contains(vip) {
            ExternalTrafficPolicy::Cluster
        } else {
            vip.spec.external_traffic_policy
        }
    }

    /// Returns the need of a VIP that not all nodes meet.
    pub(super) fn need(&self, vip: &VirtualIP) -> Need {
        self.topology.need(&vip.spec, self.shared.contains(vip))
    }
}
