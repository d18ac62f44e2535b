//! Which virtual router carries which VIP, and which nodes elect its owner. Pure: the same input gives the same plan, and
//! a plan made from its own result is that result.
//!
//! - A segment is an IPv4 subnet that nodes have an interface in; its candidates are those nodes.
//! - A VIP goes to a segment that holds its address (or to the interface its pool names), there to the virtual router
//!   with the fewest VIPs, and stays for as long as that router has candidates.
//! - A segment gets another router while every one it has carries a VIP and there are fewer of them than healthy nodes.
//! - A router's ranking is decided when it is made; see [`ranking`]. A router without VIPs is removed.

mod ranking;
mod segment;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use kube::ResourceExt as _;
use windlass_api::{
    DEFAULT_ADVERTISEMENT_INTERVAL_MS, NodeNetwork, RankedNode, VirtualIP, VirtualRouter, VirtualRouterSpec,
};

use segment::{Candidate, Segments};

/// First VRID tried: low ones are what keepalived examples and routers use.
const FIRST_VRID: u8 = 64;

/// What a plan needs to know of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolPlan {
    pub(crate) interface: Option<String>,
    pub(crate) interval_ms: u32,
}

impl Default for PoolPlan {
    /// For a pool that is gone.
    fn default() -> Self {
        Self { interface: None, interval_ms: DEFAULT_ADVERTISEMENT_INTERVAL_MS }
    }
}

/// The cluster, as far as it matters here.
#[derive(Debug, Clone, Default)]
pub(crate) struct Input {
    /// Pools by name.
    pub(crate) pools: BTreeMap<String, PoolPlan>,
    pub(crate) vips: Vec<Arc<VirtualIP>>,
    pub(crate) routers: Vec<Arc<VirtualRouter>>,
    pub(crate) networks: Vec<Arc<NodeNetwork>>,
    /// Nodes by name, and whether they are in the stable node set (service-contract S-24): the others rank below.
    pub(crate) nodes: BTreeMap<String, bool>,
}

/// Why no virtual router carries a VIP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unplaced {
    /// IPv6.
    Family(IpAddr),
    /// No node's subnet holds the address.
    NoSegment { address: Ipv4Addr, pool: String },
    /// No node has the interface that the pool names.
    NoInterface { interface: String, pool: String },
    /// Every VRID is in use on the segment.
    NoVrid { segment: String },
}

impl Unplaced {
    /// Reason for a condition.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Family(_) => "FamilyNotAnnounced",
            Self::NoSegment { .. } => "NoSegment",
            Self::NoInterface { .. } => "NoInterface",
            Self::NoVrid { .. } => "NoVRID",
        }
    }
}

impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Family(address) => {
                write!(f, "{address} is not announced: this version announces IPv4 only")
            }
            Self::NoSegment { address, pool } => write!(
                f,
                "{address} is in no subnet of any node with a Windlass agent: give pool {pool:?} addresses of the \
                 nodes' subnet, or name the interface in its spec.interface"
            ),
            Self::NoInterface { interface, pool } => write!(
                f,
                "no node with a Windlass agent has an IPv4 subnet on interface {interface:?}, which pool {pool:?} \
                 names: correct its spec.interface"
            ),
            Self::NoVrid { segment } => write!(
                f,
                "all 255 VRIDs are in use on segment {segment}: free one, or use addresses of another segment"
            ),
        }
    }
}

/// What the cluster should look like.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Plan {
    /// Every virtual router that is to be, by name.
    pub(crate) routers: BTreeMap<String, VirtualRouterSpec>,
    /// Virtual router of each VIP that has one, by the VIP's name.
    pub(crate) carriers: BTreeMap<String, String>,
    /// The other VIPs, by name.
    pub(crate) unplaced: BTreeMap<String, Unplaced>,
}

/// A router while the plan is made.
struct Work {
    spec: VirtualRouterSpec,
    /// Interface that its VIPs' pools name, if any.
    interface: Option<String>,
    interval_ms: Option<u32>,
    vips: usize,
}

/// Makes the plan.
pub(crate) fn plan(input: &Input) -> Plan {
    Planner::new(input).run()
}

struct Planner<'a> {
    input: &'a Input,
    segments: Segments,
    routers: BTreeMap<String, Work>,
}

impl<'a> Planner<'a> {
    fn new(input: &'a Input) -> Self {
        let routers = distinct(&input.routers);
        let work = |router: &Arc<VirtualRouter>| Work {
            spec: router.spec.clone(),
            interface: None,
            interval_ms: None,
            vips: 0,
        };
        Self {
            input,
            segments: Segments::new(&input.networks, &input.nodes),
            routers: routers.into_iter().map(|router| (router.name_any(), work(router))).collect(),
        }
    }

    fn run(mut self) -> Plan {
        let mut plan = Plan::default();
        let mut vips: Vec<&Arc<VirtualIP>> =
            self.input.vips.iter().filter(|vip| vip.metadata.deletion_timestamp.is_none()).collect();
        // Oldest first, as they came.
        vips.sort_by_cached_key(|vip| {
            (vip.metadata.creation_timestamp.as_ref().map(|time| time.0), vip.spec.address)
        });
        let mut homeless = Vec::new();
        for vip in vips {
            let pool = self.input.pools.get(&vip.spec.pool).cloned().unwrap_or_default();
            match vip.spec.virtual_router.as_ref().filter(|router| self.stays(vip, &pool, router)) {
                Some(router) => self.put(vip, &pool, router.clone(), &mut plan),
                None => homeless.push((vip, pool)),
            }
        }
        for (vip, pool) in homeless {
            match self.place(vip, &pool) {
                Ok(router) => self.put(vip, &pool, router, &mut plan),
                Err(why) => drop(plan.unplaced.insert(vip.name_any(), why)),
            }
        }
        self.routers.retain(|_, router| router.vips > 0);
        for router in self.routers.values_mut() {
            router.spec.advertisement_interval_milliseconds =
                router.interval_ms.unwrap_or(router.spec.advertisement_interval_milliseconds);
            let segment = self.segments.candidates(&router.spec.segment, router.interface.as_deref());
            let nodes = ranking::refreshed(&router.spec, &segment, &self.segments, &self.input.nodes);
            // With nobody left, the last list stands: an empty one would take the VIPs away for certain.
            if !nodes.is_empty() {
                router.spec.nodes = nodes;
            }
        }
        plan.routers = self.routers.into_iter().map(|(name, router)| (name, router.spec)).collect();
        plan
    }

    /// A VIP stays while its router has a candidate, or no other segment would take it.
    fn stays(&self, vip: &VirtualIP, pool: &PoolPlan, router: &str) -> bool {
        let Some(router) = self.routers.get(router) else { return false };
        !self.segments.candidates(&router.spec.segment, pool.interface.as_deref()).is_empty()
            || self.segment(vip, pool).is_err()
    }

    fn put(&mut self, vip: &VirtualIP, pool: &PoolPlan, router: String, plan: &mut Plan) {
        if let Some(work) = self.routers.get_mut(&router) {
            work.vips += 1;
            if work.interface.is_none() {
                work.interface.clone_from(&pool.interface);
            }
            // The fastest of its pools, should an admin change one of them. A pool that is gone has no say.
            if let Some(known) = self.input.pools.get(&vip.spec.pool) {
                work.interval_ms =
                    Some(work.interval_ms.map_or(known.interval_ms, |old| old.min(known.interval_ms)));
            }
        }
        plan.carriers.insert(vip.name_any(), router);
    }

    /// The segment for a VIP without one, with its candidates.
    fn segment(&self, vip: &VirtualIP, pool: &PoolPlan) -> Result<(String, Vec<Candidate>), Unplaced> {
        let IpAddr::V4(address) = vip.spec.address else { return Err(Unplaced::Family(vip.spec.address)) };
        self.segments.find(address, pool.interface.as_deref()).ok_or_else(|| {
            let pool_name = vip.spec.pool.clone();
            match &pool.interface {
                Some(interface) => Unplaced::NoInterface { interface: interface.clone(), pool: pool_name },
                None => Unplaced::NoSegment { address, pool: pool_name },
            }
        })
    }

    /// The router for a VIP without one; made if need be.
    fn place(&mut self, vip: &VirtualIP, pool: &PoolPlan) -> Result<String, Unplaced> {
        let (segment, candidates) = self.segment(vip, pool)?;
        let interfaces: BTreeMap<&str, &str> =
            candidates.iter().map(|one| (one.node.as_str(), one.interface.as_str())).collect();
        let fits = |router: &Work| {
            let same = |node: &RankedNode| {
                interfaces.get(node.name.as_str()).is_none_or(|interface| *interface == node.interface)
            };
            router.spec.segment == segment
                && router.interval_ms.unwrap_or(router.spec.advertisement_interval_milliseconds)
                    == pool.interval_ms
                && router.spec.nodes.iter().all(same)
        };
        let least = self
            .routers
            .iter()
            .filter(|(_, router)| fits(router))
            .min_by_key(|(name, router)| (router.vips, (*name).clone()))
            .map(|(name, router)| (name.clone(), router.vips));
        let wanted = candidates.iter().filter(|one| one.healthy).count().max(1);
        let count = self.routers.values().filter(|router| fits(router) && router.vips > 0).count();
        match least {
            Some((name, vips)) if vips == 0 || count >= wanted => Ok(name),
            Some((name, _)) => Ok(self.add(&segment, &candidates, pool).unwrap_or(name)),
            None => self.add(&segment, &candidates, pool).ok_or(Unplaced::NoVrid { segment }),
        }
    }

    /// Makes a router, if the segment has a VRID left.
    fn add(&mut self, segment: &str, candidates: &[Candidate], pool: &PoolPlan) -> Option<String> {
        let vrid = self.free_vrid(segment, candidates)?;
        let others: Vec<&VirtualRouterSpec> = self
            .routers
            .values()
            .filter(|router| router.vips > 0 && router.spec.segment == segment)
            .map(|router| &router.spec)
            .collect();
        let spec = VirtualRouterSpec {
            vrid,
            segment: segment.to_owned(),
            advertisement_interval_milliseconds: pool.interval_ms,
            nodes: ranking::new(vrid, candidates, &others),
        };
        let name = format!("v4-{}-{vrid}", segment.replace('/', "-"));
        let work =
            Work { spec, interface: pool.interface.clone(), interval_ms: Some(pool.interval_ms), vips: 0 };
        self.routers.insert(name.clone(), work);
        Some(name)
    }

    /// The lowest VRID from 64 on, then from 1, that no router of ours and no stranger uses on the same links.
    fn free_vrid(&self, segment: &str, candidates: &[Candidate]) -> Option<u8> {
        let links: BTreeSet<(&str, &str)> =
            candidates.iter().map(|one| (one.node.as_str(), one.interface.as_str())).collect();
        let mut used = BTreeSet::new();
        for Work { spec, .. } in self.routers.values() {
            let shares =
                spec.nodes.iter().any(|node| links.contains(&(node.name.as_str(), node.interface.as_str())));
            if shares || spec.segment == segment {
                used.insert(spec.vrid);
            }
        }
        for network in &self.input.networks {
            let node = network.name_any();
            let heard = network.spec.foreign_routers.iter();
            used.extend(
                heard
                    .filter(|router| links.contains(&(node.as_str(), router.interface.as_str())))
                    .map(|router| router.vrid),
            );
        }
        (FIRST_VRID..=u8::MAX).chain(1..FIRST_VRID).find(|vrid| !used.contains(vrid))
    }
}

/// The routers that count. Of several with one VRID on one segment, which only hands make, agents take part in the oldest
/// only; the VIPs of the others are placed anew.
fn distinct(routers: &[Arc<VirtualRouter>]) -> Vec<&Arc<VirtualRouter>> {
    let mut by_age: Vec<_> =
        routers.iter().filter(|router| router.metadata.deletion_timestamp.is_none()).collect();
    by_age.sort_by_cached_key(|router| {
        (router.metadata.creation_timestamp.as_ref().map(|time| time.0), router.name_any())
    });
    let mut seen = BTreeSet::new();
    by_age.retain(|router| seen.insert((router.spec.segment.as_str(), router.spec.vrid)));
    by_age
}

#[cfg(test)]
mod tests;
