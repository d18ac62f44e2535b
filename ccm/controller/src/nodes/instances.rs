//! Machines behind the nodes, as far as they are known on bare metal (service-contract §2.5).

pub(crate) mod addresses;

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Node, NodeAddress};
use kube::ResourceExt as _;
use windlass_api::NodeNetwork;
use windlass_ccm::InstanceMetadata;
use windlass_ccm::node::ANNOTATION_PROVIDED_NODE_IP;

use self::addresses::{NodeAddresses, Vip, addresses};

/// Prefix of our provider IDs; the name of the node follows.
const PROVIDER_ID: &str = "windlass://";
/// Characters of an annotation that a message shows.
const SHOWN: usize = 80;
/// Type of an address that is the host's name.
const HOSTNAME: &str = "Hostname";

/// Returns the metadata of a node's machine. `vip` returns the VIP with the Service that has an address, `in_pool` true if a Service
/// could have it.
///
/// # Errors
/// No address is known; the message gives the reason and the remedy.
pub(crate) fn metadata(
    node: &Node,
    network: Option<&NodeNetwork>,
    vip: impl Fn(IpAddr) -> Option<Vip>,
    in_pool: impl Fn(IpAddr) -> bool,
) -> Result<InstanceMetadata, String> {
    let name = node.name_any();
    let provider_id =
        node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).filter(|id| !id.is_empty());
    let initialized_here = provider_id.as_ref().is_some_and(|id| id.starts_with(PROVIDER_ID));
    let NodeAddresses { list, refused } = addresses(node, network, vip, in_pool, initialized_here);
    if list.is_empty() {
        return Err(nothing_known(node, refused));
    }
    let mut existing = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let hostname = existing.find(|one| one.type_ == HOSTNAME).map(|one| one.address.clone());
    let mut list: Vec<_> =
        list.into_iter().map(|(type_, address)| (type_.to_owned(), address.to_string())).collect();
    list.push((HOSTNAME.to_owned(), hostname.unwrap_or_else(|| name.clone())));
    // The API server refuses an address listed twice (service-contract N-12).
    let mut seen = BTreeSet::new();
    list.retain(|one| seen.insert(one.clone()));
    let addresses = list.into_iter().map(|(type_, address)| NodeAddress { type_, address }).collect();
    Ok(InstanceMetadata {
        provider_id: provider_id.unwrap_or_else(|| format!("{PROVIDER_ID}{name}")),
        addresses,
        node_ip_refused: refused,
        ..InstanceMetadata::default()
    })
}

/// Returns the message that no address of the node is known, with the reason and the remedy.
fn nothing_known(node: &Node, refused: Option<String>) -> String {
    let by_kubelet = match (refused, node.annotations().get(ANNOTATION_PROVIDED_NODE_IP)) {
        (Some(refused), _) => format!("{refused};"),
        (None, None) => "its kubelet gives none (--node-ip)".to_owned(),
        (None, Some(text)) => {
            let text: String = text.chars().take(SHOWN).collect();
            format!(
                "its kubelet gives {text:?} in annotation {ANNOTATION_PROVIDED_NODE_IP}, which holds none (correct --node-ip),"
            )
        }
    };
    let name = node.name_any();
    format!(
        "no address of node {name} is known: {by_kubelet} and its Windlass agent has not reported any yet"
    )
}

#[cfg(test)]
mod tests;
