//! What the status of each Service showed, in turn, as a watch saw it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::ensure;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service};
use kube::{Api, ResourceExt as _};
use kube_runtime::{WatchStreamExt as _, watcher};
use tokio::task::JoinHandle;
use windlass_e2e::{Lab, await_that};

use crate::setup::{LIMIT, services};

/// Entries of the status, one list for each time they changed, by name of the Service.
pub(crate) type Shown = BTreeMap<String, Vec<Vec<LoadBalancerIngress>>>;

/// A watch on the Services of namespace `default`.
pub(crate) struct Record {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    shown: Shown,
    /// Every version of every Service that was seen last.
    versions: BTreeMap<String, Option<String>>,
}

impl Record {
    /// Begins to look.
    pub(crate) fn start(lab: &Lab) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let (api, noted) = (services(lab, "default"), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            let changes = watcher(api, watcher::Config::default()).default_backoff().applied_objects();
            futures::pin_mut!(changes);
            while let Some(change) = changes.next().await {
                let Ok(service) = change else { continue };
                let mut seen = noted.lock().unwrap_or_else(PoisonError::into_inner);
                let name = service.name_any();
                seen.versions.insert(name.clone(), service.resource_version());
                let status = service.status.and_then(|status| status.load_balancer);
                let entries = status.and_then(|status| status.ingress).unwrap_or_default();
                let shown = seen.shown.entry(name).or_default();
                if shown.last() != Some(&entries) {
                    shown.push(entries);
                }
            }
        });
        Self { seen, task }
    }

    /// What was shown until now.
    pub(crate) async fn stop(self, services: &Api<Service>) -> anyhow::Result<Shown> {
        await_that("the watch has seen the Services as they are", LIMIT, async || {
            let now = services.list(&kube::api::ListParams::default()).await?;
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            for service in now {
                let (name, version) = (service.name_any(), service.resource_version());
                ensure!(seen.versions.get(&name) == Some(&version), "{name} is at version {version:?}");
            }
            Ok(Some(()))
        })
        .await?;
        self.task.abort();
        Ok(self.seen.lock().unwrap_or_else(PoisonError::into_inner).shown.clone())
    }
}
