//! The planner's input, from the state.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use tokio::time::Instant;
use windlass_api::{LoadSharing, ServiceRef, SharedBy, VirtualIP, VirtualIPSpec};

use super::announcements::{Announcements, SelectedBy};
use super::node_traits::ready_since;
use super::placement_state::PlacementState;
use super::plan::{Need, PlacementClass, PlanInput, ReadyRouters, Topology, first};
use crate::allocation::allocation_state::AllocationState;
use crate::stores::Stores;

#[cfg(test)]
mod tests;

/// Namespace that every cluster has from its beginning to its end, with a UID of its own.
const NAMESPACE_OF_THE_CLUSTER: &str = "kube-system";

/// The input of a plan. `now`: the time of the objects.
pub(crate) fn input(
    stores: &Stores,
    allocation: &AllocationState,
    placement: &mut PlacementState,
    now: Timestamp,
) -> PlanInput {
    let announcements = Arc::clone(placement.announcements());
    let topology = placement.topology(stores);
    let vips: Vec<_> = stores.vips.iter().cloned().collect();
    let instant = Instant::now();
    let local = vips.iter().filter(|vip| !vip.spec.external_traffic_policy.is_cluster());
    let serving = local.map(|vip| (vip.spec.address, placement.serving(stores, &vip.spec, instant)));
    let serving = serving.collect();
    let by_client = vips.iter().filter(|vip| is_by_client(stores, &vip.spec));
    let by_client = by_client.map(|vip| vip.spec.address).collect();
    let sharing = placement.sharing(&vips, now);
    let settling = allocation.settings().settling;
    let settled_at = |node: Arc<Node>| Some((node.name_any(), settled(&node, settling)?));
    let settled = stores.nodes.list().into_iter().filter_map(settled_at).collect();
    let selected = if announcements.is_empty() {
        BTreeMap::new()
    } else {
        vips.iter()
            .map(|vip| (vip.spec.address, placement.selected_by(stores, allocation, &vip.spec)))
            .collect()
    };
    let input = input_without_vips(stores, topology, announcements);
    PlanInput { selected, vips, serving, by_client, sharing, now, settling, settled, ..input }
}

/// Returns the time from which a node counts as settled: it has been ready for as long. `None`: it is not ready.
fn settled(node: &Node, settling: Duration) -> Option<Timestamp> {
    let since = node.metadata.creation_timestamp.as_ref()?.0.max(ready_since(node)?);
    since.checked_add(settling).ok()
}

/// Returns true if one of the VIP's Services has `sessionAffinity: ClientIP`, as far as they are known.
fn is_by_client(stores: &Stores, vip: &VirtualIPSpec) -> bool {
    let mut services = vip.owners.iter().filter_map(|owner| stores.live(owner)).peekable();
    if services.peek().is_none() {
        return vip.load_sharing.as_ref().is_some_and(|shared| shared.by == SharedBy::Client);
    }
    services.any(|service| {
        service.spec.as_ref().and_then(|spec| spec.session_affinity.as_deref()) == Some("ClientIP")
    })
}

/// The input without the VIPs.
fn input_without_vips(
    stores: &Stores,
    topology: Arc<Topology>,
    announcements: Arc<Announcements>,
) -> PlanInput {
    let routers = stores.routers.iter().cloned().collect();
    let cluster = stores.namespaces.get(NAMESPACE_OF_THE_CLUSTER).and_then(|namespace| namespace.uid());
    let cluster = cluster.unwrap_or_default();
    PlanInput { announcements, routers, topology, cluster, ..PlanInput::default() }
}

impl PlacementState {
    /// The Announcements that select a virtual IP: by its pool and the Service that has had it the longest.
    pub(crate) fn selected_by(
        &self,
        stores: &Stores,
        allocation: &AllocationState,
        vip: &VirtualIPSpec,
    ) -> SelectedBy {
        let announcements = self.announcements();
        if announcements.is_empty() {
            return SelectedBy::default();
        }
        let pool = allocation.ledger().pool_of(vip.address).map_or(&vip.pool, |pool| &pool.name);
        let service = vip.owners.iter().find_map(|owner| stores.live(owner));
        let requester = service.map(|service| stores.requester(&service));
        announcements.select(pool, requester.as_ref(), vip.announcement.as_deref())
    }

    /// The nodes that are first for these VIPs. `None`: of one of them nobody has decided yet.
    fn first_nodes(&self, stores: &Stores, addresses: &[IpAddr]) -> Option<BTreeSet<String>> {
        let first_node = |address: &IpAddr| {
            let vip = stores.vip(*address);
            let router = vip.and_then(|vip| vip.spec.virtual_router.as_deref());
            let router = router.or_else(|| self.expected(*address))?;
            first(&stores.routers.get(router)?.spec).map(str::to_owned)
        };
        addresses.iter().map(first_node).collect()
    }

    /// Returns the virtual router that `vip`, which is about to be created for `holder`, can name immediately, which saves a second
    /// write. Its Announcement is known. `None`: the planner decides when the object exists.
    pub(crate) fn router_for_new_vip(
        &mut self,
        stores: &Stores,
        allocation: &AllocationState,
        holder: &ServiceRef,
        vip: &VirtualIP,
    ) -> Option<String> {
        let VirtualIPSpec { address, external_traffic_policy: policy, .. } = vip.spec;
        if !policy.is_cluster() {
            return None;
        }
        let held = allocation.ledger().held_by(holder).into_iter().filter(|other| *other != address);
        let (siblings, others): (Vec<_>, Vec<_>) =
            held.partition(|other| other.is_ipv4() == address.is_ipv4());
        if !siblings.is_empty() {
            return None;
        }
        let partners = self.first_nodes(stores, &others)?;
        let topology = self.topology(stores);
        let announcement = self.announcements().get(vip.spec.announcement.as_deref())?;
        let segment = topology.segment(address, announcement)?;
        let is_shared = announcement.load_sharing == LoadSharing::All;
        let class = match topology.need(&vip.spec, is_shared) {
            Need::Nothing => PlacementClass::new(segment, announcement, policy, Need::Nothing),
            Need::Guard | Need::Sharing => return None,
        };
        let name = announcement.name.clone();
        let made = |announcements: &Arc<Announcements>| {
            let input = input_without_vips(stores, topology, Arc::clone(announcements));
            ReadyRouters::new(&input, segment, name.as_deref())
        };
        self.take_router(address, class, &partners, made)
    }
}
