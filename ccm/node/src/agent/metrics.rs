//! Metrics of the engine's counters, read at each scrape.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prometheus::proto::{Bucket, Histogram, Metric, MetricFamily, MetricType};
use prometheus::{IntGauge, Registry, register_int_gauge_with_registry};
use tokio::sync::watch;
use windlass_api::CheckAction;
use windlass_common::samples::{self, counters, family, gauges};
use windlass_engine::{
    Engine, Family, ForwardingStatus, Lateness, LinkStatus, ReplicationStatus, RouterStatus, SharingStatus,
    State,
};

use super::engine_state::EngineState;
use super::health::FailedChecks;
use super::service_proxy::ServiceProxy;
use crate::helper_metrics::{helpers, status};
use crate::parts::Parts;

#[cfg(test)]
mod tests;

/// Labels of a virtual router.
const ROUTER: [&str; 3] = ["vrid", "family", "interface"];

/// Reads one counter.
type Read = fn(&RouterStatus) -> u64;

/// Registers the gauge that is 1 while the last write of the state failed.
pub(crate) fn state_write_failed(registry: &Registry) -> prometheus::Result<IntGauge> {
    register_int_gauge_with_registry!(
        "windlass_agent_state_write_failed",
        "1 while the agent cannot write its state to disk: announcing continues, but a restart without the \
         API server begins from an older state or none",
        registry
    )
}

/// Registers the gauge of the addresses that are announced although their objects are gone.
pub(crate) fn held_addresses(registry: &Registry) -> prometheus::Result<IntGauge> {
    register_int_gauge_with_registry!(
        "windlass_agent_held_addresses",
        "Virtual IPs that this node announces although their objects were deleted by accident",
        registry
    )
}

/// Registers the gauge of the program that handles the packets of Services on this node.
pub(crate) fn service_proxy(
    registry: &Registry,
    proxy: watch::Receiver<ServiceProxy>,
) -> prometheus::Result<()> {
    samples::register(registry, move || {
        vec![gauges(
            "windlass_agent_service_proxy",
            "1 for the service proxy of this node: `nftables` or `iptables` (kube-proxy's mode), \
             `ipvs`, `ebpf` (before netfilter), `switch` (without netfilter) or `unknown`",
            ["proxy"],
            [([proxy.borrow().name().to_owned()], 1_i64)],
        )]
    })
}

/// Registers metrics that read the engine at each scrape. Holds it weakly: at its end the process takes the engine apart.
pub(crate) fn register(
    registry: &Registry,
    engine: &Arc<Engine>,
    engine_state: &Arc<EngineState>,
    failed: watch::Receiver<FailedChecks>,
    parts: Arc<Parts>,
) -> prometheus::Result<()> {
    let (engine, engine_state) = (Arc::downgrade(engine), Arc::clone(engine_state));
    samples::register(registry, move || {
        let Some(engine) = engine.upgrade() else { return Vec::new() };
        let on_links = engine.links();
        let conflicts = conflicts(&on_links, engine_state.conflicts());
        let checks = checks(&failed.borrow());
        let families = [
            routers(&engine.snapshot()),
            links(&on_links),
            lateness(&engine.lateness()),
            forwarding(&engine.forwarding_status()),
            sharing(&engine.sharing_status(), || engine.directed_packets().ok()),
            replication(&engine.replication_status()),
            helpers(&status(&engine, &parts)),
        ];
        families.into_iter().flatten().chain([conflicts, checks]).collect()
    })
}

/// Returns the conflicts of each interface, zero included: Prometheus sees no increase of a counter that begins at 1.
fn conflicts(links: &[LinkStatus], seen: BTreeMap<String, u64>) -> MetricFamily {
    let mut conflicts: BTreeMap<String, u64> = links.iter().map(|link| (link.interface.clone(), 0)).collect();
    conflicts.extend(seen);
    counters(
        "windlass_address_conflicts_total",
        "Times another host used a virtual IP of this node (at most one a minute for each)",
        ["interface"],
        conflicts.into_iter().map(|(interface, count)| ([interface], count)),
    )
}

fn checks(failed: &FailedChecks) -> MetricFamily {
    let kube_proxy = (["kube-proxy".to_owned(), String::new()], i64::from(failed.kube_proxy.is_some()));
    let forwarding = (["forwarding".to_owned(), String::new()], i64::from(!failed.forwarding.is_empty()));
    let network = (["pod-network".to_owned(), String::new()], i64::from(failed.network.is_some()));
    let lateness = (["lateness".to_owned(), String::new()], i64::from(!failed.late.is_empty()));
    // Several may ask the same, each with its own patience.
    let actions: BTreeSet<&CheckAction> = failed.of_announcements.keys().map(|check| &check.action).collect();
    let actions = actions.into_iter().map(|action| {
        ([action.to_string(), action.port().map_or_else(String::new, |port| port.to_string())], 1)
    });
    let endpoints = failed.endpoints.keys().map(|port| (["endpoints".to_owned(), port.to_string()], 1));
    gauges(
        "windlass_agent_check_failed",
        "1 while a check fails, which ranks this node below all nodes whose checks pass: `kube-proxy`, \
         `forwarding` by the kernel, `pod-network` after a boot, `lateness` of the engine, `endpoints` \
         (health check node port), or a check of an Announcement as `httpGet \
         http://localhost:8404/healthz`",
        ["check", "port"],
        [kube_proxy, forwarding, network, lateness].into_iter().chain(actions).chain(endpoints),
    )
}

fn routers(routers: &[RouterStatus]) -> Vec<MetricFamily> {
    let labels = |router: &RouterStatus| {
        let family = match router.key.family {
            Family::V4 => "ipv4",
            Family::V6 => "ipv6",
        };
        [router.key.vrid.get().to_string(), family.to_owned(), router.key.interface.clone()]
    };
    let mut families = vec![
        gauges(
            "windlass_vrrp_state",
            "State of the virtual router on this node: 0 initialize, 1 backup, 2 active. Over all \
             nodes one is 2",
            ROUTER,
            routers.iter().map(|router| (labels(router), state(router.state))),
        ),
        gauges(
            "windlass_vrrp_addresses",
            "Virtual IPs of the virtual router",
            ROUTER,
            routers
                .iter()
                .map(|router| (labels(router), i64::try_from(router.addresses.len()).unwrap_or(i64::MAX))),
        ),
        gauges(
            "windlass_vrrp_peers_without_multicast",
            "Candidates to which this node uses unicast: on the Active the nodes that do not receive \
             its multicast, on a Backup the Active",
            ROUTER,
            routers.iter().map(|router| {
                (labels(router), i64::try_from(router.without_multicast.len()).unwrap_or(i64::MAX))
            }),
        ),
        gauges(
            "windlass_vrrp_failed",
            "1 while the virtual router cannot run on this node (interface gone, no carrier, …); the \
             agent's log has the reason",
            ROUTER,
            routers.iter().map(|router| (labels(router), i64::from(router.error.is_some()))),
        ),
    ];
    let each = |read: Read| routers.iter().map(move |router| (labels(router), read(router)));
    families.extend([
        counters(
            "windlass_vrrp_transitions_total",
            "Times this node became Active",
            ROUTER,
            each(|r| r.counters.became_active),
        ),
        counters(
            "windlass_vrrp_adverts_sent_total",
            "Adverts sent, with resignations and unicast",
            ROUTER,
            each(|r| r.counters.adverts_sent),
        ),
        counters(
            "windlass_vrrp_adverts_received_total",
            "Valid adverts received from the other candidates",
            ROUTER,
            each(|r| r.counters.adverts_received),
        ),
        counters(
            "windlass_vrrp_send_errors_total",
            "Adverts and ARP packets that the kernel refused to send",
            ROUTER,
            each(|r| r.counters.send_errors),
        ),
        counters(
            "windlass_vrrp_contentions_total",
            "Adverts of a lesser Active received while Active: two nodes were Active for a moment",
            ROUTER,
            each(|r| r.counters.contentions),
        ),
        counters(
            "windlass_vrrp_interval_mismatches_total",
            "Accepted adverts whose interval differs from the configured one",
            ROUTER,
            each(|r| r.counters.interval_mismatches),
        ),
        counters(
            "windlass_vrrp_stranger_adverts_total",
            "Ignored adverts with the VRID of the virtual router from hosts that are not candidates",
            ROUTER,
            each(|r| r.counters.foreign_adverts),
        ),
        counters(
            "windlass_vrrp_replies_total",
            "ARP requests and neighbour solicitations answered for the virtual IPs",
            ROUTER,
            each(|r| r.counters.replies),
        ),
        counters(
            "windlass_vrrp_announcements_total",
            "Gratuitous ARP and unsolicited neighbour advertisements sent",
            ROUTER,
            each(|r| r.counters.announcements),
        ),
    ]);
    families
}

fn links(links: &[LinkStatus]) -> Vec<MetricFamily> {
    let rejected = links.iter().flat_map(|link| {
        let counts = link.rejected.iter();
        counts.map(|(reason, count)| ([link.interface.clone(), (*reason).to_owned()], *count))
    });
    vec![
        counters(
            "windlass_vrrp_rejected_total",
            "Packets refused before they reached a virtual router, by reason",
            ["interface", "reason"],
            rejected,
        ),
        counters(
            "windlass_vrrp_strangers_total",
            "Adverts of VRRP and CARP routers that are not candidates, with any VRID",
            ["interface"],
            links.iter().map(|link| ([link.interface.clone()], link.foreign_adverts)),
        ),
    ]
}

fn forwarding(status: &ForwardingStatus) -> Vec<MetricFamily> {
    vec![
        gauges(
            "windlass_forwarded_addresses",
            "Virtual IPs whose older connections this node forwards to the former node",
            [],
            [([], i64::try_from(status.addresses).unwrap_or(i64::MAX))],
        ),
        counters(
            "windlass_forwarded_packets_total",
            "Packets of older connections forwarded to former nodes",
            [],
            [([], status.packets)],
        ),
    ]
}

/// `directed`: number of packets that the kernel has sent to other nodes, which is read only while an address is shared.
fn sharing(status: &SharingStatus, directed: impl FnOnce() -> Option<u64>) -> Vec<MetricFamily> {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let addresses: BTreeSet<_> = status.in_force.services.keys().map(|(address, _)| address).collect();
    let directed = if addresses.is_empty() { Some(0) } else { directed() };
    vec![
        gauges(
            "windlass_shared_addresses",
            "Virtual IPs that this node serves together with others, or directs to them",
            [],
            [([], number(addresses.len()))],
        ),
        counters(
            "windlass_shared_packets_total",
            "Packets to shared virtual IPs by action of this node: `directed` to the node of their lot",
            ["action"],
            directed.map(|packets| (["directed".to_owned()], packets)),
        ),
        gauges(
            "windlass_sharing_servers_out",
            "Nodes whose lots other nodes serve because they do not answer or answer again only lately, which only the node that announces a \
             shared virtual IP finds out, or because packets of clients do not pass to them from this node",
            [],
            [([], number((&(&status.silent | &status.returning) | &status.filtered).len()))],
        ),
    ]
}

fn replication(status: &ReplicationStatus) -> Vec<MetricFamily> {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let told = || status.peers.iter().filter(|peer| peer.is_replica);
    vec![
        gauges(
            "windlass_replicated_connections",
            "Established connections that this node replicates to other nodes",
            [],
            [([], number(status.connections))],
        ),
        gauges(
            "windlass_replication_peers",
            "Addresses of other nodes that receive this node's connections",
            [],
            [([], number(told().count()))],
        ),
        gauges(
            "windlass_replication_peers_in_sync",
            "Addresses of other nodes that have acknowledged all of this node's connections",
            [],
            [([], number(told().filter(|peer| peer.knows_all).count()))],
        ),
        counters(
            "windlass_replication_refused_total",
            "Refused replication datagrams of another node: malformed, or without a valid signature",
            ["peer"],
            status.peers.iter().map(|peer| ([peer.peer.to_string()], peer.refused)),
        ),
        counters(
            "windlass_replication_table_full_total",
            "Connections of other nodes not stored, or removed, for lack of room \
             (net.netfilter.nf_conntrack_max)",
            [],
            [([], status.table_full)],
        ),
        counters(
            "windlass_replication_entries_refused_total",
            "Times the kernel refused to store a connection of another node for another reason",
            [],
            [([], status.refused)],
        ),
    ]
}

fn lateness(lateness: &Lateness) -> Vec<MetricFamily> {
    let mut count = 0;
    let buckets = lateness.bounds_seconds.iter().zip(&lateness.counts).map(|(bound, timers)| {
        count += timers;
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound);
        bucket.set_cumulative_count(count);
        bucket
    });
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(lateness.counts.iter().sum());
    histogram.set_sample_sum(lateness.sum.as_secs_f64());
    let mut metric = Metric::default();
    metric.set_histogram(histogram);
    vec![
        family(
            "windlass_engine_lateness_seconds",
            "Delay of the engine's timers, and so of adverts and takeovers",
            MetricType::HISTOGRAM,
            vec![metric],
        ),
        gauges(
            "windlass_engine_lateness_max_seconds",
            "Largest delay of a timer since the agent started",
            [],
            [([], lateness.max.as_secs_f64())],
        ),
    ]
}

fn state(state: State) -> i64 {
    match state {
        State::Initialize => 0,
        State::Backup => 1,
        State::Active => 2,
    }
}
