//! VIPs that change their virtual router while another node has them.
//!
//! Nodes hear of that at different moments, and the one that has the VIPs may hear last. So it goes first, if it is there: the others
//! keep the old router until it says, by the priority of an owner, that it has taken the VIPs away, or falls silent there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::context::RouterId;
use crate::config::{Hold, RouterConfig};

#[cfg(test)]
mod tests;

/// What is to run until the Active of other nodes have gone before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Interim {
    pub(super) routers: BTreeMap<RouterId, RouterConfig>,
    /// Those of them that nobody wants any more.
    pub(super) kept: Vec<RouterId>,
}

/// What is to run instead of `desired`; `None`: that. `followed`: the routers that follow another node which has their VIPs.
/// `is_running`: whether a router runs already.
pub(super) fn interim<'a>(
    desired: &BTreeMap<RouterId, RouterConfig>,
    followed: impl Iterator<Item = (RouterId, &'a RouterConfig)>,
    is_running: impl Fn(&RouterId) -> bool,
) -> Option<Interim> {
    let mut interim: Option<Interim> = None;
    let left = followed.filter(|(id, config)| {
        !desired.contains_key(id) && config.hold == Hold::Respond && !config.addresses.is_empty()
    });
    for (id, config) in left {
        let shares = |other: &RouterConfig| !other.addresses.is_disjoint(&config.addresses);
        let takers: Vec<RouterId> = desired
            .iter()
            .filter(|(other, theirs)| other.0 == id.0 && shares(theirs))
            .map(|(other, _)| *other)
            .collect();
        let taken: BTreeSet<IpAddr> =
            takers.iter().flat_map(|other| &desired[other].addresses).copied().collect();
        if !config.addresses.is_subset(&taken) || takers.iter().any(&is_running) {
            continue;
        }
        let interim = interim.get_or_insert_with(|| Interim { routers: desired.clone(), kept: Vec::new() });
        interim.routers.retain(|other, _| !takers.contains(other));
        interim.routers.insert(id, config.clone());
        interim.kept.push(id);
    }
    interim
}
