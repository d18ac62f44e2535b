//! The machines behind the nodes, as far as bare metal tells (service-contract §2.5).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{Node, NodeAddress};
use kube::ResourceExt as _;
use tokio::time::Instant;
use windlass_api::NodeNetwork;
use windlass_ccm::node::ANNOTATION_PROVIDED_NODE_IP;
use windlass_ccm::{InstanceMetadata, Instances, ProviderError};

use super::provider::Metal;

/// When to ask again for a node of which nothing is known.
const UNKNOWN: Duration = Duration::from_secs(2);

/// What our provider IDs begin with; the name of the node follows.
const PROVIDER_ID: &str = "windlass://";
/// Type of an address within the cluster.
const INTERNAL: &str = "InternalIP";

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
        .map(|text| (INTERNAL.to_owned(), text.to_owned()))
        .collect();
    let provider_id =
        node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).filter(|id| !id.is_empty());
    if ips.is_empty() {
        let existing: Vec<(&str, IpAddr)> = existing
            .iter()
            .filter(|one| one.type_ == INTERNAL || one.type_ == "ExternalIP")
            .filter_map(|one| Some((one.type_.as_str(), one.address.parse().ok()?)))
            .filter(|(_, address)| !is_vip(*address))
            .collect();
        let mut offered = network.map_or_else(Vec::new, |network| primary_addresses(network, &is_vip));
        // A pool that spans the nodes' subnet must not keep a node uninitialized.
        offered.sort_by_key(|address| in_pool(*address));
        // A kubelet without --cloud-provider=external writes the addresses itself. With it, it never does again once there
        // are some (service-contract K-05), and a machine that moved would keep its old ones for ever.
        let initialized_here = provider_id.as_ref().is_some_and(|id| id.starts_with(PROVIDER_ID));
        let lasts = |address| !initialized_here || network.is_none_or(|network| has(network, address));
        let complete = !initialized_here && !existing.is_empty();
        ips = listed(&addresses(&existing, &offered, lasts, complete));
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
    Some(InstanceMetadata {
        provider_id: provider_id.unwrap_or_else(|| format!("{PROVIDER_ID}{name}")),
        addresses,
        ..InstanceMetadata::default()
    })
}

/// The addresses that a node has by its `existing` ones and those `offered` by its agent, best first. An internal one that
/// does not last is replaced in place by the offered one of its family that is most like it: none goes without another.
/// Unless the existing ones are `complete`, a family that has none gets one.
fn addresses<'a>(
    existing: &[(&'a str, IpAddr)],
    offered: &[IpAddr],
    lasts: impl Fn(IpAddr) -> bool,
    complete: bool,
) -> Vec<(&'a str, IpAddr)> {
    let mut addresses: Vec<(&str, IpAddr)> = Vec::new();
    for &(type_, address) in existing {
        let of_family = offered.iter().filter(|one| one.is_ipv4() == address.is_ipv4());
        match of_family.min_by_key(|one| distance(**one, address)) {
            Some(&new) if type_ == INTERNAL && !lasts(address) => addresses.push((INTERNAL, new)),
            Some(_) | None => addresses.push((type_, address)),
        }
    }
    for v4 in [true, false] {
        let of_family = |address: &IpAddr| address.is_ipv4() == v4;
        if !complete && !addresses.iter().any(|(type_, one)| *type_ == INTERNAL && of_family(one)) {
            addresses.extend(offered.iter().copied().find(of_family).map(|address| (INTERNAL, address)));
        }
    }
    addresses
}

/// How unlike two addresses of one family are: the longer their common prefix, the less.
fn distance(one: IpAddr, other: IpAddr) -> u128 {
    let bits = |address| match address {
        IpAddr::V4(v4) => u128::from(Ipv4Addr::to_bits(v4)),
        IpAddr::V6(v6) => Ipv6Addr::to_bits(v6),
    };
    bits(one) ^ bits(other)
}

/// As text.
fn listed(addresses: &[(&str, IpAddr)]) -> Vec<(String, String)> {
    addresses.iter().map(|(type_, address)| ((*type_).to_owned(), address.to_string())).collect()
}

/// Whether an interface of the node has the address.
fn has(network: &NodeNetwork, address: IpAddr) -> bool {
    let mut all = network.spec.interfaces.iter().flat_map(|interface| &interface.addresses);
    all.any(|text| text.split('/').next().is_some_and(|text| text.parse() == Ok(address)))
}

/// The first address of each family on each interface, link-local ones and VIPs left out, in the order of the report.
fn primary_addresses(network: &NodeNetwork, is_vip: impl Fn(IpAddr) -> bool) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for interface in &network.spec.interfaces {
        let mut first = BTreeMap::new();
        for text in &interface.addresses {
            let Some(Ok(address)) = text.split('/').next().map(str::parse::<IpAddr>) else { continue };
            let link_local = match address {
                IpAddr::V4(v4) => v4.is_link_local(),
                IpAddr::V6(v6) => v6.is_unicast_link_local(),
            };
            if !link_local && !is_vip(address) {
                first.entry(address.is_ipv6()).or_insert(address);
            }
        }
        addresses.extend(first.into_values());
    }
    addresses
}

impl Instances for Metal {
    /// Unless the admin lists it as gone, and it was long enough not ready: a `false` deletes the Node (service-contract
    /// §0.16).
    async fn exists(&self, node: &Node) -> Result<bool, ProviderError> {
        Ok(!self.shared.inventory.is_gone(node, self.shared.now(), Instant::now()))
    }

    /// Only if the admin says so: nothing here knows a machine's power.
    async fn shutdown(&self, node: &Node) -> Result<bool, ProviderError> {
        Ok(self.shared.inventory.is_shut_down(node))
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
        let said = self.shared.inventory.known_of(node);
        let known = known.map(|known| InstanceMetadata {
            zone: said.zone,
            region: said.region,
            instance_type: said.instance_type,
            additional_labels: said.labels,
            ..known
        });
        known.map(Some).ok_or_else(|| ProviderError::RetryAfter {
            after: UNKNOWN,
            reason: format!(
                "no address of node {} is known: its kubelet gives none (--node-ip) and its Windlass agent has not \
                 reported its network yet",
                node.name_any()
            ),
        })
    }

    /// Nodes whose agent reported other addresses.
    fn node_changes(&self) -> BoxStream<'static, String> {
        Arc::clone(&self.shared.node_changes).stream()
    }
}

#[cfg(test)]
mod tests;
