//! One node brought up to date: ask the provider, decide, write.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};

use super::NodeError;
use super::decide::{addresses_patch, decide, initialize_patch, is_uninitialized};
use crate::apiserver::{CallError, call};
use crate::lenient::{Lenient, read, read_opt};
use crate::provider::{InstanceMetadata, Instances, ProviderError, within};

/// Attempts at a node that another client keeps writing to before it goes back to the queue.
const CONFLICTS: usize = 5;

/// Reason that the sync of a node failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyncError {
    #[error("{0}")]
    Decide(#[from] NodeError),
    #[error("failed to get instance metadata: {0}")]
    Provider(#[from] ProviderError),
    #[error("failed to write the node: {0}")]
    Write(#[from] CallError),
}

impl SyncError {
    /// Returns the delay before the next call that the provider asked for.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Provider(error) => error.retry_after(),
            Self::Decide(_) | Self::Write(_) => None,
        }
    }
}

/// A node after a sync.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SyncedNode {
    pub(crate) outcome: SyncOutcome,
    /// The node as it was written last.
    pub(crate) latest: Option<Node>,
    /// Reason that the provider refuses kubelet's `--node-ip`.
    pub(crate) node_ip_refused: Option<String>,
}

/// Result of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncOutcome {
    /// It initialized the node.
    Initialized,
    /// The node was initialized before.
    UpToDate,
    /// Another provider is to initialize the node.
    OtherProvider,
    /// The node is gone.
    Gone,
}

const GONE: SyncedNode = SyncedNode { outcome: SyncOutcome::Gone, latest: None, node_ip_refused: None };

/// Brings one node up to date. A node that is gone needs nothing. The provider gets `limit` for each answer.
pub(crate) async fn sync<P: Instances>(
    client: &Client,
    instances: &P,
    node: Arc<Node>,
    limit: Duration,
) -> Result<SyncedNode, SyncError> {
    let api = Api::<Lenient<Node>>::all(client.clone());
    let name = node.metadata.name.clone().unwrap_or_default();
    let mut node = Node::clone(&node);
    let mut conflicts = 0;
    loop {
        let metadata = within(limit, instances.metadata(&node)).await?;
        let error = match write(&api, &name, &node, metadata.as_ref()).await {
            Ok(synced) => return Ok(synced),
            Err(error) => error,
        };
        match error {
            SyncError::Write(error) if error.is_not_found() => {
                return Ok(GONE);
            }
            SyncError::Write(error) if error.is_conflict() && conflicts < CONFLICTS => conflicts += 1,
            error => return Err(error),
        }
        // Kubelet writes to its node as well: decide anew from what it is now. One that was made again is another, which
        // the watch shows.
        match call(read_opt(api.get_opt(&name))).await? {
            Some(now) if now.metadata.uid == node.metadata.uid => node = now,
            Some(_) | None => return Ok(GONE),
        }
    }
}

/// Addresses first, the taint last (service-contract §2.5).
async fn write(
    api: &Api<Lenient<Node>>,
    name: &str,
    node: &Node,
    metadata: Option<&InstanceMetadata>,
) -> Result<SyncedNode, SyncError> {
    let params = PatchParams::default();
    let mut latest = None;
    let node_ip_refused = metadata.and_then(|metadata| metadata.node_ip_refused.clone());
    let Some(change) = decide(node, metadata)? else {
        let outcome = if is_uninitialized(node) { SyncOutcome::OtherProvider } else { SyncOutcome::UpToDate };
        return Ok(SyncedNode { outcome, latest, node_ip_refused });
    };
    if let Some(addresses) = &change.addresses {
        let patch = Patch::Merge(addresses_patch(node, addresses));
        latest = Some(call(read(api.patch_status(name, &params, &patch))).await?);
    }
    let mut outcome = SyncOutcome::UpToDate;
    if let Some(initialize) = &change.initialize {
        let patch = Patch::Merge(initialize_patch(latest.as_ref().unwrap_or(node), initialize));
        latest = Some(call(read(api.patch(name, &params, &patch))).await?);
        outcome = SyncOutcome::Initialized;
    }
    Ok(SyncedNode { outcome, latest, node_ip_refused })
}
