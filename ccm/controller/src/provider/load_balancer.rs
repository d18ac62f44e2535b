//! The load balancers: an address from a pool is a load balancer, once some node announces it.
//!
//! Order of one address's life: promised by the ledger → claimed in its `VirtualIP` (`claim`) → carried by a virtual router
//! (planner) → announced (agents) → in the Service's status (service controller) → withdrawn (`release`), and in quarantine
//! until nobody expects it to be where it was. One call of the API server at a time: after each, what is to be done is
//! decided anew from its answer.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Node, Service};
use kube::api::Api;
use kube::{Client, Resource as _};
use windlass_api::{CONDITION_ADDRESS_ALLOCATED, ServiceRef, VirtualIP, event};
use windlass_ccm::events::{EventSink, EventType};
use windlass_ccm::lenient::Lenient;
use windlass_ccm::{Ensured, LoadBalancer, ProviderError, ServiceKey};
use windlass_ipam::{Acquisition, Families, Plan, PlannedAddress, SharingConflict};

use super::outcome::{self, Announcement, announcement, foreign, is_own, status};
use super::rejection::{Rejection, StaysWith, allocation_rejected};
use crate::allocation::ledger::{ClaimAction, ObservedVip, ReleaseAction};
use crate::allocation::request::{asks_otherwise, owner, status_addresses};
use crate::allocation::settings::Settings;
use crate::state::ClusterState;
use crate::state::shared::SharedState;

/// Retry delay while the lists are not complete yet.
const NOT_READY: Duration = Duration::from_millis(200);
/// Steps of one call for one Service: more than two controllers that race for all its addresses ever need.
pub(crate) const MAX_STEPS: usize = 64;

/// Load balancers and machines without a cloud.
pub struct Provider {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) client: Client,
    pub(crate) vips: Api<Lenient<VirtualIP>>,
    pub(crate) settings: Settings,
    pub(crate) events: EventSink,
}

/// The next step for a Service, as the state shows it.
#[derive(Debug)]
enum EnsureStep {
    /// An address that was promised is claimed. `replaces`: the address that it replaces, and why that cannot stay.
    Claim { planned: PlannedAddress, claim: ClaimAction, replaces: Option<(IpAddr, String)> },
    /// Another host has an address of the Service.
    QuarantineTaken { address: IpAddr, object: ObservedVip, node: String, why: String },
    /// The request cannot be met: the addresses that no status shows yet are released.
    Release { addresses: Vec<IpAddr>, error: ProviderError },
    /// Finishes: all addresses are claimed. `unused`: others that the Service holds and its status does not show any more. `taken`:
    /// events, and their messages, about addresses in use that another host has or uses, too.
    Finish {
        result: Result<Ensured, ProviderError>,
        unused: Vec<IpAddr>,
        moved: Option<String>,
        taken: Vec<(&'static str, String)>,
    },
}

/// Part of the request that the result depends on besides the plan.
struct RequestSummary {
    families: Families,
    pool: Option<String>,
}

/// The addresses that the Service's status shows.
fn shown(service: &Service) -> BTreeSet<IpAddr> {
    status_addresses(service).collect()
}

/// Returns the next step, and the other Services that it concerns.
fn next_step(
    state: &mut ClusterState,
    holder: &ServiceRef,
    service: &Service,
) -> (Result<EnsureStep, ProviderError>, Vec<ServiceKey>) {
    if !state.allocation.is_ready() {
        return (Err(not_ready()), Vec::new());
    }
    // The Service may have changed since the call: the latest version decides.
    let latest = state.stores.live(holder);
    let service = latest.as_deref().unwrap_or(service);
    let request = match state.allocation.full_request(&state.stores, holder, service) {
        Ok(request) => request,
        Err(error) => {
            state.allocation.stop_waiting(holder);
            let allocator = state.ledger().allocator();
            let known = allocator.terms(holder);
            let lost = known.map_or_else(Vec::new, |terms| allocator.sharing_conflicts(holder, terms));
            return (Ok(reject(state, holder, service, &lost, Rejection::from(&error))), Vec::new());
        }
    };
    let summary = RequestSummary { families: request.families, pool: request.pool.clone() };
    let lost = state.ledger().allocator().sharing_conflicts(holder, &request.terms);
    let (placed, affected) = state.allocation.allocate(holder, service, request);
    let step = match placed {
        Ok(plan) => next_step_by_plan(state, holder, service, &summary, &plan, &lost),
        Err(error) => {
            let (of_node, of_service) = (
                |address| state.allocation.node_with(address),
                |address| state.allocation.foreign_service_with(address),
            );
            let stays_with = StaysWith::of(state.ledger(), &error);
            let rejection = allocation_rejected(&error, of_node, of_service, stays_with);
            reject(state, holder, service, &lost, rejection)
        }
    };
    (Ok(step), affected)
}

/// Returns the claim of an address that a Service with an impossible request shows: an object that was deleted, or put into
/// quarantine, by hand is created again.
fn reclaim(state: &ClusterState, holder: &ServiceRef, service: &Service) -> Option<EnsureStep> {
    let shown = shown(service);
    let held = state.allocation.held_as_load_balancer(&state.stores, holder).into_iter();
    held.filter(|address| shown.contains(address)).find_map(|address| {
        match state.ledger().claim_action(holder, address) {
            claim @ (ClaimAction::Create | ClaimAction::Join { .. } | ClaimAction::LiftQuarantine(_)) => {
                let pool = state.ledger().pool_of(address).map(|pool| pool.name.clone());
                let planned = PlannedAddress { address, pool, how: Acquisition::Kept };
                Some(EnsureStep::Claim { planned, claim, replaces: None })
            }
            ClaimAction::Owned => None,
        }
    })
}

/// The step for a Service with an impossible request: it keeps the addresses in use, and releases those that were never
/// shown.
fn reject(
    state: &ClusterState,
    holder: &ServiceRef,
    service: &Service,
    lost: &[SharingConflict<ServiceRef>],
    rejection: Rejection,
) -> EnsureStep {
    reclaim(state, holder, service)
        .or_else(|| correct_status(state, holder, service, lost, &rejection))
        .unwrap_or_else(|| release_unshown(state, holder, service, lost, rejection.into()))
}

fn is_among(lost: &[SharingConflict<ServiceRef>], address: IpAddr) -> bool {
    lost.iter().any(|one| one.address == address)
}

/// Releases the addresses that the status does not show. An address that was in use stays, whatever emptied the status.
fn release_unshown(
    state: &ClusterState,
    holder: &ServiceRef,
    service: &Service,
    lost: &[SharingConflict<ServiceRef>],
    error: ProviderError,
) -> EnsureStep {
    let shown = shown(service);
    let mut addresses = state.allocation.held_as_load_balancer(&state.stores, holder);
    addresses.retain(|address| {
        !shown.contains(address) && (is_among(lost, *address) || !state.ledger().was_in_use(*address))
    });
    EnsureStep::Release { addresses, error }
}

/// Corrects the status of a Service with an impossible request, if it is wrong. A Service that changed so that it can no longer share
/// its address loses it: first the status no longer shows it, then it is released. The status shows every address that was in use,
/// even if it was removed by hand, and no address of our pools that the Service does not hold.
fn correct_status(
    state: &ClusterState,
    holder: &ServiceRef,
    service: &Service,
    lost: &[SharingConflict<ServiceRef>],
    rejection: &Rejection,
) -> Option<EnsureStep> {
    let shown = shown(service);
    let why = lost.iter().find(|one| shown.contains(&one.address)).map(unshared);
    let mut keeps = state.allocation.held_as_load_balancer(&state.stores, holder);
    keeps.retain(|address| {
        !is_among(lost, *address) && (shown.contains(address) || state.ledger().was_in_use(*address))
    });
    // Somebody else wrote an address of a pool that the Service does not hold.
    let is_foreign = |address: &IpAddr| {
        state.ledger().pool_of(*address).is_some() && !state.ledger().holders(*address).contains(holder)
    };
    let is_right = keeps.iter().all(|address| shown.contains(address)) && !shown.iter().any(is_foreign);
    if why.is_none() && is_right {
        return None;
    }
    keeps.sort_by_key(|address| {
        status_addresses(service).position(|shown| shown == *address).unwrap_or(usize::MAX)
    });
    let status = status(keeps, foreign(service, |address| state.allocation.is_ours(address)));
    let message = why.into_iter().chain([rejection.message.clone()]).collect::<Vec<_>>().join("; ");
    let result = Ok(Ensured::Refused { status, reason: rejection.reason, message });
    Some(EnsureStep::Finish { result, unused: Vec::new(), moved: None, taken: Vec::new() })
}

/// Returns the reason that a Service leaves an address that it shared.
fn unshared(SharingConflict { address, holder, why }: &SharingConflict<ServiceRef>) -> String {
    format!("{address} stays with Service {holder} and is left by this one, which changed: {why}")
}

/// Returns the reason that a Service leaves `address` although it did not ask to.
fn why_left(state: &ClusterState, lost: &[SharingConflict<ServiceRef>], address: IpAddr) -> Option<String> {
    let collision = lost.iter().find(|one| one.address == address).map(unshared);
    let outside =
        || state.ledger().pool_of(address).is_none().then(|| format!("no pool holds {address} any more"));
    collision.or_else(outside)
}

fn next_step_by_plan(
    state: &ClusterState,
    holder: &ServiceRef,
    service: &Service,
    summary: &RequestSummary,
    plan: &Plan,
    lost: &[SharingConflict<ServiceRef>],
) -> EnsureStep {
    let shown = shown(service);
    for planned in &plan.addresses {
        let claim = state.ledger().claim_action(holder, planned.address);
        if claim != ClaimAction::Owned {
            // An address that it never showed was given to it by somebody who edited the object.
            let is_old = |old: &IpAddr| old.is_ipv4() == planned.address.is_ipv4() && shown.contains(old);
            let mut leaves = plan.to_release.iter().copied().filter(is_old);
            let replaces = leaves.find_map(|old| Some((old, why_left(state, lost, old)?)));
            return EnsureStep::Claim { planned: planned.clone(), claim, replaces };
        }
    }
    // What was in use stays, also where somebody has removed it from the status.
    let was_used = |address: IpAddr| shown.contains(&address) || state.ledger().was_in_use(address);
    let announcement_of = |address: IpAddr| {
        let vip = state.stores.vip(address).map(|vip| &**vip);
        announcement(address, vip, was_used(address), state.placement.flaw(address))
    };
    for PlannedAddress { address, .. } in &plan.addresses {
        if let Announcement::Taken { message } = announcement_of(*address)
            && !state.allocation.is_shown_by_any_owner(&state.stores, *address)
            && let Some(node) = state.node_that_sees_a_stranger_with(*address)
            && let ReleaseAction::LastOwner(object) | ReleaseAction::Leave { object, .. } =
                state.ledger().release_action(holder, *address)
        {
            return EnsureStep::QuarantineTaken { address: *address, object, node, why: message };
        }
    }
    let ours = |address: IpAddr| state.allocation.is_ours(address);
    let mut own = shown.clone();
    own.retain(|address| state.ledger().holders(*address).contains(holder));
    let pool = summary.pool.as_deref();
    let result =
        outcome::ensure_result(plan, summary.families, pool, &own, announcement_of, foreign(service, ours));
    let (unused, moved) = match &result {
        Ok(Ensured::Ready { .. }) => unused(state, plan, &shown, holder),
        Ok(Ensured::Pending { .. } | Ensured::Refused { .. }) | Err(_) => (Vec::new(), None),
    };
    let in_use = plan.addresses.iter().map(|planned| planned.address).filter(|address| was_used(*address));
    let taken =
        in_use.filter_map(|address| outcome::newly_taken(service, state.stores.vip(address)?)).collect();
    EnsureStep::Finish { result, unused, moved, taken }
}

/// Addresses that a Service holds besides its plan and that its status does not show (any more), and the message of an event if
/// no pool holds some of them any more.
fn unused(
    state: &ClusterState,
    plan: &Plan,
    shown: &BTreeSet<IpAddr>,
    holder: &ServiceRef,
) -> (Vec<IpAddr>, Option<String>) {
    let wanted = |address: &IpAddr| plan.addresses.iter().any(|planned| planned.address == *address);
    let mut unused = state.allocation.held_as_load_balancer(&state.stores, holder);
    unused.retain(|address| !wanted(address) && !shown.contains(address));
    let listed = |all: &[IpAddr]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let outside: Vec<IpAddr> =
        unused.iter().copied().filter(|address| state.ledger().pool_of(*address).is_none()).collect();
    let now: Vec<IpAddr> = plan.addresses.iter().map(|planned| planned.address).collect();
    let moved = (!outside.is_empty()).then(|| {
        format!("moved from {}, which no pool holds any more, to {}", listed(&outside), listed(&now))
    });
    (unused, moved)
}

impl Provider {
    /// A provider over `shared`, which watches keep current.
    pub(crate) fn new(client: Client, shared: Arc<SharedState>, events: EventSink) -> Self {
        let settings = shared.state().allocation.settings();
        Self { shared, vips: Api::all(client.clone()), client, settings, events }
    }

    fn send_event(&self, service: &Service, type_: EventType, reason: &'static str, message: String) {
        self.events.send(service.object_ref(&()), type_, reason, message);
    }

    async fn execute(
        &self,
        holder: &ServiceRef,
        service: &Service,
        step: EnsureStep,
    ) -> Result<Option<Ensured>, ProviderError> {
        match step {
            EnsureStep::Claim { planned, claim, replaces } => {
                let makes = claim == ClaimAction::Create;
                self.claim(holder, &planned, claim).await?;
                let address = planned.address;
                if let Some((old, why)) = replaces.filter(|_| makes) {
                    let message =
                        format!("{why}: moving to {address}; {old} is withdrawn once {address} is announced");
                    self.send_event(service, EventType::Normal, event::ADDRESS_MOVING, message);
                }
                Ok(None)
            }
            EnsureStep::QuarantineTaken { address, object, node, why } => {
                let now = self.shared.now();
                {
                    let mut state = self.shared.state();
                    let reports = Arc::clone(state.stores.reports());
                    state.taken_addresses.note(&node, address, &reports, now);
                }
                self.quarantine_taken(holder, address, &object, &why).await?;
                Ok(None)
            }
            EnsureStep::Release { addresses, error } => {
                for address in addresses {
                    self.withdraw(holder, address).await?;
                }
                Err(error)
            }
            EnsureStep::Finish { result, unused, moved, taken } => {
                for address in unused {
                    self.withdraw(holder, address).await?;
                }
                if let Some(message) = moved {
                    self.send_event(service, EventType::Normal, event::ADDRESS_MOVED, message);
                }
                for (reason, message) in taken {
                    self.send_event(service, EventType::Warning, reason, message);
                }
                result.map(Some)
            }
        }
    }
}

fn not_ready() -> ProviderError {
    ProviderError::RetryAfter {
        after: NOT_READY,
        reason: "the addresses in use are not all known yet".to_owned(),
    }
}

fn holder_of(service: &Service) -> Result<ServiceRef, ProviderError> {
    owner(service).ok_or_else(|| {
        ProviderError::Transient("the Service has no namespace, name or UID: it was never stored".to_owned())
    })
}

impl LoadBalancer for Provider {
    fn serves_class(&self, class: Option<&str>) -> bool {
        self.settings.serves_class(class)
    }

    fn condition_type(&self) -> Option<&'static str> {
        Some(CONDITION_ADDRESS_ALLOCATED)
    }

    /// Returns when to sync again. Labels, selector and order of families are part of a request, too. A status that another writer
    /// changed is corrected, but not as often as it is written.
    fn requeue_after(&self, old: &Service, new: &Service) -> Option<Duration> {
        if asks_otherwise(old, new, self.settings) {
            return Some(Duration::ZERO);
        }
        self.correct_status_after(old, new)
    }

    fn is_own_ingress(&self, entry: &LoadBalancerIngress) -> bool {
        let state = self.shared.state();
        is_own(entry, |address| state.allocation.is_ours(address))
    }

    async fn get(
        &self,
        _cluster: &str,
        service: &Service,
    ) -> Result<Option<LoadBalancerStatus>, ProviderError> {
        let holder = holder_of(service)?;
        let state = self.shared.state();
        if !state.allocation.is_ready() {
            return Err(not_ready());
        }
        let held = state.allocation.held_as_load_balancer(&state.stores, &holder);
        Ok((!held.is_empty()).then(|| status(held, Vec::new())))
    }

    async fn ensure(
        &self,
        _cluster: &str,
        service: &Service,
        _nodes: &[Arc<Node>],
    ) -> Result<Ensured, ProviderError> {
        let holder = holder_of(service)?;
        self.report_status_conflict(&holder, service).await;
        for _ in 0..MAX_STEPS {
            let (step, affected) = next_step(&mut self.shared.state(), &holder, service);
            self.shared.services_to_sync.push(affected);
            if let Some(result) = self.execute(&holder, service, step?).await? {
                return self.without_leftovers(&holder, service, result).await;
            }
        }
        Err(ProviderError::Transient(format!(
            "{MAX_STEPS} steps did not lead to an address, because others were faster each time: is another controller giving \
             addresses?"
        )))
    }

    /// Returns false: the planner, which reads the nodes itself, decides which node announces an address.
    fn depends_on_nodes(&self) -> bool {
        false
    }

    /// Does nothing: it is not called.
    async fn update_nodes(
        &self,
        _cluster: &str,
        _service: &Service,
        _nodes: &[Arc<Node>],
    ) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn ensure_deleted(&self, _cluster: &str, service: &Service) -> Result<(), ProviderError> {
        let holder = holder_of(service)?;
        if !self.shared.state().allocation.is_ready() {
            return Err(not_ready());
        }
        self.withdraw_all(&holder).await
    }

    fn changes(&self) -> BoxStream<'static, ServiceKey> {
        Arc::clone(&self.shared.services_to_sync).stream()
    }
}

#[cfg(test)]
mod tests;
