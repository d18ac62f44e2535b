//! Reasons for each node's place in a virtual router (docs/failover.md). Pure.

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde::Serialize;
use windlass_api::{
    ANNOTATION_PREFERRED_NODE, AnnouncementSpec, RankedNode, UnschedulableNodePolicy, VirtualIP,
    VirtualRouter,
};
use windlass_common::label_selector;
use windlass_common::priorities::{Class, class};

use super::Details;
use crate::inspect::obstacles::{announcement, is_cordoned, obstacles};
use crate::inspect::snapshot::{Snapshot, is_ready};

/// A node's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Place {
    pub(super) node: String,
    /// Priority that the controller assigns; the agent may lower it where something fails.
    pub(super) priority: u8,
    /// good, late, fair or unfit.
    pub(super) class: &'static str,
    pub(super) active: bool,
    pub(super) interface: String,
    /// Reasons for its place: what counts against it or for it.
    pub(super) why: Vec<String>,
    /// True if its agent reports a failure that matters here.
    fails: bool,
}

impl Place {
    /// Returns the reasons that keep it from having the addresses.
    pub(super) fn hindrance(&self) -> Option<String> {
        (self.fails || self.class != "good").then(|| self.why.join("; "))
    }
}

/// The nodes, that with the highest priority first.
pub(super) fn ranking(
    router: &VirtualRouter,
    vip: &VirtualIP,
    snapshot: &Snapshot,
    details: &Details,
) -> Vec<Place> {
    let active = router.active_node();
    let mut nodes: Vec<&RankedNode> = router.spec.nodes.iter().collect();
    nodes.sort_by_key(|node| Reverse(node.priority));
    nodes
        .into_iter()
        .map(|ranked| {
            let (why, fails) = why(ranked, router, vip, snapshot, details);
            Place {
                node: ranked.name.clone(),
                priority: ranked.priority,
                class: match class(ranked.priority) {
                    Class::Good => "good",
                    Class::Late => "late",
                    Class::Fair => "fair",
                    Class::Unfit => "unfit",
                },
                active: active == Some(ranked.name.as_str()),
                interface: ranked.interface.clone(),
                why,
                fails,
            }
        })
        .collect()
}

/// Returns the reasons against a node or for it, and true if something fails there.
fn why(
    ranked: &RankedNode,
    router: &VirtualRouter,
    vip: &VirtualIP,
    snapshot: &Snapshot,
    details: &Details,
) -> (Vec<String>, bool) {
    let name = &ranked.name;
    let obstacles = obstacles(snapshot, details, (vip, router), name);
    let fails = obstacles.iter().any(|one| one.is_failure);
    let mut why: Vec<String> = obstacles.into_iter().map(|one| one.reason).collect();
    if let Some(node) = Snapshot::named(&snapshot.nodes, name) {
        why.extend(of_node(node, announcement(snapshot, router)));
    }
    if router.preferred_node() == Some(name.as_str()) {
        why.push(format!(
            "an admin wants it to have the addresses (windlass move, annotation {ANNOTATION_PREFERRED_NODE})"
        ));
    }
    if ranked.joining {
        why.push("it is joining: it comes last until the others know it".to_owned());
    }
    let is_local = !router.spec.external_traffic_policy.is_cluster();
    let ready = if is_local { details.ready_endpoints(&vip.spec.owners, vip.spec.address, name) } else { 0 };
    if ready > 0 {
        why.push(format!("{ready} ready pods of the Service"));
    }
    if why.is_empty() {
        why.push(match router.spec.nodes.iter().position(|one| one.name == *name) {
            Some(0) => "first in the list: nothing is wrong with it".to_owned(),
            Some(place) => {
                format!("nothing is wrong with it; number {} in the list, which is made once", place + 1)
            }
            None => "nothing is wrong with it".to_owned(),
        });
    }
    (why, fails)
}

fn of_node(node: &Node, announcement: Option<&AnnouncementSpec>) -> Vec<String> {
    let mut why = Vec::new();
    if !is_ready(node) {
        why.push("its kubelet reports it as not ready, which by itself moves nothing".to_owned());
    }
    let yields = announcement.is_some_and(|one| one.unschedulable_nodes == UnschedulableNodePolicy::Yield);
    if is_cordoned(node) && !yields {
        why.push("it is cordoned, which moves nothing (unschedulableNodes: Serve)".to_owned());
    }
    let labels = node.labels();
    let weight: i32 = announcement
        .into_iter()
        .flat_map(|one| &one.preferred_nodes)
        .filter(|one| label_selector::selector(&one.selector).is_ok_and(|selector| selector.matches(labels)))
        .map(|one| one.weight)
        .sum();
    if weight > 0 {
        why.push(format!("its Announcement prefers it (weight {weight})"));
    }
    why
}
