//! What Services have, as the ledger and the cluster show it, and what that means for them. Decisions on the state, without
//! a call to anybody.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use windlass_api::{OnRemoval, QuarantineReason, ServiceRef, VirtualIP, VirtualIPSpec};
use windlass_ccm::ServiceKey;
use windlass_ccm::service::{ServiceOptions, is_seen_to};
use windlass_ipam::{Plan, Request, Terms};

use super::condition;
use super::ledger::Change;
use super::request::{
    RequestError, is_object_name, named_pool, owner, status_addresses, terms, wants_address,
};
use super::settings::Settings;
use crate::controller::CLASS_FINALIZER;
use crate::controller::state::State;
use crate::controller::stores::Stores;
use crate::controller::stores::service_key;

impl State {
    /// An object as a watch shows it, or as the API server answers a call made for the Service `asked`. Names the Services
    /// to look at again.
    pub(crate) fn note(&mut self, vip: &VirtualIP, asked: Option<&ServiceRef>) -> Vec<ServiceKey> {
        self.suspects.extend(vip.spec.owners.iter().cloned());
        let Self { ledger, stores, clock, settings, .. } = self;
        let terms = |holder: &ServiceRef| terms_of(stores, holder, *settings);
        let keep =
            |holder: &ServiceRef, proven: bool| keeps_in_spite_of(stores, holder, vip, proven, *settings);
        let mut change = ledger.note(vip, asked, clock.now(), terms, keep);
        change.lost.retain(|lost| Some(lost) != asked);
        change.joined.retain(|joined| Some(joined) != asked);
        self.consequences(vip.spec.address, &change)
    }

    /// The object with this UID is gone. `wanted`: its Services keep the address if they want it, and make the object anew.
    pub(crate) fn gone(&mut self, address: IpAddr, uid: &str, wanted: bool) -> Vec<ServiceKey> {
        let Self { ledger, stores, clock, settings, .. } = self;
        let keep = |holder: &ServiceRef| wanted && is_wanted(stores, holder, *settings);
        let change =
            ledger.gone(address, uid, clock.now(), |holder| terms_of(stores, holder, *settings), keep);
        self.consequences(address, &change)
    }

    /// There is no object for `address`, and so `holder` has none.
    pub(crate) fn absent(&mut self, address: IpAddr, holder: &ServiceRef) -> Vec<ServiceKey> {
        self.withdraw(address, holder, false)
    }

    /// `holder` has parted from `address`, unless the object names it still.
    pub(crate) fn parted(&mut self, address: IpAddr, holder: &ServiceRef) -> Vec<ServiceKey> {
        self.withdraw(address, holder, true)
    }

    fn withdraw(&mut self, address: IpAddr, holder: &ServiceRef, parts: bool) -> Vec<ServiceKey> {
        let Self { ledger, stores, clock, settings, .. } = self;
        let terms = |holder: &ServiceRef| terms_of(stores, holder, *settings);
        let change = ledger.withdraw(holder, address, parts, clock.now(), terms);
        self.consequences(address, &change)
    }

    fn consequences(&mut self, address: IpAddr, change: &Change) -> Vec<ServiceKey> {
        let concerned = change.lost.iter().chain(&change.joined).filter(|one| self.is_wanted(one));
        let mut keys: Vec<_> = concerned.chain(&change.bare).map(service_key).collect();
        if change.freed {
            keys.extend(self.offer([address]));
        }
        keys
    }

    /// What the Service asks for, and what it is known to have.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn wishes(&self, holder: &ServiceRef, service: &Service) -> Result<Request, RequestError> {
        let mut request = self.asks(service)?;
        request.preferred = status_addresses(service).collect();
        let held = self.ledger.held_by(holder);
        let mut outside =
            held.into_iter().filter(|address| self.ledger.pool_of(*address).is_none()).peekable();
        request.may_replace_unpooled =
            outside.peek().is_some() && outside.all(|address| self.may_move(address));
        if let Some(pool) = &request.pool {
            request.given_from_pool = self.ledger.held_by(holder);
            request.given_from_pool.retain(|address| self.was_given_by(holder, pool, *address));
        }
        request.inherited = self.ledger.inherited(holder);
        Ok(request)
    }

    /// Whether `holder` named `pool` already when it was given `address`: then pools that became others since are no reason to
    /// give it something else. So says what is remembered, else the object or our condition; where the object was lost, so it
    /// is.
    fn was_given_by(&self, holder: &ServiceRef, pool: &str, address: IpAddr) -> bool {
        if let Some(known) = self.named_pools.get(holder) {
            return known == pool;
        }
        let object = self.vip(address).filter(|vip| vip.spec.owners.contains(holder));
        let Some(VirtualIPSpec { pool: its, former_pools, .. }) = object.map(|vip| &vip.spec) else {
            return true;
        };
        let is_lost = !is_object_name(its);
        let is_told =
            || self.stores.live(holder).is_some_and(|one| condition::says_of_pool(&one, address, pool));
        is_lost || its == pool || former_pools.iter().any(|former| former == pool) || is_told()
    }

    /// `holder` was promised this for its request.
    pub(crate) fn remember_pool(&mut self, holder: &ServiceRef, pool: Option<String>, plan: &Plan) {
        let known = self.named_pools.get(holder);
        if pool == known.cloned() {
            return;
        }
        // What it has yet to leave it was given by another wish.
        match pool.filter(|_| plan.to_release.is_empty()) {
            Some(pool) => drop(self.named_pools.insert(holder.clone(), pool)),
            None => self.forget_pool(holder),
        }
    }

    /// Nobody knows by which wish `holder` has what it has.
    pub(crate) fn forget_pool(&mut self, holder: &ServiceRef) {
        self.named_pools.remove(holder);
    }

    /// Pools that owners of `vip` name and were given it by, as it records or their status tells, other than `pool`, which is to
    /// be the one of the object. A Service that a hand took from its owners, and that keeps it, is to be one again.
    pub(crate) fn former_pools(&self, vip: &VirtualIPSpec, pool: &str) -> Vec<String> {
        let named = vip.owners.iter().chain(self.ledger.holders(vip.address)).filter_map(|owner| {
            let service = self.stores.live(owner)?;
            let named = named_pool(&service, self.settings).filter(|named| named != pool)?;
            let is_recorded = vip.pool == named || vip.former_pools.contains(&named);
            let is_known = || shows(&service, vip.address) && self.was_given_by(owner, &named, vip.address);
            (is_recorded || is_known()).then_some(named)
        });
        named.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Whether the admin lets the Services of `address` be given another once no pool holds it.
    fn may_move(&self, address: IpAddr) -> bool {
        let Some(vip) = self.vip(address) else { return false };
        let pool = self.stores.pools.get(&vip.spec.pool);
        vip.allows_move() || pool.is_some_and(|pool| pool.spec.on_removal == OnRemoval::Move)
    }

    /// Whether the status of some Service that owns `address` shows it.
    pub(crate) fn is_shown_by_any_owner(&self, address: IpAddr) -> bool {
        let holders = self.ledger.holders(address).iter();
        holders.filter_map(|holder| self.stores.live(holder)).any(|service| shows(&service, address))
    }

    /// Services that hold an address that is in no pool.
    pub(crate) fn without_pool(&self) -> Vec<ServiceKey> {
        let outside = self.ledger.claims().filter(|(address, _)| self.ledger.pool_of(*address).is_none());
        outside.flat_map(|(_, holders)| holders).map(service_key).collect()
    }

    /// Whether the Service exists, is not being deleted and wants an address.
    pub(crate) fn is_wanted(&self, holder: &ServiceRef) -> bool {
        is_wanted(&self.stores, holder, self.settings)
    }

    /// Whether `address` is ours to show: a pool has it, or a Service.
    pub(crate) fn is_ours(&self, address: IpAddr) -> bool {
        self.ledger.pool_of(address).is_some() || !self.ledger.holders(address).is_empty()
    }

    /// Whether the change of the Service's status cannot be ours: it took away what `holder` is to have, or added an address
    /// of a pool or of another Service.
    pub(crate) fn is_forged(&self, holder: &ServiceRef, old: &Service, new: &Service) -> bool {
        let (was, is): (BTreeSet<_>, BTreeSet<_>) =
            (status_addresses(old).collect(), status_addresses(new).collect());
        let holds = |address: IpAddr| self.ledger.holders(address).contains(holder);
        was.difference(&is).any(|gone| self.keeps(holder, new, *gone))
            || is.difference(&was).any(|added| !holds(*added) && self.is_ours(*added))
    }

    /// Whether `holder` holds `address`, and is to have it as its Service asks.
    fn keeps(&self, holder: &ServiceRef, service: &Service, address: IpAddr) -> bool {
        if !self.ledger.holders(address).contains(holder) {
            return false;
        }
        let request = self.wishes(holder, service).ok();
        let plan = request.and_then(|request| self.ledger.allocator().plan(holder, &request).ok());
        plan.is_some_and(|plan| plan.addresses.iter().any(|planned| planned.address == address))
    }

    /// What `holder` has as a load balancer, and loses when it is none any more.
    pub(crate) fn to_withdraw(&self, holder: &ServiceRef) -> Vec<IpAddr> {
        let service = self.stores.live(holder);
        let mut held = self.ledger.held_by(holder);
        held.retain(|address| !self.wants_besides(holder, service.as_deref(), *address));
        held
    }

    /// Who may have addresses that nobody sees to any more, and was not looked at since that may have become so.
    pub(crate) fn take_suspects(&mut self) -> BTreeSet<ServiceRef> {
        let mut suspects = std::mem::take(&mut self.suspects);
        suspects.retain(|suspect| {
            let service = self.stores.service(suspect);
            let service = service.as_deref();
            let unwanted = |address| !self.wants_besides(suspect, service, address);
            is_orphaned(suspect, service, self.settings)
                && self.ledger.held_by(suspect).into_iter().any(unwanted)
        });
        suspects
    }

    /// The Service as it was and as it is: who has to be looked at.
    pub(crate) fn service_changed(
        &mut self,
        old: Option<&Service>,
        new: Option<&Service>,
    ) -> Vec<ServiceKey> {
        let mut keys = Vec::new();
        for holder in [old, new].into_iter().flatten().filter_map(owner) {
            let held = self.ledger.held_by(&holder);
            if held.is_empty() {
                continue;
            }
            self.suspects.insert(holder.clone());
            let Some(service) = new.filter(|new| new.metadata.uid.as_ref() == Some(&holder.uid)) else {
                continue;
            };
            // What its status does not show any more can be withdrawn, if it is not to have it.
            let unshown =
                |address: IpAddr| old.is_some_and(|old| shows(old, address)) && !shows(service, address);
            if held.iter().any(|one| unshown(*one) && !self.keeps(&holder, service, *one)) {
                keys.push(service_key(&holder));
            }
        }
        keys
    }
}

/// Whether what `owner` has as a load balancer is to be withdrawn although the service controller will not ask for it: the
/// Service is gone, was made anew, or wants no address and carries no finalizer of ours by which the service controller
/// would see to it.
pub(crate) fn is_orphaned(owner: &ServiceRef, service: Option<&Service>, settings: Settings) -> bool {
    let Some(service) = service.filter(|service| service.metadata.uid.as_ref() == Some(&owner.uid)) else {
        return true;
    };
    let class_finalizer = CLASS_FINALIZER.to_owned();
    let options = ServiceOptions { class_finalizer, ..ServiceOptions::default() };
    !is_seen_to(service, |class| settings.serves_class(class), &options)
}

/// Whether the status of the Service shows `address`.
pub(crate) fn shows(service: &Service, address: IpAddr) -> bool {
    status_addresses(service).any(|shown| shown == address)
}

/// Whether `holder` keeps the address although the object names it no more, or was put into quarantine: its Service wants an
/// address, and its status shows this one, or was emptied and some node announced it. Nobody but a hand takes an address
/// from such a Service. One that shows another address instead has moved; and what another station has, as a quarantine
/// says, is left by all.
fn keeps_in_spite_of(
    stores: &Stores,
    holder: &ServiceRef,
    vip: &VirtualIP,
    proven: bool,
    settings: Settings,
) -> bool {
    let address = vip.spec.address;
    let Some(service) = stores.live(holder).filter(|_| is_wanted(stores, holder, settings)) else {
        return false;
    };
    let is_taken =
        vip.spec.quarantine.as_ref().is_some_and(|one| one.reason == QuarantineReason::AddressTaken);
    let shows_none = || !status_addresses(&service).any(|shown| shown.is_ipv4() == address.is_ipv4());
    !is_taken && (shows(&service, address) || (proven && shows_none()))
}

/// Whether the Service exists, is not being deleted and wants an address.
fn is_wanted(stores: &Stores, holder: &ServiceRef, settings: Settings) -> bool {
    stores.live(holder).is_some_and(|service| {
        service.metadata.deletion_timestamp.is_none() && wants_address(&service, settings)
    })
}

/// On which terms a Service shares what it has, or the one that was made anew under its name; with nobody, as long as nothing
/// is known of it.
fn terms_of(stores: &Stores, holder: &ServiceRef, settings: Settings) -> Terms {
    let known = stores.service(holder).and_then(|service| terms(&service, settings).ok());
    known.unwrap_or_else(|| Terms::alone(&holder.namespace))
}

#[cfg(test)]
mod tests;
