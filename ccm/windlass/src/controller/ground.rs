//! What plans are made on, worked out once for each state it has, and what it offers to VIPs that are being made.

use std::collections::HashMap;
use std::sync::Arc;

use kube::ResourceExt as _;
use windlass_ccm::service::is_stable;

use super::plan::{Kind, Land, Offer};
use super::state::World;

/// The land, and the offers it makes together with pools and virtual routers. What changes is to be told.
#[derive(Debug, Default)]
pub(crate) struct Ground {
    land: Option<Arc<Land>>,
    offers: HashMap<Kind, Offer>,
}

impl Ground {
    /// A node came, went, became stable or unstable, or its network is another one.
    pub(crate) fn land_changed(&mut self) {
        self.land = None;
        self.offers.clear();
    }

    /// A pool or a virtual router did.
    pub(crate) fn offers_changed(&mut self) {
        self.offers.clear();
    }

    /// Nodes and their segments.
    pub(crate) fn land(&mut self, world: &World) -> Arc<Land> {
        let land = self.land.get_or_insert_with(|| {
            let nodes = world.nodes.iter().map(|node| (node.name_any(), is_stable(node))).collect();
            Arc::new(Land::new(nodes, world.networks.iter().cloned().collect()))
        });
        Arc::clone(land)
    }

    /// The offer to VIPs of this kind, `made` if it is not known.
    pub(crate) fn offer(&mut self, kind: Kind, made: impl FnOnce() -> Offer) -> &Offer {
        self.offers.entry(kind).or_insert_with(made)
    }
}
