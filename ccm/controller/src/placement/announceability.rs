//! Addresses of a pool that a node can announce, as the planner would find it for each of them. Pure.

use std::collections::BTreeSet;

use ipnet::IpNet;
use windlass_api::pool_announceable;
use windlass_common::listing::list;
use windlass_ipam::{AddressSet, Family};

use super::announcements::ParsedAnnouncement;
use super::plan::{Segments, Topology};
use crate::allocation::pools::{Announceability, NAMED, ReviewedPool, shortened};

/// Number of nodes that are named. The number of further ones is left out: every node that joins would change every pool.
const NODES: usize = 3;

/// Determines which of the pool's addresses an Announcement that may apply to them can announce. Addresses that the pool does not give
/// do not count either way.
pub(crate) fn announceability(
    reviewed: &ReviewedPool,
    may_apply: &[&ParsedAnnouncement],
    topology: &Topology,
) -> Announceability {
    let mut given = reviewed.pool.addresses.clone();
    given.subtract(&reviewed.pool.reserved);
    let Some(&last) = may_apply.last() else { return Announceability::Unknown };
    if given.is_empty() || !topology.segments(last).is_any_reported() {
        return Announceability::Unknown;
    }
    let (mut found, mut by) = (AddressSet::default(), BTreeSet::new());
    for &one in may_apply {
        let segments = topology.segments(one);
        let (more, at) = segments.find_all(&given);
        found.extend(&more);
        by.extend(at.iter().flat_map(|net| segments.candidates(*net)).map(|one| &*one.node));
    }
    let families = Family::ALL.into_iter().filter(|family| given.count(*family) > 0);
    let share = |family: Family| {
        let (some, all) = (found.count(family), given.count(family));
        let which = match some {
            0 => String::new(),
            _ if some == all => String::new(),
            _ => format!(" ({})", shortened(&found.of(family))),
        };
        format!("{some} of {all} {family} addresses{which}")
    };
    let shares = families.clone().map(share).collect::<Vec<_>>().join(" and ");
    let nodes = named(&by);
    let missing: Vec<_> = families.filter(|family| found.count(*family) < given.count(*family)).collect();
    let segments = topology.segments(last);
    let narrowing = last.name.as_deref().filter(|_| !last.is_from_everywhere());
    let (reason, why) = match (missing.as_slice(), narrowing) {
        ([], _) => (pool_announceable::ALL, String::new()),
        (missing, Some(name)) if !missing.iter().any(|family| has_subnet(segments, *family)) => {
            (pool_announceable::NO_INTERFACE, on_no_interface(missing, name, last))
        }
        (missing, _) => {
            let reason =
                if found.is_empty() { pool_announceable::NO_SEGMENT } else { pool_announceable::PARTLY };
            (reason, in_no_subnet(missing, segments, &given, &found, last.names_interfaces()))
        }
    };
    let by = if nodes.is_empty() { String::new() } else { format!(", by {nodes}") };
    Announceability::Known {
        holds: missing.is_empty(),
        reason,
        message: format!("{shares} can be announced{by}{why}"),
    }
}

fn has_subnet(segments: &Segments, family: Family) -> bool {
    segments.subnets().any(|net| Family::of(net.addr()) == family)
}

fn on_no_interface(missing: &[Family], name: &str, announcement: &ParsedAnnouncement) -> String {
    let interfaces = announcement.interfaces();
    let on = if interfaces.is_empty() { String::new() } else { format!(" on interface {interfaces}") };
    format!(
        ": no node with a Windlass agent that Announcement {name:?} selects has an {} subnet{on}; correct its \
         spec.nodeSelectors, spec.interfaces or spec.excludeInterfaces",
        either(missing)
    )
}

fn in_no_subnet(
    missing: &[Family],
    segments: &Segments,
    given: &AddressSet,
    found: &AddressSet,
    names_interfaces: bool,
) -> String {
    let mut left = given.clone();
    left.subtract(found);
    let subnets: BTreeSet<IpNet> =
        segments.subnets().filter(|net| missing.contains(&Family::of(net.addr()))).collect();
    if subnets.is_empty() {
        return format!(
            ": no node with a Windlass agent has an {} subnet; give the nodes one, or the pool other addresses",
            either(missing)
        );
    }
    let total = subnets.len();
    let subnets: Vec<_> = subnets.iter().take(NAMED).map(ToString::to_string).collect();
    let or = if names_interfaces {
        ""
    } else {
        ", or name the interface that is to announce them in the spec.interfaces of an Announcement"
    };
    format!(
        "; {} in no subnet of a node with a Windlass agent: list addresses of {} instead{or}",
        shortened(&left),
        list(&subnets, total)
    )
}

fn either(families: &[Family]) -> String {
    families.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

fn named(nodes: &BTreeSet<&str>) -> String {
    let some = nodes.iter().take(NODES).copied().collect::<Vec<_>>().join(", ");
    match nodes.len() {
        0 => String::new(),
        1 => format!("node {some}"),
        2..=NODES => format!("nodes {some}"),
        _ => format!("nodes {some} and others"),
    }
}

#[cfg(test)]
mod tests;
