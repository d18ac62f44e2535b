//! Identity of the cluster that the state on disk belongs to: the UID of the namespace kube-system.
//!
//! A machine that joins another cluster, or whose cluster is rebuilt, may keep its disk. The addresses that it announced before must not be
//! announced there. The identity has a file of its own beside the state, so that agents of an earlier version can still read the state.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use windlass_ccm::apiserver::call_within;

#[cfg(test)]
pub(super) mod tests;

/// Holds the UID.
const FILE: &str = "cluster-uid";
const NAMESPACE: &str = "kube-system";
/// Retry interval until the API server answers, and timeout of one request.
const EVERY: Duration = Duration::from_secs(2);

/// Longer than the state takes to be written.
const STORE_AFTER: Duration = Duration::from_secs(10);

/// The identity beside the state.
#[derive(Debug, Clone)]
pub(crate) struct ClusterFile(PathBuf);

/// Relation of the state on disk to the API server's cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The state is of this cluster, or no identity is on disk.
    Same,
    Other,
}

impl ClusterFile {
    /// Returns the identity file in this folder.
    pub(crate) fn of(folder: &Path) -> Self {
        Self(folder.join(FILE))
    }

    /// Compares the identity on disk with that of the API server, without changing it.
    pub(crate) fn origin(&self, uid: &str) -> Origin {
        match fs::read_to_string(&self.0) {
            Ok(known) if !known.trim().is_empty() && known.trim() != uid => Origin::Other,
            Ok(_) | Err(_) => Origin::Same,
        }
    }

    /// Writes the identity once the state on disk has been replaced, so that after a crash the old state is not attributed to the new
    /// cluster.
    pub(crate) async fn store_later(&self, uid: &str) {
        tokio::time::sleep(STORE_AFTER).await;
        if let Err(error) = self.store(uid) {
            tracing::warn!(%error, "cannot write the cluster's UID beside the state");
        }
    }

    fn store(&self, uid: &str) -> io::Result<()> {
        if fs::read_to_string(&self.0).is_ok_and(|known| known.trim() == uid) {
            return Ok(());
        }
        let new = self.0.with_extension("new");
        fs::write(&new, uid)?;
        fs::rename(&new, &self.0)
    }
}

/// Asks the API server for the identity until it answers, and returns it; `None` if the role does not allow the request, as an earlier
/// version's: then the state counts as of this cluster.
pub(crate) async fn ask(client: &Client) -> Option<String> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    loop {
        match call_within(EVERY, namespaces.get_metadata(NAMESPACE)).await {
            Ok(namespace) => return namespace.metadata.uid,
            Err(error) if matches!(error.code(), Some(403 | 404)) => {
                tracing::warn!(%error, "cannot read the UID of namespace {NAMESPACE}, which tells one cluster from another: apply this \
                    version's ClusterRole windlass-agent");
                return None;
            }
            Err(error) => tracing::debug!(%error, "cannot read the UID of namespace {NAMESPACE} yet"),
        }
        tokio::time::sleep(EVERY).await;
    }
}
