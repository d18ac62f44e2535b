//! What a plan is made with.

use std::collections::BTreeMap;

use ipnet::IpNet;
use windlass_api::VirtualRouterSpec;

use super::segment::Candidate;

/// A router while the plan is made.
pub(super) struct Work {
    pub(super) spec: VirtualRouterSpec,
    /// Its `spec.segment`, unless hands wrote something else there.
    pub(super) segment: Option<IpNet>,
    /// Interface that its VIPs' pools name, if any.
    pub(super) interface: Option<String>,
    pub(super) interval_ms: Option<u32>,
    pub(super) vips: usize,
}

impl Work {
    pub(super) fn new(spec: VirtualRouterSpec) -> Self {
        let segment = spec.segment.parse().ok();
        Self { spec, segment, interface: None, interval_ms: None, vips: 0 }
    }

    pub(super) fn interval_ms(&self) -> u32 {
        self.interval_ms.unwrap_or(self.spec.advertisement_interval_milliseconds)
    }

    /// Who is first in its ranking.
    pub(super) fn first(&self) -> Option<&str> {
        self.spec.nodes.first().map(|node| node.name.as_str())
    }

    /// Who is first of those that are healthy now.
    pub(super) fn first_healthy(&self, nodes: &BTreeMap<String, bool>) -> Option<&str> {
        let healthy = self.spec.nodes.iter().find(|node| nodes.get(&node.name) == Some(&true));
        healthy.map_or_else(|| self.first(), |node| Some(&node.name))
    }
}

/// Where VIPs of one kind can go.
pub(super) struct Venue {
    pub(super) segment: IpNet,
    pub(super) candidates: Vec<Candidate>,
    /// Names of the routers that fit.
    pub(super) routers: Vec<String>,
}

impl Venue {
    /// Of these candidates and these routers, for pools with this interval.
    pub(super) fn new(
        segment: IpNet,
        candidates: Vec<Candidate>,
        interval_ms: u32,
        routers: &BTreeMap<String, Work>,
    ) -> Self {
        let interfaces: BTreeMap<&str, &str> =
            candidates.iter().map(|one| (one.node.as_str(), one.interface.as_str())).collect();
        let fits = |router: &Work| {
            router.segment == Some(segment)
                && router.interval_ms() == interval_ms
                && router.spec.nodes.iter().all(|node| {
                    interfaces.get(node.name.as_str()).is_none_or(|interface| *interface == node.interface)
                })
        };
        let routers = routers.iter().filter(|(_, router)| fits(router));
        let routers = routers.map(|(name, _)| name.clone()).collect();
        Self { segment, candidates, routers }
    }
}

/// What a VIP is given.
pub(super) enum Choice {
    /// A router that was there.
    Router(String),
    /// A new one.
    Made(String),
    /// There is none, and none can be made.
    NoVrid,
}

/// Name of a router: `v4-192.0.2.0-24-64`, `v6-2001-db8---64-64`.
pub(super) fn router_name(segment: IpNet, vrid: u8) -> String {
    let family = if segment.addr().is_ipv4() { "v4" } else { "v6" };
    format!("{family}-{}-{vrid}", segment.to_string().replace(['/', ':'], "-"))
}
