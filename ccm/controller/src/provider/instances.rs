//! Answers to the node controllers: what is known of the machine behind a node.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use tokio::time::Instant;
use windlass_ccm::{InstanceMetadata, Instances, ProviderError};

use super::load_balancer::Provider;
use crate::nodes::instances::addresses::Vip;
use crate::nodes::instances::metadata;

/// Retry delay for a node of which nothing is known.
const UNKNOWN: Duration = Duration::from_secs(2);

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
