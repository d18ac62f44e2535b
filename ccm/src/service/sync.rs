//! Carrying out one job: the calls to the provider and the API server, in the order of service-contract S-12 and S-13.
//!
//! Every step is idempotent. A job that is dropped half-way (leadership lost, process stopped) is done again in full by
//! whoever leads next.

mod cleanup;
mod ensure;

use std::fmt::Display;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource as _};
use serde_json::Value;

use super::nodes::limited_names;
use super::select::{finalizer_for, wants_lb};
use super::state::{Done, Failure, FailureKind, Job, Report, Retry, Task};
use super::{ServiceOptions, patch, words};
use crate::apiserver::{CallError, call};
use crate::events::{EventKind, EventSink};
use crate::lenient::{Lenient, read, read_opt};
use crate::metrics::{Controller, Metrics, SyncResult};
use crate::provider::{LoadBalancer, ProviderError, ServiceKey};

/// What jobs need.
#[derive(Clone)]
pub(crate) struct Context<P> {
    pub(crate) client: Client,
    pub(crate) provider: Arc<P>,
    pub(crate) options: ServiceOptions,
    pub(crate) events: EventSink,
    pub(crate) metrics: Metrics,
}

/// What came of the parts of a job that may fail, and what was written on the way.
struct Progress {
    said: bool,
    known: bool,
    latest: Option<Service>,
}

impl<P: LoadBalancer> Context<P> {
    /// Carries out a job.
    pub(crate) async fn execute(&self, job: &Job) -> Report {
        let mut progress = Progress { said: false, known: false, latest: None };
        let outcome = self.attempt(job, &mut progress).await;
        let result = match &outcome {
            Ok(Done::Pending { .. }) => SyncResult::Pending,
            Ok(Done::Ensured | Done::NodesUpdated | Done::Removed) => SyncResult::Success,
            Err(_) => SyncResult::Error,
        };
        self.metrics.count_sync(Controller::Service, result);
        Report { outcome, said: progress.said, known: progress.known, latest: progress.latest }
    }

    async fn attempt(&self, job: &Job, progress: &mut Progress) -> Result<Done, Failure> {
        if let Some(old) = &job.predecessor {
            self.delete_old(old).await?;
        }
        match &job.task {
            Task::Ensure { service, nodes, voice, patient } => {
                self.ensure(service, nodes, *voice, *patient, progress).await
            }
            Task::UpdateNodes { service, nodes } => self.update_nodes(service, nodes).await,
            Task::Cleanup { service, made, told } => self.cleanup(service, *made, *told, progress).await,
            Task::Check { service } => self.check(service, progress).await,
            Task::Forget => Ok(Done::Removed),
        }
    }

    /// Service-contract S-22, S-23, S-26.
    async fn update_nodes(&self, service: &Service, nodes: &[Arc<Node>]) -> Result<Done, Failure> {
        let began = tokio::time::Instant::now();
        let metrics = &self.metrics.service;
        metrics.node_driven_syncs.inc();
        let updated = self.provider.update_nodes(&self.options.cluster_name, service, nodes).await;
        metrics.update_nodes_seconds.observe(began.elapsed().as_secs_f64());
        match updated {
            Ok(()) if nodes.is_empty() => {
                self.say(service, EventKind::Warning, words::UNAVAILABLE, words::UNAVAILABLE_MESSAGE);
                Ok(Done::NodesUpdated)
            }
            Ok(()) => {
                self.say(service, EventKind::Normal, words::UPDATED, words::UPDATED_MESSAGE);
                Ok(Done::NodesUpdated)
            }
            Err(ProviderError::ImplementedElsewhere(_)) => Ok(Done::NodesUpdated),
            Err(error) => {
                if let Ok(None) = self.provider.get(&self.options.cluster_name, service).await {
                    return Ok(Done::NodesUpdated);
                }
                metrics.node_sync_errors.inc();
                let retry = error.retry_after().map_or(Retry::Now, Retry::After);
                let total = nodes.len();
                let names = limited_names(nodes);
                let message =
                    format!("{names} [node names limited, total number of nodes: {total}], error: {error}");
                Err(Failure { kind: FailureKind::UpdateNodes, message, retry })
            }
        }
    }

    /// A Service that is gone, or whose name another one took (service-contract S-09).
    async fn delete_old(&self, old: &Service) -> Result<(), Failure> {
        self.say(old, EventKind::Normal, words::DELETING, words::DELETING_MESSAGE);
        match self.provider.ensure_deleted(&self.options.cluster_name, old).await {
            Ok(()) => {
                self.say(old, EventKind::Normal, words::DELETED, words::DELETED_MESSAGE);
                Ok(())
            }
            Err(ProviderError::ImplementedElsewhere(_)) => Ok(()),
            Err(error) => Err(provider_failure(FailureKind::Delete, "", &error)),
        }
    }

    /// No load balancer without a finalizer. A Service that is going takes none any more (service-contract S-08), one that is
    /// gone least of all; the watch brings that change, so nothing is wrong.
    async fn add_finalizer(&self, service: &Service, progress: &mut Progress) -> Result<(), Failure> {
        let Some(patch) = patch::add_finalizer(service, finalizer_for(service, &self.options)) else {
            return Ok(());
        };
        match self.patch_status(service, patch).await {
            Ok(written) => {
                progress.latest = Some(written);
                Ok(())
            }
            Err(error) if self.is_explained(&error, service).await => Err(superseded(&error)),
            Err(error) => Err(call_failure(words::ADDING_FINALIZER, &error)),
        }
    }

    /// Service-contract S-15: a Service that is gone needs no status. A Service that stopped being a load balancer
    /// meanwhile refuses it (S-31); the watch brings that change, so nothing is wrong.
    async fn write_status(
        &self,
        service: &Service,
        change: Value,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        match self.patch_status(service, change).await {
            Ok(written) => {
                progress.latest = Some(written);
                Ok(())
            }
            Err(error) if self.is_gone(&error, service).await => Ok(()),
            Err(error) if self.is_explained(&error, service).await => Err(superseded(&error)),
            Err(error) => Err(call_failure(words::UPDATING_STATUS, &error)),
        }
    }

    /// Whether a write to `service` failed because it is gone or wants no load balancer any more.
    async fn is_explained(&self, error: &CallError, service: &Service) -> bool {
        let wants = |now: &Service| {
            wants_lb(now, |class| self.provider.serves_class(class))
                && now.metadata.deletion_timestamp.is_none()
        };
        error.is_not_found()
            || (error.is_invalid() || error.is_conflict())
                && self.current(service).await.is_ok_and(|now| !now.as_ref().is_some_and(wants))
    }

    /// Whether a write to `service` failed because it is gone, or another one has its name.
    async fn is_gone(&self, error: &CallError, service: &Service) -> bool {
        error.is_not_found()
            || error.is_conflict() && self.current(service).await.is_ok_and(|now| now.is_none())
    }

    /// The Service as the API server has it. `None`: it is gone, or another one has its name.
    async fn current(&self, service: &Service) -> Result<Option<Service>, CallError> {
        let key = ServiceKey::of(service);
        let api = Api::<Lenient<Service>>::namespaced(self.client.clone(), &key.namespace);
        let now = call(read_opt(api.get_opt(&key.name))).await?;
        Ok(now.filter(|now| now.metadata.uid == service.metadata.uid))
    }

    async fn patch_status(&self, service: &Service, patch: Value) -> Result<Service, CallError> {
        let key = ServiceKey::of(service);
        let api = Api::<Lenient<Service>>::namespaced(self.client.clone(), &key.namespace);
        let (params, patch) = (PatchParams::default(), Patch::Strategic(patch::only_to(service, patch)));
        call(read(api.patch_status(&key.name, &params, &patch))).await
    }

    /// Tells of a failure on the Service (service-contract S-20 e, f, i).
    pub(crate) fn tell_failure(&self, service: &Service, failure: &Failure) {
        let (reason, prefix) = match failure.kind {
            FailureKind::Sync => (words::SYNC_FAILED, words::SYNC_FAILED_MESSAGE),
            FailureKind::Delete => (words::DELETE_FAILED, words::DELETE_FAILED_MESSAGE),
            FailureKind::UpdateNodes => (words::UPDATE_FAILED, words::UPDATE_FAILED_MESSAGE),
            FailureKind::Superseded => return,
        };
        self.say(service, EventKind::Warning, reason, format!("{prefix} {}", failure.message));
    }

    fn say(&self, service: &Service, kind: EventKind, reason: &'static str, message: impl Into<String>) {
        self.events.send(service.object_ref(&()), kind, reason, message);
    }
}

fn call_failure(what: &str, error: &CallError) -> Failure {
    Failure { kind: FailureKind::Sync, message: format!("{what}: {error}"), retry: Retry::Backoff }
}

/// What was tried is wanted no longer.
fn superseded(error: &CallError) -> Failure {
    Failure { kind: FailureKind::Superseded, message: error.to_string(), retry: Retry::Backoff }
}

/// The provider's error decides when to try again (service-contract S-16).
fn provider_failure(kind: FailureKind, what: &str, error: &ProviderError) -> Failure {
    let retry = error.retry_after().map_or(Retry::Backoff, Retry::After);
    let message = prefixed(what, error);
    Failure { kind, message, retry }
}

fn prefixed(what: &str, error: &impl Display) -> String {
    if what.is_empty() { error.to_string() } else { format!("{what}: {error}") }
}
