//! Drops cached results that a change of the cluster affects.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use windlass_api::{Announcement, NodeNetwork, QuarantineReason, VirtualIP, VirtualRouter};
use windlass_ccm::store::Change;
use windlass_common::failures;

use crate::allocation::pools::PoolFindings;
use crate::nodes::reports::{is_ready, machine_ids};
use crate::placement::announcements::Announcements;
use crate::placement::plan_input::traits;
use crate::state::ClusterState;

impl ClusterState {
    pub(crate) fn invalidate_by_vip(&mut self, change: &Change<VirtualIP>) {
        self.loads.on_change(change);
        if [&change.old, &change.new].into_iter().flatten().any(|vip| self.is_a_finding(vip)) {
            self.findings = None;
        }
    }

    /// Returns the findings for the status of pools, by their names.
    pub(crate) fn findings(&mut self) -> Arc<BTreeMap<String, PoolFindings>> {
        let Self { stores, ledger, refused_external_ips, .. } = self;
        let known = self
            .findings
            .take()
            .unwrap_or_else(|| Arc::new(PoolFindings::of(stores, ledger, refused_external_ips)));
        Arc::clone(self.findings.insert(known))
    }

    /// Returns true if the status of its pool reports it.
    fn is_a_finding(&self, vip: &VirtualIP) -> bool {
        match vip.spec.quarantine.as_ref().map(|quarantine| quarantine.reason) {
            None => self.ledger.pool_of(vip.spec.address).is_none(),
            Some(QuarantineReason::AddressTaken) => true,
            Some(QuarantineReason::Released | QuarantineReason::Unknown) => false,
        }
    }

    /// Invalidates the ready routers if the spec or identity of a router changed. Its status, which agents write for people to read,
    /// does not count.
    pub(crate) fn invalidate_by_router(&mut self, change: &Change<VirtualRouter>) {
        let what_counts = |router: &Arc<VirtualRouter>| {
            let metadata = &router.metadata;
            (router.spec.clone(), metadata.uid.clone(), metadata.deletion_timestamp.clone())
        };
        if change.old.as_ref().map(what_counts) != change.new.as_ref().map(what_counts) {
            self.topology_cache.ready_routers_changed();
        }
    }

    pub(crate) fn invalidate_by_announcement(&mut self, change: &Change<Announcement>) {
        let what_counts = |one: &Arc<Announcement>| {
            (
                one.spec.clone(),
                one.metadata.creation_timestamp.clone(),
                one.metadata.deletion_timestamp.clone(),
            )
        };
        if change.old.as_ref().map(what_counts) != change.new.as_ref().map(what_counts) {
            self.announcements = Arc::new(Announcements::new(self.stores.announcements.iter()));
            self.topology_cache.topology_changed();
        }
    }

    pub(crate) fn invalidate_by_network(&mut self, change: &Change<NodeNetwork>) {
        let [old, new] =
            [&change.old, &change.new].map(|network| network.as_ref().map(|network| &network.spec));
        let [was, is] = [old, new].map(|spec| {
            spec.map(|spec| {
                let fails: Vec<&str> = failures::that_matter(&spec.failed_checks).collect();
                let keys = (&spec.vrrp_keys, &spec.known_routers);
                (&spec.interfaces, &spec.foreign_routers, &spec.capabilities, keys, fails)
            })
        });
        if was != is {
            self.topology_cache.topology_changed();
        }
        if old != new {
            self.stores.reports.changed();
        }
        if old.map(|spec| &spec.duplicates) != new.map(|spec| &spec.duplicates) {
            self.findings = None;
        }
    }

    pub(crate) fn invalidate_by_node(&mut self, change: &Change<Node>) {
        let what_counts = |node: &Arc<Node>| {
            let addresses = node.status.as_ref().and_then(|status| status.addresses.clone());
            let ids = machine_ids(node).map(|(uuid, machine)| (uuid.to_owned(), machine.to_owned()));
            (addresses, ids, is_ready(node))
        };
        if change.old.as_ref().map(what_counts) != change.new.as_ref().map(what_counts) {
            self.stores.reports.changed();
            self.topology_cache.topology_changed();
            self.findings = None;
        }
        let traits = |node: &Arc<Node>| traits(node, &self.announcements);
        if change.old.as_ref().map(traits) != change.new.as_ref().map(traits) {
            self.topology_cache.topology_changed();
        }
    }
}
