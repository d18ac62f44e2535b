//! The plan: the virtual router that carries each VIP, and the nodes that elect its owner. Pure: the same input gives the same plan,
//! and a plan made from its own result is that result.
//!
//! - A segment is a subnet that nodes have an interface in; its candidates are those nodes. VRIDs are counted for each family by
//!   itself. One node's prefix length makes no segment of others' LAN, and VIPs stay while a LAN gets another one; see
//!   [`Lans`](crate::nodes::lans::Lans).
//! - A VIP goes to a segment that holds its address (or is on an interface that its Announcement names), there to a virtual router of
//!   its Announcement whose first node has the fewest VIPs of the same Service, of those the fewest VIPs, of those one of the same
//!   Service and the other family, and stays for as long as that router has candidates.
//! - A virtual router is of the Announcement of most of its VIPs; the others leave it. See [`succession`].
//! - A segment gets another router while every one it has carries a VIP and there are fewer of them than two for each healthy node, so
//!   that the share of a node that dies goes to two others, see [`takeover`], and where a healthy node is first in none while a
//!   Service has VIPs on all the others.
//! - A router's ranking is decided when it is made; see [`ranking`]. A router without VIPs is removed.
//! - A router is replaced by one that has another VRID and the same nodes if a foreign router uses its VRID on its links, see
//!   [`strangers`], or if it cannot change to the settings of its Announcement while it runs.
//! - A node that has less than its share is given routers of others, when all is calm; see [`rebalancing`].
//! - VIPs whose Services have `externalTrafficPolicy: Local` are apart; see [`local`].
//! - A VIP whose clients are restricted goes to no virtual router with a node whose agent does not enforce that, and a virtual router
//!   that carries one loses such a node immediately; see [`topology`].
//! - An admin's choice for a router (`windlass move`) decides which of its nodes has the VIPs, and nothing else. Other routers, and
//!   the placement of new VIPs, are the same as without it, except for the VIPs of one Service, which are kept on different nodes as
//!   they are now.
//! - A VIP that several nodes serve together is placed as one that every node serves; see [`sharing`].
//! - A VIP in quarantine is planned for as if it did not exist, and has no virtual router.

mod choice;
mod flaws;
mod local;
mod ranking;
mod ready_routers;
mod rebalancing;
mod router_draft;
mod segment;
mod sharing;
mod spread;
mod strangers;
mod succession;
mod takeover;
mod topology;
mod unplaced;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use jiff::Timestamp;
use kube::ResourceExt as _;
use windlass_api::{ExternalTrafficPolicy, SharedLoad, VirtualIP, VirtualRouter, VirtualRouterSpec};

use choice::RouterChoice;
pub(crate) use flaws::Flaw;
use ranking::Members;
pub(crate) use ranking::first;
pub(crate) use ready_routers::{PlacementClass, ReadyRouters};
use router_draft::{FeasibleRouters, RouterDraft};
pub(crate) use segment::Segments;
use sharing::SharedVips;
pub(crate) use sharing::why_not_shared;
use spread::Spread;
pub(crate) use topology::{Need, Topology};
pub(crate) use unplaced::{Unplaced, why_unplaced};

use super::announcements::{Announcements, ParsedAnnouncement, SelectedBy};
use super::endpoints::ServingNodes;
use super::sharing::SharingMemory;

/// The cluster, as far as it matters here.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlanInput {
    pub(crate) announcements: Arc<Announcements>,
    /// The Announcements of each VIP that has any.
    pub(crate) selected: BTreeMap<IpAddr, SelectedBy>,
    pub(crate) vips: Vec<Arc<VirtualIP>>,
    /// Nodes with endpoints of the Services of each VIP with `externalTrafficPolicy: Local`.
    pub(crate) serving: BTreeMap<IpAddr, ServingNodes>,
    /// VIPs of Services with `sessionAffinity: ClientIP`.
    pub(crate) by_client: BTreeSet<IpAddr>,
    pub(crate) sharing: Arc<SharingMemory>,
    pub(crate) routers: Vec<Arc<VirtualRouter>>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) now: Timestamp,
    /// Time that a node has to be healthy until it counts as settled.
    pub(crate) settling: Duration,
    /// Time from which each healthy node counts as settled.
    pub(crate) settled: BTreeMap<String, Timestamp>,
    /// Identifier that no other cluster has: two clusters that leave a VRID to each other do not choose the same one next.
    pub(crate) cluster: String,
}

/// Desired state of the cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PlacementPlan<'a> {
    /// Desired virtual routers, by name.
    pub(crate) routers: BTreeMap<String, Cow<'a, VirtualRouterSpec>>,
    /// The nodes that an admin wants to have the VIPs of virtual routers, by the routers' names: those that are made in the place of
    /// others are made with what those had.
    pub(crate) preferred_nodes: BTreeMap<String, String>,
    /// Number of VRID changes in a row up to the one that made each virtual router, if it was made for a foreign router; by the
    /// routers' names.
    pub(crate) vrid_changes: BTreeMap<String, u32>,
    /// Virtual router of each VIP that has one, by the VIP's name.
    pub(crate) routers_by_vip: BTreeMap<String, String>,
    /// VIPs that are on a virtual router that is not as their Announcement or `externalTrafficPolicy` wants it.
    pub(crate) left_behind: BTreeSet<IpAddr>,
    /// Subset of `left_behind` whose nodes do not have the key that is to sign.
    pub(crate) without_key: BTreeSet<IpAddr>,
    /// The other VIPs, by name.
    pub(crate) unplaced: BTreeMap<String, Unplaced>,
    /// VIPs whose virtual router has no candidate left, by name, and why no other one takes them: each stays where it is.
    pub(crate) without_candidates: BTreeMap<String, Unplaced>,
    /// Lots of the VIPs that several nodes serve together, or served together.
    pub(crate) shared_loads: BTreeMap<IpAddr, SharedLoad>,
    /// Subset of them whose lots are to move soon.
    pub(crate) uneven: BTreeSet<IpAddr>,
    /// Reasons that other VIPs are not shared, which are to be by their Announcements.
    pub(crate) not_shared: BTreeMap<IpAddr, &'static str>,
    /// Time at which another plan may be better, without any other cause.
    pub(crate) look_again: Option<Timestamp>,
}

impl PlanInput {
    /// The VIPs that are to be announced.
    pub(crate) fn wanted_vips(&self) -> impl Iterator<Item = &VirtualIP> {
        let is_wanted =
            |vip: &&VirtualIP| vip.metadata.deletion_timestamp.is_none() && vip.spec.quarantine.is_none();
        self.vips.iter().map(AsRef::as_ref).filter(is_wanted)
    }

    /// Returns the Announcement that applies to a VIP, or the default.
    fn announcement(&self, vip: &VirtualIP) -> &ParsedAnnouncement {
        let selected = self.selected.get(&vip.spec.address);
        self.announcements.get_or_none(selected.and_then(|by| by.applied.as_deref()))
    }
}

/// Makes the plan.
pub(crate) fn plan(input: &PlanInput) -> PlacementPlan<'_> {
    Planner::new(input).run()
}

struct Planner<'a> {
    input: &'a PlanInput,
    topology: &'a Topology,
    routers: BTreeMap<String, RouterDraft<'a>>,
    spread: Spread<'a>,
    shared: SharedVips<'a>,
    /// Routers that take the place of others for the VIPs of an Announcement, by the others' names and its name.
    successors: BTreeMap<String, BTreeMap<Option<&'a str>, String>>,
    /// VIPs of one kind have one in common.
    feasible: HashMap<PlacementClass, FeasibleRouters<'a>>,
    without_candidates: BTreeMap<String, Unplaced>,
    without_key: BTreeSet<IpAddr>,
    /// Time from which a router may leave its VRID to a foreign router that uses it now.
    next_vrid_change: Option<Timestamp>,
}

impl<'a> Planner<'a> {
    fn new(input: &'a PlanInput) -> Self {
        let routers = distinct(input);
        let connecting = succession::connecting_uids(&routers);
        let mut named_by: HashMap<&str, usize> = HashMap::new();
        for name in input.wanted_vips().filter_map(|vip| vip.spec.virtual_router.as_deref()) {
            *named_by.entry(name).or_default() += 1;
        }
        let adopted = succession::adopted(input);
        let draft = |router: &'a VirtualRouter| {
            let announcement = adopted(router);
            let active = router.active_node();
            let generation = router.metadata.generation.unwrap_or_default();
            let mut draft = RouterDraft::new(Cow::Borrowed(&router.spec), announcement, active);
            draft.segment = draft.segment.map(|segment| input.topology.current(segment));
            let uid = router.metadata.uid.as_deref();
            let preferred_node = router.preferred_node();
            let is_in_succession = [uid, router.spec.replaces.as_deref()]
                .into_iter()
                .flatten()
                .any(|uid| connecting.contains(uid));
            let created = router.metadata.creation_timestamp.as_ref().map(|time| time.0);
            let vrid_changes = router.vrid_changes();
            let name = router.name_any();
            let known = RouterDraft {
                named_by: named_by.get(name.as_str()).copied().unwrap_or_default(),
                uid,
                generation,
                created,
                vrid_changes,
                is_in_succession,
                preferred_node,
                ..draft
            };
            (name, known)
        };
        let mut planner = Self {
            input,
            topology: &input.topology,
            routers: routers.into_iter().map(|router| draft(router)).collect(),
            spread: Spread::default(),
            shared: SharedVips::new(input),
            successors: BTreeMap::new(),
            feasible: HashMap::new(),
            without_candidates: BTreeMap::new(),
            without_key: BTreeSet::new(),
            next_vrid_change: None,
        };
        planner.replace_routers();
        planner
    }

    fn run(mut self) -> PlacementPlan<'a> {
        let mut plan = PlacementPlan::default();
        let mut vips: Vec<&'a VirtualIP> = self.input.wanted_vips().collect();
        // Oldest first, as they came.
        vips.sort_by_cached_key(|vip| {
            (vip.metadata.creation_timestamp.as_ref().map(|time| time.0), vip.spec.address)
        });
        let (mut to_place, mut placed) = (Vec::new(), Vec::new());
        let successors = self.successors.clone();
        for vip in vips {
            let announcement = self.input.announcement(vip);
            let router = vip.spec.virtual_router.as_ref();
            let successor = |router: &String| successors.get(router)?.get(&announcement.name.as_deref());
            let router = router.map(|router| successor(router).unwrap_or(router));
            let stay = router.map(|router| (self.stays(vip, announcement, router), router));
            match stay {
                Some((Stay::Yes, router)) => {
                    self.put(vip, router.clone(), &mut plan);
                    placed.push((vip, router));
                }
                Some((Stay::IfNoOther, router)) => to_place.push((vip, announcement, Some(router))),
                Some((Stay::No, _)) | None => to_place.push((vip, announcement, None)),
            }
        }
        // The VIPs that stay matter one by one only if others are to be placed.
        if !to_place.is_empty() {
            for (vip, router) in placed {
                self.spread.add(vip, router);
            }
        }
        // Those that may have to stay first: they count where new ones go.
        to_place.sort_by_key(|(_, _, old)| old.is_none());
        for (vip, announcement, old) in to_place {
            match self.place(vip, announcement, old).or_else(|why| old.cloned().ok_or(why)) {
                Ok(router) => {
                    self.spread.add(vip, &router);
                    self.put(vip, router, &mut plan);
                }
                Err(why) => drop(plan.unplaced.insert(vip.name_any(), why)),
            }
        }
        self.routers.retain(|_, router| router.vips > 0);
        let next_move = self.rebalance(&plan.routers_by_vip);
        plan.look_again = next_move.into_iter().chain(self.next_vrid_change).min();
        let mut candidates_by_segment = HashMap::new();
        let is_ready = |node: &str| self.input.settled.contains_key(node);
        for (name, router) in &mut self.routers {
            router.follow_announcement();
            let Some(segment) = router.segment else { continue };
            if router.spec.segment.parse() != Ok(segment) {
                router.spec.to_mut().segment = segment.to_string();
            }
            let segments = self.topology.segments_for(router.need, router.announcement);
            let candidates = candidates_by_segment
                .entry((segment, router.announcement.name.as_deref(), router.need))
                .or_insert_with(|| segments.by_node(segment));
            let serving = (!router.policy().is_cluster()).then(|| router.serving.together());
            let some_join = router.spec.nodes.iter().any(|node| node.joining);
            let knowing =
                if some_join { self.topology.knowing(name, router.generation) } else { BTreeSet::new() };
            let members = Members {
                segment,
                candidates,
                segments,
                topology: self.topology,
                need: router.need,
                active: router.active,
                knowing,
                is_ready: &is_ready,
                invited: router.invited.as_deref(),
                preferred_node: router.preferred_node,
            };
            if let Some(nodes) = ranking::refreshed(&router.spec, &members, serving.as_ref()) {
                router.spec.to_mut().nodes = nodes;
            }
        }
        let wanted = self.routers.iter();
        let wanted =
            wanted.filter_map(|(name, router)| Some((name.clone(), router.preferred_node?.to_owned())));
        plan.preferred_nodes = wanted.collect();
        let changed = self.routers.iter().filter(|(_, router)| router.vrid_changes > 0);
        plan.vrid_changes = changed.map(|(name, router)| (name.clone(), router.vrid_changes)).collect();
        plan.routers = self.routers.into_iter().map(|(name, router)| (name, router.spec)).collect();
        plan.without_candidates = self.without_candidates;
        plan.without_key = self.without_key;
        let next_lots = self.shared.add_lots(self.input, &mut plan);
        plan.look_again = plan.look_again.into_iter().chain(next_lots).min();
        plan
    }

    /// A VIP stays while its router has a candidate, or no other segment would take it. One whose router is another Announcement's or
    /// for the other policy, or serves it worse than another would, stays only if there is no VRID for another.
    fn stays(&mut self, vip: &VirtualIP, announcement: &'a ParsedAnnouncement, router: &str) -> Stay {
        let Some(draft) = self.routers.get(router) else { return Stay::No };
        let Some(segment) = draft.segment else { return Stay::No };
        if segment.addr().is_ipv4() != vip.spec.address.is_ipv4() {
            return Stay::No;
        }
        let need = self.need(vip);
        if draft.is_for_nobody(need, segment, self.topology) {
            return Stay::No;
        }
        if self.topology.segments_for(need, announcement).has_candidates(segment) {
            let fits = draft.announcement.name == announcement.name
                && draft.is_as_announced()
                && draft.policy() == self.policy(vip)
                && self
                    .serving(vip)
                    .is_none_or(|nodes| draft.serving.fits(&self.best(segment, announcement, need, nodes)));
            if !fits && self.waits_for_key(draft, announcement) {
                self.without_key.insert(vip.spec.address);
                return Stay::Yes;
            }
            return if fits { Stay::Yes } else { Stay::IfNoOther };
        }
        match self.segment(vip, announcement) {
            Ok(_) => Stay::No,
            Err(why) => {
                self.without_candidates.insert(vip.name_any(), why);
                Stay::Yes
            }
        }
    }

    /// The nodes that serve the VIP, if not each does.
    fn serving(&self, vip: &VirtualIP) -> Option<&'a ServingNodes> {
        let input = self.input;
        let is_local = !self.policy(vip).is_cluster();
        is_local.then(|| input.serving.get(&vip.spec.address)).flatten()
    }

    /// Returns the nodes that serve a VIP best, of those that are on the segment.
    fn best(
        &self,
        segment: IpNet,
        announcement: &ParsedAnnouncement,
        need: Need,
        nodes: &'a ServingNodes,
    ) -> BTreeSet<&'a str> {
        let segments = self.topology.segments_for(need, announcement);
        local::best(nodes, |node| segments.has_candidate(segment, node))
    }

    fn put(&mut self, vip: &'a VirtualIP, router: String, plan: &mut PlacementPlan<'a>) {
        let announcement = self.input.announcement(vip);
        let need = self.need(vip);
        let serving = self.serving(vip).and_then(|nodes| {
            let segment = self.routers.get(&router)?.segment?;
            Some((nodes, self.best(segment, announcement, need, nodes)))
        });
        let policy = self.policy(vip);
        if let Some(draft) = self.routers.get_mut(&router) {
            draft.vips += 1;
            draft.need = draft.need.max(need);
            if let Some((nodes, best)) = serving {
                draft.serving.add(nodes, best);
            }
            if draft.announcement.name != announcement.name
                || !draft.is_as_announced()
                || draft.policy() != policy
            {
                plan.left_behind.insert(vip.spec.address);
            }
        }
        plan.routers_by_vip.insert(vip.name_any(), router);
    }

    /// The segment for a VIP without one.
    fn segment(&self, vip: &VirtualIP, announcement: &ParsedAnnouncement) -> Result<IpNet, Unplaced> {
        let address = vip.spec.address;
        let need = self.need(vip);
        let segments = self.topology.segments(announcement);
        self.topology.segments_for(need, announcement).find(address).ok_or_else(|| {
            if let Some(segment) = segments.find(address) {
                let agents = self.topology.agents(segment, announcement);
                return Unplaced::AgentTooOld { address, agents };
            }
            if let Some(segment) = segments.find_without_link_local(address) {
                return Unplaced::LinkLocal { address, segment };
            }
            if let Some(example) = segments.find_host_route(address) {
                return Unplaced::HostRoutes { address, example: example.to_owned() };
            }
            let pool = vip.spec.pool.clone();
            match &announcement.name {
                Some(name) if !announcement.is_from_everywhere() => {
                    let (announcement, interfaces) = (name.clone(), announcement.interfaces());
                    Unplaced::Announcement { address, announcement, interfaces }
                }
                Some(_) | None => Unplaced::Segment { address, pool },
            }
        })
    }

    /// The router for a VIP without one, or whose `old` one is not right for it; made if need be.
    fn place(
        &mut self,
        vip: &'a VirtualIP,
        announcement: &'a ParsedAnnouncement,
        old: Option<&String>,
    ) -> Result<String, Unplaced> {
        let segment = self.segment(vip, announcement)?;
        let (policy, need) = (self.policy(vip), self.need(vip));
        let class = PlacementClass::new(segment, announcement, policy, need);
        let mut feasible = self
            .feasible
            .remove(&class)
            .unwrap_or_else(|| self.feasible(segment, announcement, policy, need));
        let split = old.filter(|_| policy.is_cluster()).and_then(|old| self.split(old, &mut feasible));
        let choice = match (split, policy) {
            (Some(name), _) => RouterChoice::Made(name),
            (None, ExternalTrafficPolicy::Cluster) => self.choose(vip, &mut feasible),
            (None, ExternalTrafficPolicy::Local) => self.choose_local(vip, &mut feasible, old),
        };
        self.feasible.insert(class, feasible);
        match choice {
            RouterChoice::Router(name) => Ok(name),
            RouterChoice::Made(name) => {
                if let Some(made) = self.routers.get(&name) {
                    // It may fit elsewhere, too.
                    self.feasible.values_mut().for_each(|feasible| feasible.learn(&name, made));
                }
                Ok(name)
            }
            RouterChoice::NoVrid => Err(Unplaced::vrid(segment, announcement)),
        }
    }

    fn feasible(
        &self,
        segment: IpNet,
        announcement: &'a ParsedAnnouncement,
        policy: ExternalTrafficPolicy,
        need: Need,
    ) -> FeasibleRouters<'a> {
        FeasibleRouters::new(segment, announcement, policy, need, self.topology, &self.routers)
    }
}

/// Decision whether a VIP stays on its router.
enum Stay {
    Yes,
    /// If no other can be had.
    IfNoOther,
    No,
}

/// The routers that count. Of several with one VRID on one segment, which manual edits make and subnets that became one, agents take part
/// in the oldest only; the VIPs of the others are placed anew.
fn distinct(input: &PlanInput) -> Vec<&Arc<VirtualRouter>> {
    let mut by_age: Vec<_> =
        input.routers.iter().filter(|router| router.metadata.deletion_timestamp.is_none()).collect();
    by_age.sort_by_cached_key(|router| {
        (router.metadata.creation_timestamp.as_ref().map(|time| time.0), router.name_any())
    });
    let mut seen = BTreeSet::new();
    by_age.retain(|router| {
        let segment = router.spec.segment.parse().map(|segment| input.topology.current(segment));
        seen.insert((segment.map_err(|_| router.spec.segment.as_str()), router.spec.vrid))
    });
    by_age
}

#[cfg(test)]
mod tests;
