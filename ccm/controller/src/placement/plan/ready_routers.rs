//! The virtual router that a VIP can name from the moment it is made, so that it is not written a second time to name it.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use windlass_api::ExternalTrafficPolicy;

use super::{Need, PlanInput, Planner};
use crate::placement::announcements::ParsedAnnouncement;

/// Key of VIPs without siblings that the plan treats alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PlacementClass {
    segment: IpNet,
    announcement: Option<String>,
    policy: ExternalTrafficPolicy,
    need: Need,
}

impl PlacementClass {
    /// VIPs on this segment of this Announcement, of Services with this policy.
    pub(crate) fn new(
        segment: IpNet,
        announcement: &ParsedAnnouncement,
        policy: ExternalTrafficPolicy,
        need: Need,
    ) -> Self {
        Self { segment, announcement: announcement.name.clone(), policy, need }
    }
}

/// The virtual routers that are there for new VIPs of one kind, whose Services have no other VIP of the family and the policy
/// `Cluster`, and to which any agent will do. Good until the topology, an Announcement or a virtual router changes.
#[derive(Debug)]
pub(crate) struct ReadyRouters {
    /// Their names, by the node that is first in them.
    routers: BTreeMap<Option<String>, Vec<String>>,
    /// None would be made beside them, as long as each carries something.
    complete: bool,
}

impl ReadyRouters {
    /// The routers for VIPs of an Announcement of `input` on `segment`.
    pub(crate) fn new(input: &PlanInput, segment: IpNet, announcement: Option<&str>) -> Self {
        let planner = Planner::new(input);
        let announcement = input.announcements.get_or_none(announcement);
        let mut feasible =
            planner.feasible(segment, announcement, ExternalTrafficPolicy::Cluster, Need::Nothing);
        let complete =
            feasible.routers.len() >= feasible.wanted || planner.free_vrid(&mut feasible).is_none();
        let mut routers: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for name in feasible.routers {
            let first = planner.routers.get(&name).and_then(|draft| draft.first()).map(str::to_owned);
            routers.entry(first).or_default().push(name);
        }
        Self { routers, complete }
    }

    /// Returns the virtual router that the plan would give to another VIP, of a Service whose VIPs of the other family have these
    /// `partners` as first nodes; `vips` returns the number that each carries. `None` where a router would have to be made, or would
    /// change by it: that is the planner's work.
    pub(crate) fn next(&self, partners: &BTreeSet<String>, vips: impl Fn(&str) -> usize) -> Option<&str> {
        let of_node = self.routers.iter().flat_map(|(first, names)| {
            let is_apart = !first.as_ref().is_some_and(|first| partners.contains(first));
            let each: Vec<_> = names.iter().map(|name| (vips(name), name)).collect();
            let load: usize = each.iter().map(|(vips, _)| vips).sum();
            each.into_iter().map(move |(vips, name)| ((load, is_apart, vips), name))
        });
        let all: Vec<_> = of_node.collect();
        // One that carries nothing is about to be removed, or taken for the next.
        let is_settled = self.complete && all.iter().all(|((_, _, vips), _)| *vips > 0);
        all.into_iter().min().filter(|_| is_settled).map(|(_, name)| name.as_str())
    }
}
