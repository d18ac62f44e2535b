//! Which addresses of a pool some node can announce, as the planner would find it for each of them. Pure.

use std::collections::BTreeSet;

use ipnet::IpNet;
use windlass_api::pool_announceable;
use windlass_ipam::{AddressSet, Family};

use super::{NAMED, ReviewedPool, list, shortened};
use crate::controller::placement::plan::Segments;

/// Nodes that are named. How many more there are is not told: every node that joins would change every pool.
const NODES: usize = 3;

/// Whether the addresses of a pool can be announced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Announceability {
    /// No agent has reported the network of its node yet, or there is no address.
    #[default]
    Unknown,
    /// Whether each address can be announced, with the reason and the message of the condition `Announceable`.
    Known { holds: bool, reason: &'static str, message: String },
}

/// What of the pool can be announced. What it does not give counts neither way.
pub(crate) fn announceability(reviewed: &ReviewedPool, segments: &Segments) -> Announceability {
    let mut given = reviewed.pool.addresses.clone();
    given.subtract(&reviewed.pool.reserved);
    if given.is_empty() || !segments.is_any_reported() {
        return Announceability::Unknown;
    }
    let interface = reviewed.interface.as_deref();
    let (found, at) = segments.find_all(&given, interface);
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
    let nodes = named(at.iter().flat_map(|net| segments.candidates(*net, interface)).map(|one| &*one.node));
    let missing: Vec<_> = families.filter(|family| found.count(*family) < given.count(*family)).collect();
    let (reason, why) = match (missing.as_slice(), interface) {
        ([], _) => (pool_announceable::ALL, String::new()),
        (missing, Some(interface))
            if !missing.iter().any(|family| has_subnet(segments, *family, interface)) =>
        {
            (pool_announceable::NO_INTERFACE, on_no_interface(missing, interface))
        }
        (missing, _) => {
            let reason =
                if found.is_empty() { pool_announceable::NO_SEGMENT } else { pool_announceable::PARTLY };
            (reason, in_no_subnet(missing, segments, interface, &given, &found))
        }
    };
    let by = if nodes.is_empty() { String::new() } else { format!(", by {nodes}") };
    Announceability::Known {
        holds: missing.is_empty(),
        reason,
        message: format!("{shares} can be announced{by}{why}"),
    }
}

fn has_subnet(segments: &Segments, family: Family, interface: &str) -> bool {
    segments.subnets(Some(interface)).any(|net| Family::of(net.addr()) == family)
}

fn on_no_interface(missing: &[Family], interface: &str) -> String {
    format!(
        ": no node with a Windlass agent has an {} subnet on interface {interface:?}, which spec.interface names; correct it",
        either(missing)
    )
}

fn in_no_subnet(
    missing: &[Family],
    segments: &Segments,
    interface: Option<&str>,
    given: &AddressSet,
    found: &AddressSet,
) -> String {
    let mut left = given.clone();
    left.subtract(found);
    let subnets: BTreeSet<IpNet> =
        segments.subnets(interface).filter(|net| missing.contains(&Family::of(net.addr()))).collect();
    if subnets.is_empty() {
        return format!(
            ": no node with a Windlass agent has an {} subnet; give the nodes one, or the pool other addresses",
            either(missing)
        );
    }
    let total = subnets.len();
    let subnets: Vec<_> = subnets.iter().take(NAMED).map(ToString::to_string).collect();
    let or = if interface.is_some() {
        ""
    } else {
        ", or name in spec.interface the interface that is to announce them"
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

fn named<'a>(nodes: impl Iterator<Item = &'a str>) -> String {
    let nodes: BTreeSet<&str> = nodes.collect();
    let some = nodes.iter().take(NODES).copied().collect::<Vec<_>>().join(", ");
    match nodes.len() {
        0 => String::new(),
        1 => format!("node {some}"),
        2..=NODES => format!("nodes {some}"),
        _ => format!("nodes {some} and others"),
    }
}
