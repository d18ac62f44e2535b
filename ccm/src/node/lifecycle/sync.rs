//! One node seen to: ask the provider, decide, write.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};

use super::decide::{Look, look, taints_patch, with_shutdown};
use crate::apiserver::{CallError, call};
use crate::lenient::{Lenient, read};
use crate::provider::{Instances, ProviderError, within};

/// What came of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Nothing was to be done.
    Kept,
    /// Its taints were written; the node as it is since.
    Written(Box<Node>),
    /// It was deleted.
    Deleted,
    /// It was gone before.
    Gone,
    /// Somebody else wrote to it: it is looked at again.
    Changed,
    /// The provider did not say whether the machine exists; the Node is kept.
    Unknown(ProviderError),
    /// The API server refused the deletion.
    DeleteFailed(CallError),
    /// The API server refused the taints.
    TaintFailed(CallError),
}

/// Sees to one node. The provider gets `limit` for each answer.
pub(crate) async fn attend<P: Instances>(
    client: &Client,
    instances: &P,
    node: &Node,
    limit: Duration,
) -> Outcome {
    let api = Api::<Lenient<Node>>::all(client.clone());
    let taints = match look(node) {
        Look::Leave => return Outcome::Kept,
        Look::Untaint(taints) => taints,
        Look::Ask => match within(limit, instances.exists(node)).await {
            Err(error) => return Outcome::Unknown(error),
            Ok(false) => return delete(&api, node).await,
            // An error says nothing of it, and takes nothing away.
            Ok(true) => match within(limit, instances.shutdown(node)).await {
                Ok(false) | Err(_) => return Outcome::Kept,
                Ok(true) => match with_shutdown(node) {
                    None => return Outcome::Kept,
                    Some(taints) => taints,
                },
            },
        },
    };
    write(&api, node, &taints).await
}

/// Deletes the very Node that was judged, as it was judged: one that was made again, or has become ready meanwhile, is
/// another.
async fn delete(api: &Api<Lenient<Node>>, node: &Node) -> Outcome {
    let preconditions = Preconditions {
        uid: node.metadata.uid.clone(),
        resource_version: node.metadata.resource_version.clone(),
    };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match call(api.delete(name(node), &params)).await {
        Ok(_) => Outcome::Deleted,
        Err(error) if error.is_not_found() => Outcome::Gone,
        Err(error) if error.is_conflict() => Outcome::Changed,
        Err(error) => Outcome::DeleteFailed(error),
    }
}

async fn write(api: &Api<Lenient<Node>>, node: &Node, taints: &[Taint]) -> Outcome {
    let patch = Patch::Merge(taints_patch(node, taints));
    match call(read(api.patch(name(node), &PatchParams::default(), &patch))).await {
        Ok(latest) => Outcome::Written(Box::new(latest)),
        Err(error) if error.is_not_found() => Outcome::Gone,
        Err(error) if error.is_conflict() => Outcome::Changed,
        Err(error) => Outcome::TaintFailed(error),
    }
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}
