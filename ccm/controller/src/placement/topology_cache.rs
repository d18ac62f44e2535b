//! The topology and what is worked out from it, cached until it changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;

use super::announceability::announceability;
use super::announcements::Announcements;
use super::plan::{PlacementClass, ReadyRouters, Topology};
use crate::allocation::pools::{Announceability, ReviewedPool};
use crate::stores::Stores;

/// The topology, and what is worked out from it together with pools and virtual routers. Callers report changes.
#[derive(Debug, Default)]
pub(crate) struct TopologyCache {
    topology: Option<Arc<Topology>>,
    ready_routers: HashMap<PlacementClass, ReadyRouters>,
    /// Announceability of the pools, and the pools from which it was computed.
    announceability_by_pool: Option<(Arc<[ReviewedPool]>, Arc<AnnounceabilityByPool>)>,
}

/// Announceability of each pool, by the pools' names.
pub(crate) type AnnounceabilityByPool = BTreeMap<String, Announceability>;

impl TopologyCache {
    /// A node came, went, its traits or its network are others, or an Announcement is.
    pub(crate) fn topology_changed(&mut self) {
        self.topology = None;
        self.ready_routers.clear();
        self.announceability_by_pool = None;
    }

    /// A virtual router came, went or changed.
    pub(crate) fn ready_routers_changed(&mut self) {
        self.ready_routers.clear();
    }

    /// Nodes and their segments.
    pub(crate) fn topology(&mut self, stores: &Stores, announcements: &Announcements) -> Arc<Topology> {
        let topology = self.topology.get_or_insert_with(|| {
            let traits = |node: &Arc<Node>| (node.name_any(), announcements.traits(node));
            let nodes = stores.nodes.list().iter().map(traits).collect();
            Arc::new(Topology::new(&nodes, stores.reports().iter().cloned().collect(), announcements))
        });
        Arc::clone(topology)
    }

    /// Returns the announceability of each pool, computed anew only if the pools or the topology changed.
    pub(crate) fn announceability_by_pool(
        &mut self,
        stores: &Stores,
        reviewed: &Arc<[ReviewedPool]>,
        announcements: &Announcements,
    ) -> Arc<AnnounceabilityByPool> {
        let topology = self.topology(stores, announcements);
        let known =
            self.announceability_by_pool.take().filter(|(of, _)| Arc::ptr_eq(of, reviewed) || of == reviewed);
        let (_, announceability_by_pool) = self.announceability_by_pool.insert(known.unwrap_or_else(|| {
            let of_pool = |one: &ReviewedPool| {
                let may_apply = announcements.of_pool(&one.pool.name);
                (one.pool.name.clone(), announceability(one, &may_apply, &topology))
            };
            (Arc::clone(reviewed), Arc::new(reviewed.iter().map(of_pool).collect()))
        }));
        Arc::clone(announceability_by_pool)
    }

    /// The virtual routers that are there for new VIPs of this class, `made` if they are not known.
    pub(crate) fn ready_routers(
        &mut self,
        class: PlacementClass,
        made: impl FnOnce() -> ReadyRouters,
    ) -> &ReadyRouters {
        self.ready_routers.entry(class).or_insert_with(made)
    }
}
