//! Decides what to do with a node, from the Node and the provider's answers. No clock, no I/O.

use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::{Value, json};

use super::TAINT_SHUTDOWN;

const NO_SCHEDULE: &str = "NoSchedule";

/// Action that the state of a Node itself calls for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NodeAction {
    /// Nothing: it is ready, or on its way out already.
    Nothing,
    /// It is ready again: the shutdown taint goes, these stay (service-contract L-02).
    RemoveTaint(Vec<Taint>),
    /// It is not ready, or nobody knows: the provider is asked (service-contract L-03).
    AskProvider,
}

/// Decides by the node alone. Whatever the provider would answer, a ready node is neither deleted nor tainted.
pub(crate) fn next_action(node: &Node) -> NodeAction {
    if node.metadata.deletion_timestamp.is_some() {
        return NodeAction::Nothing;
    }
    if !is_ready(node) {
        return NodeAction::AskProvider;
    }
    let stay: Vec<Taint> = taints(node).iter().filter(|taint| !is_shutdown(taint)).cloned().collect();
    if stay.len() == taints(node).len() { NodeAction::Nothing } else { NodeAction::RemoveTaint(stay) }
}

/// The taints of a node that is shut down; `None` if it has the taint (service-contract L-04).
pub(crate) fn with_shutdown(node: &Node) -> Option<Vec<Taint>> {
    if taints(node).iter().any(is_shutdown) {
        return None;
    }
    let taint = Taint {
        key: TAINT_SHUTDOWN.to_owned(),
        effect: NO_SCHEDULE.to_owned(),
        value: None,
        time_added: None,
    };
    Some(taints(node).iter().cloned().chain([taint]).collect())
}

/// Returns the merge patch of the node, refused if the node changed since it was read: a taint that another client adds meanwhile is never
/// lost (service-contract N-14).
pub(crate) fn taints_patch(node: &Node, taints: &[Taint]) -> Value {
    json!({ "metadata": { "resourceVersion": node.metadata.resource_version }, "spec": { "taints": taints } })
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Returns true if key and effect are those of the shutdown taint; the value does not matter.
fn is_shutdown(taint: &Taint) -> bool {
    taint.key == TAINT_SHUTDOWN && taint.effect == NO_SCHEDULE
}

fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}
