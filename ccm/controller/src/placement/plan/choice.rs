//! Choice of the router that takes a VIP among those that fit, and of the moment when one is made for it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use windlass_api::{VirtualIP, VirtualRouterSpec};

use super::ranking::{self, NewRouter, Preferences};
use super::router_draft::{FeasibleRouters, RouterDraft, first_choices, router_name};
use super::{Planner, local};
use crate::placement::announcements::ParsedAnnouncement;
use crate::placement::endpoints::ServingNodes;

/// First VRID tried: low ones are what keepalived examples and routers use.
const FIRST_VRID: u8 = 64;

/// The router chosen for a VIP.
pub(super) enum RouterChoice {
    /// A router that was there.
    Router(String),
    /// A new one.
    Made(String),
    /// There is none, and none can be made.
    NoVrid,
}

impl<'a> Planner<'a> {
    /// The router for a VIP that every node serves.
    pub(super) fn choose(&mut self, vip: &'a VirtualIP, feasible: &mut FeasibleRouters<'a>) -> RouterChoice {
        // VIPs of the same Services, by the node that is first where they are: now, and when all nodes are well.
        let (mut now, mut when_healthy) = (BTreeMap::new(), BTreeMap::new());
        for (router, count) in self.spread.siblings(vip) {
            let Some(router) = self.routers.get(router) else { continue };
            if let Some(node) = router.first_healthy(self.topology) {
                *now.entry(node).or_insert(0) += count;
            }
            if let Some(node) = router.first() {
                *when_healthy.entry(node).or_insert(0) += count;
            }
        }
        let at = |counts: &BTreeMap<&str, usize>, node: Option<&str>| {
            node.and_then(|node| counts.get(node)).copied().unwrap_or(0)
        };
        let siblings = |router: &RouterDraft<'_>| {
            if now.is_empty() {
                return (0, 0);
            }
            (at(&now, router.first_healthy(self.topology)), at(&when_healthy, router.first()))
        };
        let partners = self.partners(vip);
        let own = vip.spec.virtual_router.as_deref();
        let fitting = || feasible.fitting(&self.routers, own);
        let mut loads: BTreeMap<Option<&str>, usize> = BTreeMap::new();
        for (_, router) in fitting() {
            *loads.entry(router.first()).or_default() += router.vips;
        }
        let is_spread = self.is_spread(feasible);
        // One that carries nothing is as good as a new one.
        let least = fitting().filter(|(_, router)| is_spread || router.vips == 0);
        let key = |router: &RouterDraft<'_>| {
            let first = router.first();
            let is_apart = !first.is_some_and(|first| partners.contains(first));
            (loads.get(&first).copied().unwrap_or(0), is_apart, router.vips)
        };
        let least = least.map(|(name, router)| (siblings(router), key(router), name)).min();
        let or_any = || fitting().map(|(name, router)| (siblings(router), key(router), name)).min();
        if let Some(((siblings, _), _, name)) = least
            && (siblings == 0
                || first_choices(&feasible.candidates).all(|one| siblings <= at(&now, Some(&one.node))))
        {
            return RouterChoice::Router(name.clone());
        }
        let least = least.or_else(or_any);
        let least = least.map(|(_, _, name)| name.clone());
        let siblings = now.into_iter().map(|(node, count)| (node.to_owned(), count)).collect();
        let preferences = Preferences::default();
        let wanted = NewRouter { siblings: &siblings, partners: &partners, preferences };
        match (self.add(feasible, &wanted), least) {
            (Some(made), _) => RouterChoice::Made(made),
            (None, Some(name)) => RouterChoice::Router(name),
            (None, None) => RouterChoice::NoVrid,
        }
    }

    /// The nodes that are first for the VIPs of the same Services and the other family.
    fn partners(&self, vip: &'a VirtualIP) -> BTreeSet<String> {
        let routers = self.spread.partners(vip).filter_map(|router| self.routers.get(router));
        routers.filter_map(RouterDraft::first).map(str::to_owned).collect()
    }

    /// Returns true if the VIPs are spread over the desired number of routers.
    pub(super) fn is_spread(&self, feasible: &FeasibleRouters<'_>) -> bool {
        let in_use = |name: &&String| self.routers.get(*name).is_some_and(|router| router.vips > 0);
        feasible.routers.iter().filter(in_use).count() >= feasible.wanted
    }

    /// Chooses the router for a VIP that not every node serves.
    pub(super) fn choose_local(
        &mut self,
        vip: &'a VirtualIP,
        feasible: &mut FeasibleRouters<'a>,
        old: Option<&String>,
    ) -> RouterChoice {
        static NONE: ServingNodes = ServingNodes::new();
        let serving = self.serving(vip).unwrap_or(&NONE);
        let best = self.best(feasible.segment, feasible.announcement, feasible.need, serving);
        let vrids = feasible.announcement.vrrp.vrids.clone();
        let used = feasible.used_vrids(&self.routers, &self.topology.networks);
        let shares = used.range(vrids.clone()).count() >= local::shared_from(vrids.len());
        let fitting = feasible
            .fitting(&self.routers, vip.spec.virtual_router.as_deref())
            .filter(|(_, router)| router.vips == 0 || (shares && router.serving.fits(&best)));
        if let Some((_, name)) = fitting.map(|(name, router)| (router.vips, name)).min() {
            return RouterChoice::Router(name.clone());
        }
        let routers = self.spread.siblings(vip).into_iter();
        let mut siblings = BTreeMap::new();
        for (router, count) in routers {
            if let Some(node) = self.routers.get(router).and_then(RouterDraft::first) {
                *siblings.entry(node.to_owned()).or_insert(0) += count;
            }
        }
        let old = old.and_then(|old| self.routers.get(old)?.first_healthy(self.topology));
        let incumbent = old.map(str::to_owned);
        let preferences =
            Preferences { serving: Some(serving), incumbent: incumbent.as_deref(), preferred_node: None };
        let partners = self.partners(vip);
        match self.add(feasible, &NewRouter { siblings: &siblings, partners: &partners, preferences }) {
            Some(made) => RouterChoice::Made(made),
            None => RouterChoice::NoVrid,
        }
    }

    /// Makes a router, if the segment has a VRID left.
    fn add(&mut self, feasible: &mut FeasibleRouters<'a>, wanted: &NewRouter<'_>) -> Option<String> {
        let vrid = self.free_vrid(feasible)?;
        let is_beside = |router: &&RouterDraft<'_>| {
            router.vips > 0 && router.segment == Some(feasible.segment) && router.policy() == feasible.policy
        };
        let others: Vec<&VirtualRouterSpec> =
            self.routers.values().filter(is_beside).map(|router| &*router.spec).collect();
        let announcement: &'a ParsedAnnouncement = feasible.announcement;
        let nodes = ranking::new(vrid, &feasible.candidates, &others, wanted);
        let spec = announcement.router(vrid, feasible.segment.to_string(), nodes, feasible.policy);
        let name = router_name(feasible.segment, vrid);
        self.routers.insert(name.clone(), RouterDraft::new(Cow::Owned(spec), announcement, None));
        Some(name)
    }

    /// Returns the lowest VRID from 64 on, then from 1, that the Announcement allows and that no router of the family, ours or
    /// foreign, uses on the same links.
    pub(super) fn free_vrid(&self, feasible: &mut FeasibleRouters<'a>) -> Option<u8> {
        let allowed = &feasible.announcement.vrrp.vrids;
        let segment = feasible.segment;
        let used = feasible.used_vrids(&self.routers, &self.topology.networks);
        let mut vrids = (FIRST_VRID..=u8::MAX).chain(1..FIRST_VRID);
        // A router whose LAN got another prefix length has the name of the former segment.
        let is_named = |vrid: u8| self.routers.contains_key(&router_name(segment, vrid));
        vrids.find(|vrid| allowed.contains(vrid) && !used.contains(vrid) && !is_named(*vrid))
    }

    /// Returns the router for VIPs of the router `old` whose Announcement changed: one for them alone that has the same nodes, while
    /// there are too few routers of the new Announcement. The Active node stays Active there.
    pub(super) fn split(&mut self, old: &str, feasible: &mut FeasibleRouters<'a>) -> Option<String> {
        let announcement = feasible.announcement;
        let of = announcement.name.as_deref();
        if let Some(known) = self.successors.get(old).and_then(|successors| successors.get(&of)) {
            return Some(known.clone());
        }
        let draft = self.routers.get(old)?;
        let is_its_like = draft.segment == Some(feasible.segment) && draft.policy() == feasible.policy;
        if draft.announcement.name == announcement.name || !is_its_like || self.is_spread(feasible) {
            return None;
        }
        let vrid = self.free_vrid(feasible)?;
        let successor = self.routers.get(old)?.successor(vrid, announcement);
        let name = router_name(feasible.segment, vrid);
        self.routers.insert(name.clone(), successor);
        self.successors.entry(old.to_owned()).or_default().insert(of, name.clone());
        Some(name)
    }
}
