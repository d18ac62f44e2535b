//! The findings that the status of pools reports, computed anew after a change that affects them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use windlass_api::{NodeNetwork, QuarantineReason, VirtualIP};
use windlass_ccm::store::Change;

use super::ClusterState;
use crate::allocation::pools::PoolFindings;
use crate::placement::placement_state::reported;

impl ClusterState {
    /// Returns the findings for the status of pools, by their names.
    pub(crate) fn findings(&mut self) -> Arc<BTreeMap<String, PoolFindings>> {
        let Self { stores, ledger, refused_external_ips, .. } = self;
        let pool_of = |address| ledger.pool_of(address).map(|pool| pool.name.as_str());
        let known = self
            .findings
            .take()
            .unwrap_or_else(|| Arc::new(PoolFindings::of(stores, pool_of, refused_external_ips)));
        Arc::clone(self.findings.insert(known))
    }

    pub(super) fn invalidate_findings_by_vip(&mut self, change: &Change<VirtualIP>) {
        if [&change.old, &change.new].into_iter().flatten().any(|vip| self.is_a_finding(vip)) {
            self.findings = None;
        }
    }

    /// Returns true if the status of its pool reports it.
    fn is_a_finding(&self, vip: &VirtualIP) -> bool {
        match vip.spec.quarantine.as_ref().map(|quarantine| quarantine.reason) {
            None => self.ledger.pool_of(vip.spec.address).is_none(),
            Some(QuarantineReason::AddressTaken) => true,
            Some(QuarantineReason::Released | QuarantineReason::Unknown) => false,
        }
    }

    /// Drops what was read from the nodes' networks, too.
    pub(super) fn invalidate_findings_by_network(&mut self, change: &Change<NodeNetwork>) {
        let [old, new] =
            [&change.old, &change.new].map(|network| network.as_ref().map(|network| &network.spec));
        if old != new {
            self.stores.reports.changed();
        }
        if old.map(|spec| &spec.duplicates) != new.map(|spec| &spec.duplicates) {
            self.findings = None;
        }
    }

    /// Drops what was read from the nodes' networks, too.
    pub(super) fn invalidate_findings_by_node(&mut self, change: &Change<Node>) {
        let what_counts = |node: &Arc<Node>| reported(node);
        if change.old.as_ref().map(what_counts) != change.new.as_ref().map(what_counts) {
            self.stores.reports.changed();
            self.findings = None;
        }
    }
}
