//! Properties of a Node that matter to a plan.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use windlass_ipam::Labels;

/// Properties of a node that matter to a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeTraits {
    /// In the stable node set (service-contract S-24): the others rank below.
    pub(crate) is_stable: bool,
    /// Cordoned or drained, if an Announcement asks for that.
    pub(crate) is_unschedulable: bool,
    /// If an Announcement asks for them.
    pub(crate) labels: Labels,
}

/// Returns the time since which the node's kubelet reports it as ready, if it does.
pub(crate) fn ready_since(node: &Node) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|one| one.type_ == "Ready" && one.status == "True")?;
    Some(ready.last_transition_time.as_ref()?.0)
}
