//! Allocating addresses to Services: on request, and to those that wait as soon as it is possible.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Namespace, Service};
use windlass_api::ServiceRef;
use windlass_ccm::ServiceKey;
use windlass_ipam::{Acquisition, AllocateError, Allocator, Labels, Plan, Request};

use super::allocation_state::AllocationState;
use super::ledger::Ledger;
use super::request::{self, RequestError, asks_otherwise, owner, wants_address};
use super::waiting::{AddressSource, Trigger, WaitingService};
use crate::stores::{Stores, created, service_key};
use windlass_ccm::store::Change;

impl AddressSource for Ledger {
    fn allocator(&self) -> &Allocator<ServiceRef> {
        self.allocator()
    }

    fn allocate(&mut self, owner: &ServiceRef, request: &Request) -> Option<Plan> {
        Self::allocate(self, owner, request).ok()
    }
}

impl AllocationState {
    /// The request of the Service by its spec and the labels of its namespace.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn base_request(&self, stores: &Stores, service: &Service) -> Result<Request, RequestError> {
        let none = Labels::new();
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let namespace = stores.namespaces.get(namespace);
        let labels = namespace.and_then(|namespace| namespace.metadata.labels.as_ref());
        let request = request::request(service, labels.unwrap_or(&none), self.settings)?;
        self.check_room_for_sources(stores, service)?;
        Ok(request)
    }

    /// Allocates what `owner` requests, promised until the objects exist, or lets it wait for what is missing. Also returns the
    /// affected Services: those that can share its addresses now, and those that share one already, if its terms changed.
    pub(crate) fn allocate(
        &mut self,
        owner: &ServiceRef,
        service: &Service,
        request: Request,
    ) -> (Result<Plan, Box<AllocateError<ServiceRef>>>, Vec<ServiceKey>) {
        let same_terms = self.ledger.allocator().terms(owner) == Some(&request.terms);
        let plan = self.ledger.allocate(owner, &request);
        if let Ok(plan) = &plan {
            self.remember_pool(owner, request.pool.clone(), plan);
        }
        let missing = match &plan {
            Ok(plan) if plan.missing.is_empty() => None,
            Ok(plan) => Some(plan.missing.clone()),
            Err(_) => Some(Vec::new()),
        };
        match missing {
            None => self.stop_waiting(owner),
            Some(missing) => {
                let waiter =
                    WaitingService { owner: owner.clone(), created: created(service), request, missing };
                self.waiting.insert(self.ledger.allocator(), waiter);
            }
        }
        let changed = plan.iter().flat_map(|plan| &plan.addresses);
        let changed = changed.filter(|planned| !same_terms || planned.how != Acquisition::Kept);
        // What it leaves it holds on the new terms too, until it is withdrawn.
        let left = plan.iter().flat_map(|plan| &plan.to_release).filter(|_| !same_terms);
        let changed: Vec<IpAddr> = changed.map(|planned| planned.address).chain(left.copied()).collect();
        let mut affected = self.retry_waiting_for(changed.iter().copied());
        if !same_terms {
            let sharers = changed.iter().flat_map(|address| self.ledger.allocator().holders(*address));
            affected.extend(sharers.filter(|sharer| *sharer != owner).map(service_key));
        }
        (plan, affected)
    }

    /// These addresses were released by one or all of their holders, or entered or left quarantine, or the terms of a holder
    /// changed. Allocates to Services that wait for them, and returns these Services.
    pub(super) fn retry_waiting_for(
        &mut self,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Vec<ServiceKey> {
        let triggers: Vec<_> = addresses.into_iter().map(Trigger::Address).collect();
        self.retry_waiting(&triggers)
    }

    /// Allocates to waiting Services what `triggers` have made possible, and returns these Services.
    pub(super) fn retry_waiting(&mut self, triggers: &[Trigger<'_>]) -> Vec<ServiceKey> {
        self.waiting.retry(&mut self.ledger, triggers).iter().map(service_key).collect()
    }

    /// Removes a Service from those that wait.
    pub(crate) fn stop_waiting(&mut self, owner: &ServiceRef) {
        self.waiting.remove(owner);
    }

    /// Allocates to all Services without an address, in their order, once the ledger has been built. Otherwise the order of their
    /// syncs would decide.
    pub(super) fn allocate_to_all(&mut self, stores: &Stores) {
        let mut waiters = Vec::new();
        for service in stores.services.list() {
            let Some(owner) = owner(&service).filter(|owner| self.ledger.held_by(owner).is_empty()) else {
                continue;
            };
            let wants =
                wants_address(&service, self.settings) && service.metadata.deletion_timestamp.is_none();
            if let (true, Ok(request)) = (wants, self.full_request(stores, &owner, &service)) {
                waiters.push(WaitingService {
                    owner,
                    created: created(&service),
                    request,
                    missing: Vec::new(),
                });
            }
        }
        for waiter in waiters {
            self.waiting.insert(self.ledger.allocator(), waiter);
        }
        self.retry_waiting(&[Trigger::Everything]);
    }

    /// A Service changed. Returns it if its request changed, also by what the service controller does not look at: labels, and
    /// the selector of `externalTrafficPolicy: Local`.
    pub(super) fn on_request_change(&mut self, stores: &Stores, change: &Change<Service>) -> Vec<ServiceKey> {
        let Some(owner) = change.old.as_ref().and_then(|service| owner(service)) else { return Vec::new() };
        if !self.is_wanted(stores, &owner) {
            self.stop_waiting(&owner);
            self.forget_pool(&owner);
            return Vec::new();
        }
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return Vec::new() };
        if asks_otherwise(old, new, self.settings) { vec![service_key(&owner)] } else { Vec::new() }
    }

    /// A namespace changed.
    pub(crate) fn on_namespace_change(&mut self, change: &Change<Namespace>) -> Vec<ServiceKey> {
        let (Some(name), labels) = (
            change.new.as_ref().or(change.old.as_ref()).and_then(|one| one.metadata.name.as_deref()),
            change.new.as_ref().and_then(|new| new.metadata.labels.clone()).unwrap_or_default(),
        ) else {
            return Vec::new();
        };
        let before = change.old.as_ref().and_then(|old| old.metadata.labels.clone()).unwrap_or_default();
        if !self.ready || before == labels {
            return Vec::new();
        }
        self.retry_waiting(&[Trigger::Namespace(name, &labels)])
    }
}
