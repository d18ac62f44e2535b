//! Ownership of addresses as the objects, statuses and the ledger show it. Decisions on the state, without API calls.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use windlass_api::{OnRemoval, QuarantineReason, ServiceRef, VirtualIP, VirtualIPSpec};
use windlass_ccm::ServiceKey;
use windlass_ccm::service::{ServiceOptions, is_reconciled};
use windlass_ccm::store::Change;
use windlass_ipam::{Plan, Request, Terms};

use super::allocation_state::AllocationState;
use super::condition;
use super::ledger::LedgerChange;
use super::request::{
    RequestError, is_object_name, named_pool, owner, status_addresses, terms, wants_address,
};
use super::settings::Settings;
use crate::CLASS_FINALIZER;
use crate::stores::{Stores, service_key};

impl AllocationState {
    /// Takes in an object as a watch shows it, or as the API server answers a call made for the Service `requester`. Returns the
    /// Services to sync.
    pub(crate) fn observe_vip(
        &mut self,
        stores: &Stores,
        now: Timestamp,
        vip: &VirtualIP,
        requester: Option<&ServiceRef>,
    ) -> Vec<ServiceKey> {
        self.orphan_candidates.extend(vip.spec.owners.iter().cloned());
        let Self { ledger, settings, .. } = self;
        let terms = |holder: &ServiceRef| terms_of(stores, holder, *settings);
        let keep = |holder: &ServiceRef, was_in_use: bool| {
            keeps_without_owning(stores, holder, vip, was_in_use, *settings)
        };
        let mut change = ledger.observe_object(vip, requester, now, terms, keep);
        change.lost.retain(|lost| Some(lost) != requester);
        change.joined.retain(|joined| Some(joined) != requester);
        self.affected_services(stores, vip.spec.address, &change)
    }

    /// The object with this UID is gone. `wanted`: its Services retain the address if they want one, and create the object anew.
    pub(crate) fn vip_deleted(
        &mut self,
        stores: &Stores,
        now: Timestamp,
        address: IpAddr,
        uid: &str,
        wanted: bool,
    ) -> Vec<ServiceKey> {
        let Self { ledger, settings, .. } = self;
        let keep = |holder: &ServiceRef| wanted && is_wanted(stores, holder, *settings);
        let terms = |holder: &ServiceRef| terms_of(stores, holder, *settings);
        let change = ledger.object_deleted(address, uid, now, terms, keep);
        self.affected_services(stores, address, &change)
    }

    /// `holder` is not promised `address` any more: there is no object. `parts`: it has released the address, and does not keep it
    /// either, unless the object still names it.
    pub(crate) fn cancel_promise(
        &mut self,
        stores: &Stores,
        now: Timestamp,
        address: IpAddr,
        holder: &ServiceRef,
        parts: bool,
    ) -> Vec<ServiceKey> {
        let Self { ledger, settings, .. } = self;
        let terms = |holder: &ServiceRef| terms_of(stores, holder, *settings);
        let change = ledger.cancel_promise(holder, address, parts, now, terms);
        self.affected_services(stores, address, &change)
    }

    fn affected_services(
        &mut self,
        stores: &Stores,
        address: IpAddr,
        change: &LedgerChange,
    ) -> Vec<ServiceKey> {
        let affected = change.lost.iter().chain(&change.joined).filter(|one| self.is_wanted(stores, one));
        let mut keys: Vec<_> = affected.chain(&change.to_reclaim).map(service_key).collect();
        if self.note_abandoned(stores, address) || change.freed {
            keys.extend(self.retry_waiting_for([address]));
        }
        keys
    }

    /// Records whether a Service exists for which `address` is reserved. Returns true if that changed.
    fn note_abandoned(&mut self, stores: &Stores, address: IpAddr) -> bool {
        let Some(entry) = self.ledger.allocator().quarantined(address) else { return false };
        let exists = entry.former.iter().any(|former| stores.service(former).is_some());
        self.ledger.set_abandoned(address, !exists)
    }

    /// A Service was made, or is gone: what is kept back for it gives way no longer, or does from now on. Returns the Services
    /// to sync.
    pub(super) fn on_existence_change(
        &mut self,
        stores: &Stores,
        change: &Change<Service>,
    ) -> Vec<ServiceKey> {
        let of = |service: &Option<Arc<Service>>| service.as_ref().and_then(|service| owner(service));
        let ((None, Some(one)) | (Some(one), None)) = (of(&change.old), of(&change.new)) else {
            return Vec::new();
        };
        let mut changed = self.ledger.allocator().kept_back_for(&one).to_vec();
        changed.retain(|address| self.note_abandoned(stores, *address));
        self.retry_waiting_for(changed)
    }

    /// The request of the Service, with what it holds and held.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn full_request(
        &self,
        stores: &Stores,
        holder: &ServiceRef,
        service: &Service,
    ) -> Result<Request, RequestError> {
        let mut request = self.base_request(stores, service)?;
        request.preferred = status_addresses(service).collect();
        let held = self.ledger.held_by(holder);
        let mut outside =
            held.into_iter().filter(|address| self.ledger.pool_of(*address).is_none()).peekable();
        request.may_replace_unpooled =
            outside.peek().is_some() && outside.all(|address| may_move(stores, address));
        if let Some(pool) = &request.pool {
            request.given_from_pool = self.ledger.held_by(holder);
            request
                .given_from_pool
                .retain(|address| self.named_pool_when_allocated(stores, holder, pool, *address));
        }
        request.inherited = self.ledger.inherited(holder);
        Ok(request)
    }

    /// Returns true if `holder` already named `pool` when it was allocated `address`: a later change of the pools is then no reason to
    /// allocate another. Known from memory, else from the object or our condition; assumed if the object was lost.
    fn named_pool_when_allocated(
        &self,
        stores: &Stores,
        holder: &ServiceRef,
        pool: &str,
        address: IpAddr,
    ) -> bool {
        if let Some(known) = self.named_pools.get(holder) {
            return known == pool;
        }
        let object = stores.vip(address).filter(|vip| vip.spec.owners.contains(holder));
        let Some(VirtualIPSpec { pool: its, former_pools, .. }) = object.map(|vip| &vip.spec) else {
            return true;
        };
        let is_lost = !is_object_name(its);
        let condition_says =
            || stores.live(holder).is_some_and(|one| condition::says_has_from_pool(&one, address, pool));
        is_lost || its == pool || former_pools.iter().any(|former| former == pool) || condition_says()
    }

    /// Remembers the pool that `holder` named when it was promised `plan`.
    pub(super) fn remember_pool(&mut self, holder: &ServiceRef, pool: Option<String>, plan: &Plan) {
        let known = self.named_pools.get(holder);
        if pool == known.cloned() {
            return;
        }
        // What it has yet to leave was allocated for another request.
        match pool.filter(|_| plan.to_release.is_empty()) {
            Some(pool) => drop(self.named_pools.insert(holder.clone(), pool)),
            None => self.forget_pool(holder),
        }
    }

    /// Removes the record of the pool that `holder` named when it was allocated its addresses.
    pub(super) fn forget_pool(&mut self, holder: &ServiceRef) {
        self.named_pools.remove(holder);
    }

    /// Returns the pools other than `pool`, the object's, that owners of `vip` name and named when they were allocated it, by the
    /// object or their status. A Service that was removed from the owners by hand, and that retains the address, counts as one.
    pub(crate) fn former_pools(&self, stores: &Stores, vip: &VirtualIPSpec, pool: &str) -> Vec<String> {
        let named = vip.owners.iter().chain(self.ledger.holders(vip.address)).filter_map(|owner| {
            let service = stores.live(owner)?;
            let named = named_pool(&service, self.settings).filter(|named| named != pool)?;
            let is_recorded = vip.pool == named || vip.former_pools.contains(&named);
            let is_known = || {
                shows(&service, vip.address)
                    && self.named_pool_when_allocated(stores, owner, &named, vip.address)
            };
            (is_recorded || is_known()).then_some(named)
        });
        named.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns true if the status of a Service that owns `address` shows it.
    pub(crate) fn is_shown_by_any_owner(&self, stores: &Stores, address: IpAddr) -> bool {
        let holders = self.ledger.holders(address).iter();
        holders.filter_map(|holder| stores.live(holder)).any(|service| shows(&service, address))
    }

    /// Services that hold an address that is in no pool.
    pub(super) fn services_outside_pools(&self) -> Vec<ServiceKey> {
        let outside = self.ledger.claims().filter(|(address, _)| self.ledger.pool_of(*address).is_none());
        outside.flat_map(|(_, holders)| holders).map(service_key).collect()
    }

    /// Returns true if the Service exists, is not being deleted and wants an address.
    pub(super) fn is_wanted(&self, stores: &Stores, holder: &ServiceRef) -> bool {
        is_wanted(stores, holder, self.settings)
    }

    /// Returns true if `address` is managed here: a pool has it, or a Service holds it.
    pub(crate) fn is_ours(&self, address: IpAddr) -> bool {
        self.ledger.pool_of(address).is_some() || !self.ledger.holders(address).is_empty()
    }

    /// Returns true if the change of the Service's status is not ours: it removed an address that `holder` is to have, or added one of
    /// a pool or of another Service.
    pub(crate) fn is_foreign_status_change(
        &self,
        stores: &Stores,
        holder: &ServiceRef,
        old: &Service,
        new: &Service,
    ) -> bool {
        let (was, is): (BTreeSet<_>, BTreeSet<_>) =
            (status_addresses(old).collect(), status_addresses(new).collect());
        let holds = |address: IpAddr| self.ledger.holders(address).contains(holder);
        was.difference(&is).any(|removed| self.keeps_address(stores, holder, new, *removed))
            || is.difference(&was).any(|added| !holds(*added) && self.is_ours(*added))
    }

    /// Returns true if `holder` holds `address`, and its Service's current request keeps it.
    fn keeps_address(
        &self,
        stores: &Stores,
        holder: &ServiceRef,
        service: &Service,
        address: IpAddr,
    ) -> bool {
        if !self.ledger.holders(address).contains(holder) {
            return false;
        }
        let request = self.full_request(stores, holder, service).ok();
        let plan = request.and_then(|request| self.ledger.allocator().plan(holder, &request).ok());
        plan.is_some_and(|plan| plan.addresses.iter().any(|planned| planned.address == address))
    }

    /// The addresses that `holder` holds as a load balancer, not as external IPs.
    pub(crate) fn held_as_load_balancer(&self, stores: &Stores, holder: &ServiceRef) -> Vec<IpAddr> {
        let service = stores.live(holder);
        let mut held = self.ledger.held_by(holder);
        held.retain(|address| !self.wants_as_external_ip(stores, holder, service.as_deref(), *address));
        held
    }

    /// Records a Service whose addresses may be orphaned.
    pub(crate) fn add_orphan_candidate(&mut self, candidate: ServiceRef) {
        self.orphan_candidates.insert(candidate);
    }

    /// Services whose addresses may be orphaned. Each is returned once, until something changes.
    pub(crate) fn take_orphan_candidates(&mut self, stores: &Stores) -> BTreeSet<ServiceRef> {
        let mut orphan_candidates = std::mem::take(&mut self.orphan_candidates);
        orphan_candidates.retain(|orphan_candidate| {
            let service = stores.service(orphan_candidate);
            let service = service.as_deref();
            let unwanted = |address| !self.wants_as_external_ip(stores, orphan_candidate, service, address);
            is_orphaned(orphan_candidate, service, self.settings)
                && self.ledger.held_by(orphan_candidate).into_iter().any(unwanted)
        });
        orphan_candidates
    }

    /// A Service that may hold addresses changed. Returns the Services to sync.
    pub(super) fn on_holder_change(
        &mut self,
        stores: &Stores,
        old: Option<&Service>,
        new: Option<&Service>,
    ) -> Vec<ServiceKey> {
        let mut keys = Vec::new();
        for holder in [old, new].into_iter().flatten().filter_map(owner) {
            let held = self.ledger.held_by(&holder);
            if held.is_empty() {
                continue;
            }
            self.orphan_candidates.insert(holder.clone());
            let Some(service) = new.filter(|new| new.metadata.uid.as_ref() == Some(&holder.uid)) else {
                continue;
            };
            // An address that its status no longer shows can be released, unless it is to have it.
            let unshown =
                |address: IpAddr| old.is_some_and(|old| shows(old, address)) && !shows(service, address);
            if held.iter().any(|one| unshown(*one) && !self.keeps_address(stores, &holder, service, *one)) {
                keys.push(service_key(&holder));
            }
        }
        keys
    }
}

/// Returns true if the load balancer addresses of `owner` are orphaned, so that the service controller will not release them: the
/// Service is gone, was recreated, or wants no address and carries no finalizer of ours.
pub(crate) fn is_orphaned(owner: &ServiceRef, service: Option<&Service>, settings: Settings) -> bool {
    let Some(service) = service.filter(|service| service.metadata.uid.as_ref() == Some(&owner.uid)) else {
        return true;
    };
    let class_finalizer = CLASS_FINALIZER.to_owned();
    let options = ServiceOptions { class_finalizer, ..ServiceOptions::default() };
    !is_reconciled(service, |class| settings.serves_class(class), &options)
}

/// Returns true if the status of the Service shows `address`.
pub(crate) fn shows(service: &Service, address: IpAddr) -> bool {
    status_addresses(service).any(|shown| shown == address)
}

/// Returns true if `holder` keeps the address although the object no longer names it, or was put into quarantine. Its Service must
/// want an address, and its status must show this one, or have been emptied after a node announced it. No controller takes an address
/// from such a Service: the object was edited by hand. A Service that shows another address has moved. An address that is in
/// quarantine because another host has it is given up by all.
fn keeps_without_owning(
    stores: &Stores,
    holder: &ServiceRef,
    vip: &VirtualIP,
    was_in_use: bool,
    settings: Settings,
) -> bool {
    let address = vip.spec.address;
    let Some(service) = stores.live(holder).filter(|_| is_wanted(stores, holder, settings)) else {
        return false;
    };
    let is_taken =
        vip.spec.quarantine.as_ref().is_some_and(|one| one.reason == QuarantineReason::AddressTaken);
    let shows_none = || !status_addresses(&service).any(|shown| shown.is_ipv4() == address.is_ipv4());
    !is_taken && (shows(&service, address) || (was_in_use && shows_none()))
}

/// Returns true if the admin allows the Services of `address` to move to another one once no pool holds it.
fn may_move(stores: &Stores, address: IpAddr) -> bool {
    let Some(vip) = stores.vip(address) else { return false };
    let pool = stores.pools.get(&vip.spec.pool);
    vip.allows_move() || pool.is_some_and(|pool| pool.spec.on_removal == OnRemoval::Move)
}

/// Returns true if the Service exists, is not being deleted and wants an address.
fn is_wanted(stores: &Stores, holder: &ServiceRef, settings: Settings) -> bool {
    stores.live(holder).is_some_and(|service| {
        service.metadata.deletion_timestamp.is_none() && wants_address(&service, settings)
    })
}

/// Returns the sharing terms of a Service, or of the one that was recreated under its name; unshared while nothing is known of it.
fn terms_of(stores: &Stores, holder: &ServiceRef, settings: Settings) -> Terms {
    let known = stores.service(holder).and_then(|service| terms(&service, settings).ok());
    known.unwrap_or_else(|| Terms::alone(&holder.namespace))
}

#[cfg(test)]
mod tests;
