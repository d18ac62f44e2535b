//! Placement of VIPs whose Services have `externalTrafficPolicy: Local`: on virtual routers that follow their endpoints.
//!
//! Each VIP has a virtual router of its own, so that it moves alone. Where VRIDs get short, VIPs that the same nodes serve best share
//! one. A VIP leaves it for another when that is no longer so.

use std::collections::BTreeSet;
use std::net::IpAddr;

use windlass_api::RankedNode;
use windlass_common::listing::first_of;

use crate::placement::endpoints::{ServingNodes, worst};

/// From so many of `vrids` VRIDs in use on, VIPs share virtual routers: a quarter of them stay for what comes.
pub(super) const fn shared_from(vrids: usize) -> usize {
    (vrids * 3).div_ceil(4)
}

/// The nodes that serve the VIPs of a virtual router.
#[derive(Debug, Default)]
pub(super) struct Serving<'a> {
    /// Serving nodes of each VIP that has any.
    of_vips: Vec<&'a ServingNodes>,
    /// Nodes that serve each of them as well as any node does.
    best: BTreeSet<&'a str>,
}

impl<'a> Serving<'a> {
    /// The router carries a VIP that these nodes serve, `best` of them best.
    pub(super) fn add(&mut self, nodes: &'a ServingNodes, best: BTreeSet<&'a str>) {
        if best.is_empty() {
            return;
        }
        self.best = if self.of_vips.is_empty() { best } else { &self.best & &best };
        self.of_vips.push(nodes);
    }

    /// Returns true if one of `best`, the nodes that serve another VIP best, also serves the present VIPs best. A VIP that no node
    /// serves fits everywhere.
    pub(super) fn fits(&self, best: &BTreeSet<&str>) -> bool {
        best.is_empty() || self.of_vips.is_empty() || best.iter().any(|node| self.best.contains(node))
    }

    /// The nodes that serve all of them, each by what it does worst.
    pub(super) fn together(&self) -> ServingNodes {
        let mut all = self.of_vips.iter().copied();
        let first = all.next().cloned().unwrap_or_default();
        all.fold(first, |together, nodes| worst(&together, nodes))
    }
}

/// Nodes that a message names.
const NAMED: usize = 3;

/// Returns the reason that no candidate for a VIP has a pod, with the remedy.
pub(super) fn without_endpoint<'a>(
    address: IpAddr,
    pods: impl ExactSizeIterator<Item = &'a String>,
    candidates: &[RankedNode],
) -> String {
    let mut names: Vec<&str> = candidates.iter().map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    let (pods, names) = (first_of(pods, NAMED), first_of(names.into_iter(), NAMED));
    format!(
        "traffic to {address} is dropped (externalTrafficPolicy: Local): its pods run on {pods}, but only \
         {names} may announce it. Run pods there, let the Announcement select the pods' nodes, or use \
         externalTrafficPolicy: Cluster"
    )
}

/// Returns the nodes that serve it best, of those that are candidates.
pub(super) fn best(nodes: &ServingNodes, is_candidate: impl Fn(&str) -> bool) -> BTreeSet<&str> {
    let candidates: Vec<_> = nodes.iter().filter(|(name, _)| is_candidate(name)).collect();
    let most = candidates.iter().map(|(_, node)| node.state).max();
    let best = candidates.into_iter().filter(|(_, node)| Some(node.state) == most);
    best.map(|(name, _)| name.as_str()).collect()
}
