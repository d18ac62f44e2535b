//! `--cloud-config`: what only the admin knows of the machines: where they are, and which of them are gone.

mod file;
mod glob;
mod read;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;

pub use self::file::ConfigFile;
use self::glob::Glob;
use self::text::{LabelKey, LabelValue, NodeName};

/// The settings of one file; empty without one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CloudConfig {
    metadata: Vec<MetadataEntry>,
    lifecycle: Lifecycle,
}

/// Entry of the file for some nodes.
#[derive(Debug, Clone, PartialEq)]
struct MetadataEntry {
    /// Nodes whose name matches one of these; empty: whatever the name.
    nodes: Vec<Glob>,
    /// Labels that a node must have, all of them.
    selector: BTreeMap<LabelKey, LabelValue>,
    zone: Option<ValueSource>,
    region: Option<ValueSource>,
    instance_type: Option<ValueSource>,
    labels: BTreeMap<LabelKey, LabelValue>,
}

/// Source of a value.
#[derive(Debug, Clone, PartialEq)]
enum ValueSource {
    Value(LabelValue),
    /// The node's label of this name.
    Label(LabelKey),
}

/// Machines that are gone or off.
#[derive(Debug, Clone, PartialEq)]
struct Lifecycle {
    delete_nodes: Vec<NodeName>,
    delete_after: Duration,
    shutdown_nodes: Vec<NodeName>,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self { delete_nodes: Vec::new(), delete_after: DELETE_AFTER, shutdown_nodes: Vec::new() }
    }
}

/// Default time that a listed node must not be ready until it is deleted.
const DELETE_AFTER: Duration = Duration::from_hours(1);

/// Metadata of one node from the file; empty: none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeMetadata {
    pub(crate) zone: String,
    pub(crate) region: String,
    pub(crate) instance_type: String,
    pub(crate) labels: BTreeMap<String, String>,
}

impl CloudConfig {
    /// Returns the metadata of `node`. Entries are merged: for each value, and for each label, the first entry that matches the node
    /// and has it.
    pub(crate) fn metadata_of(&self, node: &Node) -> NodeMetadata {
        let mut known = NodeMetadata::default();
        for entry in self.metadata.iter().filter(|entry| entry.matches(node)) {
            for (value, source) in [
                (&mut known.zone, &entry.zone),
                (&mut known.region, &entry.region),
                (&mut known.instance_type, &entry.instance_type),
            ] {
                if value.is_empty() {
                    *value = source.as_ref().and_then(|source| source.value_for(node)).unwrap_or_default();
                }
            }
            for (label, value) in &entry.labels {
                known.labels.entry(label.to_string()).or_insert_with(|| value.to_string());
            }
        }
        known
    }

    /// Returns the time that `node` must not be ready until its machine counts as gone; `None`: it is not listed.
    pub(crate) fn delete_after(&self, node: &str) -> Option<Duration> {
        let listed = self.lifecycle.delete_nodes.iter().any(|listed| listed.as_str() == node);
        listed.then_some(self.lifecycle.delete_after)
    }

    /// Returns true if the machine of `node` is listed as shut down.
    pub(crate) fn is_shut_down(&self, node: &str) -> bool {
        self.lifecycle.shutdown_nodes.iter().any(|listed| listed.as_str() == node)
    }
}

impl MetadataEntry {
    fn matches(&self, node: &Node) -> bool {
        let name = node.name_any();
        let labels = node.labels();
        (self.nodes.is_empty() || self.nodes.iter().any(|glob| glob.matches(&name)))
            && self
                .selector
                .iter()
                .all(|(label, value)| labels.get(label.as_str()).is_some_and(|found| found == value.as_str()))
    }
}

impl ValueSource {
    fn value_for(&self, node: &Node) -> Option<String> {
        match self {
            Self::Value(value) => Some(value.to_string()),
            Self::Label(label) => {
                node.labels().get(label.as_str()).filter(|value| !value.is_empty()).cloned()
            }
        }
    }
}
