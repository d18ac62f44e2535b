//! Parts of a `VirtualIP` that its Services depend on: a change of them lets the service controller sync these Services. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::{VirtualIP, announced};
use windlass_ccm::ServiceKey;
use windlass_ccm::store::Change;

use crate::placement::plan::why_unplaced;
use crate::stores::service_key;

/// Returns the Services of a `VirtualIP` that came or changed, if that matters to them.
pub(crate) fn services_to_sync(change: &Change<VirtualIP>) -> Vec<ServiceKey> {
    let Some(new) = &change.new else { return Vec::new() };
    let summary = VipSummary::of(new);
    let before = change.old.as_ref().map_or_else(|| summary.when_new(), |old| VipSummary::of(old));
    if before == summary { Vec::new() } else { new.spec.owners.iter().map(service_key).collect() }
}

/// Parts of a `VirtualIP` that its Services depend on.
#[derive(Debug, Default, PartialEq, Eq)]
struct VipSummary {
    announced: bool,
    unplaced: Option<String>,
    /// Reason that a node that could announce the address does not.
    blocked_by: Option<String>,
    /// Host that uses the address beside the node that announces it.
    conflict: Option<String>,
    pool: String,
    may_move: bool,
}

impl VipSummary {
    /// The summary of this object when it was new.
    fn when_new(&self) -> Self {
        Self { pool: self.pool.clone(), may_move: self.may_move, ..Self::default() }
    }

    fn of(vip: &VirtualIP) -> Self {
        let is_blocking = |one: &&Condition| {
            matches!(
                one.reason.as_str(),
                announced::ADDRESS_TAKEN | announced::ADDRESS_REFUSED | announced::UNGUARDED
            )
        };
        Self {
            announced: vip.is_announced(),
            unplaced: why_unplaced(vip).map(str::to_owned),
            blocked_by: vip.announced().filter(is_blocking).map(|one| one.message.clone()),
            conflict: vip.conflict().map(|one| one.message.clone()),
            pool: vip.spec.pool.clone(),
            may_move: vip.allows_move(),
        }
    }
}
