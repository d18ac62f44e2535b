//! Obstacles that keep a node from the addresses of a virtual router, as far as the API server's objects show them. Pure.

use k8s_openapi::api::core::v1::Node;
use windlass_api::{
    AnnouncementSpec, Capability, NodeNetwork, UnschedulableNodePolicy, VirtualIP, VirtualRouter,
};
use windlass_ccm::service::is_stable;
use windlass_common::failures;

use super::details::Details;
use super::snapshot::Snapshot;

/// Reason why a node has not the first place, or cannot have it.
pub(super) struct Obstacle {
    pub(super) reason: String,
    pub(super) remedy: String,
    /// True if a check of the node's agent fails.
    pub(super) is_failure: bool,
}

impl Obstacle {
    fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { reason: reason.into(), remedy: remedy.into(), is_failure: false }
    }
}

/// Returns the Announcement of a virtual router.
pub(super) fn announcement<'a>(
    snapshot: &'a Snapshot,
    router: &VirtualRouter,
) -> Option<&'a AnnouncementSpec> {
    let name = router.spec.announcement.as_deref()?;
    Snapshot::named(&snapshot.announcements, name).map(|one| &one.spec)
}

/// Returns true if pods may not be scheduled to a node.
pub(super) fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// The obstacles of a node, as far as the objects could be read.
pub(super) fn obstacles(
    snapshot: &Snapshot,
    details: &Details,
    (vip, router): (&VirtualIP, &VirtualRouter),
    node: &str,
) -> Vec<Obstacle> {
    let mut found = Vec::new();
    match Snapshot::named(&snapshot.nodes, node) {
        Some(object) => {
            if !is_stable(object) {
                found.push(Obstacle::new(
                    "it is excluded (label node.kubernetes.io/exclude-from-external-load-balancers, or about to be removed)",
                    format!("`windlass undrain {node}` takes it back, unless it is about to be removed"),
                ));
            }
            let yields = |one: &AnnouncementSpec| one.unschedulable_nodes == UnschedulableNodePolicy::Yield;
            if is_cordoned(object) && announcement(snapshot, router).is_some_and(yields) {
                found.push(Obstacle::new(
                    "it is cordoned, and its Announcement has unschedulableNodes: Yield",
                    format!("kubectl uncordon {node}"),
                ));
            }
        }
        None if snapshot.nodes.missing.is_some() => {}
        None => {
            found
                .push(Obstacle::new("there is no Node of that name any more", "`windlass nodes` lists them"));
        }
    }
    let is_local = !router.spec.external_traffic_policy.is_cluster();
    if is_local && details.ready_endpoints(&vip.spec.owners, vip.spec.address, node) == 0 {
        found.push(Obstacle::new(
            "no ready pod of the Service is there (externalTrafficPolicy: Local)",
            "have one run there first",
        ));
    }
    match Snapshot::named(&snapshot.networks, node) {
        Some(network) => found.extend(of_agent(network, vip, router)),
        None if snapshot.networks.missing.is_some() => {}
        None => found
            .push(Obstacle::new("no agent reports from there", "let the DaemonSet windlass-agent run on it")),
    }
    found
}

fn of_agent(network: &NodeNetwork, vip: &VirtualIP, router: &VirtualRouter) -> Vec<Obstacle> {
    let key = router.spec.authentication.map(|one| one.key_id);
    let matters = |said: &&String| {
        failures::that_matter(std::slice::from_ref(*said)).any(|subject| {
            failures::concerns(subject, &router.spec.checks, key)
                && failures::concerns_address(subject, vip.spec.address)
        })
    };
    let failed = network.spec.failed_checks.iter().filter(matters).map(|said| Obstacle {
        is_failure: true,
        ..Obstacle::new(
            format!("its agent ranks it below all nodes whose checks pass: {said}"),
            "fix that first",
        )
    });
    let mut found: Vec<Obstacle> = failed.collect();
    if vip.spec.needs_guard() && !network.spec.capabilities.contains(&Capability::SourceRanges) {
        found.push(Obstacle::new(
            "its agent is too old to enforce the source ranges of the address",
            "update it",
        ));
    }
    found
}
