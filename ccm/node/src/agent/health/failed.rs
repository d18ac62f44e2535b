//! Failed checks of this node, and their effect on its priorities. Pure.

use std::collections::BTreeMap;

use windlass_api::NodeCheck;
use windlass_common::{failures, priorities};
use windlass_engine::Family;

use super::forwarding::Segment;
use crate::agent::desired::Assignment;

/// Largest number of failed checks of Services, and of Announcements, that are listed one by one: a node without pods of hundreds of
/// `Local` Services fails as many.
pub(super) const MOST_TOLD: usize = 32;

/// Failed checks of this node, each with its reason as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FailedChecks {
    /// Failure of kube-proxy: it concerns every virtual router.
    pub(crate) kube_proxy: Option<String>,
    /// Failure of the node's pod network: it concerns every virtual router for which the node is not Active.
    pub(crate) network: Option<String>,
    /// Failures of forwarding by the kernel: each concerns the virtual routers of the family on the interface.
    pub(crate) forwarding: BTreeMap<Segment, String>,
    /// Failures of Services, by the node port of their health check.
    pub(crate) endpoints: BTreeMap<u16, String>,
    /// The engine's lateness, by advert interval in milliseconds: it concerns the virtual routers with that interval.
    pub(crate) late: BTreeMap<u32, FailedNodeCheck>,
    /// Failures of Announcements' checks: each concerns the virtual routers that have it.
    pub(crate) of_announcements: BTreeMap<NodeCheck, FailedNodeCheck>,
}

/// A check that fails, perhaps not on this node alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailedNodeCheck {
    pub(crate) reason: String,
    /// True if it does not count where this node is Active: it has only just failed, or passes again, and may do so on all nodes alike.
    pub(crate) spares_active: bool,
}

impl FailedChecks {
    /// Returns this node's current priority for a virtual router.
    pub(crate) fn priority(&self, assignment: &Assignment, is_active: bool) -> u8 {
        let counts = |failed: &FailedNodeCheck| !(is_active && failed.spares_active);
        let segment = (Family::of(assignment.source), assignment.interface.clone());
        let is_unfit = self.kube_proxy.is_some()
            || (self.network.is_some() && !is_active)
            || self.forwarding.contains_key(&segment)
            || assignment.health_check_node_ports.iter().any(|port| self.endpoints.contains_key(port))
            || assignment.checks.iter().any(|check| self.of_announcements.get(check).is_some_and(counts));
        let is_late = self.late.get(&assignment.interval_milliseconds).is_some_and(counts);
        let before = assignment.before.into();
        let highest = match (is_unfit, is_late) {
            (true, _) => priorities::unfit(before),
            (false, true) => priorities::late(before),
            (false, false) => u8::MAX,
        };
        assignment.priority.min(highest)
    }

    /// Returns true if a priority depends on whether this node is Active.
    pub(crate) fn spares_active(&self) -> bool {
        let mut counted = self.late.values().chain(self.of_announcements.values());
        self.network.is_some() || counted.any(|failed| failed.spares_active)
    }

    /// Returns one sentence per failure, for display. Of many the first are listed, then the number of further ones.
    pub(crate) fn sentences(&self) -> impl Iterator<Item = String> {
        let kube_proxy = self.kube_proxy.iter().map(|why| format!("kube-proxy: {why}"));
        let network = self.network.iter().map(|why| format!("the pod network: {why}"));
        let forwarding = self.forwarding.iter();
        let forwarding =
            forwarding.map(|((family, interface), why)| failures::of_forwarding(*family, interface, why));
        let late = self.late.iter().map(|(interval, failed)| {
            format!("the engine, for adverts each {interval} ms: {}", failed.reason)
        });
        let of_announcements =
            self.of_announcements.iter().map(|(check, failed)| failures::of_check(check, &failed.reason));
        let endpoints = self.endpoints.iter().map(|(port, why)| failures::of_node_port(*port, why));
        kube_proxy
            .chain(forwarding.take(MOST_TOLD))
            .chain(network)
            .chain(late.take(MOST_TOLD))
            .chain(of_announcements.take(MOST_TOLD))
            .chain(further(self.of_announcements.len(), failures::of_further_checks))
            .chain(endpoints.take(MOST_TOLD))
            .chain(further(self.endpoints.len(), failures::of_further_node_ports))
    }
}

/// Returns a sentence with the number of failures that are not listed.
fn further(count: usize, said: fn(usize) -> String) -> Option<String> {
    let more = count.saturating_sub(MOST_TOLD);
    (more > 0).then(|| said(more))
}
