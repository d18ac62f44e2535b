//! Announced VIPs that clients do not reach all the same.

use std::collections::BTreeMap;
use std::net::IpAddr;

use windlass_api::{VirtualIP, VirtualRouterSpec, address_allocated};

use super::{PlacementPlan, PlanInput, local};

/// Reason that clients do not reach an announced VIP, for the condition of its Services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flaw {
    /// One of [`address_allocated`].
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl PlacementPlan<'_> {
    /// The flaws of the VIPs that are to be announced.
    pub(crate) fn flaws(&self, input: &PlanInput) -> BTreeMap<IpAddr, Flaw> {
        let flaw = |vip: &VirtualIP| {
            let name = vip.metadata.name.as_ref()?;
            let router = self.routers.get(self.routers_by_vip.get(name)?)?;
            let is_stranded = self.without_candidates.contains_key(name);
            let stranded = is_stranded.then(|| out_of_subnets(vip, router, input)).flatten();
            let is_shared = self.shared_loads.contains_key(&vip.spec.address);
            stranded.or_else(|| (!is_shared).then(|| without_endpoint(vip, router, input)).flatten())
        };
        let wanted = input.wanted_vips();
        wanted.filter_map(|vip| Some((vip.spec.address, flaw(vip)?))).collect()
    }
}

/// Returns the flaw of a VIP in no subnet of any node while its virtual router continues, as after another IPv6 prefix: adverts for
/// IPv6 come from link-local addresses, which stay. `None` also while none of the router's nodes reports: they may have the subnet.
fn out_of_subnets(vip: &VirtualIP, router: &VirtualRouterSpec, input: &PlanInput) -> Option<Flaw> {
    let address = vip.spec.address;
    let everywhere = input.topology.segments(input.announcements.get_or_none(None));
    let is_known = router.nodes.iter().any(|node| everywhere.is_known(&node.name));
    (is_known && everywhere.find(address).is_none()).then(|| Flaw {
        reason: address_allocated::SUBNET_GONE,
        message: format!(
            "{address} is announced, but no node has a subnet that holds it any more, so that a router may send its packets elsewhere: if \
             the network has another prefix now, list addresses of that in pool {:?} in place of the old ones, and set its \
             spec.onRemoval: Move",
            vip.spec.pool
        ),
    })
}

/// The flaw of a VIP of a Service with `externalTrafficPolicy: Local` whose pods are only on nodes that may not announce it.
fn without_endpoint(vip: &VirtualIP, router: &VirtualRouterSpec, input: &PlanInput) -> Option<Flaw> {
    let pods = input.serving.get(&vip.spec.address).filter(|nodes| !nodes.is_empty())?;
    let is_local = !vip.spec.external_traffic_policy.is_cluster();
    let can_serve = router.nodes.iter().any(|node| pods.contains_key(&node.name));
    (is_local && !can_serve).then(|| Flaw {
        reason: address_allocated::NO_LOCAL_ENDPOINT,
        message: local::without_endpoint(vip.spec.address, pods.keys(), &router.nodes),
    })
}
