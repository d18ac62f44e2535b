//! Rebalancing: gives routers to a node that has few. A node that joined is first in none.
//!
//! A virtual router moves as a whole, by its ranking alone: the node comes to the front, and preempts. Connections stay established.
//! Where the node is in none of those rankings it joins one first. Routers move one at a time, and only while all is calm: every
//! candidate has been healthy for [`PlanInput::settling`], reports no failure and is known to the others, and every router's first
//! node has been Active for a tenth of that.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use jiff::Timestamp;
use windlass_api::{ServiceRef, VirtualIP, VirtualRouter};

use super::ranking;
use super::router_draft::{RouterDraft, first_choices};
use super::segment::Candidate;
use super::{PlanInput, Planner};

/// A router that is to prefer another node.
struct Move {
    router: String,
    to: String,
}

impl PlanInput {
    /// Time between two moves on a segment.
    fn pause(&self) -> Duration {
        self.settling / 10
    }
}

impl Planner<'_> {
    /// Moves the routers that are due. Returns when more may become due without another change; `routers_by_vip` gives the VIPs that
    /// each carries.
    pub(super) fn rebalance(&mut self, routers_by_vip: &BTreeMap<String, String>) -> Option<Timestamp> {
        let mut groups: BTreeMap<(IpNet, Option<&str>), Vec<String>> = BTreeMap::new();
        for (name, draft) in &self.routers {
            if let Some(segment) = draft.segment.filter(|_| draft.policy().is_cluster()) {
                let announcement = draft.announcement.name.as_deref();
                groups.entry((segment, announcement)).or_default().push(name.clone());
            }
        }
        let rebalance = |((segment, announcement), routers): ((IpNet, Option<&str>), Vec<String>)| {
            let announcement = self.input.announcements.get_or_none(announcement);
            let candidates = self.topology.segments(announcement).candidates(segment);
            let wanted = self.wanted_move(&candidates, &routers, routers_by_vip)?;
            let now = self.input.now;
            let calm = self.calm_since(&candidates, &routers)?;
            if calm > now {
                return Some(calm);
            }
            let draft = self.routers.get_mut(&wanted.router)?;
            match draft.spec.nodes.iter().position(|node| node.name == wanted.to) {
                Some(place) => draft.spec.to_mut().nodes[..=place].rotate_right(1),
                // It moves when all have heard of it.
                None => draft.invited = Some(wanted.to),
            }
            Some(now + self.input.pause())
        };
        groups.into_iter().filter_map(rebalance).min()
    }

    /// The move that evens the loads out the most, if the node with the least has less than three quarters of its share.
    fn wanted_move<'a>(
        &self,
        candidates: &[&Candidate],
        routers: &'a [String],
        routers_by_vip: &BTreeMap<String, String>,
    ) -> Option<Move> {
        let mut loads: BTreeMap<&str, usize> =
            first_choices(candidates).map(|one| (one.node.as_str(), 0)).collect();
        let mut drafts: Vec<(&String, &str, &RouterDraft<'_>)> = Vec::new();
        for name in routers {
            let draft = self.routers.get(name)?;
            // A drained node gets back what it had.
            let first = draft.first().filter(|first| loads.contains_key(first))?;
            *loads.entry(first).or_default() += draft.vips;
            drafts.push((name, first, draft));
        }
        let total: usize = loads.values().sum();
        let (to, least) = loads.iter().min_by_key(|(node, load)| (**load, **node))?;
        if least * loads.len() * 4 >= total * 3 {
            return None;
        }
        let difference = |from: &str| loads.get(from).copied().unwrap_or(0).saturating_sub(*least);
        let could = |(name, from, draft): &(&'a String, &str, &RouterDraft<'_>)| {
            let difference = difference(from);
            let is_there = draft.spec.nodes.iter().any(|node| node.name == *to);
            // Where an admin wants it, it stays.
            let can = draft.moved_to().is_none() && !self.topology.lacks(to, draft.need);
            let helps = can && draft.vips < difference && (is_there || ranking::may_be_invited(&draft.spec));
            // To where it is already, from the node with the most first, and so that the least is left between the two.
            helps.then(|| (!is_there, Reverse(difference), difference.abs_diff(2 * draft.vips), *name))
        };
        let mut could: Vec<_> = drafts.iter().filter_map(could).collect();
        if could.is_empty() {
            return None;
        }
        could.sort();
        let siblings = Siblings::new(&self.input.vips, routers_by_vip);
        let is_there = |first: &str, draft: &RouterDraft<'_>| first == *to || draft.moved_to() == Some(*to);
        let there = || {
            drafts.iter().filter(|(_, first, draft)| is_there(first, draft)).map(|(name, ..)| name.as_str())
        };
        let router = could.into_iter().map(|(.., name)| name).find(|name| !siblings.meet(name, there()))?;
        Some(Move { router: router.clone(), to: (*to).to_owned() })
    }

    /// Returns the time from which it is calm, if nothing happens until then; `None`: unknown.
    fn calm_since(&self, candidates: &[&Candidate], routers: &[String]) -> Option<Timestamp> {
        let mut calm = Timestamp::MIN;
        for candidate in candidates.iter().filter(|one| one.healthy) {
            if candidate.fails {
                return None;
            }
            calm = calm.max(*self.input.settled.get(&candidate.node)?);
        }
        let known: HashMap<&str, &VirtualRouter> = self
            .input
            .routers
            .iter()
            .filter_map(|router| Some((router.metadata.name.as_deref()?, &**router)))
            .collect();
        for name in routers {
            let draft = self.routers.get(name)?;
            if draft.spec.nodes.iter().any(|node| node.joining) {
                return None;
            }
            let first = draft.moved_to().or_else(|| draft.first());
            let status = known.get(name.as_str()).and_then(|router| router.status.as_ref());
            let active = status.filter(|status| status.active_node.as_deref() == first);
            let since = active.and_then(|status| status.active_since.as_ref()?.parse::<Timestamp>().ok());
            // On its way, or not told yet.
            let since = since.unwrap_or(self.input.now);
            calm = calm.max(since.checked_add(self.input.pause()).ok()?);
        }
        Some(calm)
    }
}

/// The Services whose VIPs each router carries. The families are apart.
struct Siblings<'a>(HashMap<&'a str, BTreeSet<(&'a ServiceRef, bool)>>);

impl<'a> Siblings<'a> {
    fn new(vips: &'a [Arc<VirtualIP>], routers_by_vip: &'a BTreeMap<String, String>) -> Self {
        let mut services: HashMap<&str, BTreeSet<_>> = HashMap::new();
        for vip in vips {
            let name = vip.metadata.name.as_ref();
            let Some(router) = name.and_then(|name| routers_by_vip.get(name)) else { continue };
            let owners = vip.spec.owners.iter().map(|owner| (owner, vip.spec.address.is_ipv6()));
            services.entry(router).or_default().extend(owners);
        }
        Self(services)
    }

    /// Returns true if the router and one of the others carry different VIPs of one Service.
    fn meet<'o>(&self, router: &str, mut others: impl Iterator<Item = &'o str>) -> bool {
        let Some(own) = self.0.get(router) else { return false };
        others.any(|other| self.0.get(other).is_some_and(|other| !other.is_disjoint(own)))
    }
}
