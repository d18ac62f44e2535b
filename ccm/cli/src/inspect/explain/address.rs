//! The path to one address. Pure.

use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;
use serde::Serialize;
use windlass_api::{
    CONDITION_CONNECTIONS_REPLICATED, ConnectionPolicy, PortProtocol, Quarantine, RestrictedPort, VirtualIP,
    VirtualIPPool, VirtualRouter,
};
use windlass_ccm::conditions::find;
use windlass_common::listing::first_of;
use windlass_ipam::AddressRange;

use super::ranking::{Place, ranking};
use super::sharing::{Client, ClientStory, SharingStory};
use super::{Details, vip};
use crate::inspect::snapshot::Snapshot;

/// An address.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AddressStory {
    pub(super) address: IpAddr,
    /// Name of its VirtualIP; absent: it has none.
    pub(super) virtual_ip: Option<String>,
    /// The Services that have it, or had it last.
    pub(super) services: Vec<String>,
    pub(super) pool: Option<String>,
    /// Rule that makes it an address of that pool, or the reason why it is of none.
    pub(super) pool_says: String,
    pub(super) quarantine: Option<Quarantine>,
    pub(super) announcement: Option<String>,
    /// Its condition Announced.
    pub(super) announced: Option<Condition>,
    /// The node that announces it.
    pub(super) active_node: Option<String>,
    pub(super) router: Option<RouterStory>,
    /// Another host that uses it, too.
    pub(super) conflict: Option<String>,
    /// Other hosts with the address, as agents saw them.
    pub(super) hosts: Vec<String>,
    pub(super) guard: Vec<String>,
    /// Effect of a move on established connections.
    pub(super) connections: String,
    pub(super) traffic_policy: String,
    /// Absent: it is not shared, and should not be.
    pub(super) sharing: Option<SharingStory>,
    /// The node of the client that was asked for.
    pub(super) client: Option<ClientStory>,
}

/// The virtual router that carries it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RouterStory {
    pub(super) name: String,
    pub(super) vrid: u8,
    pub(super) segment: String,
    pub(super) advertisement_interval_milliseconds: u32,
    pub(super) active_node: Option<String>,
    pub(super) active_since: Option<Time>,
    pub(super) moves: i64,
    /// The nodes, that which is to have it first, and why each has its place.
    pub(super) ranking: Vec<Place>,
    /// Reason why the node that has it is not the first of them, if it is not.
    pub(super) not_the_first: Option<String>,
    /// Hosts that are not of this cluster and use its VRID on its segment.
    pub(super) strangers: Vec<String>,
}

impl AddressStory {
    pub(super) fn of(
        address: IpAddr,
        client: Option<Client>,
        snapshot: &Snapshot,
        details: &Details,
    ) -> Self {
        let vip = vip(snapshot, address);
        let holding = snapshot.pools.objects.iter().find(|pool| holds(pool, address));
        let router =
            vip.and_then(|vip| Snapshot::named(&snapshot.routers, vip.spec.virtual_router.as_deref()?));
        let hosts = snapshot.networks.objects.iter().flat_map(|network| {
            let of_this = network.spec.duplicates.iter().filter(move |seen| seen.address == address);
            of_this.map(|seen| {
                format!("{} on {}, as node {} saw it", seen.mac, seen.interface, network.name_any())
            })
        });
        Self {
            address,
            virtual_ip: vip.map(ResourceExt::name_any),
            services: vip.iter().flat_map(|vip| &vip.spec.owners).map(ToString::to_string).collect(),
            pool: vip.map(|vip| vip.spec.pool.clone()).or_else(|| holding.map(ResourceExt::name_any)),
            pool_says: pool_says(vip, holding),
            quarantine: vip.and_then(|vip| vip.spec.quarantine.clone()),
            announcement: vip.and_then(|vip| vip.spec.announcement.clone()),
            announced: vip.and_then(|vip| vip.announced()).cloned(),
            active_node: vip
                .filter(|vip| vip.is_announced())
                .and_then(|vip| vip.active_node().map(str::to_owned)),
            router: router.zip(vip).map(|(router, vip)| RouterStory::of(router, vip, snapshot, details)),
            conflict: vip.and_then(|vip| vip.conflict()).map(|one| one.message.clone()),
            hosts: hosts.collect(),
            guard: vip.map_or_else(Vec::new, guard),
            connections: connections(vip, router),
            traffic_policy: vip
                .map(|vip| format!("{:?}", vip.spec.external_traffic_policy))
                .unwrap_or_default(),
            sharing: vip.and_then(SharingStory::of),
            client: vip.zip(client).and_then(|(vip, client)| ClientStory::of(vip, client)),
        }
    }

    /// Returns true if the address is in no pool and has no VirtualIP.
    pub(super) fn is_unknown(&self) -> bool {
        self.virtual_ip.is_none() && self.pool.is_none()
    }
}

/// Returns true if a pool lists an address and does not exclude it.
fn holds(pool: &VirtualIPPool, address: IpAddr) -> bool {
    let within = |ranges: &[String]| {
        ranges.iter().any(|range| range.parse::<AddressRange>().is_ok_and(|range| range.contains(address)))
    };
    within(&pool.spec.addresses) && !within(&pool.spec.exclude)
}

fn pool_says(vip: Option<&VirtualIP>, holding: Option<&VirtualIPPool>) -> String {
    match (vip, holding) {
        (Some(vip), Some(pool)) if vip.spec.pool == pool.name_any() => {
            format!("pool {} lists it", vip.spec.pool)
        }
        (Some(vip), Some(pool)) => {
            format!(
                "pool {} gave it, and pool {} lists it now: it stays with its Services",
                vip.spec.pool,
                pool.name_any()
            )
        }
        (Some(vip), None) => {
            format!(
                "pool {} gave it, and no pool lists it any more: it stays with its Services",
                vip.spec.pool
            )
        }
        (None, Some(pool)) => {
            let name = pool.name_any();
            let for_whom = if pool.spec.disabled {
                "which gives nothing new (disabled: true)"
            } else if pool.spec.auto_assign {
                "which gives it to a Service that asks, unless its status has a reason against it"
            } else {
                "which gives it to a Service that names the pool or the address"
            };
            format!("no Service has it: it is in pool {name}, {for_whom}")
        }
        (None, None) => "it is in no pool".to_owned(),
    }
}

impl RouterStory {
    fn of(router: &VirtualRouter, vip: &VirtualIP, snapshot: &Snapshot, details: &Details) -> Self {
        let status = router.status.clone().unwrap_or_default();
        let ranking = ranking(router, vip, snapshot, details);
        let strangers = snapshot.networks.objects.iter().flat_map(|network| {
            let node = network.name_any();
            let interface =
                router.spec.nodes.iter().find(|one| one.name == node).map(|one| one.interface.clone());
            let heard = network.spec.foreign_routers.iter().filter(move |heard| {
                heard.vrid == router.spec.vrid
                    && Some(&heard.interface) == interface.as_ref()
                    && heard.source.is_ipv4() == vip.spec.address.is_ipv4()
            });
            heard.map(move |heard| {
                format!("{} (version {}), received by node {node}", heard.source, heard.version)
            })
        });
        Self {
            name: router.name_any(),
            vrid: router.spec.vrid,
            segment: router.spec.segment.clone(),
            advertisement_interval_milliseconds: router.spec.advertisement_interval_milliseconds,
            active_since: status.active_since.and_then(|since| since.parse().ok()).map(Time),
            moves: status.transitions.saturating_sub(1).max(0),
            not_the_first: not_the_first(&ranking, status.active_node.as_deref(), router),
            active_node: status.active_node,
            strangers: strangers.collect(),
            ranking,
        }
    }
}

/// Returns the reason why another node than the first one has the addresses.
fn not_the_first(ranking: &[Place], active: Option<&str>, router: &VirtualRouter) -> Option<String> {
    let (first, active) = (ranking.first()?, active?);
    if first.node == active {
        return None;
    }
    let because = if let Some(why) = first.hindrance() {
        why
    } else if router.spec.preempt_delay_seconds > 0 {
        format!(
            "it leaves the one that has them in place for {} s (preemptDelaySeconds)",
            router.spec.preempt_delay_seconds
        )
    } else {
        "it may have come back a moment ago, its link may come and go, its agent may be late, or the two do \
         not receive each other's adverts: see the log of its agent"
            .to_owned()
    };
    Some(format!("node {} comes first, and node {active} has the addresses: {because}", first.node))
}

fn port(port: RestrictedPort) -> String {
    let protocol = match port.protocol {
        PortProtocol::Tcp => "TCP",
        PortProtocol::Udp => "UDP",
        PortProtocol::Sctp => "SCTP",
    };
    format!("{}/{protocol}", port.port)
}

/// Returns the ports and sources that the guard permits, in words.
fn guard(vip: &VirtualIP) -> Vec<String> {
    const NAMED: usize = 6;
    let spec = &vip.spec;
    let mut words = Vec::new();
    if spec.ports.is_empty() {
        words.push("all ports: those of its Services are not known, or too many".to_owned());
    } else {
        words.push(format!(
            "ports {}; nodes refuse what is for others",
            first_of(spec.ports.iter().copied().map(port), NAMED)
        ));
    }
    for one in &spec.sources {
        let ports = first_of(one.ports.iter().copied().map(port), NAMED);
        let allowed =
            if one.allowed.is_empty() { "nobody".to_owned() } else { first_of(one.allowed.iter(), NAMED) };
        let by = if one.by_kube_proxy { "kube-proxy and the guard" } else { "the guard" };
        words.push(format!("{ports} only from {allowed}, kept by {by}"));
    }
    words
}

/// Returns the effect of a move on connections, in words (docs/connections.md).
fn connections(vip: Option<&VirtualIP>, router: Option<&VirtualRouter>) -> String {
    let Some(router) = router else { return String::new() };
    let conditions =
        vip.and_then(|vip| vip.status.as_ref()).map(|status| &status.conditions[..]).unwrap_or_default();
    let replicated = find(conditions, CONDITION_CONNECTIONS_REPLICATED);
    match (router.spec.connections, replicated) {
        (ConnectionPolicy::Replicate, Some(condition)) if condition.status == "True" => {
            format!("Replicate: they outlive the node. {}", condition.message)
        }
        (ConnectionPolicy::Replicate, Some(condition)) => {
            format!("Replicate, and as Forward for now. {}: {}", condition.reason, condition.message)
        }
        (ConnectionPolicy::Replicate, None) if vip.is_some_and(VirtualIP::ends_with_its_servers) => {
            "TCP connections continue when it moves from a node that is up, and end with the node of their pod"
                .to_owned()
        }
        (ConnectionPolicy::Replicate, None) => {
            "Replicate: no node has reported yet whether they outlive it".to_owned()
        }
        (ConnectionPolicy::Forward, _) => {
            "Forward: TCP connections continue when it moves from a node that is up, and end with a node \
             that dies"
                .to_owned()
        }
        (ConnectionPolicy::None, _) => "None: they end when it moves".to_owned(),
    }
}
