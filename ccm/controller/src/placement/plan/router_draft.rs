//! Virtual routers while a plan is made.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use ipnet::IpNet;
use jiff::Timestamp;
use windlass_api::{ExternalTrafficPolicy, NodeNetwork, RankedNode, VirtualRouterSpec};

use super::local::Serving;
use super::ranking;
use super::segment::Candidate;
use super::strangers::foreign_vrids;
use super::topology::{Need, Topology};
use crate::placement::announcements::{ParsedAnnouncement, RouterSettings};

/// Routers that are first on one node, so that what it carries goes to as many others when it dies.
const ROUTERS_OF_A_NODE: usize = 2;

/// The fewest that a cluster has, however small it is: a node that joins can be given whole routers only.
const FEWEST_ROUTERS: usize = 6;

/// A router while the plan is made.
pub(super) struct RouterDraft<'a> {
    pub(super) spec: Cow<'a, VirtualRouterSpec>,
    /// Its `spec.segment`, if that is a valid subnet.
    pub(super) segment: Option<IpNet>,
    /// Its `metadata.uid`; `None`: it is to be made.
    pub(super) uid: Option<&'a str>,
    /// The one of which its VIPs are.
    pub(super) announcement: &'a ParsedAnnouncement,
    /// Its `metadata.generation`; 0: it is to be made.
    pub(super) generation: i64,
    /// Its `metadata.creationTimestamp`.
    pub(super) created: Option<Timestamp>,
    /// Number of VRID changes in a row for foreign routers of which it is the last; 0: it was made for another reason.
    pub(super) vrid_changes: u32,
    /// Active node, as far as it is reported; in a router that takes the place of another, the Active node of that router.
    pub(super) active: Option<&'a str>,
    pub(super) vips: usize,
    /// Number of VIPs that name it, whether the plan leaves them there or not.
    pub(super) named_by: usize,
    /// Greatest need of its VIPs.
    pub(super) need: Need,
    /// Another one takes its place.
    pub(super) is_replaced: bool,
    /// The router that it was made to replace is there still, or one that was made to replace it.
    pub(super) is_in_succession: bool,
    /// The node that an admin wants to have its VIPs.
    pub(super) preferred_node: Option<&'a str>,
    /// A node that is to join it, to be given a share.
    pub(super) invited: Option<String>,
    /// Nodes that can serve its VIPs, if it follows that.
    pub(super) serving: Serving<'a>,
}

impl<'a> RouterDraft<'a> {
    pub(super) fn new(
        spec: Cow<'a, VirtualRouterSpec>,
        announcement: &'a ParsedAnnouncement,
        active: Option<&'a str>,
    ) -> Self {
        let segment = spec.segment.parse().ok();
        Self {
            spec,
            segment,
            uid: None,
            announcement,
            generation: 0,
            created: None,
            vrid_changes: 0,
            active,
            vips: 0,
            named_by: 0,
            need: Need::Nothing,
            is_replaced: false,
            is_in_succession: false,
            preferred_node: None,
            invited: None,
            serving: Serving::default(),
        }
    }

    /// Returns true if the settings that cannot change while it runs match its Announcement. Peers that change them at different
    /// moments would not receive each other's adverts.
    pub(super) fn is_as_announced(&self) -> bool {
        let RouterSettings { vrids, transport, authentication, .. } = &self.announcement.vrrp;
        vrids.contains(&self.spec.vrid)
            && *transport == self.spec.transport
            && *authentication == self.spec.authentication
    }

    /// Applies the settings of its Announcement that can change while it runs.
    pub(super) fn follow_announcement(&mut self) {
        let RouterSettings { interval_ms, preempt_delay_seconds, unicast_fallback, virtual_mac, .. } =
            self.announcement.vrrp;
        if self.spec.announcement != self.announcement.name
            || self.spec.advertisement_interval_milliseconds != interval_ms
            || self.spec.preempt_delay_seconds != preempt_delay_seconds
            || self.spec.unicast_fallback != unicast_fallback
            || self.spec.virtual_mac != virtual_mac
            || self.spec.checks != self.announcement.checks
            || self.spec.address_conflict != self.announcement.address_conflict
            || self.spec.connections != self.announcement.connections
        {
            let spec = self.spec.to_mut();
            spec.announcement.clone_from(&self.announcement.name);
            spec.advertisement_interval_milliseconds = interval_ms;
            spec.preempt_delay_seconds = preempt_delay_seconds;
            spec.unicast_fallback = unicast_fallback;
            spec.virtual_mac = virtual_mac;
            spec.checks.clone_from(&self.announcement.checks);
            spec.address_conflict = self.announcement.address_conflict;
            spec.connections = self.announcement.connections;
        }
    }

    /// Returns its replacement under `vrid` with the settings of `announcement`. The nodes are the same, so that the Active node stays
    /// Active.
    pub(super) fn successor(&self, vrid: u8, announcement: &'a ParsedAnnouncement) -> Self {
        let VirtualRouterSpec { segment, nodes, external_traffic_policy, .. } =
            VirtualRouterSpec::clone(&self.spec);
        let spec = announcement.router(vrid, segment, nodes, external_traffic_policy);
        let successor = Self::new(Cow::Owned(spec), announcement, self.active);
        Self { preferred_node: self.preferred_node, ..successor }
    }

    /// The policy of the Services whose VIPs it carries.
    pub(super) fn policy(&self) -> ExternalTrafficPolicy {
        self.spec.external_traffic_policy
    }

    /// Returns true if the agent of one of its nodes does not meet a VIP's need.
    pub(super) fn lacks(&self, need: Need, topology: &Topology) -> bool {
        self.spec.nodes.iter().any(|node| topology.lacks(&node.name, need))
    }

    /// Returns true if none of its nodes meets a VIP's need, and no other can join it.
    pub(super) fn is_for_nobody(&self, need: Need, segment: IpNet, topology: &Topology) -> bool {
        let can_be_joined = || topology.segments_for(need, self.announcement).has_candidates(segment);
        let mut others = self.spec.nodes.iter().filter(|node| !topology.lacks(&node.name, need));
        self.lacks(need, topology) && others.next().is_none() && !can_be_joined()
    }

    /// The first node of its ranking, whatever an admin wants: what that is no reason to move others for.
    pub(super) fn first(&self) -> Option<&str> {
        ranking::first(&self.spec)
    }

    /// The node that an admin wants to have its VIPs, if it is in its ranking.
    pub(super) fn moved_to(&self) -> Option<&str> {
        self.preferred_node.filter(|wanted| self.spec.nodes.iter().any(|node| node.name == *wanted))
    }

    /// The node that an admin wants if it is healthy now, else the first of its ranking that is.
    pub(super) fn first_healthy(&self, topology: &Topology) -> Option<&str> {
        let segments = topology.segments(self.announcement);
        let is_healthy = |node: &&RankedNode| segments.is_healthy(&node.name);
        match self.policy() {
            ExternalTrafficPolicy::Cluster => {
                let moved_to = self.moved_to().filter(|node| segments.is_healthy(node));
                let healthy = || self.spec.nodes.iter().find(is_healthy).map(|node| node.name.as_str());
                moved_to.or_else(healthy).or_else(|| self.first())
            }
            ExternalTrafficPolicy::Local => self.first(),
        }
    }
}

/// Routers and candidates for VIPs of one kind. Kept while VIPs are placed, and extended by the routers that are made meanwhile.
pub(super) struct FeasibleRouters<'a> {
    pub(super) segment: IpNet,
    pub(super) announcement: &'a ParsedAnnouncement,
    pub(super) policy: ExternalTrafficPolicy,
    pub(super) need: Need,
    topology: &'a Topology,
    pub(super) candidates: Vec<&'a Candidate>,
    /// Desired number of routers to spread the VIPs over.
    pub(super) wanted: usize,
    /// Names of the routers that fit.
    pub(super) routers: Vec<String>,
    /// The candidates' interfaces, by their names.
    interfaces: HashMap<&'a str, &'a str>,
    /// VRIDs that routers of the family, ours and foreign ones, use on the same links; filled at the first request.
    used_vrids: Option<BTreeSet<u8>>,
}

impl<'a> FeasibleRouters<'a> {
    /// Collects the nodes of `topology` and these routers that can carry VIPs of this Announcement and of Services with this policy.
    pub(super) fn new(
        segment: IpNet,
        announcement: &'a ParsedAnnouncement,
        policy: ExternalTrafficPolicy,
        need: Need,
        topology: &'a Topology,
        routers: &BTreeMap<String, RouterDraft<'_>>,
    ) -> Self {
        let candidates = topology.segments_for(need, announcement).candidates(segment);
        let interfaces = candidates.iter().map(|one| (one.node.as_str(), one.interface.as_str())).collect();
        let wanted = wanted_routers(first_choices(&candidates).count(), announcement.vrrp.vrids.len());
        let (routers_that_fit, used_vrids) = (Vec::new(), None);
        let mut feasible = Self {
            segment,
            announcement,
            policy,
            need,
            topology,
            candidates,
            wanted,
            routers: routers_that_fit,
            interfaces,
            used_vrids,
        };
        let fitting = routers.iter().filter(|(_, router)| feasible.fits(router));
        feasible.routers = fitting.map(|(name, _)| name.clone()).collect();
        feasible
    }

    /// Returns the routers that can take a VIP which names `own` now. An empty router cannot where others may come or come back, which
    /// would share it with this VIP for good: a router in a succession, and a router that another VIP still names, since the write
    /// that moves that VIP elsewhere may fail and no longer be needed.
    pub(super) fn fitting<'r>(
        &'r self,
        routers: &'r BTreeMap<String, RouterDraft<'a>>,
        own: Option<&str>,
    ) -> impl Iterator<Item = (&'r String, &'r RouterDraft<'a>)> {
        let known = self.routers.iter().filter_map(|name| Some((name, routers.get(name)?)));
        known.filter(move |(name, router)| {
            let is_named_by_others = router.named_by > usize::from(own == Some(name.as_str()));
            router.vips > 0 || !(router.is_in_succession || is_named_by_others)
        })
    }

    fn fits(&self, router: &RouterDraft<'_>) -> bool {
        !router.is_replaced
            && router.segment == Some(self.segment)
            && router.policy() == self.policy
            && router.announcement.name == self.announcement.name
            && router.is_as_announced()
            // Not even one that is about to lose that node: its agent may hear of the VIP before.
            && !router.lacks(self.need, self.topology)
            && router.spec.nodes.iter().all(|node| {
                self.interfaces.get(node.name.as_str()).is_none_or(|interface| *interface == node.interface)
            })
    }

    /// `router` was made.
    pub(super) fn learn(&mut self, name: &str, router: &RouterDraft<'_>) {
        if self.fits(router) {
            self.routers.push(name.to_owned());
        }
        if self.competes_for_vrid(router)
            && let Some(used) = &mut self.used_vrids
        {
            used.insert(router.spec.vrid);
        }
    }

    /// Returns true if a router of ours uses a VRID that a new router here could have otherwise.
    fn competes_for_vrid(&self, router: &RouterDraft<'_>) -> bool {
        competes_for_vrid(router, self.segment, |node, interface| self.is_link(node, interface))
    }

    fn is_link(&self, node: &str, interface: &str) -> bool {
        self.interfaces.get(node) == Some(&interface)
    }

    /// VRIDs that no new router can have here.
    pub(super) fn used_vrids(
        &mut self,
        routers: &BTreeMap<String, RouterDraft<'_>>,
        networks: &[Arc<NodeNetwork>],
    ) -> &BTreeSet<u8> {
        let used = self.used_vrids.take().unwrap_or_else(|| {
            used_vrids(self.segment, |node, interface| self.is_link(node, interface), routers, networks)
        });
        self.used_vrids.insert(used)
    }
}

/// Returns the number of routers to spread VIPs of one kind over: the same number for each node of the `first` choice, and half of the
/// `vrids` at most.
fn wanted_routers(first: usize, vrids: usize) -> usize {
    let most = vrids.div_ceil(2).max(1);
    let wanted = (first * ROUTERS_OF_A_NODE).max(FEWEST_ROUTERS).min(most);
    wanted - wanted.checked_rem(first).filter(|_| wanted >= first).unwrap_or(0)
}

/// Returns the healthy candidates that the Announcement prefers most; of these, those without failures, or all if each has one.
pub(super) fn first_choices<'b>(candidates: &'b [&'b Candidate]) -> impl Iterator<Item = &'b Candidate> {
    let healthy = candidates.iter().filter(|one| one.healthy);
    let choice = |one: &Candidate| (Reverse(one.weight), one.fails);
    let best = healthy.clone().map(|one| choice(one)).min();
    healthy.filter(move |one| Some(choice(one)) == best).copied()
}

/// Returns true if a router uses its VRID on the same links as one of `segment` would; each link is a node and its interface.
fn competes_for_vrid(router: &RouterDraft<'_>, segment: IpNet, is_link: impl Fn(&str, &str) -> bool) -> bool {
    let other_family = router.segment.is_some_and(|other| other.addr().is_ipv4() != segment.addr().is_ipv4());
    let shares = || router.spec.nodes.iter().any(|node| is_link(&node.name, &node.interface));
    !other_family && (router.segment == Some(segment) || shares())
}

/// VRIDs that routers of the family, ours and foreign ones that count, use on these links.
pub(super) fn used_vrids(
    segment: IpNet,
    is_link: impl Fn(&str, &str) -> bool,
    routers: &BTreeMap<String, RouterDraft<'_>>,
    networks: &[Arc<NodeNetwork>],
) -> BTreeSet<u8> {
    let ours = routers.values().filter(|router| competes_for_vrid(router, segment, &is_link));
    let mut used: BTreeSet<u8> = ours.map(|router| router.spec.vrid).collect();
    used.extend(foreign_vrids(segment.addr().is_ipv4(), is_link, networks));
    used
}

/// Name of a router: `v4-192.0.2.0-24-64`, `v6-2001-db8---64-64`.
pub(super) fn router_name(segment: IpNet, vrid: u8) -> String {
    let family = if segment.addr().is_ipv4() { "v4" } else { "v6" };
    format!("{family}-{}-{vrid}", segment.to_string().replace(['/', ':'], "-"))
}
