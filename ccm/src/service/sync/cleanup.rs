//! Taking a load balancer away, in the order of service-contract S-12, and with it what the Service shows of it.

use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service};

use super::{Context, JobProgress, call_failure, provider_failure};
use crate::events::EventType;
use crate::provider::{LoadBalancer, ProviderError};
use crate::service::jobs::{FailureKind, JobFailure, JobSuccess};
use crate::service::select::own_finalizers;
use crate::service::{condition, messages, patch};
use crate::store::is_gone;

impl<P: LoadBalancer> Context<P> {
    /// `was_ours`: the load balancer was ours, even if the provider knows of it no more. `event_written`: an earlier attempt
    /// wrote `DeletedLoadBalancer`; it is written again only if there is a load balancer again.
    pub(super) async fn cleanup(
        &self,
        service: &Service,
        was_ours: bool,
        event_written: bool,
        progress: &mut JobProgress,
    ) -> Result<JobSuccess, JobFailure> {
        let cluster = &self.options.cluster_name;
        let found = self.provider.get(cluster, service).await;
        let exists = found
            .map_err(|error| provider_failure(FailureKind::Sync, messages::CHECK_EXISTS, &error))?
            .is_some();
        // Afterwards the provider may no longer know what was its own.
        let own_ingress = self.own_ingress(service);
        if exists {
            self.send_event(service, EventType::Normal, messages::DELETING, messages::DELETING_MESSAGE);
            match self.provider.ensure_deleted(cluster, service).await {
                Ok(()) | Err(ProviderError::ImplementedElsewhere(_)) => {}
                Err(error) => return Err(provider_failure(FailureKind::Sync, messages::DELETE, &error)),
            }
        }
        let serves = |class: Option<&str>| self.provider.serves_class(class);
        let own = own_finalizers(service, was_ours || exists, serves, &self.options);
        if let Some(patch) = patch::remove_finalizers(service, &own) {
            match self.patch_status(service, patch).await {
                Ok(written) => progress.latest = Some(written),
                // The writer that removed the finalizer wrote the event.
                Err(error) if self.is_gone(&error, service).await => {
                    if exists {
                        self.send_event(
                            service,
                            EventType::Normal,
                            messages::DELETED,
                            messages::DELETED_MESSAGE,
                        );
                    }
                    return Ok(JobSuccess::Removed);
                }
                Err(error) => return Err(call_failure(messages::REMOVING_FINALIZER, &error)),
            }
        }
        if exists || !event_written {
            self.send_event(service, EventType::Normal, messages::DELETED, messages::DELETED_MESSAGE);
        }
        progress.event_written = true;
        let shown = progress.latest.as_ref().unwrap_or(service);
        if is_gone(&shown.metadata) {
            return Ok(JobSuccess::Removed);
        }
        let ingress = patch::set_status(shown, &patch::without(shown, |entry| own_ingress.contains(entry)));
        let condition = self.provider.condition_type().and_then(|type_| condition::remove(shown, type_));
        if let Some(change) = patch::both(ingress, condition) {
            self.write_status(service, change, progress).await?;
        }
        Ok(JobSuccess::Removed)
    }

    /// Cleans up if the provider knows of a load balancer, or its condition shows that there was one: an earlier process may have ended
    /// between removing it and removing the finalizer. If not, the Service is another controller's, and nothing is logged or written.
    pub(super) async fn check(
        &self,
        service: &Service,
        progress: &mut JobProgress,
    ) -> Result<JobSuccess, JobFailure> {
        match self.provider.get(&self.options.cluster_name, service).await {
            Ok(None) if !self.shows_condition(service) => Ok(JobSuccess::Removed),
            Ok(_) => self.cleanup(service, true, false, progress).await,
            Err(error) => Err(provider_failure(FailureKind::Superseded, messages::CHECK_EXISTS, &error)),
        }
    }

    fn shows_condition(&self, service: &Service) -> bool {
        self.provider.condition_type().is_some_and(|type_| condition::remove(service, type_).is_some())
    }

    /// Returns the entries of the Service's status that belong to the provider.
    fn own_ingress(&self, service: &Service) -> Vec<LoadBalancerIngress> {
        let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let shown = status.and_then(|status| status.ingress.as_deref()).unwrap_or_default();
        shown.iter().filter(|entry| self.provider.is_own_ingress(entry)).cloned().collect()
    }
}
