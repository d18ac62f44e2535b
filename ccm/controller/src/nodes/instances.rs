//! Machines behind the nodes, as far as they are known on bare metal (service-contract §2.5).

pub(crate) mod addresses;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{Node, NodeAddress};
use kube::ResourceExt as _;
use tokio::time::Instant;
use windlass_api::NodeNetwork;
use windlass_ccm::node::ANNOTATION_PROVIDED_NODE_IP;
use windlass_ccm::{InstanceMetadata, Instances, ProviderError};

use self::addresses::{NodeAddresses, Vip, addresses};
use crate::provider::load_balancer::Provider;

/// Retry delay for a node of which nothing is known.
const UNKNOWN: Duration = Duration::from_secs(2);

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
fn metadata(
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

impl Instances for Provider {
    /// Unless the admin lists it as gone, and it was long enough not ready: a `false` deletes the Node (service-contract
    /// §0.16).
    async fn exists(&self, node: &Node) -> Result<bool, ProviderError> {
        Ok(!self.shared.inventory.is_gone(node, self.shared.now(), Instant::now()))
    }

    /// Returns true only if the admin lists the machine: its power state is not known here.
    async fn shutdown(&self, node: &Node) -> Result<bool, ProviderError> {
        Ok(self.shared.inventory.is_shut_down(node))
    }

    async fn metadata(&self, node: &Node) -> Result<Option<InstanceMetadata>, ProviderError> {
        let state = self.shared.state();
        if !state.allocation.is_ready() {
            return Err(ProviderError::RetryAfter {
                after: UNKNOWN,
                reason: "the addresses in use are not all known yet".to_owned(),
            });
        }
        let vip = |address| {
            let holder = state.ledger().holders(address).first()?;
            let object = state.stores.vip(address);
            let since = object.and_then(|vip| vip.metadata.creation_timestamp.as_ref()).map(|time| time.0);
            Some(Vip { service: format!("{}/{}", holder.namespace, holder.name), since })
        };
        let network = state.stores.reports().get(&node.name_any()).map(|network| &**network);
        let known = metadata(node, network, vip, |address| state.ledger().pool_of(address).is_some())
            .map_err(|reason| ProviderError::RetryAfter { after: UNKNOWN, reason })?;
        let configured = self.shared.inventory.metadata_of(node);
        Ok(Some(InstanceMetadata {
            zone: configured.zone,
            region: configured.region,
            instance_type: configured.instance_type,
            additional_labels: configured.labels,
            ..known
        }))
    }

    /// Nodes whose agent reported other addresses.
    fn node_changes(&self) -> BoxStream<'static, String> {
        Arc::clone(&self.shared.nodes_to_sync).stream()
    }
}

#[cfg(test)]
mod tests;
