//! Which router of those that fit takes a VIP, and when one is made for it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use windlass_api::{Transport, VirtualIP, VirtualRouterSpec};

use super::ranking::{self, Preferences};
use super::router_draft::{FeasibleRouters, RouterDraft, router_name};
use super::{Planner, PoolPlacement, local};
use crate::controller::placement::endpoints::ServingNodes;

/// First VRID tried: low ones are what keepalived examples and routers use.
const FIRST_VRID: u8 = 64;

/// Routers that are first on one node, so that what it carries goes to as many others when it dies.
const ROUTERS_OF_A_NODE: usize = 2;
/// The most routers of one kind of VIP that every node can serve: half of the VRIDs.
const MOST_ROUTERS: usize = 128;

/// How many routers VIPs of one kind are spread over: as many for each healthy node, and no more than it has others to follow it.
pub(super) fn wanted_routers(healthy: usize) -> usize {
    let all = healthy * ROUTERS_OF_A_NODE.min(healthy.saturating_sub(1));
    if all <= MOST_ROUTERS { all.max(1) } else { healthy.min(MOST_ROUTERS) }
}

/// The router chosen for a VIP.
pub(super) enum RouterChoice {
    /// A router that was there.
    Router(String),
    /// A new one.
    Made(String),
    /// There is none, and none can be made.
    NoVrid,
}

/// What the ranking of a new router is made by.
struct NewRouter<'a> {
    /// How many VIPs of the Services that it is made for are where each node is first.
    siblings: &'a BTreeMap<String, usize>,
    preferences: Preferences<'a>,
}

impl<'a> Planner<'a> {
    /// The router for a VIP that every node serves.
    pub(super) fn choose(
        &mut self,
        vip: &'a VirtualIP,
        pool: &PoolPlacement,
        feasible: &mut FeasibleRouters<'a>,
    ) -> RouterChoice {
        // VIPs of the same Services, by the node that is first where they are: now, and when all nodes are well.
        let (mut now, mut when_healthy) = (BTreeMap::new(), BTreeMap::new());
        for (router, count) in self.spread.siblings(vip) {
            let Some(router) = self.routers.get(router) else { continue };
            if let Some(node) = router.first_healthy(&self.topology.nodes) {
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
            (at(&now, router.first_healthy(&self.topology.nodes)), at(&when_healthy, router.first()))
        };
        let fitting = || feasible.routers.iter().filter_map(|name| Some((name, self.routers.get(name)?)));
        let mut loads: BTreeMap<Option<&str>, usize> = BTreeMap::new();
        for (_, router) in fitting() {
            *loads.entry(router.first()).or_default() += router.vips;
        }
        let is_spread =
            fitting().filter(|(_, router)| router.vips > 0).count() >= wanted_routers(feasible.healthy);
        // One that carries nothing is as good as a new one.
        let least = fitting().filter(|(_, router)| is_spread || router.vips == 0);
        let key = |router: &RouterDraft<'_>| (loads.get(&router.first()).copied().unwrap_or(0), router.vips);
        let least = least.map(|(name, router)| (siblings(router), key(router), name)).min();
        let or_any = || fitting().map(|(name, router)| (siblings(router), key(router), name)).min();
        let mut healthy = feasible.candidates.iter().filter(|one| one.healthy);
        if let Some(((siblings, _), _, name)) = least
            && (siblings == 0 || healthy.all(|one| siblings <= at(&now, Some(&one.node))))
        {
            return RouterChoice::Router(name.clone());
        }
        let least = least.or_else(or_any);
        let least = least.map(|(_, _, name)| name.clone());
        let siblings = now.into_iter().map(|(node, count)| (node.to_owned(), count)).collect();
        let wanted = NewRouter { siblings: &siblings, preferences: Preferences::default() };
        match (self.add(feasible, pool, &wanted), least) {
            (Some(made), _) => RouterChoice::Made(made),
            (None, Some(name)) => RouterChoice::Router(name),
            (None, None) => RouterChoice::NoVrid,
        }
    }

    /// The same for a VIP that not every node serves.
    pub(super) fn choose_local(
        &mut self,
        vip: &'a VirtualIP,
        pool: &PoolPlacement,
        feasible: &mut FeasibleRouters<'a>,
        old: Option<&String>,
    ) -> RouterChoice {
        static NONE: ServingNodes = ServingNodes::new();
        let serving = self.serving(vip).unwrap_or(&NONE);
        let best = self.best(feasible.segment, serving);
        let shares = feasible.used_vrids(&self.routers, &self.topology.networks).len() >= local::SHARED_FROM;
        let fitting = feasible.routers.iter().filter_map(|name| Some((name, self.routers.get(name)?)));
        let fitting =
            fitting.filter(|(_, router)| router.vips == 0 || (shares && router.serving.fits(&best)));
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
        let old = old.and_then(|old| self.routers.get(old)?.first_healthy(&self.topology.nodes));
        let incumbent = old.map(str::to_owned);
        let preferences = Preferences { serving: Some(serving), incumbent: incumbent.as_deref() };
        match self.add(feasible, pool, &NewRouter { siblings: &siblings, preferences }) {
            Some(made) => RouterChoice::Made(made),
            None => RouterChoice::NoVrid,
        }
    }

    /// Makes a router, if the segment has a VRID left.
    fn add(
        &mut self,
        feasible: &mut FeasibleRouters<'a>,
        pool: &PoolPlacement,
        wanted: &NewRouter<'_>,
    ) -> Option<String> {
        let vrid = self.free_vrid(feasible)?;
        let is_beside = |router: &&RouterDraft<'_>| {
            router.vips > 0 && router.segment == Some(feasible.segment) && router.policy() == feasible.policy
        };
        let others: Vec<&VirtualRouterSpec> =
            self.routers.values().filter(is_beside).map(|router| &*router.spec).collect();
        let NewRouter { siblings, preferences } = wanted;
        let spec = VirtualRouterSpec {
            vrid,
            segment: feasible.segment.to_string(),
            advertisement_interval_milliseconds: pool.interval_ms,
            nodes: ranking::new(vrid, &feasible.candidates, &others, siblings, *preferences),
            external_traffic_policy: feasible.policy,
            announcement: None,
            preempt_delay_seconds: 0,
            transport: Transport::default(),
            authentication: None,
        };
        let name = router_name(feasible.segment, vrid);
        let interface = pool.interface.clone();
        let draft = RouterDraft {
            interface,
            interval_ms: Some(pool.interval_ms),
            ..RouterDraft::new(Cow::Owned(spec))
        };
        self.routers.insert(name.clone(), draft);
        Some(name)
    }

    /// The lowest VRID from 64 on, then from 1, that no router of ours and no stranger of the family uses on the same
    /// links.
    pub(super) fn free_vrid(&self, feasible: &mut FeasibleRouters<'a>) -> Option<u8> {
        let used = feasible.used_vrids(&self.routers, &self.topology.networks);
        (FIRST_VRID..=u8::MAX).chain(1..FIRST_VRID).find(|vrid| !used.contains(vrid))
    }
}
