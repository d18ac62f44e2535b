//! What each change of the cluster means for the planner: what it has worked out and is not so any more, and what its next
//! pass has to look at.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};
use kube::ResourceExt as _;
use windlass_api::{
    NodeNetwork, QuarantineReason, VirtualIP, VirtualIPPool, VirtualRouter, VirtualRouterSpec,
    virtual_ip_name,
};
use windlass_ccm::service::is_stable;

use super::router_loads::Concern;
use crate::controller::allocation::pools::Findings;
use crate::controller::allocation::request::owner;
use crate::controller::state::State;
use windlass_ccm::store::Change;

impl State {
    pub(crate) fn invalidate_by_vip(&mut self, news: &Change<VirtualIP>) {
        match self.loads.note(news) {
            Concern::Plan => self.dirty.everything(),
            Concern::Itself => {
                if let Some(vip) = news.new.as_ref().or(news.old.as_ref()) {
                    self.dirty.vip(vip.name_any());
                }
            }
        }
        if [&news.old, &news.new].into_iter().flatten().any(|vip| self.is_a_finding(vip)) {
            self.findings = None;
        }
    }

    /// What pools have to tell of, by their names.
    pub(crate) fn findings(&mut self) -> Arc<BTreeMap<String, Findings>> {
        let known =
            self.findings.take().unwrap_or_else(|| Arc::new(Findings::of(&self.stores, &self.ledger)));
        Arc::clone(self.findings.insert(known))
    }

    /// Whether its pool has to tell of it.
    fn is_a_finding(&self, vip: &VirtualIP) -> bool {
        match vip.spec.quarantine.as_ref().map(|quarantine| quarantine.reason) {
            None => self.ledger.pool_of(vip.spec.address).is_none(),
            Some(QuarantineReason::AddressTaken) => true,
            Some(QuarantineReason::Released | QuarantineReason::Unknown) => false,
        }
    }

    pub(crate) fn invalidate_by_router(&mut self, news: &Change<VirtualRouter>) {
        match (&news.old, &news.new) {
            (Some(old), Some(new)) if is_same(old, new) => {
                if old.spec == new.spec {
                    return;
                }
                self.dirty.router(new.name_any());
            }
            (_, _) => self.dirty.everything(),
        }
        self.topology_cache.ready_routers_changed();
    }

    pub(crate) fn invalidate_by_pool(&mut self, news: &Change<VirtualIPPool>) {
        let [old, new] = [&news.old, &news.new].map(|pool| pool.as_ref().map(|pool| &pool.spec));
        if old != new {
            self.dirty.everything();
            self.topology_cache.ready_routers_changed();
        }
    }

    /// The pools have other addresses.
    pub(crate) fn invalidate_by_addresses(&mut self) {
        self.dirty.everything();
        self.findings = None;
    }

    pub(crate) fn invalidate_by_network(&mut self, news: &Change<NodeNetwork>) {
        let [old, new] = [&news.old, &news.new].map(|network| network.as_ref().map(|network| &network.spec));
        let [was, is] = [old, new].map(|spec| spec.map(|spec| (&spec.interfaces, &spec.foreign_routers)));
        if was != is {
            self.topology_cache.topology_changed();
            if let Some(network) = news.new.as_ref().or(news.old.as_ref()) {
                self.dirty.node(network.name_any());
            }
        }
        if old.map(|spec| &spec.duplicates) != new.map(|spec| &spec.duplicates) {
            self.findings = None;
        }
    }

    pub(crate) fn invalidate_by_node(&mut self, news: &Change<Node>) {
        let [was, is] = [&news.old, &news.new].map(|node| node.as_ref().map(|node| is_stable(node)));
        if was != is {
            self.topology_cache.topology_changed();
            if let Some(node) = news.new.as_ref().or(news.old.as_ref()) {
                self.dirty.node(node.name_any());
            }
        }
    }

    /// Who may send to its addresses may be others.
    pub(crate) fn invalidate_by_service(&mut self, news: &Change<Service>) {
        let owners = [&news.old, &news.new].map(|service| service.as_ref().and_then(|one| owner(one)));
        for owner in owners.into_iter().flatten() {
            for address in self.ledger.held_by(&owner) {
                self.dirty.vip(virtual_ip_name(address));
            }
        }
    }
}

/// Whether all but the ranking is as it was.
fn is_same(old: &VirtualRouter, new: &VirtualRouter) -> bool {
    let VirtualRouterSpec { vrid, segment, advertisement_interval_milliseconds, nodes: _ } = &old.spec;
    (vrid, segment, advertisement_interval_milliseconds)
        == (&new.spec.vrid, &new.spec.segment, &new.spec.advertisement_interval_milliseconds)
        && old.metadata.uid == new.metadata.uid
        && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
}
