//! Computes the virtual routers that this node takes part in from the cluster's objects. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use kube::ResourceExt as _;
use windlass_api::{
    ANNOTATION_ALLOW_MOVE, ConnectionPolicy, KnownRouter, RankedNode, VirtualIP, VirtualRouter,
    virtual_ip_name,
};
use windlass_engine::RouterKey;
use windlass_vrrp::Family;

use super::addresses::Answered;
use super::restricted::{Restricted, restricted};
use super::sharing::{SharedAddress, Unshared, shared};

mod assignment;
#[cfg(test)]
mod tests;
mod withheld;

pub(crate) use self::assignment::{Assignment, Replica, TURNS};

/// Largest numbers of nodes with higher and with lower priorities that may receive the connections: the best of each.
const ABOVE: usize = 4;
const BELOW: usize = 8;

/// A part of the cluster's state that this node cannot apply, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// The object, as `VirtualRouter v4-192.0.2.0-24-64`.
    pub(crate) object: String,
    pub(crate) reason: String,
}

impl From<&Unshared> for Problem {
    fn from(one: &Unshared) -> Self {
        let object = format!("VirtualIP {}", virtual_ip_name(one.address));
        Self { object, reason: format!("{} is not shared: {}", one.address, one.why) }
    }
}

/// Desired state of this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Desired {
    /// By interface, family and VRID; every one has at least one address and a valid [`Assignment::config`].
    pub(crate) assignments: Vec<Assignment>,
    /// Virtual IPs of the cluster that are restricted to some clients or some Services.
    pub(crate) restricted: Vec<Restricted>,
    /// Virtual IPs that this node serves together with others, by address.
    pub(crate) shared: Vec<Arc<SharedAddress>>,
    /// Virtual IPs that it cannot share, by address.
    pub(crate) unshared: Vec<Unshared>,
    /// Virtual IPs of this node's virtual routers that are not announced here.
    pub(crate) refused: Vec<Refused>,
    /// Parts that were left out.
    pub(crate) problems: Vec<Problem>,
    /// The keys for want of which virtual routers were left out.
    pub(crate) missing_keys: BTreeSet<u8>,
    /// This node's virtual routers that another node is joining: this node accepts its adverts from here on.
    pub(crate) known_routers: Vec<KnownRouter>,
}

/// A virtual IP that this node does not announce, because something else answers for it or nothing can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) address: IpAddr,
    pub(crate) reason: String,
    /// True if this node may report the refusal although it is not Active for the virtual router, which has no other address: no other node
    /// is Active, or all nodes report the same.
    pub(crate) alone: bool,
}

/// Returns the virtual routers that `node` takes part in, in the order of their interfaces, families and VRIDs.
///
/// A router without an address is left out: an advert names at least one (RFC 9568 §5.2.5). A VIP in quarantine is not announced: it
/// belongs to no Service, and may be given to another. Nor is an address in `answered`, for which the kernel of this node answers before
/// the engine could. An object that is being deleted counts until it is gone: the controller takes it out of service before, and any other
/// deletion may be a mistake.
pub(crate) fn desired<R, V>(node: &str, routers: &[R], vips: &[V], answered: &Answered) -> Desired
where
    R: AsRef<VirtualRouter>,
    V: AsRef<VirtualIP>,
{
    let mut by_router: HashMap<&str, Vec<&VirtualIP>> = HashMap::new();
    let wanted = || vips.iter().map(AsRef::as_ref).filter(|vip| is_wanted(vip));
    for vip in wanted() {
        if let Some(router) = &vip.spec.virtual_router {
            by_router.entry(router).or_default().push(vip);
        }
    }

    let mut routers: Vec<&VirtualRouter> = routers.iter().map(AsRef::as_ref).collect();
    let (shared, unshared) = shared(node, &routers, wanted(), answered);
    let mut problems: Vec<_> = unshared.iter().map(Problem::from).collect();
    let mut all_refused = Vec::new();
    let is_shared = |address: &IpAddr| shared.binary_search_by_key(address, |one| one.address).is_ok();
    // The oldest keeps its VRID, on every node alike: one that is made later takes nothing from those that work.
    routers.sort_by_key(|router| {
        (router.metadata.creation_timestamp.as_ref().map(|time| time.0), router.metadata.name.as_deref())
    });
    let mut assignments: BTreeMap<RouterKey, Assignment> = BTreeMap::new();
    let mut known_routers = Vec::new();
    for router in routers {
        let name = router.name_any();
        let Some(own) = router.spec.nodes.iter().find(|candidate| candidate.name == node) else { continue };
        if router.spec.nodes.iter().any(|candidate| candidate.joining && candidate.name != node) {
            let generation = router.metadata.generation.unwrap_or_default();
            known_routers.push(KnownRouter { name: name.clone(), generation });
        }
        let object = format!("VirtualRouter {name}");
        let source = source(own, answered);
        let candidates: BTreeSet<IpAddr> =
            router.spec.nodes.iter().map(|candidate| candidate.address).collect();
        let (mut addresses, mut unproven, mut forced) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut ports = BTreeSet::new();
        let mut refused: Vec<(IpAddr, Refusal)> = Vec::new();
        for vip in by_router.get(name.as_str()).into_iter().flatten() {
            let address = vip.spec.address;
            let checked = announceable(address, source, &candidates)
                .and_then(|()| not_answered(node, address, answered));
            match checked {
                Ok(()) => {
                    addresses.insert(address);
                    // A node without an endpoint directs the packets of a shared address as well as any other.
                    if !is_shared(&address) {
                        ports.extend(&vip.spec.health_check_node_ports);
                    }
                    if !vip.is_announced() {
                        unproven.insert(address);
                    }
                    if is_forced(vip) {
                        forced.insert(address);
                    }
                }
                Err(refusal) => {
                    let (object, reason) = (format!("VirtualIP {}", vip.name_any()), refusal.reason.clone());
                    problems.push(Problem { object, reason });
                    refused.push((address, refusal));
                }
            }
        }
        let nobody_else = candidates.len() < 2;
        all_refused.extend(refused.into_iter().map(|(address, Refusal { reason, alike })| Refused {
            address,
            reason,
            alone: addresses.is_empty() && (alike || nobody_else),
        }));
        if addresses.is_empty() {
            continue;
        }
        let mut before: Vec<_> =
            router.spec.nodes.iter().filter(|candidate| candidate.priority > own.priority).collect();
        before.sort_by_key(|candidate| Reverse(candidate.priority));
        let preferred = before.iter().take(TURNS).map(|candidate| candidate.address);
        let others = router.spec.nodes.iter().filter(|candidate| candidate.name != node);
        let known = others.flat_map(RankedNode::addresses);
        let assignment = Assignment {
            virtual_router: name,
            interface: own.interface.clone(),
            vrid: router.spec.vrid,
            priority: own.priority,
            interval_milliseconds: router.spec.advertisement_interval_milliseconds,
            source,
            peers: known.filter(|address| is_peer(*address, source)).collect(),
            addresses,
            unproven,
            forced,
            preferred: preferred.filter(|address| is_peer(*address, source)).collect(),
            before: u8::try_from(before.len()).unwrap_or(u8::MAX),
            health_check_node_ports: ports,
            preempt_delay_seconds: router.spec.preempt_delay_seconds,
            transport: router.spec.transport,
            unicast_fallback: router.spec.unicast_fallback,
            virtual_mac: router.spec.virtual_mac,
            key_id: router.spec.authentication.map(|authentication| authentication.key_id),
            checks: router.spec.checks.iter().cloned().collect(),
            address_conflict: router.spec.address_conflict,
            connections: router.spec.connections,
            external_traffic_policy: router.spec.external_traffic_policy,
            replicas: match router.spec.connections {
                ConnectionPolicy::Replicate => replicas(node, source, &router.spec.nodes),
                ConnectionPolicy::Forward | ConnectionPolicy::None => Vec::new(),
            },
        };
        let key = match assignment.config() {
            Ok(config) => config.key(),
            Err(reason) => {
                problems.push(Problem { object, reason });
                continue;
            }
        };
        if let Some(other) = assignments.get(&key) {
            let reason = format!(
                "VRID {} on {} is already that of VirtualRouter {}: one of the two needs another VRID",
                assignment.vrid, assignment.interface, other.virtual_router
            );
            problems.push(Problem { object, reason });
            continue;
        }
        assignments.insert(key, assignment);
    }
    problems.sort();
    known_routers.sort();
    all_refused.sort_by_key(|one| one.address);
    Desired {
        assignments: assignments.into_values().collect(),
        restricted: restricted(vips),
        shared,
        unshared,
        refused: all_refused,
        problems,
        missing_keys: BTreeSet::new(),
        known_routers,
    }
}

/// Returns true if a Service has the VIP.
pub(crate) fn is_wanted(vip: &VirtualIP) -> bool {
    vip.spec.quarantine.is_none()
}

/// Returns true if the VIP is announced even if another host has it.
pub(crate) fn is_forced(vip: &VirtualIP) -> bool {
    !vip.spec.on_address_in_use.refuses()
}

/// Returns true if `node` may announce an address in a virtual router with these candidates, its own adverts coming from `source`.
pub(crate) fn is_announceable(
    node: &str,
    address: IpAddr,
    source: IpAddr,
    candidates: &BTreeSet<IpAddr>,
    answered: &Answered,
) -> bool {
    announceable(address, source, candidates).and_then(|()| not_answered(node, address, answered)).is_ok()
}

/// Returns the source of this node's adverts: the address that its peers know until now, if the node has that and not the new one.
fn source(own: &RankedNode, answered: &Answered) -> IpAddr {
    let has = |address: &IpAddr| answered.own.contains_key(address);
    own.former_address.filter(|former| has(former) && !has(&own.address)).unwrap_or(own.address)
}

/// Returns the other nodes that may receive the connections of `node`, the best first: the ones that would take an address from it, and the
/// ones that would take over when it dies.
fn replicas(node: &str, source: IpAddr, nodes: &[RankedNode]) -> Vec<Replica> {
    let own = nodes.iter().find(|candidate| candidate.name == node).map_or(0, |own| own.priority);
    let mut others: Vec<_> = nodes.iter().filter(|candidate| candidate.name != node).collect();
    others.sort_by_key(|candidate| Reverse(candidate.priority));
    let replica = |candidate: &RankedNode| Replica {
        node: candidate.name.clone(),
        addresses: candidate.addresses().filter(|address| is_peer(*address, source)).collect(),
        ranks_above: candidate.priority > own,
    };
    let replicas = others.into_iter().map(replica).filter(|one| !one.addresses.is_empty());
    let (above, below): (Vec<Replica>, Vec<Replica>) = replicas.partition(|one| one.ranks_above);
    above.into_iter().take(ABOVE).chain(below.into_iter().take(BELOW)).collect()
}

/// Returns true if another candidate's adverts come from this address and can reach this node.
fn is_peer(address: IpAddr, source: IpAddr) -> bool {
    address != source && Family::of(address) == Family::of(source)
}

/// Reason why an address is not announced.
struct Refusal {
    reason: String,
    /// True if every node has the same reason, in the same words.
    alike: bool,
}

/// Refuses addresses that would harm the segment: a node's own address, or one that no host can have.
fn announceable(address: IpAddr, source: IpAddr, candidates: &BTreeSet<IpAddr>) -> Result<(), Refusal> {
    if Family::of(address) != Family::of(source) {
        let reason = format!(
            "{address} is of another family than its virtual router, whose adverts come from {source}: \
             remove its spec.virtualRouter"
        );
        return Err(Refusal { reason, alike: false });
    }
    let nobodys = match address {
        IpAddr::V4(address) => address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    if nobodys || address.is_unspecified() || address.is_loopback() || address.is_multicast() {
        let reason = format!("{address} cannot be the address of a host on the LAN: remove it from the pool");
        return Err(Refusal { reason, alike: true });
    }
    if candidates.contains(&address) {
        let reason = format!(
            "{address} is a node's own address: take it out of the pool. If that node has no other, serve \
             its pods by hostPort or NodePort"
        );
        return Err(Refusal { reason, alike: true });
    }
    Ok(())
}

/// Refuses addresses that the kernel of `node` answers for: two would answer, and neither would know of the other.
fn not_answered(node: &str, address: IpAddr, answered: &Answered) -> Result<(), Refusal> {
    if let Some(subnet) = answered.anycast.get(&address) {
        let reason = format!(
            "{address} is the subnet-router anycast address of {subnet} (RFC 4291 §2.6.1), which the kernel \
             of every node answers for: exclude it from the pool, and let its Services move with the \
             annotation {ANNOTATION_ALLOW_MOVE}"
        );
        return Err(Refusal { reason, alike: true });
    }
    if let Some(interface) = answered.own.get(&address) {
        let reason = format!(
            "{address} is an address of node {node} itself, on {interface}, whose kernel answers for it: \
             take it off there, or take it out of the pool. If node {node} has no other, serve its pods by \
             hostPort or NodePort"
        );
        return Err(Refusal { reason, alike: false });
    }
    Ok(())
}
