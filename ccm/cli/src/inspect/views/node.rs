//! Nodes and their agents.

use std::collections::{BTreeMap, BTreeSet, HashMap};

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
    const COLUMNS: &'static [Column<Self>] = &[
        ("NAME", false, |row, _| row.name.clone()),
        ("STATUS", false, |row, _| {
            let cordoned = if row.schedulable { "" } else { ",SchedulingDisabled" };
            let drained = if row.drained { ",Drained" } else { "" };
            format!("{}{cordoned}{drained}", row.ready)
        }),
        ("AGENT", false, |row, _| row.agent_version.clone().unwrap_or_default()),
        ("AGENT-READY", false, |row, _| row.agent_ready.map(|ready| ready.to_string()).unwrap_or_default()),
        ("ROUTERS", false, |row, _| row.active_routers.to_string()),
        ("ADDRESSES", false, |row, _| row.addresses.to_string()),
        ("FAILED", false, |row, _| first_failed(&row.failed_checks).unwrap_or_default()),
        ("CAPABILITIES", true, |row, _| {
            let capabilities: Vec<String> = row.capabilities.iter().map(|one| format!("{one:?}")).collect();
            capabilities.join(",")
        }),
        ("INTERFACES", true, |row, _| row.interfaces.join(",")),
    ];
}

/// Returns the first of the checks that failed, with the number of the others; `None` if none did.
pub(in crate::inspect) fn first_failed(checks: &[String]) -> Option<String> {
    let (first, others) = checks.split_first()?;
    Some(if others.is_empty() { first.clone() } else { format!("{first} (and {} more)", others.len()) })
}

/// Returns the selected nodes by name: those that exist, those that reported, and those that are reported to be Active.
pub(in crate::inspect) fn nodes(snapshot: &Snapshot, selection: &Selection) -> Vec<NodeRow> {
    let nodes: BTreeMap<&str, &Node> = snapshot.nodes.by_name();
    let networks: BTreeMap<&str, &NodeNetwork> = snapshot.networks.by_name();
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
