//! The nodes that may carry load balancers, and which changes of a node matter.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

/// Label that keeps a node out (service-contract S-25).
pub const LABEL_EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Taint of a node that the cluster autoscaler is about to remove.
pub const TAINT_TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// Returns true if the exclusion label keeps the node out: with any value, even an empty or malformed one, except those that Go's
/// `ParseBool` reads as false (service-contract S-25).
pub fn is_excluded(node: &Node) -> bool {
    let label = node.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_EXCLUDE));
    label.is_some_and(|value| !matches!(value.as_str(), "false" | "0" | "f" | "F" | "FALSE" | "False"))
}

/// Returns true if the node belongs to the stable node set: not being deleted, not excluded, not about to be removed by the autoscaler.
/// Readiness does not matter (service-contract S-24).
pub fn is_stable(node: &Node) -> bool {
    let to_be_deleted = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten())
        .any(|taint| taint.key == TAINT_TO_BE_DELETED);
    node.metadata.deletion_timestamp.is_none() && !is_excluded(node) && !to_be_deleted
}

/// The nodes that may carry load balancers, in the order given (service-contract S-24).
pub fn stable_node_set<'a>(nodes: impl IntoIterator<Item = &'a Arc<Node>>) -> Vec<Arc<Node>> {
    nodes.into_iter().filter(|node| is_stable(node)).map(Arc::clone).collect()
}

/// Identity of a node set: names and provider IDs, by which sets are compared (service-contract S-23).
pub(crate) type NodeIds = BTreeMap<String, String>;

pub(crate) fn node_ids(nodes: &[Arc<Node>]) -> NodeIds {
    nodes
        .iter()
        .map(|node| (node.metadata.name.clone().unwrap_or_default(), provider_id(node).to_owned()))
        .collect()
}

/// Returns true if the change of a node requires a check of the node sets (service-contract S-21).
pub(crate) fn node_matters(old: &Node, new: &Node) -> bool {
    is_excluded(old) != is_excluded(new) || provider_id(old) != provider_id(new)
}

fn provider_id(node: &Node) -> &str {
    node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default()
}

/// Node names for a message: sorted, at most 20 (service-contract S-20i).
pub(crate) fn limited_names(nodes: &[Arc<Node>]) -> String {
    const LIMIT: usize = 20;
    let mut names: Vec<&str> = nodes.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(LIMIT);
    names.truncate(LIMIT);
    let more = if more > 0 { format!(" <{more} more>") } else { String::new() };
    format!("[{}{more}]", names.join(" "))
}
