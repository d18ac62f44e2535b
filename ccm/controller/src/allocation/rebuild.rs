//! Building the ledger when a controller starts, and adopting addresses that the status of a Service shows. Decisions on the state,
//! without API calls.
//!
//! Each address has two records: the object, which is the claim, and the status of its Service. A user, or another controller, may
//! have changed or deleted either while no controller ran. Records that agree hold; where they differ, a Service that wants an address
//! and shows it outweighs one that only the object names.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use windlass_api::ServiceRef;
use windlass_ccm::{ServiceKey, slim};
use windlass_ipam::{Family, Terms};

use super::allocation_state::AllocationState;
use super::condition;
use super::ownership::shows;
use super::request::{owner, status_addresses, terms, wants_address};
use crate::stores::Stores;
use crate::stores::created;
use crate::stores::service_key;
use windlass_ccm::store::Change;

/// Evidence besides the object for the claim of an owner, or of the Service recreated under its name; the strongest first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ClaimStrength {
    /// Our condition on it lists the address.
    ConditionSays,
    /// Its status shows the address.
    StatusShows,
    /// It has fewer addresses than it wants.
    Lacking,
    /// It has others.
    Satisfied,
    /// It is gone, or wants none.
    None,
}

impl AllocationState {
    /// Builds the ledger from complete lists: first from the objects, which are claims, then from Services that show an address
    /// without owning it, and only then for Services that wait.
    pub(crate) fn rebuild(&mut self, stores: &Stores, now: Timestamp) {
        self.review_pools(stores);
        for vip in stores.vips.iter() {
            self.observe_vip(stores, now, vip, None);
        }
        self.adopt_all_shown(stores);
        self.record_shown_addresses(stores);
        self.record_terms(stores);
        self.resolve_sharing_conflicts(stores);
        self.ready = true;
        self.allocate_to_all(stores);
    }

    /// Promises to all Services, the oldest first, the addresses that they show and do not hold. Returns those that got one, and
    /// those that show managed addresses that they do not hold.
    pub(crate) fn adopt_all_shown(&mut self, stores: &Stores) -> Vec<ServiceKey> {
        let unheld = |service: &Arc<Service>| {
            let Some(owner) = owner(service) else { return false };
            status_addresses(service).any(|address| !self.ledger.holders(address).contains(&owner))
        };
        let mut by_age: Vec<Arc<Service>> = stores.services.list().into_iter().filter(unheld).collect();
        by_age.sort_by_cached_key(|service| (created(service), owner(service)));
        by_age
            .iter()
            .filter_map(|service| {
                self.adopt_shown(stores, service).or_else(|| self.shows_address_of_others(stores, service))
            })
            .collect()
    }

    /// The Service, if its status shows an address of a pool, or of another Service, that it does not hold.
    fn shows_address_of_others(&self, stores: &Stores, service: &Service) -> Option<ServiceKey> {
        let owner = owner(service).filter(|owner| self.is_wanted(stores, owner))?;
        let is_of_another = |address: IpAddr| !self.ledger.holders(address).contains(&owner);
        let mut shown = status_addresses(service).filter(|address| self.is_ours(*address));
        shown.any(is_of_another).then(|| service_key(&owner))
    }

    /// Promises the Service the addresses that its status shows and it does not hold, up to the number that it wants: another
    /// controller allocated them, or their objects were lost. Returns the Service if it got one.
    fn adopt_shown(&mut self, stores: &Stores, service: &Service) -> Option<ServiceKey> {
        let owner = owner(service)?;
        let holds = |address: IpAddr| self.ledger.holders(address).contains(&owner);
        let unheld: Vec<IpAddr> = status_addresses(service).filter(|address| !holds(*address)).collect();
        let is_leaving = service.metadata.deletion_timestamp.is_some();
        if unheld.is_empty() || is_leaving || !wants_address(service, self.settings) {
            return None;
        }
        // What cannot be read of its terms does not cost it its address.
        let terms = terms(service, self.settings).unwrap_or_else(|_| Terms::alone(&owner.namespace));
        let mut adopted = false;
        for address in unheld {
            let condition_says = condition::says_has_address(service, address);
            if !self.lacks(stores, &owner, service, address)
                || (self.ledger.pool_of(address).is_none() && !condition_says)
            {
                continue;
            }
            let Self { ledger, ready, .. } = self;
            // As long as it runs the ledger knows whose a working address is; at the start only the objects say so.
            let is_known = *ready && ledger.was_in_use(address);
            let shown = |holder: &ServiceRef| stores.live(holder).is_some_and(|one| shows(&one, address));
            let gives_way = |holder: &ServiceRef| !is_known && (condition_says || !shown(holder));
            adopted |= ledger.adopt(address, &owner, &terms, condition_says, gives_way);
        }
        if adopted {
            self.stop_waiting(&owner);
        }
        adopted.then(|| service_key(&owner))
    }

    /// Returns true if the Service, whose status shows `address`, has fewer addresses of its family than it wants. Counted are those
    /// that its status shows and those that work although its status does not show them: for these, the status is wrong.
    fn lacks(&self, stores: &Stores, owner: &ServiceRef, service: &Service, address: IpAddr) -> bool {
        let family = Family::of(address);
        let held = self.ledger.held_by(owner);
        let shown = held.iter().filter(|one| Family::of(**one) == family && shows(service, **one)).count();
        // As long as it runs the ledger knows which edits were not ours. At the start our condition tells of what the Service
        // has; where it tells of neither, somebody else put an address there that another Service shows.
        let condition_says = |one: IpAddr| condition::says_has_address(service, one);
        let is_hidden = |one: &IpAddr| {
            self.ready
                || condition_says(*one)
                || (!condition_says(address) && !self.is_shown_by_another(stores, owner, *one))
        };
        let hidden = self.hidden(owner, service, family).into_iter().filter(is_hidden).count();
        match self.base_request(stores, service) {
            Ok(request) => {
                request.families.list().contains(&family) && shown + hidden < usize::from(request.count)
            }
            // What cannot be read of its request does not cost it its addresses, and gives it no others.
            Err(_) => hidden == 0,
        }
    }

    /// Returns addresses of the family that the Service has, that were in use or that our condition on it lists, and that its status
    /// does not show.
    fn hidden(&self, owner: &ServiceRef, service: &Service, family: Family) -> Vec<IpAddr> {
        let was_used = |one: IpAddr| self.ledger.was_in_use(one) || condition::says_has_address(service, one);
        let mut held = self.ledger.held_by(owner);
        held.retain(|one| Family::of(*one) == family && !shows(service, *one) && was_used(*one));
        held
    }

    /// Returns true if a Service that does not share with `owner` shows `address`, and our condition on that Service lists it.
    fn is_shown_by_another(&self, stores: &Stores, owner: &ServiceRef, address: IpAddr) -> bool {
        let mine = self.ledger.allocator().terms(owner);
        let showing = stores.services.list().into_iter().filter(|other| shows(other, address));
        showing.filter(|other| condition::says_has_address(other, address)).any(|other| {
            let theirs = terms(&other, self.settings).ok();
            let fits = mine.zip(theirs.as_ref()).is_some_and(|(mine, theirs)| mine.fits(theirs).is_ok());
            !fits && other.metadata.uid.as_ref() != Some(&owner.uid)
        })
    }

    /// Records which addresses the status of their Services shows.
    fn record_shown_addresses(&mut self, stores: &Stores) {
        for service in stores.services.list() {
            let Some(owner) = owner(&service) else { continue };
            for address in status_addresses(&service) {
                self.ledger.mark_shown(address, &owner);
            }
        }
    }

    /// Records the sharing terms of all Services.
    fn record_terms(&mut self, stores: &Stores) {
        for service in stores.services.list() {
            if let (Some(owner), Ok(terms)) = (owner(&service), terms(&service, self.settings)) {
                self.ledger.set_terms(&owner, &terms);
            }
        }
    }

    /// Orders the holders of an address that cannot share it, because a Service changed while no controller ran, or the object was
    /// edited by hand: the best [`ClaimStrength`] comes first, and the Service that was edited later gives way.
    fn resolve_sharing_conflicts(&mut self, stores: &Stores) {
        let mut later: BTreeMap<(ClaimStrength, Option<Timestamp>), Vec<_>> = BTreeMap::new();
        for (address, holders) in self.ledger.claims().filter(|(_, holders)| holders.len() > 1) {
            let allocator = self.ledger.allocator();
            let clash = |one: &&ServiceRef| {
                let others = holders.iter().filter(|other| other != one);
                let pairs = others.filter_map(|other| Some((allocator.terms(one)?, allocator.terms(other)?)));
                pairs.into_iter().any(|(mine, theirs)| mine.fits(theirs).is_err())
            };
            for one in holders.iter().filter(clash) {
                let service = stores.service(one);
                let edited = service.as_deref().and_then(slim::edited);
                later
                    .entry((self.claim_strength(stores, one, address), edited))
                    .or_default()
                    .push((address, one.clone()));
            }
        }
        // Of those edited in one second it is not known who was later: they stay in the order in which they joined.
        for (address, one) in later.into_values().flatten() {
            self.ledger.give_way(address, &one);
        }
    }

    fn claim_strength(&self, stores: &Stores, holder: &ServiceRef, address: IpAddr) -> ClaimStrength {
        let Some(service) = stores.service(holder) else { return ClaimStrength::None };
        let service = &*service;
        let Some(now) = owner(service) else { return ClaimStrength::None };
        if !self.is_wanted(stores, &now) {
            return ClaimStrength::None;
        }
        if condition::says_has_address(service, address) {
            return ClaimStrength::ConditionSays;
        }
        if shows(service, address) {
            return ClaimStrength::StatusShows;
        }
        let others =
            self.ledger.held_by(&now).into_iter().filter(|one| {
                *one != address && Family::of(*one) == Family::of(address) && shows(service, *one)
            });
        let is_satisfied = self
            .base_request(stores, service)
            .is_ok_and(|request| others.count() >= usize::from(request.count));
        if is_satisfied { ClaimStrength::Satisfied } else { ClaimStrength::Lacking }
    }

    /// The status of a Service changed, perhaps by another controller: what it waits for, or holds, may change too. `is_contested`: such
    /// changes come again and again, and have a schedule of their own.
    pub(super) fn on_status_change(
        &mut self,
        stores: &Stores,
        change: &Change<Service>,
        is_contested: bool,
    ) -> Option<ServiceKey> {
        let (old, new) = (change.old.as_ref(), change.new.as_ref()?);
        let shown: Vec<IpAddr> = status_addresses(new).collect();
        if old.is_some_and(|old| status_addresses(old).eq(shown.iter().copied())) {
            return None;
        }
        let holder = owner(new)?;
        for address in &shown {
            self.ledger.mark_shown(*address, &holder);
        }
        // The service controller may have seen this status before the pool existed that makes it wrong.
        let wrong = |state: &Self| state.shows_address_of_others(stores, new).filter(|_| !is_contested);
        let key = self.adopt_shown(stores, new).or_else(|| wrong(self));
        let Self { waiting, ledger, .. } = self;
        waiting.shows(ledger.allocator(), &holder, shown);
        key
    }
}
