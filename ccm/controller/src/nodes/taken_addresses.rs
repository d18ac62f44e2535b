//! Addresses that are believed to be other hosts', by the reports of nodes. Pure.
//!
//! A node reports in its `NodeNetwork`, which is its own to write, at which host it saw an address. Each node is believed about a few
//! addresses at a time, so that no node alone takes a pool from the Services. A host that answers for several addresses (proxy ARP)
//! takes none of them: it would answer for the next one as well.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;
use windlass_api::NodeNetwork;
use windlass_ccm::store::Change;

use super::reports::{Doubt, MAX_TAKEN, ReviewedReports};

#[cfg(test)]
mod tests;

/// Time for which an address that a host has is not given, and counts.
pub(crate) const TAKEN_FOR: Duration = Duration::from_mins(10);

/// Number of addresses from which on a host that answers for them counts as answering for all.
const ANSWERS_FOR_ALL: usize = 3;

/// Recently believed reports: the addresses, by the node that reported them, each with the time and the host that answered.
#[derive(Debug, Default)]
pub(crate) struct TakenAddresses {
    by_node: BTreeMap<String, BTreeMap<IpAddr, (Timestamp, String)>>,
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
            let answering_all = self.answering_all(network, now);
            let mut seen = network.spec.duplicates.iter().filter(|seen| seen.address == address);
            seen.any(|seen| {
                let mac = seen.mac.to_ascii_lowercase();
                !macs.contains(&mac) && !answering_all.contains_key(&mac)
            })
        };
        let mut nodes = reports.of_nodes().filter(|network| sees(network)).map(|network| network.name_any());
        nodes.find(|node| {
            let lately = self.lately(node, now);
            lately.contains(&address) || lately.len() < MAX_TAKEN
        })
    }

    /// Records that the report of a node about an address was believed now.
    pub(crate) fn note(&mut self, node: &str, address: IpAddr, reports: &ReviewedReports, now: Timestamp) {
        for addresses in self.by_node.values_mut() {
            addresses.retain(|_, (at, _)| is_lately(*at, now));
        }
        self.by_node.retain(|_, addresses| !addresses.is_empty());
        let seen = reports.get(node).into_iter().flat_map(|network| &network.spec.duplicates);
        let mac =
            seen.filter(|seen| seen.address == address).map(|seen| seen.mac.to_ascii_lowercase()).next();
        let of_node = self.by_node.entry(node.to_owned()).or_default();
        of_node.insert(address, (now, mac.unwrap_or_default()));
    }

    /// The hosts that answer for any address, as far as this node sees, and how many addresses that is known of.
    fn answering_all(&self, network: &NodeNetwork, now: Timestamp) -> BTreeMap<String, usize> {
        let mut by_mac: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
        for seen in &network.spec.duplicates {
            by_mac.entry(seen.mac.to_ascii_lowercase()).or_default().insert(seen.address);
        }
        let believed =
            network.metadata.name.as_ref().and_then(|node| self.by_node.get(node)).into_iter().flatten();
        for (address, (_, mac)) in believed.filter(|(_, (at, _))| is_lately(*at, now)) {
            by_mac.entry(mac.clone()).or_default().insert(*address);
        }
        by_mac
            .into_iter()
            .filter(|(_, addresses)| addresses.len() >= ANSWERS_FOR_ALL)
            .map(|(mac, addresses)| (mac, addresses.len()))
            .collect()
    }

    /// The nodes that report more than they are believed, or a host that answers for any address.
    pub(crate) fn doubts(&self, reports: &ReviewedReports, now: Timestamp) -> Vec<(String, Doubt)> {
        let proxies = reports.of_nodes().flat_map(|network| {
            let hosts = self.answering_all(network, now).into_iter();
            hosts.map(|(mac, addresses)| (network.name_any(), Doubt::AnswersForAll { mac, addresses }))
        });
        let doubt = |(node, seen): (String, BTreeSet<IpAddr>)| {
            let lately = self.lately(&node, now);
            let ignored = seen.difference(&lately).count();
            (lately.len() >= MAX_TAKEN && ignored > 0).then_some((node, Doubt::Taken { ignored }))
        };
        reporters(reports).filter_map(doubt).chain(proxies).collect()
    }

    fn lately(&self, node: &str, now: Timestamp) -> BTreeSet<IpAddr> {
        let believed = self.by_node.get(node).into_iter().flatten();
        believed.filter(|(_, (at, _))| is_lately(*at, now)).map(|(address, _)| *address).collect()
    }
}

/// Returns the addresses that a node sees at other hosts now and did not before.
pub(crate) fn newly_seen(change: &Change<NodeNetwork>) -> Vec<IpAddr> {
    let [old, new] = [&change.old, &change.new].map(|network| -> BTreeSet<IpAddr> {
        let seen = network.iter().flat_map(|network| &network.spec.duplicates);
        seen.map(|seen| seen.address).collect()
    });
    new.difference(&old).copied().collect()
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
