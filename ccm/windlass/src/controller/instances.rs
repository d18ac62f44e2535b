//! The machines behind the nodes, as far as bare metal tells (service-contract §2.5).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeAddress};
use kube::ResourceExt as _;
use windlass_api::NodeNetwork;
use windlass_ccm::node::ANNOTATION_PROVIDED_NODE_IP;
use windlass_ccm::{InstanceMetadata, Instances, ProviderError};

use super::provider::Metal;

/// When to ask again for a node of which nothing is known.
const UNKNOWN: Duration = Duration::from_secs(2);

/// What is known of a node's machine; `None` if no address is. `is_vip` says whether an address is held by a Service,
/// `in_pool` whether it could be.
fn metadata(
    node: &Node,
    network: Option<&NodeNetwork>,
    is_vip: impl Fn(IpAddr) -> bool,
    in_pool: impl Fn(IpAddr) -> bool,
) -> Option<InstanceMetadata> {
    let name = node.name_any();
    let existing: Vec<&NodeAddress> =
        node.status.iter().flat_map(|status| status.addresses.iter().flatten()).collect();
    // Never filtered: the taint would stay for ever (service-contract §0.14).
    let mut ips: Vec<(String, String)> = node
        .annotations()
        .get(ANNOTATION_PROVIDED_NODE_IP)
        .into_iter()
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .filter(|text| text.parse::<IpAddr>().is_ok())
        .map(|text| ("InternalIP".to_owned(), text.to_owned()))
        .collect();
    if ips.is_empty() {
        ips = existing
            .iter()
            .filter(|one| one.type_ == "InternalIP" || one.type_ == "ExternalIP")
            .filter(|one| one.address.parse().is_ok_and(|address| !is_vip(address)))
            .map(|one| (one.type_.clone(), one.address.clone()))
            .collect();
    }
    if ips.is_empty() {
        let reported: Vec<IpAddr> = network.map_or_else(Vec::new, primary_addresses);
        let own: Vec<IpAddr> = reported.into_iter().filter(|address| !is_vip(*address)).collect();
        for v4 in [true, false] {
            let of_family = || own.iter().filter(|address| address.is_ipv4() == v4);
            // A pool that spans the nodes' subnet must not keep a node uninitialized.
            let chosen = of_family().find(|address| !in_pool(**address)).or_else(|| of_family().next());
            ips.extend(chosen.map(|address| ("InternalIP".to_owned(), address.to_string())));
        }
    }
    if ips.is_empty() {
        return None;
    }
    let hostname = existing.iter().find(|one| one.type_ == "Hostname").map(|one| one.address.clone());
    ips.push(("Hostname".to_owned(), hostname.unwrap_or_else(|| name.clone())));
    // The API server refuses an address listed twice (service-contract N-12).
    let mut seen = BTreeSet::new();
    let addresses = ips
        .into_iter()
        .filter(|one| seen.insert(one.clone()))
        .map(|(type_, address)| NodeAddress { type_, address })
        .collect();
    let provider_id =
        node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).filter(|id| !id.is_empty());
    Some(InstanceMetadata {
        provider_id: provider_id.unwrap_or_else(|| format!("windlass://{name}")),
        addresses,
        ..InstanceMetadata::default()
    })
}

/// The first address of each family on each interface, link-local ones left out, in the order of the report.
fn primary_addresses(network: &NodeNetwork) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for interface in &network.spec.interfaces {
        let mut first = BTreeMap::new();
        for text in &interface.addresses {
            let Some(Ok(address)) = text.split('/').next().map(str::parse::<IpAddr>) else { continue };
            let link_local = match address {
                IpAddr::V4(v4) => v4.is_link_local(),
                IpAddr::V6(v6) => v6.is_unicast_link_local(),
            };
            if !link_local {
                first.entry(address.is_ipv6()).or_insert(address);
            }
        }
        addresses.extend(first.into_values());
    }
    addresses
}

impl Instances for Metal {
    /// Always: no inventory says otherwise, and a `false` would delete the Node (service-contract §0.16).
    async fn exists(&self, _node: &Node) -> Result<bool, ProviderError> {
        Ok(true)
    }

    /// Never: nothing here knows a machine's power.
    async fn shutdown(&self, _node: &Node) -> Result<bool, ProviderError> {
        Ok(false)
    }

    async fn metadata(&self, node: &Node) -> Result<Option<InstanceMetadata>, ProviderError> {
        let state = self.shared.state();
        if !state.ready {
            return Err(ProviderError::RetryAfter {
                after: UNKNOWN,
                reason: "the addresses in use are not all known yet".to_owned(),
            });
        }
        let network = state.world.networks.get(&node.name_any());
        let known = metadata(
            node,
            network.map(|network| &**network),
            |address| state.ledger.is_held(address),
            |address| state.ledger.pool_of(address).is_some(),
        );
        known.map(Some).ok_or_else(|| ProviderError::RetryAfter {
            after: UNKNOWN,
            reason: format!(
                "no address of node {} is known: its kubelet gives none (--node-ip) and its Windlass agent has not \
                 reported its network yet",
                node.name_any()
            ),
        })
    }
}

#[cfg(test)]
mod tests;
