//! The check of one node: ask the provider, decide, write.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};

use super::decide::{NodeAction, next_action, taints_patch, with_shutdown};
use crate::apiserver::{CallError, call};
use crate::lenient::{Lenient, read};
use crate::provider::{Instances, ProviderError, within};

/// Result of the check of one node.
#[derive(Debug)]
pub(crate) enum LifecycleOutcome {
    /// Nothing was to be done.
    Kept,
    /// Its taints were written; the node as it is since.
    Written(Box<Node>),
    /// It was deleted.
    Deleted,
    /// It was gone before.
    Gone,
    /// Another client wrote to it: it is checked again.
    Conflict,
    /// The provider did not report whether the machine exists; the Node is kept.
    Unknown(ProviderError),
    /// The API server refused the deletion.
    DeleteFailed(CallError),
    /// The API server refused the taints.
    TaintFailed(CallError),
}

/// Checks one node and does what is to be done. The provider gets `limit` for each answer.
pub(crate) async fn check_node<P: Instances>(
    client: &Client,
    instances: &P,
    node: &Node,
    limit: Duration,
) -> LifecycleOutcome {
    let api = Api::<Lenient<Node>>::all(client.clone());
    let taints = match next_action(node) {
        NodeAction::Nothing => return LifecycleOutcome::Kept,
        NodeAction::RemoveTaint(taints) => taints,
        NodeAction::AskProvider => match within(limit, instances.exists(node)).await {
            Err(error) => return LifecycleOutcome::Unknown(error),
            Ok(false) => return delete(&api, node).await,
            // An error is no answer, and removes no taint.
            Ok(true) => match within(limit, instances.shutdown(node)).await {
                Ok(false) | Err(_) => return LifecycleOutcome::Kept,
                Ok(true) => match with_shutdown(node) {
                    None => return LifecycleOutcome::Kept,
                    Some(taints) => taints,
                },
            },
        },
    };
    write(&api, node, &taints).await
}

/// Deletes the very Node that was judged, as it was judged: one that was made again, or has become ready meanwhile, is
/// another.
async fn delete(api: &Api<Lenient<Node>>, node: &Node) -> LifecycleOutcome {
    let preconditions = Preconditions {
        uid: node.metadata.uid.clone(),
        resource_version: node.metadata.resource_version.clone(),
    };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match call(api.delete(name(node), &params)).await {
        Ok(_) => LifecycleOutcome::Deleted,
        Err(error) if error.is_not_found() => LifecycleOutcome::Gone,
        Err(error) if error.is_conflict() => LifecycleOutcome::Conflict,
        Err(error) => LifecycleOutcome::DeleteFailed(error),
    }
}

async fn write(api: &Api<Lenient<Node>>, node: &Node, taints: &[Taint]) -> LifecycleOutcome {
    let patch = Patch::Merge(taints_patch(node, taints));
    match call(read(api.patch(name(node), &PatchParams::default(), &patch))).await {
        Ok(latest) => LifecycleOutcome::Written(Box::new(latest)),
        Err(error) if error.is_not_found() => LifecycleOutcome::Gone,
        Err(error) if error.is_conflict() => LifecycleOutcome::Conflict,
        Err(error) => LifecycleOutcome::TaintFailed(error),
    }
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}
