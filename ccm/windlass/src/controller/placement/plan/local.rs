//! Where VIPs go whose Services have `externalTrafficPolicy: Local`: to virtual routers that follow their endpoints.
//!
//! Each has a virtual router of its own, so that it moves alone. Where VRIDs get short, those share one that the same nodes serve
//! best; one leaves it for another when that is so no more.

use std::collections::BTreeSet;

use crate::controller::placement::endpoints::{ServingNodes, worst};

/// From so many VRIDs in use on, VIPs share virtual routers: half of them stay for what comes, and for VIPs that every node serves.
pub(super) const SHARED_FROM: usize = 128;

/// The nodes that serve the VIPs of a virtual router.
#[derive(Debug, Default)]
pub(super) struct Serving<'a> {
    /// Of each VIP that is served at all.
    of_vips: Vec<&'a ServingNodes>,
    /// Nodes that serve each of them as well as any node does.
    best: BTreeSet<&'a str>,
}

impl<'a> Serving<'a> {
    /// The router carries a VIP that these nodes serve.
    pub(super) fn add(&mut self, nodes: &'a ServingNodes) {
        if nodes.is_empty() {
            return;
        }
        let best = best(nodes);
        self.best = if self.of_vips.is_empty() { best } else { &self.best & &best };
        self.of_vips.push(nodes);
    }

    /// Whether some node would serve another VIP as well as those that are there. One that nobody serves is served nowhere better.
    pub(super) fn fits(&self, nodes: &ServingNodes) -> bool {
        nodes.is_empty() || self.of_vips.is_empty() || best(nodes).iter().any(|node| self.best.contains(node))
    }

    /// The nodes that serve all of them, each by what it does worst.
    pub(super) fn together(&self) -> ServingNodes {
        let mut all = self.of_vips.iter().copied();
        let first = all.next().cloned().unwrap_or_default();
        all.fold(first, |together, nodes| worst(&together, nodes))
    }
}

/// Those that serve it best.
fn best(nodes: &ServingNodes) -> BTreeSet<&str> {
    let most = nodes.values().map(|node| node.state).max();
    nodes.iter().filter(|(_, node)| Some(node.state) == most).map(|(name, _)| name.as_str()).collect()
}
