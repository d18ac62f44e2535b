//! `status.addresses` of a node: the provider's addresses, in the order that kubelet's `--node-ip` asks for.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Node, NodeAddress};

use super::NodeError;
use crate::provider::InstanceMetadata;

/// Annotation in which kubelet hands over `--node-ip` to the cloud-controller-manager.
pub const ANNOTATION_PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

const HOSTNAME: &str = "Hostname";

/// The addresses a node is to have. The machine has none: those it has (service-contract N-10). Kubelet's host name stays
/// if the provider names none. With the annotation, unless the provider refuses it, the annotated addresses come first, in its
/// order and with the provider's types; other addresses of these types are left out (service-contract N-11).
pub(crate) fn wanted_addresses(
    node: &Node,
    machine: &InstanceMetadata,
) -> Result<Vec<NodeAddress>, NodeError> {
    let current = current_addresses(node);
    let provided = &machine.addresses;
    let mut offered = if provided.is_empty() { current.to_vec() } else { provided.clone() };
    if !offered.iter().any(|address| address.type_ == HOSTNAME) {
        offered.extend(current.iter().filter(|address| address.type_ == HOSTNAME).cloned());
    }
    // The API server refuses duplicates (service-contract N-12). A client that writes the status of a node may list thousands.
    let mut seen = BTreeSet::new();
    offered.retain(|address| seen.insert((address.type_.clone(), address.address.clone())));
    match annotated(node) {
        Some(text) if machine.node_ip_refused.is_none() => prefer(name(node), &offered, text),
        Some(_) | None => Ok(offered),
    }
}

/// The addresses the node has now.
pub(crate) fn current_addresses(node: &Node) -> &[NodeAddress] {
    node.status.as_ref().and_then(|status| status.addresses.as_deref()).unwrap_or_default()
}

fn annotated(node: &Node) -> Option<&str> {
    node.metadata.annotations.as_ref()?.get(ANNOTATION_PROVIDED_NODE_IP).map(String::as_str)
}

fn prefer(node: &str, offered: &[NodeAddress], text: &str) -> Result<Vec<NodeAddress>, NodeError> {
    let invalid = |reason: String| NodeError::ProvidedNodeIp { node: node.to_owned(), reason };
    let wanted = parse_node_ips(text).map_err(invalid)?;
    let mut first: Vec<NodeAddress> = Vec::new();
    for ip in wanted {
        // By value: IPv6 addresses may be spelt differently.
        let matching: Vec<_> =
            offered.iter().filter(|address| address.address.parse() == Ok(ip)).cloned().collect();
        if matching.is_empty() {
            return Err(invalid(format!(
                "failed to get node address from cloud provider that matches ip: {ip}; it offers {}",
                listed(offered)
            )));
        }
        first.extend(matching);
    }
    let chosen: BTreeSet<_> = first.iter().map(|address| address.type_.clone()).collect();
    first.extend(offered.iter().filter(|address| !chosen.contains(&address.type_)).cloned());
    Ok(first)
}

/// One address, or two of different families (service-contract N-05).
fn parse_node_ips(text: &str) -> Result<Vec<IpAddr>, String> {
    let ips = text
        .split(',')
        .map(|part| part.trim().parse().map_err(|_| format!("{part:?} is not an IP address")))
        .collect::<Result<Vec<IpAddr>, _>>()?;
    match ips.as_slice() {
        [_] => Ok(ips),
        [one, other] if one.is_ipv4() != other.is_ipv4() => Ok(ips),
        [_, _] => Err(format!("{text:?} names two addresses of one family; give one of each")),
        _ => Err(format!("{text:?} names {} addresses; give one, or one of each family", ips.len())),
    }
}

fn listed(addresses: &[NodeAddress]) -> String {
    if addresses.is_empty() {
        return "none".to_owned();
    }
    addresses
        .iter()
        .map(|address| format!("{} {}", address.type_, address.address))
        .collect::<Vec<_>>()
        .join(", ")
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}
