//! Which addresses are believed to be other hosts', on the word of nodes. Pure.
//!
//! A node says in its `NodeNetwork`, which is its own to write, at which host it saw an address. Each node is believed about a few
//! addresses at a time, so that no node alone takes a pool from the Services.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;
use windlass_api::NodeNetwork;

use super::reports::{Doubt, ReviewedReports};

#[cfg(test)]
mod tests;

/// Most addresses at once that are taken from Services on the word of one node.
pub(crate) const MAX_TAKEN: usize = 8;
/// How long an address that a host has is not given, and counts.
pub(crate) const TAKEN_FOR: Duration = Duration::from_mins(10);

/// What was believed lately: the addresses, by the node that reported them.
#[derive(Debug, Default)]
pub(crate) struct TakenAddresses {
    by_node: BTreeMap<String, BTreeMap<IpAddr, Timestamp>>,
}

impl TakenAddresses {
    /// The node on whose word another host has this address; `None`: there is none that is believed. `is_candidate`: whether a
    /// node may announce it: one that does, because it does not hear the other, is no other host.
    pub(crate) fn believed(
        &self,
        address: IpAddr,
        reports: &ReviewedReports,
        now: Timestamp,
        is_candidate: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let candidates = reports.of_nodes().filter(|network| is_candidate(&network.name_any()));
        let macs: BTreeSet<String> = candidates
            .flat_map(|network| &network.spec.interfaces)
            .map(|interface| interface.mac.to_ascii_lowercase())
            .collect();
        let sees = |network: &NodeNetwork| {
            let seen = network.spec.duplicates.iter().filter(|seen| seen.address == address);
            seen.into_iter().any(|seen| !macs.contains(&seen.mac.to_ascii_lowercase()))
        };
        let mut nodes = reports.of_nodes().filter(|network| sees(network)).map(|network| network.name_any());
        nodes.find(|node| {
            let lately = self.lately(node, now);
            lately.contains(&address) || lately.len() < MAX_TAKEN
        })
    }

    /// It was believed now.
    pub(crate) fn note(&mut self, node: &str, address: IpAddr, now: Timestamp) {
        for addresses in self.by_node.values_mut() {
            addresses.retain(|_, at| is_lately(*at, now));
        }
        self.by_node.retain(|_, addresses| !addresses.is_empty());
        self.by_node.entry(node.to_owned()).or_default().insert(address, now);
    }

    /// The nodes that report more than they are believed.
    pub(crate) fn doubts(&self, reports: &ReviewedReports, now: Timestamp) -> Vec<(String, Doubt)> {
        let doubt = |(node, seen): (String, BTreeSet<IpAddr>)| {
            let lately = self.lately(&node, now);
            let ignored = seen.difference(&lately).count();
            (lately.len() >= MAX_TAKEN && ignored > 0).then_some((node, Doubt::Taken { ignored }))
        };
        reporters(reports).filter_map(doubt).collect()
    }

    fn lately(&self, node: &str, now: Timestamp) -> BTreeSet<IpAddr> {
        let believed = self.by_node.get(node).into_iter().flatten();
        believed.filter(|(_, at)| is_lately(**at, now)).map(|(address, _)| *address).collect()
    }
}

fn is_lately(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at).unsigned_abs() < TAKEN_FOR
}

/// The nodes and the addresses that each saw at other hosts.
fn reporters(reports: &ReviewedReports) -> impl Iterator<Item = (String, BTreeSet<IpAddr>)> {
    reports.of_nodes().filter_map(|network| {
        let seen: BTreeSet<IpAddr> = network.spec.duplicates.iter().map(|seen| seen.address).collect();
        (!seen.is_empty()).then(|| (network.name_any(), seen))
    })
}
