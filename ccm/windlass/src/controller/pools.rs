//! Which addresses of the pools can be used, and what to tell their admin. Pure.
//!
//! A pool that is partly wrong is used as far as it is right: one bad piece stops neither the rest of it nor the others.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;
use windlass_api::{AddressCounts, CONDITION_READY, IPPool, IPPoolStatus, NodeNetwork};
use windlass_ipam::{AddressRange, AddressSet, Counts, Family, Policy, Pool};

/// Items that one message names before it says how many more there are.
const NAMED: usize = 5;

/// A pool, as far as it can be used.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reviewed {
    pub(crate) pool: Pool,
    /// Reason and message of what cannot be used.
    pub(crate) problems: Vec<(&'static str, String)>,
}

/// Addresses of the nodes themselves, with the node's name.
pub(crate) fn node_addresses(
    nodes: impl IntoIterator<Item = impl AsRef<Node>>,
    networks: impl IntoIterator<Item = impl AsRef<NodeNetwork>>,
) -> BTreeMap<IpAddr, String> {
    let mut addresses = BTreeMap::new();
    for node in nodes {
        let node = node.as_ref();
        let listed = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
        for address in listed.filter_map(|address| address.address.parse().ok()) {
            addresses.insert(address, node.name_any());
        }
    }
    for network in networks {
        let network = network.as_ref();
        let listed = network.spec.interfaces.iter().flat_map(|interface| &interface.addresses);
        for address in listed.filter_map(|text| text.split('/').next()?.parse().ok()) {
            addresses.insert(address, network.name_any());
        }
    }
    addresses
}

/// Reviews all pools. Where two overlap, the older one keeps the addresses; those of nodes are left out.
pub(crate) fn review(pools: &[Arc<IPPool>], nodes: &BTreeMap<IpAddr, String>) -> Vec<Reviewed> {
    let mut by_age: Vec<&Arc<IPPool>> = pools.iter().collect();
    by_age
        .sort_by_key(|pool| (pool.metadata.creation_timestamp.as_ref().map(|time| time.0), pool.name_any()));
    let mut older: Vec<(String, AddressSet)> = Vec::new();
    let mut reviewed = Vec::new();
    for pool in by_age {
        let mut problems = Vec::new();
        let mut addresses = AddressSet::default();
        for text in &pool.spec.addresses {
            match text.parse::<AddressRange>() {
                Ok(range) => addresses.insert(range),
                Err(error) => problems.push(("InvalidAddresses", error.to_string())),
            }
        }
        let declared = addresses.clone();
        for (name, theirs) in &older {
            let both = addresses.intersection(theirs);
            if !both.is_empty() {
                problems.push((
                    "Overlap",
                    format!("{} also in the older pool {name:?}, which keeps them", shortened(&both)),
                ));
                addresses.subtract(&both);
            }
        }
        let own: Vec<_> = nodes.iter().filter(|(address, _)| addresses.contains(**address)).collect();
        if !own.is_empty() {
            let named: Vec<_> =
                own.iter().take(NAMED).map(|(address, node)| format!("{address} of node {node}")).collect();
            problems
                .push(("NodeAddress", format!("addresses of nodes left out: {}", list(&named, own.len()))));
            for (address, _) in own {
                addresses.remove_address(*address);
            }
        }
        let name = pool.name_any();
        older.push((name.clone(), declared));
        let policy = Policy { auto_assign: pool.spec.auto_assign, ..Policy::default() };
        let pool = Pool { name, addresses, reserved: AddressSet::default(), policy };
        reviewed.push(Reviewed { pool, problems });
    }
    reviewed
}

fn shortened(set: &AddressSet) -> String {
    let ranges: Vec<_> = set
        .ranges()
        .take(NAMED)
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    list(&ranges, set.ranges().count())
}

fn list(named: &[String], total: usize) -> String {
    let more = total.saturating_sub(named.len());
    let end = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{end}", named.join(", "))
}

/// The status of a pool: as `current` where nothing changed, so that nothing is written.
pub(crate) fn status(
    current: Option<&IPPoolStatus>,
    generation: Option<i64>,
    reviewed: &Reviewed,
    counts: impl Fn(Family) -> Counts,
    now: Timestamp,
) -> IPPoolStatus {
    let family = |family| {
        let counts = counts(family);
        let shown = |count: u128| i64::try_from(count).unwrap_or(i64::MAX);
        (counts.total > 0).then(|| AddressCounts {
            total: shown(counts.total),
            assigned: shown(counts.assigned),
            available: shown(counts.available()),
            quarantined: shown(counts.quarantined),
        })
    };
    let (value, reason, message) = match reviewed.problems.first() {
        None => ("True", "Usable", "every address can be given".to_owned()),
        Some((reason, _)) => {
            let messages: Vec<_> = reviewed.problems.iter().map(|(_, message)| message.as_str()).collect();
            ("False", *reason, messages.join("; "))
        }
    };
    let mut conditions = current.map_or_else(Vec::new, |status| status.conditions.clone());
    let known = conditions.iter().position(|condition| condition.type_ == CONDITION_READY);
    let since = known
        .map(|index| &conditions[index])
        .filter(|condition| condition.status == value)
        .map_or(Time(now), |condition| condition.last_transition_time.clone());
    let ready = Condition {
        type_: CONDITION_READY.to_owned(),
        status: value.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: generation,
        last_transition_time: since,
    };
    match known {
        Some(index) => conditions[index] = ready,
        None => conditions.push(ready),
    }
    IPPoolStatus { ipv4: family(Family::V4), ipv6: family(Family::V6), conditions }
}

#[cfg(test)]
mod tests;
