//! The ranking of a virtual router's nodes, and their VRRP priorities.
//!
//! The order is made once and kept in `VirtualRouter.spec.nodes`. Nodes that go leave it, nodes that come are put at its end, so that
//! no two survivors ever change places and a new node takes no VIP from a working one. A node that is drained or excluded keeps its
//! place in the order but has a priority below every healthy one: it serves only if it is the last, and when it comes back it is what
//! it was.
//!
//! Nodes that have not received the update about a node that joins, or that has another address, ignore its adverts. Until each of the
//! others has reported that it knows the node, the node ranks before none that may not. While a ready node has not reported it, it is
//! the last of all. If only nodes that are not ready have not, it is below the priorities that these had while all was well.
//!
//! A router whose VIPs every node serves has [`MOST_CANDIDATES`] nodes of a large segment: more would only make elections slower and
//! adverts more, and each node would take part in every router. Others join where there is room, where many are not well, where the
//! Announcement prefers them, or to be given a share.
//!
//! Nodes that the Announcement prefers come first. A node that it leaves out is kept as the last while it is Active: peers that do not
//! know it any more would take its adverts for a foreign router's, and miss its resignation.
//!
//! The node that an admin wants to have the VIPs (`windlass move`) has a priority above all that can serve them as well, whatever the
//! Announcement prefers. The order is the same as without it, so that it is unchanged when the request is withdrawn.
//!
//! A node whose agent would admit all clients to a VIP that is restricted is in no ranking of a router that carries one.
//!
//! The VIPs of a router with `externalTrafficPolicy: Local` follow the endpoints of their Services: a node without one has a low
//! priority, too. Among equals the node that is preferred stays so, then comes the one with the most ready endpoints.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;
use windlass_api::{ExternalTrafficPolicy, RankedNode, VirtualRouterSpec};
use windlass_common::priorities::{self, MOST_FAIR, MOST_GOOD, UNFIT_PLACES};

use super::segment::{Candidate, Segments};
use super::takeover::Rankings;
use super::topology::{Need, Topology};
use crate::placement::endpoints::{EndpointState, NodeEndpoints, ServingNodes};
use crate::placement::mixed::mixed;

/// Nodes of a router that each node can serve, as long as they are well: as many as have priorities so far apart that they never become
/// Active at the same moment.
pub(super) const MOST_CANDIDATES: usize = priorities::SPACED as usize;
/// If fewer of them are well, others join.
const FEWEST_GOOD: usize = MOST_CANDIDATES / 2;
/// Number of nodes from which on none joins just to be given a share.
const MOST_INVITED: usize = 2 * MOST_CANDIDATES;

/// Fitness of a node to serve a router's VIPs: the less, the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Preference {
    /// Its endpoints; true if it is drained or excluded; true if it is not the node that the admin wants; and its preference by the
    /// Announcement.
    class: (Reverse<EndpointState>, bool, bool, Reverse<i32>),
    /// True if it is not the node that is preferred already: with `Local` a node that comes back takes nothing away.
    is_challenger: bool,
    ready: Reverse<usize>,
    joining: Joining,
}

/// Kind of the nodes that may not know a node yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Joining {
    /// No other node lacks it: it was in the router before, or the others have reported it.
    No,
    /// Only nodes that are not ready: they may be dead, or cut off from the API server.
    UnknownToLost,
    /// A ready node.
    Unknown,
}

impl Preference {
    const fn fitness(&self) -> Fitness {
        match (self.joining, self.class) {
            (Joining::No, (Reverse(EndpointState::Ready), false, ..)) => Fitness::Good,
            (Joining::Unknown, _) | (_, (Reverse(EndpointState::None), ..)) => Fitness::Unfit,
            (Joining::No | Joining::UnknownToLost, _) => Fitness::Fair,
        }
    }

    /// Returns the Announcement's preference for it, the strongest first. It does not change while a node is drained.
    const fn weight(&self) -> Reverse<i32> {
        self.class.3
    }

    /// Returns the preference for a node that the Announcement leaves out.
    const fn leaving() -> Self {
        let class = (Reverse(EndpointState::None), true, true, Reverse(i32::MIN));
        Self { class, is_challenger: true, ready: Reverse(0), joining: Joining::No }
    }

    /// Returns the preference for a node that other nodes may not know yet.
    fn joining(self, joining: Joining) -> Self {
        let last = Self::leaving();
        match joining {
            Joining::No | Joining::UnknownToLost => Self { joining, ..self },
            // Its place in the list is that which it will have.
            Joining::Unknown => {
                let (state, is_drained, is_other, _) = last.class;
                Self { class: (state, is_drained, is_other, self.class.3), joining, ..last }
            }
        }
    }
}

/// Band of the priorities that a node has; see [`priorities`].
enum Fitness {
    Good,
    Fair,
    Unfit,
}

/// Inputs that make nodes preferred for a router.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Preferences<'a> {
    /// Nodes with endpoints of the VIPs' Services; `None`: each can serve them.
    pub(super) serving: Option<&'a ServingNodes>,
    /// With `Local`, the node that is to stay preferred while no other one serves better: the first, or the Active one if the first is
    /// no longer of the cluster.
    pub(super) incumbent: Option<&'a str>,
    /// The node that an admin wants.
    pub(super) preferred_node: Option<&'a str>,
}

/// Inputs for the ranking of a new router.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewRouter<'a> {
    /// Number of VIPs of the Services that it is made for, of its family, whose router ranks each node first.
    pub(super) siblings: &'a BTreeMap<String, usize>,
    /// The nodes that are first where those of the other family are.
    pub(super) partners: &'a BTreeSet<String>,
    pub(super) preferences: Preferences<'a>,
}

impl Preferences<'_> {
    fn of(&self, candidate: &Candidate) -> Preference {
        self.of_node(&candidate.node, candidate.healthy, candidate.weight)
    }

    fn of_node(&self, node: &str, healthy: bool, weight: i32) -> Preference {
        let is_other = self.preferred_node != Some(node);
        let Some(serving) = self.serving else {
            let class = (Reverse(EndpointState::Ready), !healthy, is_other, Reverse(weight));
            return Preference { class, is_challenger: true, ready: Reverse(0), joining: Joining::No };
        };
        let NodeEndpoints { state, ready } = serving.get(node).copied().unwrap_or_default();
        let is_challenger = self.incumbent != Some(node);
        Preference {
            class: (Reverse(state), !healthy, is_other, Reverse(weight)),
            is_challenger,
            ready: Reverse(ready),
            joining: Joining::No,
        }
    }
}

/// Returns the ranking of a new router beside `others` of its segment and kind.
///
/// The first node can serve it. Among several, these criteria decide, in this order:
///
/// - it reports no failure;
/// - it has the fewest VIPs of the Service that the router is made for (`siblings`, by node);
/// - it is first in the fewest of the others;
/// - it has a VIP of the Service and the other family.
///
/// The second node takes over the fewest routers when the first dies; among several, the one that does so the most evenly when another
/// node dies with it. Each further node takes over the fewest when all before it die; among several, the one that has that place in
/// the fewest. The routers of dead nodes thus spread over the others. Between equals a fixed order of the VRID's own decides.
pub(super) fn new(
    vrid: u8,
    candidates: &[&Candidate],
    others: &[&VirtualRouterSpec],
    wanted: &NewRouter<'_>,
) -> Vec<RankedNode> {
    let NewRouter { siblings, partners, preferences } = *wanted;
    let mut order: Vec<(&Candidate, Preference)> =
        candidates.iter().map(|one| (*one, preferences.of(one))).collect();
    order.sort_by_cached_key(|(one, preference)| (preference.class, weight(vrid, &one.node)));
    let rankings = Rankings::new(others.iter().map(|router| names(router)));
    let firsts = rankings.at(0);
    let siblings = |one: &Candidate| siblings.get(&one.node).copied().unwrap_or(0);
    raise(&mut order, 0, |(one, preference)| {
        let is_apart = !partners.contains(&one.node);
        (preference.class, one.fails, siblings(one), *preference, count(&firsts, one), is_apart)
    });
    for place in 1..order.len().min(MOST_CANDIDATES) {
        let before: Vec<&str> = order.iter().take(place).map(|(one, _)| one.node.as_str()).collect();
        let taken_over = rankings.taken_over(&before);
        let of_two = match before[..] {
            [first] => rankings.taken_over_of_two(first, order.iter().map(|(one, _)| one.node.as_str())),
            [..] => HashMap::new(),
        };
        let at_place = rankings.at(place);
        raise(&mut order, place, |(one, preference)| {
            (*preference, count(&taken_over, one), count(&of_two, one), count(&at_place, one))
        });
    }
    let first = order.first().map(|(one, _)| one.node.as_str());
    let preferences = Preferences { incumbent: first, ..preferences };
    if preferences.serving.is_none() {
        order.truncate(MOST_CANDIDATES);
    }
    let order = order.into_iter().map(|(one, _)| (RankCandidate::of(one, Joining::No), preferences.of(one)));
    let ranked = with_priorities(order.collect());
    ranked.into_iter().map(RankCandidate::ranked).collect()
}

/// The names of the nodes in their order: of the list, or, where endpoints decide, by priority.
pub(super) fn names(router: &VirtualRouterSpec) -> Vec<&str> {
    let mut nodes: Vec<&RankedNode> = router.nodes.iter().collect();
    if !router.external_traffic_policy.is_cluster() {
        nodes.sort_by_key(|node| Reverse(node.priority));
    }
    nodes.into_iter().map(|node| node.name.as_str()).collect()
}

/// The node that is preferred while all are well.
pub(crate) fn first(router: &VirtualRouterSpec) -> Option<&str> {
    match router.external_traffic_policy {
        ExternalTrafficPolicy::Cluster => router.nodes.first().map(|node| node.name.as_str()),
        ExternalTrafficPolicy::Local => preferred(router),
    }
}

/// The node with the highest priority.
pub(super) fn preferred(router: &VirtualRouterSpec) -> Option<&str> {
    router.nodes.iter().max_by_key(|node| node.priority).map(|node| node.name.as_str())
}

fn count(counts: &HashMap<&str, usize>, one: &Candidate) -> usize {
    counts.get(one.node.as_str()).copied().unwrap_or(0)
}

/// Moves the element with the least key of those from `place` on to `place`; of equals, the first.
fn raise<T, K: Ord>(order: &mut [T], place: usize, key: impl Fn(&T) -> K) {
    let Some(rest) = order.get_mut(place..) else { return };
    let least = rest.iter().enumerate().min_by_key(|(index, one)| (key(one), *index)).map(|(index, _)| index);
    if let Some(least) = least {
        rest[..=least].rotate_right(1);
    }
}

/// Nodes that may belong to a router.
pub(super) struct Members<'a> {
    pub(super) segment: IpNet,
    /// Its candidates by their nodes' names.
    pub(super) candidates: &'a BTreeMap<&'a str, &'a Candidate>,
    /// Segments that the candidates are from.
    pub(super) segments: &'a Segments,
    pub(super) topology: &'a Topology,
    /// Need of the router's VIPs: a node that does not meet it is not in `candidates`.
    pub(super) need: Need,
    /// Active node, as far as it is reported.
    pub(super) active: Option<&'a str>,
    /// Nodes that have reported the router in its current version.
    pub(super) knowing: BTreeSet<&'a str>,
    pub(super) is_ready: &'a dyn Fn(&str) -> bool,
    /// It is to join, to be given a share.
    pub(super) invited: Option<&'a str>,
    /// The node that an admin wants: it joins, too.
    pub(super) preferred_node: Option<&'a str>,
}

impl Members<'_> {
    /// Returns the kind of the router's other nodes that may not know a node, which was there before as `old`, if it was.
    fn joining(&self, router: &VirtualRouterSpec, node: &str, old: Option<&RankedNode>) -> Joining {
        if old.is_some_and(|old| !old.joining) {
            return Joining::No;
        }
        let others = router.nodes.iter().filter(|other| other.name != node);
        let members = others.filter(|other| self.topology.nodes.contains(&other.name));
        // Of one that is new in the list nobody can have told.
        let unknowing = members.filter(|other| old.is_none() || !self.knowing.contains(other.name.as_str()));
        unknowing.map(|other| self.unknowing(other)).max().unwrap_or(Joining::No)
    }

    /// Likewise of one that was there and has this `address` now, with that by which all know it, if it is another.
    fn returning(
        &self,
        router: &VirtualRouterSpec,
        old: &RankedNode,
        address: IpAddr,
    ) -> (Joining, Option<IpAddr>) {
        if old.former_address == Some(address) {
            return (Joining::No, None);
        }
        // Those who know it by another address do not know it.
        let is_same = old.address == address;
        let joining = self.joining(router, &old.name, Some(old).filter(|_| is_same));
        let known_by = if old.joining { old.former_address } else { Some(old.address) };
        (joining, known_by.filter(|_| joining != Joining::No))
    }

    fn unknowing(&self, other: &RankedNode) -> Joining {
        if (self.is_ready)(&other.name) { Joining::Unknown } else { Joining::UnknownToLost }
    }
}

/// The ranking of an existing router, brought up to date. `None`: it is, or nobody is left.
pub(super) fn refreshed(
    router: &VirtualRouterSpec,
    members: &Members<'_>,
    serving: Option<&ServingNodes>,
) -> Option<Vec<RankedNode>> {
    let Members { segment, candidates, segments, topology, need, active, .. } = members;
    // Who lacks what a VIP needs goes at once, though it be Active: it lets in everybody for as long as it stays.
    let old_nodes: Vec<&RankedNode> =
        router.nodes.iter().filter(|old| !topology.lacks(&old.name, *need)).collect();
    let preferred_node = members.preferred_node;
    let incumbent = preferred(router).filter(|node| topology.nodes.contains(*node)).or(*active);
    let preferences = Preferences { serving, incumbent, preferred_node };
    let mut order = Vec::new();
    for old in old_nodes.iter().copied() {
        if !topology.nodes.contains(&old.name) {
            // Its Node was deleted. If it lives it hears of that sooner or later than the others. Of a router that was just made
            // nobody has told who is Active.
            if active.is_none_or(|active| active == old.name) && !candidates.is_empty() {
                order.push((RankCandidate::as_was(old), Preference::leaving()));
            }
            continue;
        }
        if let Some(now) = candidates.get(old.name.as_str()) {
            let (joining, former) = members.returning(router, old, now.source);
            let candidate = RankCandidate { former, ..RankCandidate::of(now, joining) };
            order.push((candidate, preferences.of(now).joining(joining)));
        } else if !segments.is_known(&old.name) {
            // Its agent's report is missing: that is no reason to believe it moved.
            let healthy = segments.is_healthy(&old.name);
            let preference = preferences.of_node(&old.name, healthy, segments.weight(&old.name));
            let (joining, former) = members.returning(router, old, old.address);
            let candidate =
                RankCandidate { joining: joining != Joining::No, former, ..RankCandidate::as_was(old) };
            order.push((candidate, preference.joining(joining)));
        } else if !candidates.is_empty()
            && active.is_none_or(|active| active == old.name)
            && topology.is_at(old, *segment)
        {
            order.push((RankCandidate::as_was(old), Preference::leaving()));
        }
    }
    let known: HashSet<&str> = router.nodes.iter().map(|old| old.name.as_str()).collect();
    let newcomers = candidates.values().copied().filter(|one| !known.contains(one.node.as_str()));
    let mut newcomers = match serving {
        Some(_) => with_room(&order, newcomers, router.vrid, preferences),
        None => wanted(&order, newcomers, router.vrid, preferences, members.invited),
    };
    // Where a hand has replaced the list, nothing else says who has the VIPs.
    if order.is_empty() {
        newcomers.sort_by_key(|one| *active != Some(one.node.as_str()));
    }
    order.extend(newcomers.into_iter().map(|one| {
        let joining = members.joining(router, &one.node, None);
        (RankCandidate::of(one, joining), preferences.of(one).joining(joining))
    }));
    order.sort_by_key(|(_, preference)| preference.weight());
    let ranked = with_priorities(order);
    let stands = ranked.len() == router.nodes.len()
        && ranked.iter().zip(&router.nodes).all(|((place, priority), old)| {
            *place == RankCandidate::as_was(old) && *priority == old.priority
        });
    // With nobody left, the last list stands: an empty one would take the VIPs away for certain.
    if ranked.is_empty() {
        let is_shorter = !old_nodes.is_empty() && old_nodes.len() < router.nodes.len();
        return is_shorter.then(|| old_nodes.into_iter().cloned().collect());
    }
    (!stands).then(|| ranked.into_iter().map(RankCandidate::ranked).collect())
}

/// Returns true if the router has fewer than `MOST_INVITED` nodes, so that a node may join only to be given a share.
pub(super) fn may_be_invited(router: &VirtualRouterSpec) -> bool {
    router.nodes.len() < MOST_INVITED
}

/// The newcomers to a router that not every node serves, for which there are priorities.
fn with_room<'a>(
    order: &[(RankCandidate<'_>, Preference)],
    newcomers: impl Iterator<Item = &'a Candidate>,
    vrid: u8,
    preferences: Preferences<'_>,
) -> Vec<&'a Candidate> {
    let good = order.iter().filter(|(_, preference)| matches!(preference.fitness(), Fitness::Good)).count();
    // Of hundreds of candidates most find no place: they need no order. One that can serve takes the place of one that cannot.
    let has_room = |one: &&Candidate| match preferences.of(one).fitness() {
        Fitness::Good => good < MOST_GOOD,
        Fitness::Fair => true,
        Fitness::Unfit => order.len() < UNFIT_PLACES,
    };
    let mut newcomers: Vec<_> = newcomers.filter(has_room).collect();
    newcomers.sort_by_cached_key(|one| weight(vrid, &one.node));
    newcomers
}

/// The newcomers to a router that every node serves: see the head of this file.
fn wanted<'a>(
    order: &[(RankCandidate<'_>, Preference)],
    newcomers: impl Iterator<Item = &'a Candidate>,
    vrid: u8,
    preferences: Preferences<'_>,
    invited: Option<&str>,
) -> Vec<&'a Candidate> {
    let is_good = |preference: &Preference| matches!(preference.fitness(), Fitness::Good);
    let mut good = order.iter().filter(|(_, preference)| is_good(preference)).count();
    let mut weights: Vec<_> = order.iter().map(|(_, preference)| preference.weight()).collect();
    let mut newcomers: Vec<_> = newcomers.map(|one| (preferences.of(one), one)).collect();
    newcomers.sort_by_cached_key(|(preference, one)| (preference.class, weight(vrid, &one.node)));
    newcomers.retain(|(preference, one)| {
        let before = weights.iter().filter(|weight| **weight <= preference.weight()).count();
        let joins = before < MOST_CANDIDATES
            || (is_good(preference) && good < FEWEST_GOOD)
            || (invited == Some(&one.node) && weights.len() < MOST_INVITED)
            || preferences.preferred_node == Some(&one.node);
        if joins {
            weights.push(preference.weight());
            good += usize::from(is_good(preference));
        }
        joins
    });
    newcomers.sort_by_cached_key(|(_, one)| weight(vrid, &one.node));
    newcomers.into_iter().map(|(_, one)| one).collect()
}

/// A node in a ranking, not yet copied: it may find no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RankCandidate<'a> {
    node: &'a str,
    interface: &'a str,
    address: IpAddr,
    joining: bool,
    /// By which the others know it, if that is another.
    former: Option<IpAddr>,
}

impl<'a> RankCandidate<'a> {
    fn of(candidate: &'a Candidate, joining: Joining) -> Self {
        let Candidate { node, interface, source, healthy: _, fails: _, weight: _ } = candidate;
        Self { node, interface, address: *source, joining: joining != Joining::No, former: None }
    }

    fn as_was(old: &'a RankedNode) -> Self {
        let RankedNode { name, interface, address, priority: _, joining, former_address: former } = old;
        Self { node: name, interface, address: *address, joining: *joining, former: *former }
    }

    fn ranked((place, priority): (Self, u8)) -> RankedNode {
        let Self { node, interface, address, joining, former: former_address } = place;
        let (name, interface) = (node.to_owned(), interface.to_owned());
        RankedNode { name, priority, address, interface, joining, former_address }
    }
}

/// Gives priorities by preference, and to equals by place; the list keeps its order. More nodes than there are priorities for are
/// left out.
fn with_priorities(mut order: Vec<(RankCandidate<'_>, Preference)>) -> Vec<(RankCandidate<'_>, u8)> {
    // Who was preferred is so before its equals only: once it is not, the next plan does not know that it was.
    let known = order.iter().filter(|(_, preference)| matches!(preference.joining, Joining::No));
    let best = known.map(|(_, preference)| preference.class).min();
    for (_, preference) in &mut order {
        preference.is_challenger |= Some(preference.class) != best;
    }
    let mut by_preference: Vec<usize> = (0..order.len()).collect();
    by_preference.sort_by_key(|index| order[*index].1);
    let (mut good, mut fair, mut all) = (0, 0, 0);
    let mut given = vec![None; order.len()];
    for index in by_preference {
        let priority = match order[index].1.fitness() {
            Fitness::Good if good < MOST_GOOD => {
                good += 1;
                priorities::good(good - 1)
            }
            Fitness::Fair if fair < MOST_FAIR => {
                fair += 1;
                priorities::fair(fair - 1)
            }
            Fitness::Unfit if all < UNFIT_PLACES => priorities::unfit(all),
            Fitness::Good | Fitness::Fair | Fitness::Unfit => continue,
        };
        given[index] = Some(priority);
        all += 1;
    }
    order.into_iter().zip(given).filter_map(|((node, _), priority)| Some((node, priority?))).collect()
}

/// A fixed number for a name under a VRID; see [`mixed`].
pub(super) fn weight(vrid: u8, name: &str) -> u64 {
    mixed(std::iter::once(vrid).chain(name.bytes()))
}
