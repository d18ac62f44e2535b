//! Virtual routers that take the place of others. They have the same nodes with the same priorities under another VRID, so that the
//! node that has the VIPs keeps serving them.
//!
//! - VRIDs are left to foreign routers. Ours do not obey them, but they may obey ours, and a switch that learns the virtual router's
//!   MAC address cannot tell them apart.
//! - An Announcement may need a setting that a router cannot change while it runs.
//!
//! Each replacement names its predecessor by its UID ([`VirtualRouterSpec::replaces`](windlass_api::VirtualRouterSpec)): the VIPs
//! follow one by one, and some of them may only do so by a later plan.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use ipnet::IpNet;
use windlass_api::VirtualRouter;

use super::router_draft::{RouterDraft, router_name, used_vrids};
use super::strangers::{NextChange, foreign_vrids};
use super::{PlanInput, Planner, ranking};
use crate::placement::announcements::ParsedAnnouncement;

/// Returns a function that gives the Announcement of a router: that of most of its VIPs; among several with as many, the one that it
/// is of already.
pub(super) fn adopted<'a>(input: &'a PlanInput) -> impl Fn(&VirtualRouter) -> &'a ParsedAnnouncement {
    let mut counts: HashMap<&str, BTreeMap<Option<&str>, usize>> = HashMap::new();
    if !input.announcements.is_empty() {
        for vip in input.wanted_vips() {
            if let Some(router) = &vip.spec.virtual_router {
                let name = input.announcement(vip).name.as_deref();
                *counts.entry(router).or_default().entry(name).or_default() += 1;
            }
        }
    }
    move |router| {
        let own = router.spec.announcement.as_deref();
        let wanted = router.metadata.name.as_deref().and_then(|name| counts.get(name)).into_iter().flatten();
        let most = wanted.max_by_key(|(name, count)| (**count, **name == own));
        input.announcements.get_or_none(most.map_or(own, |(name, _)| *name))
    }
}

/// UIDs that connect routers: each of one that is there, and that another one names as the one it replaces.
pub(super) fn connecting_uids(routers: &[&Arc<VirtualRouter>]) -> HashSet<String> {
    let there: HashSet<&str> = routers.iter().filter_map(|router| router.metadata.uid.as_deref()).collect();
    let replaced = routers.iter().filter_map(|router| router.spec.replaces.as_deref());
    replaced.filter(|uid| there.contains(uid)).map(str::to_owned).collect()
}

impl<'a> Planner<'a> {
    /// Replaces each router whose VRID a foreign router uses, or that differs from its Announcement, as far as there are VRIDs. The
    /// rate of changes for foreign routers is bounded; see [`strangers`](super::strangers).
    pub(super) fn replace_routers(&mut self) {
        let hears_any = self.topology.networks.iter().any(|network| !network.spec.foreign_routers.is_empty());
        if !hears_any && self.routers.values().all(RouterDraft::is_as_announced) {
            return;
        }
        let mut changes: BTreeMap<IpNet, NextChange> = BTreeMap::new();
        let mut to_go: Vec<(String, u32)> = Vec::new();
        for (name, draft) in &self.routers {
            if !draft.is_as_announced() && !self.waits_for_key(draft, draft.announcement) {
                to_go.push((name.clone(), 0));
            } else if hears_any && draft.spec.authentication.is_none() && self.is_taken(draft) {
                let Some(segment) = draft.segment else { continue };
                let next = *changes.entry(segment).or_insert_with(|| self.next_change(segment));
                // One whose successor is there gives it the rest of its VIPs.
                if next.from.is_none() || self.made_before(name).is_some() {
                    to_go.push((name.clone(), next.number));
                }
            }
        }
        self.next_vrid_change = changes.into_values().filter_map(|next| next.from).min();
        let leaving: Vec<String> = to_go.iter().map(|(name, _)| name.clone()).collect();
        self.mark_replaced(&leaving, true);
        let input = self.input;
        let named = input.wanted_vips().filter_map(|vip| vip.spec.virtual_router.as_deref()).collect();
        for (old, vrid_changes) in to_go {
            let Some(announcement) = self.routers.get(&old).map(|draft| draft.announcement) else { continue };
            let made = self.made_before(&old).or_else(|| self.make_successor(&old, vrid_changes, &named));
            match made {
                Some(new) => {
                    self.successors.entry(old).or_default().insert(announcement.name.as_deref(), new);
                }
                // It works as it is: its nodes ignore the stranger.
                None => self.mark_replaced(&[old], false),
            }
        }
    }

    /// Returns the replacement of a router under `vrid`. It signs only if its nodes can.
    fn successor(&self, draft: &RouterDraft<'a>, vrid: u8) -> RouterDraft<'a> {
        let mut successor = draft.successor(vrid, draft.announcement);
        successor.spec.to_mut().replaces = draft.uid.map(str::to_owned);
        successor.is_in_succession = true;
        if self.waits_for_key(draft, draft.announcement) {
            successor.spec.to_mut().authentication = draft.spec.authentication;
        }
        successor
    }

    /// Returns true if the Announcement wants another signature than the router has, and nodes of the router do not have the key: they
    /// could not take part in a router that signs with it.
    pub(super) fn waits_for_key(&self, draft: &RouterDraft<'_>, announcement: &ParsedAnnouncement) -> bool {
        let wanted =
            announcement.vrrp.authentication.filter(|wanted| draft.spec.authentication != Some(*wanted));
        wanted.is_some_and(|wanted| !self.topology.have_key(&draft.spec.nodes, wanted.key_id))
    }

    fn mark_replaced(&mut self, names: &[String], is_replaced: bool) {
        for name in names {
            if let Some(draft) = self.routers.get_mut(name) {
                draft.is_replaced = is_replaced;
            }
        }
    }

    /// The links of a router, each as a node and its interface: of the nodes that it has, and of those that it may get.
    pub(super) fn links<'b>(
        &'b self,
        draft: &'b RouterDraft<'_>,
        segment: IpNet,
    ) -> BTreeSet<(&'b str, &'b str)> {
        let nodes = draft.spec.nodes.iter().map(|node| (node.name.as_str(), node.interface.as_str()));
        let candidates = self.topology.segments(draft.announcement).candidates(segment).into_iter();
        nodes.chain(candidates.map(|one| (one.node.as_str(), one.interface.as_str()))).collect()
    }

    /// Returns the router that was made to replace this one before, if not all VIPs have moved to it yet. A router that is merely like
    /// it does not count: of two routers that became one, neither could be given to a node that joins without the other.
    fn made_before(&self, old: &str) -> Option<String> {
        let of = self.routers.get(old)?;
        let uid = of.uid?;
        let is_it = |one: &RouterDraft<'_>| {
            !one.is_replaced
                && one.spec.replaces.as_deref() == Some(uid)
                && one.segment == of.segment
                && one.policy() == of.policy()
                && one.announcement.name == of.announcement.name
        };
        self.routers.iter().find(|(_, one)| is_it(one)).map(|(name, _)| name.clone())
    }

    /// Makes one with a VRID that is free on the links of this one. It gets no name that VIPs have of a router that is gone: they would
    /// be taken for its own.
    fn make_successor(&mut self, old: &str, vrid_changes: u32, named: &HashSet<&str>) -> Option<String> {
        let draft = self.routers.get(old)?;
        let segment = draft.segment?;
        let links = self.links(draft, segment);
        let is_link = |node: &str, interface: &str| links.contains(&(node, interface));
        let used = used_vrids(segment, is_link, &self.routers, &self.topology.networks);
        let is_free = |vrid: &u8| {
            let name = router_name(segment, *vrid);
            !used.contains(vrid) && !named.contains(&*name) && !self.routers.contains_key(&name)
        };
        let free = draft.announcement.vrrp.vrids.clone().filter(is_free);
        let vrid = free.min_by_key(|vrid| ranking::weight(*vrid, &self.input.cluster))?;
        let name = router_name(segment, vrid);
        let new = RouterDraft { vrid_changes, ..self.successor(draft, vrid) };
        self.routers.insert(name.clone(), new);
        Some(name)
    }

    /// Returns true if a foreign router uses the VRID of a router on one of its links.
    fn is_taken(&self, draft: &RouterDraft<'_>) -> bool {
        let Some(segment) = draft.segment else { return false };
        let links = self.links(draft, segment);
        let is_link = |node: &str, interface: &str| links.contains(&(node, interface));
        foreign_vrids(segment.addr().is_ipv4(), is_link, &self.topology.networks).contains(&draft.spec.vrid)
    }
}
