//! The state of the allocation: the holders of addresses, the Services that wait for one, and what follows from pools and external IPs.
//!
//! Its methods are in the files of this folder, by topic; the fields are changed by them alone. Each takes the objects, and the time
//! if it needs it, and returns the Services to sync.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use windlass_api::{NodeNetwork, QuarantineReason, ServiceRef, VirtualIP, VirtualIPPool};
use windlass_ccm::ServiceKey;
use windlass_ccm::store::Change;

use super::external::{ExternalIps, RefusedExternalIps};
use super::ledger::Ledger;
use super::pools::{PoolFindings, PoolReviewer, ReviewedPool};
use super::settings::Settings;
use super::source_elements::SourceElements;
use super::waiting::{Trigger, Waiting};
use crate::stores::{Stores, service_key};

/// State of the allocation. It is given each change of the stores.
#[derive(Debug, Default)]
pub(crate) struct AllocationState {
    pub(super) settings: Settings,
    pub(super) ledger: Ledger,
    pub(super) waiting: Waiting,
    pub(super) pools: PoolReviewer,
    pub(super) external_ips: ExternalIps,
    /// Elements that the restricted ports of all VIPs need on the nodes.
    pub(super) source_elements: SourceElements,
    /// Services whose addresses may be orphaned.
    pub(super) orphan_candidates: BTreeSet<ServiceRef>,
    /// The pools that Services named when they were given what they have.
    pub(super) named_pools: BTreeMap<ServiceRef, String>,
    /// All lists are complete and the ledger was built from them: before that nothing may be allocated.
    pub(super) ready: bool,
}

impl AllocationState {
    /// Nothing is known yet.
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// The settings of the admin.
    pub(crate) const fn settings(&self) -> Settings {
        self.settings
    }

    /// Returns true once all lists were complete and the ledger was built from them.
    pub(crate) const fn is_ready(&self) -> bool {
        self.ready
    }

    /// The holders of each address.
    pub(crate) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the Services that hold these addresses.
    pub(crate) fn services_with(&self, addresses: impl IntoIterator<Item = IpAddr>) -> Vec<ServiceKey> {
        addresses.into_iter().flat_map(|address| self.ledger.holders(address)).map(service_key).collect()
    }

    /// The entries of `spec.externalIPs` that were refused.
    pub(crate) const fn refused_external_ips(&self) -> &RefusedExternalIps {
        self.external_ips.refused()
    }

    /// Returns how many Services wait for an address.
    pub(crate) fn services_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The pools as they were reviewed last.
    pub(crate) fn reviewed(&self) -> Arc<[ReviewedPool]> {
        self.pools.reviewed()
    }

    /// The node that has `address` itself.
    pub(crate) fn node_with(&self, address: IpAddr) -> Option<&str> {
        self.pools.node_with(address)
    }

    /// The Service that another load balancer gave `address`.
    pub(crate) fn foreign_service_with(&self, address: IpAddr) -> Option<&str> {
        self.pools.foreign_service_with(address)
    }

    /// Returns the findings for the status of pools, by their names.
    pub(crate) fn findings(&mut self, stores: &Stores) -> Arc<BTreeMap<String, PoolFindings>> {
        let Self { ledger, external_ips, pools, .. } = self;
        let pool_of = |address| ledger.pool_of(address).map(|pool| pool.name.as_str());
        pools.findings(|| PoolFindings::of(stores, pool_of, external_ips.refused()))
    }

    /// The report of a node came, changed or went.
    pub(crate) fn on_network_change(&mut self, change: &Change<NodeNetwork>) {
        let [old, new] = [&change.old, &change.new].map(|one| one.as_ref().map(|one| &one.spec.duplicates));
        if old != new {
            self.findings_changed();
        }
    }

    /// Drops the findings after a change of the nodes' reports, which they follow from.
    pub(crate) fn findings_changed(&mut self) {
        self.pools.findings_changed();
    }

    /// Reviews the pools, hands the usable addresses to the ledger, and returns the affected Services.
    pub(crate) fn review_pools(&mut self, stores: &Stores) -> (Arc<[ReviewedPool]>, Vec<ServiceKey>) {
        let changed = self.pools.refresh(stores);
        let reviewed = self.pools.reviewed();
        if !changed {
            return (reviewed, Vec::new());
        }
        // External IPs may not be permitted any more. (Load balancer addresses are the service controller's.) Who holds none is not
        // looked at, however many list some.
        let holders = self.ledger.claims().flat_map(|(_, holders)| holders);
        let external: BTreeSet<ServiceRef> =
            holders.filter(|holder| self.external_ips.has(holder)).cloned().collect();
        let keys_of_external = || external.iter().map(service_key);
        self.orphan_candidates.extend(external.iter().cloned());
        let Some((before_pools, usable)) = self.pools.usable_change() else {
            return (reviewed, keys_of_external().collect());
        };
        let owners_and_pools = |state: &Self| -> Vec<(IpAddr, Option<String>)> {
            let held = state.ledger.claims().map(|(address, _)| address);
            held.map(|address| (address, state.ledger.pool_of(address).map(|pool| pool.name.clone())))
                .collect()
        };
        let before = owners_and_pools(self);
        self.ledger.set_pools(usable);
        let after = owners_and_pools(self);
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
        let mut keys = self.services_with(moved.map(|((address, _), _)| *address));
        // A Service that shows an address already comes before those that wait for one.
        if self.ready {
            keys.extend(self.adopt_all_shown(stores));
        }
        keys.extend(self.retry_waiting(&[Trigger::Pools(&before_pools)]));
        keys.extend(keys_of_external());
        (reviewed, keys)
    }

    /// A pool came, changed or went.
    pub(crate) fn on_pool_change(
        &mut self,
        stores: &Stores,
        change: &Change<VirtualIPPool>,
    ) -> Vec<ServiceKey> {
        if !self.ready {
            return Vec::new();
        }
        let mut keys = self.review_pools(stores).1;
        let on_removal = |pool: &Option<Arc<VirtualIPPool>>| pool.as_ref().map(|pool| pool.spec.on_removal);
        if on_removal(&change.old) != on_removal(&change.new) {
            keys.extend(self.services_outside_pools());
        }
        keys
    }

    /// A claim came, changed or went.
    pub(crate) fn on_vip_change(
        &mut self,
        stores: &Stores,
        now: Timestamp,
        change: &Change<VirtualIP>,
    ) -> Vec<ServiceKey> {
        if [&change.old, &change.new].into_iter().flatten().any(|vip| self.is_a_finding(vip)) {
            self.pools.findings_changed();
        }
        let mut keys = self.on_source_elements_change(stores, change);
        if !self.ready {
            return Vec::new();
        }
        keys.extend(match (&change.old, &change.new) {
            (_, Some(new)) => self.observe_vip(stores, now, new, None),
            (Some(old), None) => {
                let uid = old.metadata.uid.as_deref().unwrap_or_default();
                self.vip_deleted(stores, now, old.spec.address, uid, true)
            }
            (None, None) => Vec::new(),
        });
        keys
    }

    /// Returns true if the status of its pool reports it.
    fn is_a_finding(&self, vip: &VirtualIP) -> bool {
        match vip.spec.quarantine.as_ref().map(|quarantine| quarantine.reason) {
            None => self.ledger.pool_of(vip.spec.address).is_none(),
            Some(QuarantineReason::AddressTaken) => true,
            Some(QuarantineReason::Released | QuarantineReason::Unknown) => false,
        }
    }

    /// A Service came, changed or went. `is_contested`: another controller changes its status again and again.
    pub(crate) fn on_service_change(
        &mut self,
        stores: &Stores,
        change: &Change<Service>,
        is_contested: bool,
    ) -> Vec<ServiceKey> {
        if self.external_ips.follow(change) {
            self.pools.findings_changed();
        }
        let matters_to_pools = self.pools.follow(change, self.settings);
        if !self.ready {
            return Vec::new();
        }
        let mut keys = if matters_to_pools { self.review_pools(stores).1 } else { Vec::new() };
        keys.extend(self.on_existence_change(stores, change));
        keys.extend(self.on_request_change(stores, change));
        keys.extend(self.on_holder_change(stores, change.old.as_deref(), change.new.as_deref()));
        keys.extend(self.on_status_change(stores, change, is_contested));
        keys
    }
}
