//! Nodes and their agents.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use windlass_api::{NODE_CONDITION_REPORT_BELIEVED, NodeNetwork};
use windlass_common::listing::first_of;

use super::Problem;
use crate::inspect::snapshot::{Snapshot, is_linux, is_ready};
use crate::inspect::views::first_failed;

pub(super) fn problems(snapshot: &Snapshot) -> Vec<Problem> {
    let networks = snapshot.networks.by_name();
    let mut problems = Vec::new();
    for node in &snapshot.nodes.objects {
        let name = node.name_any();
        match networks.get(name.as_str()) {
            Some(network) => problems.extend(agent_problems(&name, network)),
            None if snapshot.networks.missing.is_some() || !is_linux(node) => {}
            None => problems.push(Problem::warning("Node", &name, "NoAgent").says(
                "no agent has reported its network: it announces nothing, and source ranges do not restrict \
                 its own pods and programs",
                "let the DaemonSet windlass-agent run there: kubectl --namespace windlass-system get pods --output wide",
            )),
        }
        problems.extend(node_problems(snapshot, node));
    }
    problems.extend(versions(snapshot));
    problems.extend(differing_mtus(snapshot));
    problems
}

fn agent_problems(name: &str, network: &NodeNetwork) -> Vec<Problem> {
    let spec = &network.spec;
    let mut problems: Vec<Problem> = Vec::new();
    if let Some(failed) = first_failed(&spec.failed_checks) {
        let message = format!("it ranks below nodes on which nothing fails: {failed}");
        problems.push(
            Problem::warning("Node", name, "CheckFailed")
                .says(message, "fix what fails on the node; docs/failover.md describes each check"),
        );
    }
    if !spec.without_multicast.is_empty() {
        let others = first_of(spec.without_multicast.iter().map(|peer| &peer.node), 3);
        let message =
            format!("VRRP multicast does not pass between it and {others}; VRRP uses unicast instead");
        let remedy = "configure the switch to forward 224.0.0.18 and ff02::12 between the nodes (IGMP and MLD snooping need a querier)";
        problems.push(Problem::warning("Node", name, "WithoutMulticast").says(message, remedy));
    }
    if spec.interfaces.is_empty() {
        problems.push(Problem::warning("Node", name, "NoInterface").says(
            "its agent sees no Ethernet interface that is up and has an address: it announces nothing",
            "give the node an address on the LAN",
        ));
    }
    problems
}

fn node_problems(snapshot: &Snapshot, node: &Node) -> Vec<Problem> {
    let name = node.name_any();
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let doubted = conditions
        .filter(|one| one.type_ == NODE_CONDITION_REPORT_BELIEVED && one.status == "False")
        .map(|one| {
            let message = one.message.clone().unwrap_or_default();
            Problem::warning("Node", &name, one.reason.as_deref().unwrap_or("ReportDoubted")).says(
                message,
                "check whether another program than its agent uses the node's credentials (docs/security.md)",
            )
        });
    let mut problems: Vec<Problem> = doubted.collect();
    if !is_ready(node) {
        let announces = announced_by(snapshot, &name);
        let message = match announces {
            0 => "it is not ready: it announces no address".to_owned(),
            count => format!("it is not ready, and by the latest reports it announces {count} addresses"),
        };
        let remedy = "see the Node's conditions; other nodes take its addresses over when it stops sending \
                      adverts, without the API server";
        problems.push(Problem::warning("Node", &name, "NotReady").says(message, remedy));
    }
    problems
}

/// Returns the number of addresses that a node announces, as reported.
pub(in crate::inspect) fn announced_by(snapshot: &Snapshot, node: &str) -> usize {
    let active = |vip: &windlass_api::VirtualIP| vip.is_announced() && vip.active_node() == Some(node);
    snapshot.vips.objects.iter().filter(|vip| active(vip)).count()
}

/// Subnets in which nodes have interfaces of several MTUs: a node drops packets that another sends on to it and that are too long for it.
fn differing_mtus(snapshot: &Snapshot) -> Vec<Problem> {
    let mut by_subnet: BTreeMap<IpNet, BTreeMap<u32, BTreeSet<String>>> = BTreeMap::new();
    for network in &snapshot.networks.objects {
        for interface in network.spec.interfaces.iter().filter(|interface| !interface.isolated) {
            let Some(mtu) = interface.mtu else { continue };
            let subnets = interface.addresses.iter().filter_map(|one| one.parse::<IpNet>().ok());
            for subnet in subnets.filter(|subnet| subnet.prefix_len() < subnet.max_prefix_len()) {
                let nodes = by_subnet.entry(subnet.trunc()).or_default().entry(mtu).or_default();
                nodes.insert(format!("{} {}", network.name_any(), interface.name));
            }
        }
    }
    let differ = by_subnet.into_iter().filter(|(_, by_mtu)| by_mtu.len() > 1);
    let problem = |(subnet, by_mtu): (IpNet, BTreeMap<u32, BTreeSet<String>>)| {
        let told: Vec<String> =
            by_mtu.iter().map(|(mtu, nodes)| format!("{mtu} on {}", first_of(nodes.iter(), 3))).collect();
        let message = format!("nodes have several MTUs: {}: longer packets are lost", told.join("; "));
        let remedy = "set the same MTU on all nodes of the subnet, not above the switch's (ip link set dev INTERFACE mtu BYTES)";
        Problem::warning("Subnet", subnet.to_string(), "MTUDiffers").says(message, remedy)
    };
    differ.map(problem).collect()
}

/// Agents of several versions: an update that did not end.
fn versions(snapshot: &Snapshot) -> Option<Problem> {
    let mut by_version: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for network in &snapshot.networks.objects {
        by_version.entry(&network.spec.agent_version).or_default().push(network.name_any());
    }
    (by_version.len() > 1).then(|| {
        let told: Vec<String> = by_version
            .iter()
            .map(|(version, nodes)| format!("{version} on {}", first_of(nodes.iter(), 3)))
            .collect();
        let message = format!("agents are of several versions: {}", told.join("; "));
        let remedy = "wait for the update to end, or see why it does not: kubectl --namespace windlass-system rollout status \
                      daemonset windlass-agent";
        Problem::warning("DaemonSet", "windlass-system/windlass-agent", "Versions").says(message, remedy)
    })
}
