//! Properties of a Node that matter to a plan.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use windlass_ccm::service::is_stable;

use super::announcements::Announcements;
use super::plan::NodeTraits;

/// Returns the properties of a node that matter to a plan, as far as one of the Announcements asks for them.
pub(crate) fn traits(node: &Node, announcements: &Announcements) -> NodeTraits {
    let labels = node.metadata.labels.as_ref().filter(|_| announcements.look_at_labels());
    let is_unschedulable = || node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    NodeTraits {
        is_stable: is_stable(node),
        is_unschedulable: announcements.look_at_unschedulable() && is_unschedulable(),
        labels: labels.cloned().unwrap_or_default(),
    }
}

/// Returns the time since which the node's kubelet reports it as ready, if it does.
pub(crate) fn ready_since(node: &Node) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|one| one.type_ == "Ready" && one.status == "True")?;
    Some(ready.last_transition_time.as_ref()?.0)
}
