//! Creating or updating a load balancer, in the order of service-contract S-13, and telling how that went: addresses and
//! condition in one write.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Node, Service};
use serde_json::Value;

use super::{Context, JobProgress, provider_failure};
use crate::events::EventType;
use crate::provider::{Ensured, LoadBalancer, ProviderError, ServiceKey};
use crate::service::condition::ServiceCondition;
use crate::service::jobs::{EventPolicy, FailureKind, JobFailure, JobSuccess};
use crate::service::{messages, patch};

impl<P: LoadBalancer> Context<P> {
    pub(super) async fn ensure(
        &self,
        service: &Service,
        nodes: &[Arc<Node>],
        event_policy: EventPolicy,
        in_grace_period: bool,
        progress: &mut JobProgress,
    ) -> Result<JobSuccess, JobFailure> {
        progress.event_written = event_policy == EventPolicy::EnsuredOnly;
        if event_policy == EventPolicy::All {
            self.send_event(service, EventType::Normal, messages::ENSURING, messages::ENSURING_MESSAGE);
            progress.event_written = true;
        }
        self.add_finalizer(service, progress).await?;
        if nodes.is_empty() && event_policy == EventPolicy::All {
            self.send_event(
                service,
                EventType::Warning,
                messages::UNAVAILABLE,
                messages::UNAVAILABLE_MESSAGE,
            );
        }
        match self.provider.ensure(&self.options.cluster_name, service, nodes).await {
            Ok(Ensured::Ready { status, works, reason, message }) => {
                let service_condition = self.service_condition(works, reason, message);
                self.write_ready(
                    service,
                    &patch::with_defaults(status),
                    service_condition,
                    event_policy,
                    progress,
                )
                .await
            }
            Ok(Ensured::Pending { works, reason, message }) => {
                let key = ServiceKey::of(service);
                tracing::info!(namespace = %key.namespace, service = %key.name, reason = message, "waiting");
                self.write_pending(
                    service,
                    self.service_condition(works, reason, message),
                    in_grace_period,
                    progress,
                )
                .await
            }
            Ok(Ensured::Refused { status, reason, message }) => {
                let refusal = ProviderError::Rejected { reason, message: message.clone() };
                let ingress = patch::set_status(progress.latest.as_ref().unwrap_or(service), &status);
                let service_condition = self.service_condition(false, reason, message);
                self.write_addresses(service, ingress, service_condition, progress).await?;
                Err(provider_failure(FailureKind::Sync, messages::ENSURE, &refusal))
            }
            Err(ProviderError::ImplementedElsewhere(_)) => Ok(JobSuccess::Ensured),
            Err(error) => {
                let failure = provider_failure(FailureKind::Sync, messages::ENSURE, &error);
                match error {
                    ProviderError::Rejected { reason, message } => {
                        self.write_rejected(
                            service,
                            self.service_condition(false, reason, message),
                            event_policy,
                            progress,
                        )
                        .await;
                    }
                    ProviderError::Blocked { reason, message } => {
                        self.write_rejected(
                            service,
                            self.service_condition(true, reason, message),
                            event_policy,
                            progress,
                        )
                        .await;
                    }
                    ProviderError::NotFound(_)
                    | ProviderError::ImplementedElsewhere(_)
                    | ProviderError::RetryAfter { .. }
                    | ProviderError::Transient(_) => {}
                }
                Err(failure)
            }
        }
    }

    /// `None` for a provider that has no condition.
    fn service_condition(
        &self,
        holds: bool,
        reason: &'static str,
        message: String,
    ) -> Option<ServiceCondition> {
        self.provider.condition_type().map(|type_| ServiceCondition { type_, holds, reason, message })
    }

    /// The load balancer is as asked for: writes the addresses and whether they work.
    async fn write_ready(
        &self,
        service: &Service,
        status: &LoadBalancerStatus,
        service_condition: Option<ServiceCondition>,
        event_policy: EventPolicy,
        progress: &mut JobProgress,
    ) -> Result<JobSuccess, JobFailure> {
        let shown = progress.latest.as_ref().unwrap_or(service);
        let ingress = patch::set_status(shown, status);
        let on_change = event_policy == EventPolicy::OnChange;
        if on_change && ingress.is_some() {
            self.send_event(service, EventType::Normal, messages::ENSURING, messages::ENSURING_MESSAGE);
        }
        if !on_change || ingress.is_some() {
            self.send_event(service, EventType::Normal, messages::ENSURED, messages::ENSURED_MESSAGE);
        }
        progress.event_written = false;
        self.write_addresses(service, ingress, service_condition, progress).await?;
        Ok(JobSuccess::Ensured)
    }

    /// Writes the addresses, if the status does not show them, and the condition, likewise. `ingress`: the patch for the addresses.
    async fn write_addresses(
        &self,
        service: &Service,
        ingress: Option<Value>,
        service_condition: Option<ServiceCondition>,
        progress: &mut JobProgress,
    ) -> Result<(), JobFailure> {
        let shown = progress.latest.as_ref().unwrap_or(service);
        let condition =
            service_condition.and_then(|service_condition| service_condition.patch(shown, Timestamp::now()));
        match patch::both(ingress, condition) {
            Some(change) => self.write_status(service, change, progress).await,
            None => Ok(()),
        }
    }

    /// The load balancer does not work yet: written if the wait is long, or if the condition is `True` without an address.
    async fn write_pending(
        &self,
        service: &Service,
        service_condition: Option<ServiceCondition>,
        in_grace_period: bool,
        progress: &mut JobProgress,
    ) -> Result<JobSuccess, JobFailure> {
        let shown = progress.latest.as_ref().unwrap_or(service);
        let Some(service_condition) = service_condition else {
            return Ok(JobSuccess::Pending { condition_unwritten: false });
        };
        let Some(change) = service_condition.patch(shown, Timestamp::now()) else {
            return Ok(JobSuccess::Pending { condition_unwritten: false });
        };
        if in_grace_period && (patch::shows_any(shown) || !service_condition.contradicts(shown)) {
            return Ok(JobSuccess::Pending { condition_unwritten: true });
        }
        self.write_status(service, change, progress).await?;
        Ok(JobSuccess::Pending { condition_unwritten: false })
    }

    /// It cannot be done: writes the condition. That is a failure already, which will be tried again and this write with it.
    async fn write_rejected(
        &self,
        service: &Service,
        service_condition: Option<ServiceCondition>,
        event_policy: EventPolicy,
        progress: &mut JobProgress,
    ) {
        let shown = progress.latest.as_ref().unwrap_or(service);
        let Some(service_condition) = service_condition else { return };
        let Some(change) = service_condition.patch(shown, Timestamp::now()) else {
            // A process before this one wrote it, or this one for the same spec.
            progress.already_reported = event_policy == EventPolicy::OnChange;
            progress.event_written |= progress.already_reported;
            return;
        };
        if let Err(failure) = self.write_status(service, change, progress).await {
            let key = ServiceKey::of(service);
            tracing::warn!(
                namespace = %key.namespace, service = %key.name, error = failure.message, "condition not written"
            );
        }
    }
}
