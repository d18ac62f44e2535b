//! Execution of one job: the calls to the provider and the API server, in the order of service-contract S-12 and S-13.
//!
//! Every step is idempotent. A job that is dropped half-way (leadership lost, process stopped) is done again in full by the next leader.

mod cleanup;
mod ensure;

use std::fmt::Display;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource as _};
use serde_json::Value;

use super::jobs::{FailureKind, Job, JobFailure, JobReport, JobSuccess, Retry, Task};
use super::nodes::limited_names;
use super::select::finalizer_for;
use super::{ServiceOptions, messages, patch};
use crate::apiserver::{CallError, call};
use crate::events::{EventSink, EventType};
use crate::lenient::{Lenient, read, read_opt};
use crate::metrics::{Controller, Metrics, SyncResult};
use crate::provider::{LoadBalancer, ProviderError, ServiceKey};

/// Dependencies of the jobs.
#[derive(Clone)]
pub(crate) struct Context<P> {
    pub(crate) client: Client,
    pub(crate) provider: Arc<P>,
    pub(crate) options: ServiceOptions,
    pub(crate) events: EventSink,
    pub(crate) metrics: Metrics,
}

/// Writes of a job so far; also used if it fails.
struct JobProgress {
    event_written: bool,
    already_reported: bool,
    latest: Option<Service>,
}

impl<P: LoadBalancer> Context<P> {
    /// Carries out a job.
    pub(crate) async fn execute(&self, job: &Job) -> JobReport {
        let mut progress = JobProgress { event_written: false, already_reported: false, latest: None };
        let outcome = self.attempt(job, &mut progress).await;
        let result = match &outcome {
            Ok(JobSuccess::Pending { .. }) => SyncResult::Pending,
            Ok(JobSuccess::Ensured | JobSuccess::NodesUpdated | JobSuccess::Removed) => SyncResult::Success,
            Err(_) => SyncResult::Error,
        };
        self.metrics.count_sync(Controller::Service, result);
        JobReport {
            outcome,
            event_written: progress.event_written,
            already_reported: progress.already_reported,
            latest: progress.latest,
        }
    }

    async fn attempt(&self, job: &Job, progress: &mut JobProgress) -> Result<JobSuccess, JobFailure> {
        if let Some(old) = &job.predecessor {
            self.delete_predecessor(old).await?;
        }
        match &job.task {
            Task::Ensure { service, nodes, event_policy, in_grace_period } => {
                self.ensure(service, nodes, *event_policy, *in_grace_period, progress).await
            }
            Task::UpdateNodes { service, nodes } => self.update_nodes(service, nodes).await,
            Task::Cleanup { service, was_ours, event_written } => {
                self.cleanup(service, *was_ours, *event_written, progress).await
            }
            Task::Check { service } => self.check(service, progress).await,
            Task::Forget => Ok(JobSuccess::Removed),
        }
    }

    /// Service-contract S-22, S-23, S-26.
    async fn update_nodes(&self, service: &Service, nodes: &[Arc<Node>]) -> Result<JobSuccess, JobFailure> {
        let began = tokio::time::Instant::now();
        let metrics = &self.metrics.service;
        metrics.node_driven_syncs.inc();
        let updated = self.provider.update_nodes(&self.options.cluster_name, service, nodes).await;
        metrics.update_nodes_seconds.observe(began.elapsed().as_secs_f64());
        match updated {
            Ok(()) if nodes.is_empty() => {
                self.send_event(
                    service,
                    EventType::Warning,
                    messages::UNAVAILABLE,
                    messages::UNAVAILABLE_MESSAGE,
                );
                Ok(JobSuccess::NodesUpdated)
            }
            Ok(()) => {
                self.send_event(service, EventType::Normal, messages::UPDATED, messages::UPDATED_MESSAGE);
                Ok(JobSuccess::NodesUpdated)
            }
            Err(ProviderError::ImplementedElsewhere(_)) => Ok(JobSuccess::NodesUpdated),
            Err(error) => {
                if let Ok(None) = self.provider.get(&self.options.cluster_name, service).await {
                    return Ok(JobSuccess::NodesUpdated);
                }
                metrics.node_sync_errors.inc();
                let retry = error.retry_after().map_or(Retry::Now, Retry::After);
                let total = nodes.len();
                let names = limited_names(nodes);
                let message =
                    format!("{names} [node names limited, total number of nodes: {total}], error: {error}");
                Err(JobFailure { kind: FailureKind::UpdateNodes, message, retry })
            }
        }
    }

    /// A Service that is gone, or whose name another one took (service-contract S-09).
    async fn delete_predecessor(&self, old: &Service) -> Result<(), JobFailure> {
        self.send_event(old, EventType::Normal, messages::DELETING, messages::DELETING_MESSAGE);
        match self.provider.ensure_deleted(&self.options.cluster_name, old).await {
            Ok(()) => {
                self.send_event(old, EventType::Normal, messages::DELETED, messages::DELETED_MESSAGE);
                Ok(())
            }
            Err(ProviderError::ImplementedElsewhere(_)) => Ok(()),
            Err(error) => Err(provider_failure(FailureKind::Delete, "", &error)),
        }
    }

    /// No load balancer without a finalizer. A Service that is going takes none any more (service-contract S-08), one that is
    /// gone least of all; the watch brings that change, so nothing is wrong.
    async fn add_finalizer(&self, service: &Service, progress: &mut JobProgress) -> Result<(), JobFailure> {
        let Some(patch) = patch::add_finalizer(service, finalizer_for(service, &self.options)) else {
            return Ok(());
        };
        match self.patch_status(service, patch).await {
            Ok(written) => {
                progress.latest = Some(written);
                Ok(())
            }
            Err(error) if self.is_superseded(&error, service, progress).await => Err(superseded(&error)),
            Err(error) => Err(call_failure(messages::ADDING_FINALIZER, &error)),
        }
    }

    /// Service-contract S-15: a Service that is gone needs no status. A Service that stopped being a load balancer
    /// meanwhile, for a moment or for good, refuses it (S-31); the watch brings that change, so nothing is wrong.
    async fn write_status(
        &self,
        service: &Service,
        change: Value,
        progress: &mut JobProgress,
    ) -> Result<(), JobFailure> {
        match self.patch_status(service, change).await {
            Ok(written) => {
                progress.latest = Some(written);
                Ok(())
            }
            Err(error) if self.is_gone(&error, service).await => Ok(()),
            Err(error) if self.is_superseded(&error, service, progress).await => Err(superseded(&error)),
            Err(error) => Err(call_failure(messages::UPDATING_STATUS, &error)),
        }
    }

    /// Returns true if a write to `service` failed because the Service is not the one that was read: it is gone, or has changed since. A
    /// check whether it wants a load balancer now is not enough: its type may have changed back and forth.
    async fn is_superseded(&self, error: &CallError, service: &Service, progress: &JobProgress) -> bool {
        let read = progress.latest.as_ref().unwrap_or(service);
        let is_as_read = |now: &Service| now.metadata.resource_version == read.metadata.resource_version;
        error.is_not_found()
            || (error.is_invalid() || error.is_conflict())
                && self.current(service).await.is_ok_and(|now| !now.as_ref().is_some_and(is_as_read))
    }

    /// Returns true if a write to `service` failed because it is gone, or another Service has its name. A patch for that one is invalid: it
    /// would change the UID.
    async fn is_gone(&self, error: &CallError, service: &Service) -> bool {
        error.is_not_found()
            || (error.is_invalid() || error.is_conflict())
                && self.current(service).await.is_ok_and(|now| now.is_none())
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

    /// Writes the event of a failure on the Service (service-contract S-20 e, f, i).
    pub(crate) fn send_failure_event(&self, service: &Service, failure: &JobFailure) {
        let (reason, prefix) = match failure.kind {
            FailureKind::Sync => (messages::SYNC_FAILED, messages::SYNC_FAILED_MESSAGE),
            FailureKind::Delete => (messages::DELETE_FAILED, messages::DELETE_FAILED_MESSAGE),
            FailureKind::UpdateNodes => (messages::UPDATE_FAILED, messages::UPDATE_FAILED_MESSAGE),
            FailureKind::Superseded => return,
        };
        self.send_event(service, EventType::Warning, reason, format!("{prefix} {}", failure.message));
    }

    fn send_event(
        &self,
        service: &Service,
        kind: EventType,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.events.send(service.object_ref(&()), kind, reason, message);
    }
}

fn call_failure(what: &str, error: &CallError) -> JobFailure {
    JobFailure { kind: FailureKind::Sync, message: format!("{what}: {error}"), retry: Retry::Backoff }
}

/// Returns the failure of a job whose work is no longer wanted.
fn superseded(error: &CallError) -> JobFailure {
    JobFailure { kind: FailureKind::Superseded, message: error.to_string(), retry: Retry::Backoff }
}

/// The provider's error decides when to try again (service-contract S-16).
fn provider_failure(kind: FailureKind, what: &str, error: &ProviderError) -> JobFailure {
    let retry = error.retry_after().map_or(Retry::Backoff, Retry::After);
    let message = prefixed(what, error);
    JobFailure { kind, message, retry }
}

fn prefixed(what: &str, error: &impl Display) -> String {
    if what.is_empty() { error.to_string() } else { format!("{what}: {error}") }
}
