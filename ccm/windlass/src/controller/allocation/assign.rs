//! Gives addresses to Services, at once to those that wait for what has become possible.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Namespace, Service};
use windlass_api::ServiceRef;
use windlass_ccm::ServiceKey;
use windlass_ipam::{Acquisition, AllocateError, Allocator, Labels, Plan, Request};

use super::ledger::Ledger;
use super::request::{self, RequestError, asks_otherwise, owner, wants_address};
use super::waiting::{Giver, Trigger, Waiter};
use crate::controller::state::State;
use crate::controller::stores::created;
use crate::controller::stores::service_key;
use windlass_ccm::store::Change;

impl Giver for Ledger {
    fn allocator(&self) -> &Allocator<ServiceRef> {
        self.allocator()
    }

    fn place(&mut self, owner: &ServiceRef, request: &Request) -> Option<Plan> {
        Self::place(self, owner, request).ok()
    }
}

impl State {
    /// What the Service asks for, by itself and by the labels of its namespace.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn asks(&self, service: &Service) -> Result<Request, RequestError> {
        let none = Labels::new();
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let namespace = self.stores.namespaces.get(namespace);
        let labels = namespace.and_then(|namespace| namespace.metadata.labels.as_ref());
        request::request(service, labels.unwrap_or(&none), self.settings)
    }

    /// Gives `owner` what it asks for, reserved until the objects exist, or lets it wait for what it lacks. Also names the
    /// Services that are concerned: those that can be served by it, because they share its address, and those that share
    /// one already, if its terms changed.
    pub(crate) fn place(
        &mut self,
        owner: &ServiceRef,
        service: &Service,
        request: Request,
    ) -> (Result<Plan, Box<AllocateError<ServiceRef>>>, Vec<ServiceKey>) {
        let same_terms = self.ledger.allocator().terms(owner) == Some(&request.terms);
        let plan = self.ledger.place(owner, &request);
        if let Ok(plan) = &plan {
            self.remember_pool(owner, request.pool.clone(), plan);
        }
        let missing = match &plan {
            Ok(plan) if plan.missing.is_empty() => None,
            Ok(plan) => Some(plan.missing.clone()),
            Err(_) => Some(Vec::new()),
        };
        match missing {
            None => self.served(owner),
            Some(missing) => {
                let waiter = Waiter { owner: owner.clone(), created: created(service), request, missing };
                self.waiting.insert(self.ledger.allocator(), waiter);
            }
        }
        let news = plan.iter().flat_map(|plan| &plan.addresses);
        let news = news.filter(|planned| !same_terms || planned.how != Acquisition::Kept);
        // What it leaves it holds on the new terms too, until it is withdrawn.
        let left = plan.iter().flat_map(|plan| &plan.to_release).filter(|_| !same_terms);
        let news: Vec<IpAddr> = news.map(|planned| planned.address).chain(left.copied()).collect();
        let mut concerned = self.offer(news.iter().copied());
        if !same_terms {
            let sharers = news.iter().flat_map(|address| self.ledger.allocator().holders(*address));
            concerned.extend(sharers.filter(|sharer| *sharer != owner).map(service_key));
        }
        (plan, concerned)
    }

    /// Something happened to these addresses: they were let go, in part or whole, or kept back, or are not kept back any
    /// more, or their holders have other terms. Gives them to those that wait for them, and names their Services.
    pub(crate) fn offer(&mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Vec<ServiceKey> {
        let triggers: Vec<_> = addresses.into_iter().map(Trigger::Address).collect();
        self.serve(&triggers)
    }

    /// Gives what `triggers` have made possible, and names the Services that got it.
    pub(crate) fn serve(&mut self, triggers: &[Trigger<'_>]) -> Vec<ServiceKey> {
        self.waiting.serve(&mut self.ledger, triggers).iter().map(service_key).collect()
    }

    /// A Service waits no longer.
    pub(crate) fn served(&mut self, owner: &ServiceRef) {
        self.waiting.remove(owner);
    }

    /// When the ledger has just been built: gives addresses to all that have none, in order. Otherwise the order in which they
    /// are looked at would decide.
    pub(crate) fn serve_all(&mut self) {
        let mut waiters = Vec::new();
        for service in self.stores.services.list() {
            let Some(owner) = owner(&service).filter(|owner| self.ledger.held_by(owner).is_empty()) else {
                continue;
            };
            let wants =
                wants_address(&service, self.settings) && service.metadata.deletion_timestamp.is_none();
            if let (true, Ok(request)) = (wants, self.wishes(&owner, &service)) {
                waiters.push(Waiter { owner, created: created(&service), request, missing: Vec::new() });
            }
        }
        for waiter in waiters {
            self.waiting.insert(self.ledger.allocator(), waiter);
        }
        self.serve(&[Trigger::Everything]);
    }

    /// A Service changed. Names it if it asks for something else, also where the service controller sees no change that
    /// concerns it: labels, and the selector of `externalTrafficPolicy: Local`.
    pub(crate) fn wishes_changed(&mut self, news: &Change<Service>) -> Vec<ServiceKey> {
        let Some(owner) = news.old.as_ref().and_then(|service| owner(service)) else { return Vec::new() };
        if !self.is_wanted(&owner) {
            self.served(&owner);
            self.forget_pool(&owner);
            return Vec::new();
        }
        let (Some(old), Some(new)) = (&news.old, &news.new) else { return Vec::new() };
        if asks_otherwise(old, new, self.settings) { vec![service_key(&owner)] } else { Vec::new() }
    }

    /// A namespace changed.
    pub(crate) fn namespace_changed(&mut self, news: &Change<Namespace>) -> Vec<ServiceKey> {
        let (Some(name), labels) = (
            news.new.as_ref().or(news.old.as_ref()).and_then(|one| one.metadata.name.as_deref()),
            news.new.as_ref().and_then(|new| new.metadata.labels.clone()).unwrap_or_default(),
        ) else {
            return Vec::new();
        };
        let before = news.old.as_ref().and_then(|old| old.metadata.labels.clone()).unwrap_or_default();
        if !self.ready || before == labels {
            return Vec::new();
        }
        self.serve(&[Trigger::Namespace(name, &labels)])
    }
}
