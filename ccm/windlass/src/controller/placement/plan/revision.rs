//! What a plan has to change when some nodes changed and nothing else: rankings, and only of the virtual routers that these
//! nodes have to do with.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use ipnet::IpNet;
use windlass_api::{RankedNode, VirtualRouter};

use super::{GONE, PoolPlan, Topology, ranking};

/// A virtual router and the pools of the VIPs that it carries.
#[derive(Debug)]
pub(crate) struct CarriedPools<'a> {
    pub(crate) router: &'a Arc<VirtualRouter>,
    pub(crate) pools: Vec<&'a str>,
}

/// The rankings that change because `changed` did: nodes that came, went, became stable or unstable, or have other
/// addresses; and those of the virtual routers `rewritten`. The last plan was carried out, found a place for every VIP, was not [delicate](super::Plan::delicate), and
/// `carried_pools` is what the virtual routers carry since then, each at least one VIP. `None`: VIPs may have to move, and the
/// whole plan has to tell where.
pub(crate) fn revised<'a>(
    topology: &Topology,
    pools: &BTreeMap<String, PoolPlan>,
    carried_pools: impl IntoIterator<Item = CarriedPools<'a>>,
    changed: &BTreeSet<String>,
    rewritten: &BTreeSet<String>,
) -> Option<Vec<(&'a Arc<VirtualRouter>, Vec<RankedNode>)>> {
    let Topology { nodes, segments, networks: _ } = topology;
    let touched = segments.of_nodes(changed);
    let mut places: HashMap<(IpNet, Option<&str>), BTreeMap<_, _>> = HashMap::new();
    let mut rankings = Vec::new();
    for CarriedPools { router, pools: carried } in carried_pools {
        let segment: IpNet = router.spec.segment.parse().ok()?;
        let plans = carried.iter().map(|pool| pools.get(*pool).unwrap_or(&GONE));
        let mut interfaces = plans.map(|pool| pool.interface.as_deref());
        if !interfaces.clone().all(|interface| segments.has_candidates(segment, interface)) {
            return None;
        }
        let ranks = router.spec.nodes.iter().any(|node| changed.contains(&node.name));
        let is_rewritten = || router.metadata.name.as_ref().is_some_and(|name| rewritten.contains(name));
        if !ranks && !touched.contains(&segment) && !is_rewritten() {
            continue;
        }
        let interface = interfaces.find_map(|interface| interface);
        let candidates =
            places.entry((segment, interface)).or_insert_with(|| segments.by_node(segment, interface));
        if let Some(ranking) = ranking::refreshed(&router.spec, candidates, segments, nodes) {
            rankings.push((router, ranking));
        }
    }
    Some(rankings)
}
