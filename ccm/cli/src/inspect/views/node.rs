//! Nodes and their agents.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::Serialize;
use windlass_api::{Capability, NodeNetwork};
use windlass_ccm::service::is_excluded;

use super::Selection;
use crate::inspect::snapshot::{Snapshot, is_pod_ready, is_ready, node_of};
use crate::inspect::table::{Column, Row};

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::inspect) struct NodeRow {
    pub(in crate::inspect) name: String,
    /// `Ready`, `NotReady`, or `Gone`: there is no Node.
    ready: &'static str,
    schedulable: bool,
    /// True if it is kept out of load balancers, as by `windlass drain`.
    drained: bool,
    /// Version of its agent; absent: none has reported.
    agent_version: Option<String>,
    /// True if the agent's pod is ready; absent: no pod of it is known.
    agent_ready: Option<bool>,
    /// Virtual routers in which it is Active.
    pub(in crate::inspect) active_routers: usize,
    /// Addresses that it announces.
    pub(in crate::inspect) addresses: usize,
    failed_checks: Vec<String>,
    capabilities: Vec<Capability>,
    /// Its interfaces with their addresses.
    interfaces: Vec<String>,
}

impl Row for NodeRow {
    const COLUMNS: &'static [Column] = &[
        ("NAME", false),
        ("STATUS", false),
        ("AGENT", false),
        ("AGENT-READY", false),
        ("ROUTERS", false),
        ("ADDRESSES", false),
        ("FAILED", false),
        ("CAPABILITIES", true),
        ("INTERFACES", true),
    ];

    fn cells(&self, _: Timestamp) -> Vec<String> {
        let cordoned = if self.schedulable { "" } else { ",SchedulingDisabled" };
        let drained = if self.drained { ",Drained" } else { "" };
        let more = match self.failed_checks.len() {
            0 | 1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        let capabilities: Vec<String> = self.capabilities.iter().map(|one| format!("{one:?}")).collect();
        vec![
            self.name.clone(),
            format!("{}{cordoned}{drained}", self.ready),
            self.agent_version.clone().unwrap_or_default(),
            self.agent_ready.map(|ready| ready.to_string()).unwrap_or_default(),
            self.active_routers.to_string(),
            self.addresses.to_string(),
            self.failed_checks.first().map(|first| format!("{first}{more}")).unwrap_or_default(),
            capabilities.join(","),
            self.interfaces.join(","),
        ]
    }
}

/// Returns the selected nodes by name: those that exist, those that reported, and those that are reported to be Active.
pub(in crate::inspect) fn nodes(snapshot: &Snapshot, selection: &Selection) -> Vec<NodeRow> {
    let nodes: BTreeMap<&str, &Node> = by_name(&snapshot.nodes.objects);
    let networks: BTreeMap<&str, &NodeNetwork> = by_name(&snapshot.networks.objects);
    let pods: HashMap<&str, &Pod> = snapshot.agents().filter_map(|pod| Some((node_of(pod)?, pod))).collect();
    let mut routers: HashMap<&str, usize> = HashMap::new();
    for router in &snapshot.routers.objects {
        if let Some(active) = router.active_node() {
            *routers.entry(active).or_default() += 1;
        }
    }
    let mut addresses: HashMap<&str, usize> = HashMap::new();
    for vip in snapshot.vips.objects.iter().filter(|vip| vip.is_announced()) {
        if let Some(active) = vip.active_node() {
            *addresses.entry(active).or_default() += 1;
        }
    }
    let known = nodes.keys().chain(networks.keys()).chain(routers.keys()).chain(addresses.keys());
    let names: BTreeSet<&str> = known.copied().filter(|name| selection.wants(name)).collect();
    names
        .into_iter()
        .map(|name| {
            let node = nodes.get(name);
            let network = networks.get(name).map(|network| &network.spec);
            NodeRow {
                name: name.to_owned(),
                ready: match node {
                    Some(node) if is_ready(node) => "Ready",
                    Some(_) => "NotReady",
                    None => "Gone",
                },
                schedulable: node
                    .is_none_or(|node| node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true)),
                drained: node.is_some_and(|node| is_excluded(node)),
                agent_version: network.map(|spec| spec.agent_version.clone()),
                agent_ready: pods.get(name).map(|pod| is_pod_ready(pod)),
                active_routers: routers.get(name).copied().unwrap_or_default(),
                addresses: addresses.get(name).copied().unwrap_or_default(),
                failed_checks: network.map(|spec| spec.failed_checks.clone()).unwrap_or_default(),
                capabilities: network.map(|spec| spec.capabilities.clone()).unwrap_or_default(),
                interfaces: network
                    .iter()
                    .flat_map(|spec| &spec.interfaces)
                    .map(|one| format!("{} ({})", one.name, one.addresses.join(" ")))
                    .collect(),
            }
        })
        .collect()
}

fn by_name<K: kube::Resource>(objects: &[K]) -> BTreeMap<&str, &K> {
    objects.iter().filter_map(|object| Some((object.meta().name.as_deref()?, object))).collect()
}
