//! Creating or updating a load balancer, in the order of service-contract S-13, and telling how that went: addresses and
//! condition in one write.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Node, Service};

use super::{Context, Progress, provider_failure};
use crate::events::EventKind;
use crate::provider::{Ensured, LoadBalancer, ProviderError, ServiceKey};
use crate::service::condition::Statement;
use crate::service::state::{Done, Failure, FailureKind, Voice};
use crate::service::{patch, words};

impl<P: LoadBalancer> Context<P> {
    pub(super) async fn ensure(
        &self,
        service: &Service,
        nodes: &[Arc<Node>],
        voice: Voice,
        patient: bool,
        progress: &mut Progress,
    ) -> Result<Done, Failure> {
        progress.said = voice == Voice::Finish;
        if voice == Voice::Speak {
            self.say(service, EventKind::Normal, words::ENSURING, words::ENSURING_MESSAGE);
            progress.said = true;
        }
        self.add_finalizer(service, progress).await?;
        if nodes.is_empty() && voice == Voice::Speak {
            self.say(service, EventKind::Warning, words::UNAVAILABLE, words::UNAVAILABLE_MESSAGE);
        }
        match self.provider.ensure(&self.options.cluster_name, service, nodes).await {
            Ok(Ensured::Ready { status, works, reason, message }) => {
                let statement = self.statement(works, reason, message);
                self.show(service, &patch::with_defaults(status), statement, voice, progress).await
            }
            Ok(Ensured::Pending { works, reason, message }) => {
                let key = ServiceKey::of(service);
                tracing::info!(namespace = %key.namespace, service = %key.name, reason = message, "waiting");
                self.wait(service, self.statement(works, reason, message), patient, progress).await
            }
            Ok(Ensured::Refused { status, reason, message }) => {
                let refusal = ProviderError::Rejected { reason, message: message.clone() };
                self.take_away(service, &status, self.statement(false, reason, message), progress).await?;
                Err(provider_failure(FailureKind::Sync, words::ENSURE, &refusal))
            }
            Err(ProviderError::ImplementedElsewhere(_)) => Ok(Done::Ensured),
            Err(error) => {
                let failure = provider_failure(FailureKind::Sync, words::ENSURE, &error);
                match error {
                    ProviderError::Rejected { reason, message } => {
                        self.complain(service, self.statement(false, reason, message), voice, progress).await;
                    }
                    ProviderError::Blocked { reason, message } => {
                        self.complain(service, self.statement(true, reason, message), voice, progress).await;
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
    fn statement(&self, holds: bool, reason: &'static str, message: String) -> Option<Statement> {
        self.provider.condition_type().map(|type_| Statement { type_, holds, reason, message })
    }

    /// It is as asked for: shows the addresses and says whether they work.
    async fn show(
        &self,
        service: &Service,
        status: &LoadBalancerStatus,
        statement: Option<Statement>,
        voice: Voice,
        progress: &mut Progress,
    ) -> Result<Done, Failure> {
        let shown = progress.latest.as_ref().unwrap_or(service);
        let ingress = patch::set_status(shown, status);
        let condition = statement.and_then(|statement| statement.patch(shown, Timestamp::now()));
        match (voice, &ingress) {
            (Voice::Quiet, None) => {}
            (Voice::Quiet, Some(_)) => {
                self.say(service, EventKind::Normal, words::ENSURING, words::ENSURING_MESSAGE);
                self.say(service, EventKind::Normal, words::ENSURED, words::ENSURED_MESSAGE);
            }
            (Voice::Speak | Voice::Finish, _) => {
                self.say(service, EventKind::Normal, words::ENSURED, words::ENSURED_MESSAGE);
            }
        }
        progress.said = false;
        if let Some(change) = patch::both(ingress, condition) {
            self.write_status(service, change, progress).await?;
        }
        Ok(Done::Ensured)
    }

    /// Shows that it has lost addresses, and why.
    async fn take_away(
        &self,
        service: &Service,
        status: &LoadBalancerStatus,
        statement: Option<Statement>,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let shown = progress.latest.as_ref().unwrap_or(service);
        let ingress = patch::set_status(shown, status);
        let condition = statement.and_then(|statement| statement.patch(shown, Timestamp::now()));
        match patch::both(ingress, condition) {
            Some(change) => self.write_status(service, change, progress).await,
            None => Ok(()),
        }
    }

    /// It does not work yet: said if the wait is long, or if the Service says of no address that it works.
    async fn wait(
        &self,
        service: &Service,
        statement: Option<Statement>,
        patient: bool,
        progress: &mut Progress,
    ) -> Result<Done, Failure> {
        let shown = progress.latest.as_ref().unwrap_or(service);
        let Some(statement) = statement else { return Ok(Done::Pending { unsaid: false }) };
        let Some(change) = statement.patch(shown, Timestamp::now()) else {
            return Ok(Done::Pending { unsaid: false });
        };
        if patient && (patch::shows_any(shown) || !statement.is_belied(shown)) {
            return Ok(Done::Pending { unsaid: true });
        }
        self.write_status(service, change, progress).await?;
        Ok(Done::Pending { unsaid: false })
    }

    /// It cannot be done. That is a failure already, which will be tried again and this write with it.
    async fn complain(
        &self,
        service: &Service,
        statement: Option<Statement>,
        voice: Voice,
        progress: &mut Progress,
    ) {
        let shown = progress.latest.as_ref().unwrap_or(service);
        let Some(statement) = statement else { return };
        let Some(change) = statement.patch(shown, Timestamp::now()) else {
            // A process before this one has said so, or this one to the same wish.
            progress.known = voice == Voice::Quiet;
            progress.said |= progress.known;
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
