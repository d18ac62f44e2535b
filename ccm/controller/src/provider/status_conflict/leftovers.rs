//! Stale entries of a status: addresses of no pool and host names that another controller has left. A Service that is Windlass' alone
//! shows only what Windlass announces, from the first address on that works: until then the old entries stay.
//!
//! The rule depends on the class of the Service:
//! * A Service of our class is ours alone, whatever else writes its status. [`super::StatusConflicts`] decides how soon an added entry
//!   is removed again.
//! * A classless Service may have other controllers that write to its status, and they would correct each other for ever. Entries from
//!   before Windlass first reported that clients reach the Service are removed once, in the write that reports it. An entry that is
//!   written again stays from then on: its writer has seen that it was removed.
//!
//! Removed entries are not stored: the Service shows them. Once its condition is `True` nothing is removed. While it is `False` again,
//! for a time, only entries last written before Windlass claimed any of the Service's addresses are removed: what another controller
//! wrote again is younger than that, also for a controller that restarts.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service};
use kube::{Resource as _, ResourceExt as _};
use windlass_api::{CONDITION_ADDRESS_ALLOCATED, LOAD_BALANCER_CLASS, ServiceRef, event};
use windlass_ccm::events::EventType;
use windlass_ccm::{Ensured, ProviderError, conditions};

use super::writer::Writer;
use crate::provider::load_balancer::Provider;
use crate::provider::outcome::foreign;

/// Returns true if the Service is of our class, which no other controller serves.
pub(super) fn is_ours_alone(service: &Service) -> bool {
    let class = service.spec.as_ref().and_then(|spec| spec.load_balancer_class.as_deref());
    class == Some(LOAD_BALANCER_CLASS)
}

/// `status` of our condition.
fn condition_status(service: &Service) -> Option<&str> {
    let status = service.status.as_ref()?;
    conditions::find(status.conditions.as_ref()?, CONDITION_ADDRESS_ALLOCATED).map(|one| one.status.as_str())
}

/// The controller that left the foreign entries of a classless Service behind; `None`: they stay. `claimed`: when the first of
/// its addresses was claimed.
fn leftover_writer(service: &Service, claimed: Option<Timestamp>) -> Option<Writer> {
    let writer = Writer::of(service.managed_fields())?;
    let is_gone = match condition_status(service) {
        None => true,
        Some("True") => false,
        Some(_) => writer.time.zip(claimed).is_some_and(|(wrote, claimed)| wrote < claimed),
    };
    is_gone.then_some(writer)
}

/// `203.0.113.9, lb.example`.
fn list(entries: &[LoadBalancerIngress]) -> String {
    let name = |entry: &LoadBalancerIngress| entry.ip.clone().or_else(|| entry.hostname.clone());
    entries.iter().filter_map(name).collect::<Vec<_>>().join(", ")
}

/// Returns the message of the event for removed entries, with their writer.
fn removal_message(entries: &[LoadBalancerIngress], writer: Option<&Writer>, ours_alone: bool) -> String {
    let who = match writer.and_then(|writer| writer.name.as_deref()) {
        Some(name) => format!("controller {name:?}"),
        None => "another controller".to_owned(),
    };
    let entries = list(entries);
    if ours_alone {
        return format!(
            "removed {entries} from the status, written by {who}: no pool holds it, and spec.loadBalancerClass gives this \
             Service to Windlass alone"
        );
    }
    format!(
        "removed {entries} from the status, left there by {who}: no pool holds it, and Windlass serves this \
         Service now. If the other controller does serve it and writes it again, Windlass leaves it"
    )
}

impl Provider {
    /// The result for a Service that works, without stale entries of other controllers in its status.
    pub(crate) async fn without_leftovers(
        &self,
        holder: &ServiceRef,
        service: &Service,
        mut answer: Ensured,
    ) -> Result<Ensured, ProviderError> {
        let Ensured::Ready { status, works: true, .. } = &mut answer else { return Ok(answer) };
        let (entries, claimed, is_conflict_ongoing) = {
            let state = self.shared.state();
            let vips = state.ledger().held_by(holder).into_iter();
            let vips = vips.filter_map(|address| state.stores.vip(address));
            let claimed = vips.filter_map(|vip| vip.metadata.creation_timestamp.as_ref().map(|time| time.0));
            let entries = foreign(service, |address| state.allocation.is_ours(address));
            (entries, claimed.min(), state.status_conflicts.is_ongoing(holder, state.clock.now()))
        };
        let ours_alone = is_ours_alone(service);
        if entries.is_empty() || (!ours_alone && condition_status(service) == Some("True")) {
            return Ok(answer);
        }
        let stored = self.stored(holder).await;
        let writer = match (stored, ours_alone) {
            (Ok(stored), true) => Writer::of(stored.managed_fields()),
            // The event has no name then.
            (Err(_), true) => None,
            (Ok(stored), false) => match leftover_writer(&stored, claimed) {
                None => return Ok(answer),
                writer => writer,
            },
            (Err(error), false) => return Err(error.into()),
        };
        status.ingress.iter_mut().for_each(|shown| shown.retain(|entry| !entries.contains(entry)));
        // One that is added again and again is reported as a conflict.
        if !is_conflict_ongoing {
            let message = removal_message(&entries, writer.as_ref(), ours_alone);
            tracing::info!(service = %holder, message, "status");
            self.events.send(
                service.object_ref(&()),
                EventType::Normal,
                event::FOREIGN_INGRESS_REMOVED,
                message,
            );
        }
        Ok(answer)
    }
}

/// Returns true if the change added an entry that is not ours to a Service of our class.
pub(super) fn adds_foreign_ingress(
    old: &Service,
    new: &Service,
    is_ours: impl Fn(std::net::IpAddr) -> bool,
) -> bool {
    let before = foreign(old, &is_ours);
    is_ours_alone(new) && foreign(new, &is_ours).iter().any(|entry| !before.contains(entry))
}

#[cfg(test)]
mod tests;
