//! The load balancers: an address from a pool is a load balancer, once some node announces it.
//!
//! Order of one address's life: promised by the ledger → claimed in its `VirtualIP` (`claim`) → carried by a virtual router
//! (planner) → announced (agents) → in the Service's status (service controller) → withdrawn (`release`), and in quarantine
//! until nobody expects it to be where it was. One call of the API server at a time: after each, what is to be done is
//! decided anew from what the answer taught.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Node, Service};
use kube::api::Api;
use kube::{Client, Resource as _};
use windlass_api::{CONDITION_ADDRESS_ALLOCATED, ServiceRef, VirtualIP, address_allocated};
use windlass_ccm::events::{EventKind, EventSink};
use windlass_ccm::lenient::Lenient;
use windlass_ccm::{Ensured, LoadBalancer, ProviderError, ServiceKey};
use windlass_ipam::{Acquisition, Families, Plan, PlannedAddress, SharingConflict};

use super::outcome::{self, Progress, foreign, is_own, progress, status};
use super::rejection::{reason, refused, unserveable};
use crate::controller::allocation::ledger::{Claim, Part, Seen};
use crate::controller::allocation::request::{asks_otherwise, owner, status_addresses};
use crate::controller::allocation::settings::Settings;
use crate::controller::state::State;
use crate::controller::state::shared::Shared;

/// When to ask again while the lists are not complete yet.
const NOT_READY: Duration = Duration::from_millis(200);
/// Steps taken in one go for one Service: more than two controllers that race for all its addresses ever need.
pub(crate) const TRIES: usize = 64;
/// Reasons of the events of an address that moves.
const MOVING: &str = "AddressMoving";
const MOVED: &str = "AddressMoved";

/// Load balancers and machines without a cloud.
pub(crate) struct Provider {
    pub(crate) shared: Arc<Shared>,
    pub(crate) client: Client,
    pub(crate) vips: Api<Lenient<VirtualIP>>,
    pub(crate) settings: Settings,
    pub(crate) events: EventSink,
}

/// What is to be done for a Service, as the state shows it.
#[derive(Debug)]
enum Step {
    /// An address it was promised is to become its own. `instead`: of this one, and why it cannot stay there.
    Claim { planned: PlannedAddress, claim: Claim, instead: Option<(IpAddr, String)> },
    /// Another station has an address of it.
    Avoid { address: IpAddr, object: Seen, why: String },
    /// It cannot have what it asks for. What it has of it and nobody knows of yet is given back.
    GiveBack { addresses: Vec<IpAddr>, error: ProviderError },
    /// All is claimed. `unused`: what it has besides, and nobody is told to use any more.
    Answer { answer: Result<Ensured, ProviderError>, unused: Vec<IpAddr>, moved: Option<String> },
}

/// What of a request the answer speaks of.
struct Wish {
    families: Families,
    pool: Option<String>,
}

/// The addresses that the Service's status shows.
fn shown(service: &Service) -> BTreeSet<IpAddr> {
    status_addresses(service).collect()
}

/// What is next, and the other Services concerned by it.
fn next_step(
    state: &mut State,
    holder: &ServiceRef,
    service: &Service,
) -> (Result<Step, ProviderError>, Vec<ServiceKey>) {
    if !state.ready {
        return (Err(not_ready()), Vec::new());
    }
    // Since this was asked for it may have changed: what is decided now is decided by what is known now.
    let latest = state.stores.live(holder);
    let service = latest.as_deref().unwrap_or(service);
    let request = match state.wishes(holder, service) {
        Ok(request) => request,
        Err(error) => {
            state.served(holder);
            let known = state.ledger.allocator().terms(holder).cloned();
            let lost = known
                .map_or_else(Vec::new, |terms| state.ledger.allocator().sharing_conflicts(holder, &terms));
            let refusal = (address_allocated::INVALID_REQUEST, error.to_string());
            let step = refuse(state, holder, service, &lost, refusal, || unserveable(&error));
            return (Ok(step), Vec::new());
        }
    };
    let wish = Wish { families: request.families, pool: request.pool.clone() };
    let lost = state.ledger.allocator().sharing_conflicts(holder, &request.terms);
    let (placed, concerned) = state.place(holder, service, request);
    let step = match placed {
        Ok(plan) => step_of(state, holder, service, &wish, &plan, &lost),
        Err(error) => {
            let refusal = (reason(&error), error.to_string());
            let why = || refused(&error, |address| state.node_with(address));
            refuse(state, holder, service, &lost, refusal, why)
        }
    };
    (Ok(step), concerned)
}

/// A Service that cannot have what it asks for keeps what it shows, and the object too: one that a hand deleted, or put into
/// quarantine, is made anew.
fn reclaim(state: &State, holder: &ServiceRef, service: &Service) -> Option<Step> {
    let shown = shown(service);
    let kept = state.to_withdraw(holder).into_iter().filter(|address| shown.contains(address));
    kept.into_iter().find_map(|address| match state.ledger.claim(holder, address) {
        claim @ (Claim::Create | Claim::Join { .. } | Claim::Recall(_)) => {
            let pool = state.ledger.pool_of(address).map(|pool| pool.name.clone());
            let planned = PlannedAddress { address, pool, how: Acquisition::Kept };
            Some(Step::Claim { planned, claim, instead: None })
        }
        Claim::Owned => None,
    })
}

/// A Service that cannot have what it asks for keeps what it has in service, and gives back what nobody was told of.
fn refuse(
    state: &State,
    holder: &ServiceRef,
    service: &Service,
    lost: &[SharingConflict<ServiceRef>],
    refusal: (&'static str, String),
    error: impl FnOnce() -> ProviderError,
) -> Step {
    reclaim(state, holder, service)
        .or_else(|| put_right(state, holder, service, lost, refusal))
        .unwrap_or_else(|| give_back(state, holder, service, lost, error()))
}

fn is_among(lost: &[SharingConflict<ServiceRef>], address: IpAddr) -> bool {
    lost.iter().any(|one| one.address == address)
}

/// What it has and its status does not show: an address that works is its own still, whoever emptied the status.
fn give_back(
    state: &State,
    holder: &ServiceRef,
    service: &Service,
    lost: &[SharingConflict<ServiceRef>],
    error: ProviderError,
) -> Step {
    let shown = shown(service);
    let mut addresses = state.to_withdraw(holder);
    addresses.retain(|address| {
        !shown.contains(address) && (is_among(lost, *address) || !state.ledger.is_proven(*address))
    });
    Step::GiveBack { addresses, error }
}

/// What the status of a Service that gets nothing else is to show, where it does not. One that changed so that it fits those
/// no more that it shares its address with loses it: it is to show it no longer, and gives it back after that. What works it
/// is to show, though somebody has taken it from the status, and nothing of our pools that it does not have.
fn put_right(
    state: &State,
    holder: &ServiceRef,
    service: &Service,
    lost: &[SharingConflict<ServiceRef>],
    (reason, message): (&'static str, String),
) -> Option<Step> {
    let shown = shown(service);
    let why = lost.iter().find(|one| shown.contains(&one.address)).map(unshared);
    let mut keeps = state.to_withdraw(holder);
    keeps.retain(|address| {
        !is_among(lost, *address) && (shown.contains(address) || state.ledger.is_proven(*address))
    });
    // An address of a pool that it does not have, somebody else has written there.
    let is_forged = |address: &IpAddr| {
        state.ledger.pool_of(*address).is_some() && !state.ledger.holders(*address).contains(holder)
    };
    let is_right = keeps.iter().all(|address| shown.contains(address)) && !shown.iter().any(is_forged);
    if why.is_none() && is_right {
        return None;
    }
    keeps.sort_by_key(|address| {
        status_addresses(service).position(|shown| shown == *address).unwrap_or(usize::MAX)
    });
    let status = status(keeps, foreign(service, |address| state.is_ours(address)));
    let message = why.into_iter().chain([message]).collect::<Vec<_>>().join("; ");
    let answer = Ok(Ensured::Refused { status, reason, message });
    Some(Step::Answer { answer, unused: Vec::new(), moved: None })
}

/// Why a Service parts from an address that it shared.
fn unshared(SharingConflict { address, holder, why }: &SharingConflict<ServiceRef>) -> String {
    format!("{address} stays with Service {holder} and is left by this one, which changed: {why}")
}

/// Why a Service parts from `address`, where that is not by its own wish.
fn why_left(state: &State, lost: &[SharingConflict<ServiceRef>], address: IpAddr) -> Option<String> {
    let collision = lost.iter().find(|one| one.address == address).map(unshared);
    let outside =
        || state.ledger.pool_of(address).is_none().then(|| format!("no pool holds {address} any more"));
    collision.or_else(outside)
}

fn step_of(
    state: &State,
    holder: &ServiceRef,
    service: &Service,
    wish: &Wish,
    plan: &Plan,
    lost: &[SharingConflict<ServiceRef>],
) -> Step {
    let shown = shown(service);
    for planned in &plan.addresses {
        let claim = state.ledger.claim(holder, planned.address);
        if claim != Claim::Owned {
            // One that it never showed it was given by a hand.
            let is_old = |old: &IpAddr| old.is_ipv4() == planned.address.is_ipv4() && shown.contains(old);
            let mut leaves = plan.to_release.iter().copied().filter(is_old);
            let instead = leaves.find_map(|old| Some((old, why_left(state, lost, old)?)));
            return Step::Claim { planned: planned.clone(), claim, instead };
        }
    }
    // What was in use stays, also where a hand has taken it out of the status.
    let was_used = |address: IpAddr| shown.contains(&address) || state.ledger.is_proven(address);
    let far = |address: IpAddr| progress(address, state.vip(address).map(|vip| &**vip), was_used(address));
    for PlannedAddress { address, .. } in &plan.addresses {
        if let Progress::Taken { message } = far(*address)
            && !state.is_shown_by_any_owner(*address)
            && let Part::Last(object) | Part::Leave { object, .. } = state.ledger.part(holder, *address)
        {
            return Step::Avoid { address: *address, object, why: message };
        }
    }
    let ours = |address: IpAddr| state.is_ours(address);
    let mut own = shown.clone();
    own.retain(|address| state.ledger.holders(*address).contains(holder));
    let pool = wish.pool.as_deref();
    let answer = outcome::answer(plan, wish.families, pool, &own, far, foreign(service, ours));
    let (unused, moved) = match &answer {
        Ok(Ensured::Ready { .. }) => unused(state, plan, &shown, holder),
        Ok(Ensured::Pending { .. } | Ensured::Refused { .. }) | Err(_) => (Vec::new(), None),
    };
    Step::Answer { answer, unused, moved }
}

/// What a served Service has besides its plan and its status does not show (any more), and the words of an event if some of
/// it is an address that no pool holds any more.
fn unused(
    state: &State,
    plan: &Plan,
    shown: &BTreeSet<IpAddr>,
    holder: &ServiceRef,
) -> (Vec<IpAddr>, Option<String>) {
    let wanted = |address: &IpAddr| plan.addresses.iter().any(|planned| planned.address == *address);
    let mut unused = state.to_withdraw(holder);
    unused.retain(|address| !wanted(address) && !shown.contains(address));
    let listed = |all: &[IpAddr]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let outside: Vec<IpAddr> =
        unused.iter().copied().filter(|address| state.ledger.pool_of(*address).is_none()).collect();
    let now: Vec<IpAddr> = plan.addresses.iter().map(|planned| planned.address).collect();
    let moved = (!outside.is_empty()).then(|| {
        format!("moved from {}, which no pool holds any more, to {}", listed(&outside), listed(&now))
    });
    (unused, moved)
}

impl Provider {
    /// A provider over `shared`, which watches keep current.
    pub(crate) fn new(client: Client, shared: Arc<Shared>, events: EventSink) -> Self {
        let settings = shared.state().settings;
        Self { shared, vips: Api::all(client.clone()), client, settings, events }
    }

    fn say(&self, service: &Service, reason: &'static str, message: String) {
        self.events.send(service.object_ref(&()), EventKind::Normal, reason, message);
    }

    async fn take(
        &self,
        holder: &ServiceRef,
        service: &Service,
        step: Step,
    ) -> Result<Option<Ensured>, ProviderError> {
        match step {
            Step::Claim { planned, claim, instead } => {
                let makes = claim == Claim::Create;
                self.claim(holder, &planned, claim).await?;
                let address = planned.address;
                if let Some((old, why)) = instead.filter(|_| makes) {
                    let message =
                        format!("{why}: moving to {address}; {old} is withdrawn once {address} is announced");
                    self.say(service, MOVING, message);
                }
                Ok(None)
            }
            Step::Avoid { address, object, why } => {
                self.avoid(holder, address, &object, &why).await?;
                Ok(None)
            }
            Step::GiveBack { addresses, error } => {
                for address in addresses {
                    self.withdraw(holder, address).await?;
                }
                Err(error)
            }
            Step::Answer { answer, unused, moved } => {
                for address in unused {
                    self.withdraw(holder, address).await?;
                }
                if let Some(message) = moved {
                    self.say(service, MOVED, message);
                }
                answer.map(Some)
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

    /// Labels, selector and order of families are part of a request, too. And a status that somebody else has written is
    /// put right, though not as often as somebody writes it.
    fn concerned_after(&self, old: &Service, new: &Service) -> Option<Duration> {
        if asks_otherwise(old, new, self.settings) {
            return Some(Duration::ZERO);
        }
        self.put_right_after(old, new)
    }

    fn is_own_ingress(&self, _service: &Service, entry: &LoadBalancerIngress) -> bool {
        let state = self.shared.state();
        is_own(entry, |address| state.is_ours(address))
    }

    async fn get(
        &self,
        _cluster: &str,
        service: &Service,
    ) -> Result<Option<LoadBalancerStatus>, ProviderError> {
        let holder = holder_of(service)?;
        let state = self.shared.state();
        if !state.ready {
            return Err(not_ready());
        }
        let held = state.to_withdraw(&holder);
        Ok((!held.is_empty()).then(|| status(held, Vec::new())))
    }

    async fn ensure(
        &self,
        _cluster: &str,
        service: &Service,
        _nodes: &[Arc<Node>],
    ) -> Result<Ensured, ProviderError> {
        let holder = holder_of(service)?;
        self.tell_of_conflict(&holder, service).await;
        for _ in 0..TRIES {
            let (step, concerned) = next_step(&mut self.shared.state(), &holder, service);
            self.shared.changes.push(concerned);
            if let Some(answer) = self.take(&holder, service, step?).await? {
                return self.without_leftovers(&holder, service, answer).await;
            }
        }
        Err(ProviderError::Transient(format!(
            "{TRIES} steps did not lead to an address, because others were faster each time: is another controller giving \
             addresses?"
        )))
    }

    /// Which node announces an address is decided by the planner, which looks at the nodes itself.
    fn depends_on_nodes(&self) -> bool {
        false
    }

    /// Nothing: it is not asked.
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
        if !self.shared.state().ready {
            return Err(not_ready());
        }
        self.withdraw_all(&holder).await
    }

    fn changes(&self) -> BoxStream<'static, ServiceKey> {
        Arc::clone(&self.shared.changes).stream()
    }
}

#[cfg(test)]
mod tests;
