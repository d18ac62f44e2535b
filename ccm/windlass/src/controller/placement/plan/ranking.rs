//! The ranking of a virtual router's nodes, and their VRRP priorities.
//!
//! The order is made once and kept in `VirtualRouter.spec.nodes`. Nodes that go leave it, nodes that come are put at its
//! end, so that no two survivors ever change places and a new node takes no VIP from a working one. A node that is
//! drained or excluded keeps its place in the order but has a priority below every healthy one: it serves only if it is
//! the last, and when it comes back it is what it was.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use windlass_api::{RankedNode, VirtualRouterSpec};

use super::segment::{Candidate, Segments};

/// Priority of the first: the highest that is not an owner's, because the higher a Backup's, the sooner it takes over.
const TOP: u8 = 254;
/// Distance between the first few: at adverts of 100 ms it makes their skew times differ by 6 ms, more than what
/// scheduling jitter and the wire add (docs/architecture.md, "Decisions").
const STEP: u8 = 16;
/// How many of the first have that distance.
const SPACED: u8 = 8;
/// Highest priority of a node that is drained or excluded.
const LOW: u8 = 30;
/// The most that one router can rank: healthy from 254 down to 31, the others from 30 down to 1.
const MOST_HEALTHY: usize = 119;
const MOST_OTHERS: usize = LOW as usize;

/// The ranking of a new router beside `others` of its segment.
///
/// First is who has the fewest VIPs of the Service that it is made for (`siblings`, by node), of these who is first in the
/// fewest of the others; second, who in the fewest follows that first, so that a dead node's share spreads; then a fixed
/// order of the VRID's own.
pub(crate) fn new(
    vrid: u8,
    candidates: &[&Candidate],
    others: &[&VirtualRouterSpec],
    siblings: &BTreeMap<String, usize>,
) -> Vec<RankedNode> {
    let mut order: Vec<&Candidate> = candidates.to_vec();
    order.sort_by_cached_key(|one| (!one.healthy, weight(vrid, &one.node)));
    let firsts = at(others, 0);
    let siblings = |one: &Candidate| siblings.get(&one.node).copied().unwrap_or(0);
    raise(&mut order, 0, |one| (!one.healthy, siblings(one), count(&firsts, one)));
    let first = order.first().map(|one| one.node.as_str());
    let same_first: Vec<&VirtualRouterSpec> =
        others.iter().copied().filter(|router| name_at(router, 0) == first).collect();
    let (seconds, seconds_of_first) = (at(others, 1), at(&same_first, 1));
    raise(&mut order, 1, |one| {
        (usize::from(!one.healthy), count(&seconds_of_first, one) * 1000 + count(&seconds, one))
    });
    let ranked = with_priorities(order.into_iter().map(|one| (RankCandidate::of(one), one.healthy)));
    ranked.into_iter().map(RankCandidate::ranked).collect()
}

/// The node at that place of a router's ranking.
fn name_at(router: &VirtualRouterSpec, place: usize) -> Option<&str> {
    router.nodes.get(place).map(|node| node.name.as_str())
}

/// In how many routers each node has that place.
fn at<'a>(routers: &[&'a VirtualRouterSpec], place: usize) -> HashMap<&'a str, usize> {
    let mut counts = HashMap::new();
    for name in routers.iter().filter_map(|router| name_at(router, place)) {
        *counts.entry(name).or_default() += 1;
    }
    counts
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

/// The ranking of an existing router, brought up to date; its candidates are given by their nodes' names. `None`: it is, or
/// nobody is left.
pub(crate) fn refreshed(
    router: &VirtualRouterSpec,
    candidates: &BTreeMap<&str, &Candidate>,
    segments: &Segments,
    nodes: &BTreeMap<String, bool>,
) -> Option<Vec<RankedNode>> {
    let mut order = Vec::new();
    for old in &router.nodes {
        let Some(&healthy) = nodes.get(&old.name) else { continue };
        if let Some(now) = candidates.get(old.name.as_str()) {
            order.push((RankCandidate::of(now), healthy));
        } else if !segments.is_reported(&old.name) {
            // Its agent's report is missing: that is no reason to believe it moved.
            order.push((RankCandidate::as_was(old), healthy));
        }
    }
    let known: HashSet<&str> = router.nodes.iter().map(|old| old.name.as_str()).collect();
    let healthy = order.iter().filter(|(_, healthy)| *healthy).count();
    let others = order.len() - healthy;
    // Of hundreds of candidates most find no place: they need no order.
    let has_room = |one: &Candidate| if one.healthy { healthy < MOST_HEALTHY } else { others < MOST_OTHERS };
    let mut newcomers: Vec<_> =
        candidates.values().filter(|one| has_room(one) && !known.contains(one.node.as_str())).collect();
    newcomers.sort_by_cached_key(|one| weight(router.vrid, &one.node));
    order.extend(newcomers.into_iter().map(|one| (RankCandidate::of(one), one.healthy)));
    let ranked = with_priorities(order);
    let stands = ranked.len() == router.nodes.len()
        && ranked.iter().zip(&router.nodes).all(|((place, priority), old)| {
            *place == RankCandidate::as_was(old) && *priority == old.priority
        });
    // With nobody left, the last list stands: an empty one would take the VIPs away for certain.
    (!stands && !ranked.is_empty()).then(|| ranked.into_iter().map(RankCandidate::ranked).collect())
}

/// A node in a ranking, not yet copied: it may find no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RankCandidate<'a> {
    node: &'a str,
    interface: &'a str,
    address: IpAddr,
}

impl<'a> RankCandidate<'a> {
    fn of(candidate: &'a Candidate) -> Self {
        let Candidate { node, interface, source, healthy: _ } = candidate;
        Self { node, interface, address: *source }
    }

    fn as_was(old: &'a RankedNode) -> Self {
        let RankedNode { name, interface, address, priority: _ } = old;
        Self { node: name, interface, address: *address }
    }

    fn ranked((place, priority): (Self, u8)) -> RankedNode {
        let Self { node, interface, address } = place;
        RankedNode { name: node.to_owned(), priority, address, interface: interface.to_owned() }
    }
}

/// Gives priorities by place, the healthy above the others. More nodes than there are priorities for are left out: 119
/// healthy ones are more than a segment loses at once.
fn with_priorities<'a>(
    order: impl IntoIterator<Item = (RankCandidate<'a>, bool)>,
) -> Vec<(RankCandidate<'a>, u8)> {
    let (mut healthy_before, mut others_before) = (0, 0);
    let mut nodes = Vec::new();
    for (node, healthy) in order {
        let (before, most) =
            if healthy { (&mut healthy_before, MOST_HEALTHY) } else { (&mut others_before, MOST_OTHERS) };
        if *before < most {
            nodes.push((node, priority(*before, healthy)));
            *before += 1;
        }
    }
    nodes
}

/// Priority of the node with `before` nodes of its kind before it. Never 255, never 0 (RFC 9568 §5.2.4).
fn priority(before: usize, healthy: bool) -> u8 {
    let before = u8::try_from(before).unwrap_or(u8::MAX);
    if !healthy {
        return LOW.saturating_sub(before).max(1);
    }
    let spaced = TOP - STEP * before.min(SPACED - 1);
    spaced.saturating_sub(before.saturating_sub(SPACED - 1)).max(LOW + 1)
}

/// A fixed number for a node under a VRID, well mixed (FNV-1a, then the finalizer of SplitMix64): the same on every
/// controller, for ever.
fn weight(vrid: u8, node: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in std::iter::once(vrid).chain(node.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_fall_strictly_and_stay_between_254_and_1() {
        let healthy: Vec<_> = (0..MOST_HEALTHY).map(|before| priority(before, true)).collect();
        let others: Vec<_> = (0..MOST_OTHERS).map(|before| priority(before, false)).collect();
        assert_eq!(healthy[..9], [254, 238, 222, 206, 190, 174, 158, 142, 141]);
        let all: Vec<_> = healthy.into_iter().chain(others).collect();
        assert!(all.windows(2).all(|pair| pair[0] > pair[1]), "{all:?}");
        assert_eq!((all[MOST_HEALTHY - 1], all.last()), (LOW + 1, Some(&1)));
    }
}
