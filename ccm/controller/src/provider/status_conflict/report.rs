//! The provider's part of a status conflict: when the status is corrected, and an event that names the other controller.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::api::Api;
use kube::{Resource as _, ResourceExt as _};
use windlass_api::{ServiceRef, event};
use windlass_ccm::events::EventType;
use windlass_ccm::lenient::{Lenient, read};

use super::Correction;
use super::leftovers::adds_foreign_ingress;
use super::writer::Writer;
use crate::allocation::request::owner;
use crate::provider::load_balancer::Provider;
use crate::state::ClusterState;
use crate::stores::call::{CallFailed, call};

impl Provider {
    /// Returns the delay after which the Service's status is to be corrected because another writer changed it. `None`: none did, or a
    /// correction is scheduled already.
    pub(crate) fn correct_status_after(&self, old: &Service, new: &Service) -> Option<Duration> {
        let holder = owner(new)?;
        let ClusterState { stores, allocation, status_conflicts, clock, .. } = &mut *self.shared.state();
        let adds_foreign_ingress = adds_foreign_ingress(old, new, |address| allocation.is_ours(address));
        if !adds_foreign_ingress && !allocation.is_foreign_status_change(stores, &holder, old, new) {
            return None;
        }
        match status_conflicts.changed(&holder, clock.now()) {
            Correction::Now => Some(Duration::ZERO),
            Correction::After(pause) => Some(pause),
            Correction::AlreadyScheduled => None,
        }
    }

    /// Writes an event that another controller writes the Service's status, if that is due. The API server knows its name.
    pub(crate) async fn report_status_conflict(&self, holder: &ServiceRef, service: &Service) {
        let is_due = {
            let mut state = self.shared.state();
            let now = state.clock.now();
            state.status_conflicts.should_report(holder, now)
        };
        if !is_due {
            return;
        }
        // Without an answer the event has no name.
        let who = self.stored(holder).await.ok().and_then(|now| Writer::of(now.managed_fields())?.name);
        let who = who.map_or_else(|| "another controller".to_owned(), |who| format!("controller {who:?}"));
        let message = format!(
            "{who} also writes the addresses in the status of this Service: Windlass restores them after a \
             pause that grows to 5 minutes. Stop that controller, or let only one of the two serve the \
             Service (spec.loadBalancerClass)"
        );
        tracing::warn!(service = %holder, %who, "two controllers write the status");
        self.events.send(service.object_ref(&()), EventType::Warning, event::STATUS_CONTESTED, message);
    }

    /// Reads the Service from the API server, with the part that is not kept here: its writers.
    pub(super) async fn stored(&self, holder: &ServiceRef) -> Result<Service, CallFailed> {
        let api: Api<Lenient<Service>> = Api::namespaced(self.client.clone(), &holder.namespace);
        call(read(api.get(&holder.name)), || format!("read Service {holder}")).await
    }
}
