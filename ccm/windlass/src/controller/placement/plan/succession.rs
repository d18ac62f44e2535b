//! Virtual routers that take the place of others: they have the same nodes with the same priorities under another VRID, so that the
//! node that has the VIPs goes on with them.
//!
//! - VRIDs are left to strangers. Ours do not obey them, but they may obey ours, and a switch that learns the virtual router's MAC
//!   address cannot tell them apart.
//! - An Announcement may want what a router cannot change to while it runs.
//!
//! Each has one of its own, which names it by its UID ([`VirtualRouterSpec::replaces`](windlass_api::VirtualRouterSpec)): the VIPs follow
//! one by one, and some of them may only do so by a later plan.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ipnet::IpNet;
use kube::ResourceExt as _;
use windlass_api::VirtualRouter;

use super::router_draft::{RouterDraft, router_name, used_vrids};
use super::{PlanInput, Planner, ranking};
use crate::controller::placement::announcements::ParsedAnnouncement;

/// Which Announcement a router is of: that of most of its VIPs, of several with as many the one that it is of already.
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

impl<'a> Planner<'a> {
    /// Puts another router in the place of each whose VRID a stranger uses, or that is not as its Announcement says, as far as there
    /// are VRIDs.
    pub(super) fn replace_routers(&mut self) {
        let heard = self.heard_by_node();
        if heard.is_empty() && self.routers.values().all(RouterDraft::is_as_announced) {
            return;
        }
        let is_taken = |draft: &RouterDraft<'_>| {
            let Some(segment) = draft.segment else { return false };
            let is_ipv4 = segment.addr().is_ipv4();
            self.links(draft, segment).into_iter().any(|(node, interface)| {
                heard.get(node).is_some_and(|heard| heard.contains(&(interface, is_ipv4, draft.spec.vrid)))
            })
        };
        let may_go = |draft: &RouterDraft<'_>| !self.waits_for_key(draft, draft.announcement);
        let is_to_go =
            |draft: &RouterDraft<'_>| (!draft.is_as_announced() && may_go(draft)) || is_taken(draft);
        let to_go: Vec<String> =
            self.routers.iter().filter(|(_, draft)| is_to_go(draft)).map(|(name, _)| name.clone()).collect();
        self.mark_replaced(&to_go, true);
        let input = self.input;
        let named = input.wanted_vips().filter_map(|vip| vip.spec.virtual_router.as_deref()).collect();
        for old in to_go {
            let Some(announcement) = self.routers.get(&old).map(|draft| draft.announcement) else { continue };
            match self.made_before(&old).or_else(|| self.make_successor(&old, &named)) {
                Some(new) => {
                    self.successors.entry(old).or_default().insert(announcement.name.as_deref(), new);
                }
                // It works as it is: its nodes ignore the stranger.
                None => self.mark_replaced(&[old], false),
            }
        }
    }

    /// What takes the place of a router under `vrid`. It signs only if its nodes can.
    fn successor(&self, draft: &RouterDraft<'a>, vrid: u8) -> RouterDraft<'a> {
        let mut successor = draft.successor(vrid, draft.announcement);
        successor.spec.to_mut().replaces = draft.uid.map(str::to_owned);
        if self.waits_for_key(draft, draft.announcement) {
            successor.spec.to_mut().authentication = draft.spec.authentication;
        }
        successor
    }

    /// Whether nodes of a router that does not sign as an Announcement wants it do not have the key: those could not take part in one
    /// that does.
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

    /// The interface, whether the family is IPv4, and VRID of the strangers that each node hears.
    fn heard_by_node(&self) -> BTreeMap<String, BTreeSet<(&str, bool, u8)>> {
        let networks =
            self.topology.networks.iter().filter(|network| !network.spec.foreign_routers.is_empty());
        let heard = networks.map(|network| {
            let heard = network.spec.foreign_routers.iter();
            let keys = heard.map(|one| (one.interface.as_str(), one.source.is_ipv4(), one.vrid));
            (network.name_any(), keys.collect())
        });
        heard.collect()
    }

    /// The links of a router, each as a node and its interface: of the nodes that it has, and of those that it may get.
    fn links<'b>(&'b self, draft: &'b RouterDraft<'_>, segment: IpNet) -> BTreeSet<(&'b str, &'b str)> {
        let nodes = draft.spec.nodes.iter().map(|node| (node.name.as_str(), node.interface.as_str()));
        let candidates = self.topology.segments(draft.announcement).candidates(segment).into_iter();
        nodes.chain(candidates.map(|one| (one.node.as_str(), one.interface.as_str()))).collect()
    }

    /// What was made in the place of this one before, if not all VIPs have gone to it yet. One that is its like is not that: of two
    /// routers that became one neither could be given to a node that joins without the other.
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
    fn make_successor(&mut self, old: &str, named: &HashSet<&str>) -> Option<String> {
        let draft = self.routers.get(old)?;
        let segment = draft.segment?;
        let links = self.links(draft, segment);
        let is_link = |node: &str, interface: &str| links.contains(&(node, interface));
        let used = used_vrids(segment, is_link, &self.routers, &self.topology.networks);
        let is_free = |vrid: &u8| !used.contains(vrid) && !named.contains(&*router_name(segment, *vrid));
        let free = draft.announcement.vrrp.vrids.clone().filter(is_free);
        let vrid = free.min_by_key(|vrid| ranking::weight(*vrid, &self.input.cluster))?;
        let name = router_name(segment, vrid);
        let new = self.successor(draft, vrid);
        self.routers.insert(name.clone(), new);
        Some(name)
    }
}
