//! What plans are made on, worked out once for each state it has, and what it offers to VIPs that are being made.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kube::ResourceExt as _;
use windlass_ccm::service::is_stable;

use super::plan::{Kind, Land, Offer};
use crate::controller::allocation::pools::{Reach, Reviewed, reach};
use crate::controller::stores::Stores;

/// The land, and the offers it makes together with pools and virtual routers. What changes is to be told.
#[derive(Debug, Default)]
pub(crate) struct Ground {
    land: Option<Arc<Land>>,
    offers: HashMap<Kind, Offer>,
    /// What of the pools can be announced, and the pools that it was worked out for.
    reaches: Option<(Arc<[Reviewed]>, Arc<Reaches>)>,
}

/// What of each pool can be announced, by the pools' names.
pub(crate) type Reaches = BTreeMap<String, Reach>;

impl Ground {
    /// A node came, went, became stable or unstable, or its network is another one.
    pub(crate) fn land_changed(&mut self) {
        self.land = None;
        self.offers.clear();
        self.reaches = None;
    }

    /// A pool or a virtual router did.
    pub(crate) fn offers_changed(&mut self) {
        self.offers.clear();
    }

    /// Nodes and their segments.
    pub(crate) fn land(&mut self, stores: &Stores) -> Arc<Land> {
        let land = self.land.get_or_insert_with(|| {
            let nodes = stores.nodes.iter().map(|node| (node.name_any(), is_stable(node))).collect();
            Arc::new(Land::new(nodes, stores.networks.iter().cloned().collect()))
        });
        Arc::clone(land)
    }

    /// What of each of the pools can be announced: worked out anew only if they changed, or the land.
    pub(crate) fn reaches(&mut self, stores: &Stores, reviewed: &Arc<[Reviewed]>) -> Arc<Reaches> {
        let land = self.land(stores);
        let known = self.reaches.take().filter(|(of, _)| Arc::ptr_eq(of, reviewed) || of == reviewed);
        let (_, reaches) = self.reaches.insert(known.unwrap_or_else(|| {
            let of_pool = |one: &Reviewed| (one.pool.name.clone(), reach(one, land.segments()));
            (Arc::clone(reviewed), Arc::new(reviewed.iter().map(of_pool).collect()))
        }));
        Arc::clone(reaches)
    }

    /// The offer to VIPs of this kind, `made` if it is not known.
    pub(crate) fn offer(&mut self, kind: Kind, made: impl FnOnce() -> Offer) -> &Offer {
        self.offers.entry(kind).or_insert_with(made)
    }
}
