//! The topology and what is worked out from it, cached until it changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kube::ResourceExt as _;
use windlass_ccm::service::is_stable;

use super::plan::{PlacementClass, ReadyRouters, Topology};
use crate::controller::allocation::pools::{Announceability, ReviewedPool, announceability};
use crate::controller::stores::Stores;

/// The topology, and what is worked out from it together with pools and virtual routers. Callers report changes.
#[derive(Debug, Default)]
pub(crate) struct TopologyCache {
    topology: Option<Arc<Topology>>,
    ready_routers: HashMap<PlacementClass, ReadyRouters>,
    /// What of the pools can be announced, and the pools that it was worked out for.
    announceability_by_pool: Option<(Arc<[ReviewedPool]>, Arc<AnnounceabilityByPool>)>,
}

/// What of each pool can be announced, by the pools' names.
pub(crate) type AnnounceabilityByPool = BTreeMap<String, Announceability>;

impl TopologyCache {
    /// A node came, went, became stable or unstable, or its network is another one.
    pub(crate) fn topology_changed(&mut self) {
        self.topology = None;
        self.ready_routers.clear();
        self.announceability_by_pool = None;
    }

    /// A pool or a virtual router did.
    pub(crate) fn ready_routers_changed(&mut self) {
        self.ready_routers.clear();
    }

    /// Nodes and their segments.
    pub(crate) fn topology(&mut self, stores: &Stores) -> Arc<Topology> {
        let topology = self.topology.get_or_insert_with(|| {
            let nodes = stores.nodes.list().iter().map(|node| (node.name_any(), is_stable(node))).collect();
            Arc::new(Topology::new(nodes, stores.networks.iter().cloned().collect()))
        });
        Arc::clone(topology)
    }

    /// What of each of the pools can be announced: worked out anew only if they changed, or the topology.
    pub(crate) fn announceability_by_pool(
        &mut self,
        stores: &Stores,
        reviewed: &Arc<[ReviewedPool]>,
    ) -> Arc<AnnounceabilityByPool> {
        let topology = self.topology(stores);
        let known =
            self.announceability_by_pool.take().filter(|(of, _)| Arc::ptr_eq(of, reviewed) || of == reviewed);
        let (_, announceability_by_pool) = self.announceability_by_pool.insert(known.unwrap_or_else(|| {
            let of_pool =
                |one: &ReviewedPool| (one.pool.name.clone(), announceability(one, topology.segments()));
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
