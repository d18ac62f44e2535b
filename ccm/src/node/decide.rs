//! Decides what a node lacks, from the Node and the metadata of its machine. No clock, no I/O.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeAddress, Taint};
use serde_json::{Value, json};

use super::NodeError;
use super::addresses::{current_addresses, wanted_addresses};
use crate::provider::InstanceMetadata;

/// Taint of a node that no cloud controller manager has looked at yet (service-contract K-01).
pub const TAINT_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

const LABEL_INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
const LABEL_ZONE: &str = "topology.kubernetes.io/zone";
const LABEL_REGION: &str = "topology.kubernetes.io/region";

/// Changes to write to a node; a field that is `None` is left as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NodeChange {
    /// All of `status.addresses`. Written first, so that an initialized node always has its addresses.
    pub(crate) addresses: Option<Vec<NodeAddress>>,
    /// Written last, in one go.
    pub(crate) initialize: Option<Initialize>,
}

/// Takes the taint away and sets what goes with it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Initialize {
    /// `spec.providerID`, for a node that has none: it cannot be changed once set.
    pub(crate) provider_id: Option<String>,
    /// Labels to set; they replace what kubelet set (service-contract N-06).
    pub(crate) labels: BTreeMap<String, String>,
    /// The taints that stay.
    pub(crate) taints: Vec<Taint>,
}

/// Returns true if the node waits to be initialized.
pub(crate) fn is_uninitialized(node: &Node) -> bool {
    taints(node).iter().any(|taint| taint.key == TAINT_UNINITIALIZED)
}

/// Decides what `node` lacks (service-contract N-03 to N-11). `metadata` `None`: not this provider's node, nothing.
pub(crate) fn decide(
    node: &Node,
    metadata: Option<&InstanceMetadata>,
) -> Result<Option<NodeChange>, NodeError> {
    let Some(metadata) = metadata else { return Ok(None) };
    let initialize = if is_uninitialized(node) { Some(initialize(node, metadata)?) } else { None };
    let wanted = wanted_addresses(node, metadata)?;
    // In order: upstream compares per type and so rewrites dual-stack nodes for ever (service-contract N-13).
    let addresses = (wanted != current_addresses(node)).then_some(wanted);
    let change = NodeChange { addresses, initialize };
    Ok((change != NodeChange::default()).then_some(change))
}

fn initialize(node: &Node, metadata: &InstanceMetadata) -> Result<Initialize, NodeError> {
    let present = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
    let provider_id = match (present, metadata.provider_id.as_str()) {
        ("", "") => {
            let node = node.metadata.name.clone().unwrap_or_default();
            return Err(NodeError::NoProviderId { node });
        }
        ("", provided) => Some(provided.to_owned()),
        // The API server would refuse another one; the present one was set on purpose.
        (_, _) => None,
    };
    let unlabelled = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&unlabelled);
    let wanted = [
        (LABEL_INSTANCE_TYPE, &metadata.instance_type),
        (LABEL_ZONE, &metadata.zone),
        (LABEL_REGION, &metadata.region),
    ];
    let additional = metadata
        .additional_labels
        .iter()
        .filter(|(label, _)| !is_kubernetes_own(label) && !labels.contains_key(*label));
    let labels = wanted
        .into_iter()
        .filter(|(label, value)| !value.is_empty() && labels.get(*label) != Some(*value))
        .map(|(label, value)| (label.to_owned(), value.clone()))
        .chain(additional.map(|(label, value)| (label.clone(), value.clone())))
        .collect();
    let taints = taints(node).iter().filter(|taint| taint.key != TAINT_UNINITIALIZED).cloned().collect();
    Ok(Initialize { provider_id, labels, taints })
}

/// Returns true if the label's domain is `kubernetes.io`, `k8s.io` or a subdomain of one of them (such
/// [`InstanceMetadata::additional_labels`] are ignored, service-contract N-07).
pub fn is_kubernetes_own(label: &str) -> bool {
    let Some((domain, _)) = label.split_once('/') else { return false };
    ["kubernetes.io", "k8s.io"]
        .iter()
        .any(|own| domain.strip_suffix(own).is_some_and(|below| below.is_empty() || below.ends_with('.')))
}

/// Merge patch of `nodes/status`. It replaces the whole list, and is refused if the node changed since it was read
/// (service-contract N-12, N-14).
pub(crate) fn addresses_patch(node: &Node, addresses: &[NodeAddress]) -> Value {
    json!({ "metadata": read_version(node), "status": { "addresses": addresses } })
}

/// Returns the merge patch of the node, refused if the node changed since it was read: a taint that another client adds meanwhile is never
/// lost (service-contract N-14).
pub(crate) fn initialize_patch(node: &Node, change: &Initialize) -> Value {
    let mut metadata = read_version(node);
    if !change.labels.is_empty() {
        metadata["labels"] = json!(change.labels);
    }
    let mut spec = json!({ "taints": change.taints });
    if let Some(provider_id) = &change.provider_id {
        spec["providerID"] = json!(provider_id);
    }
    json!({ "metadata": metadata, "spec": spec })
}

fn read_version(node: &Node) -> Value {
    json!({ "resourceVersion": node.metadata.resource_version })
}

fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// Returns true if a change of a node requires another sync of it. Changes of conditions, capacity and heartbeats do not.
pub(crate) fn node_matters(old: &Node, new: &Node) -> bool {
    old.metadata.uid != new.metadata.uid
        || old.metadata.labels != new.metadata.labels
        || old.metadata.annotations != new.metadata.annotations
        || old.spec != new.spec
        || current_addresses(old) != current_addresses(new)
}
