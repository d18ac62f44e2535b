//! The engine's counters as metrics, read when they are asked for.

use std::fmt;
use std::sync::{Arc, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use windlass_engine::{Engine, Family, Lateness, LinkStatus, RouterStatus, State};

use super::board::Board;
use crate::samples::{counters, gauges};

#[cfg(test)]
mod tests;

/// Reads the engine at each scrape. Holds it weakly: the process ends by taking the engine apart.
pub(crate) struct EngineMetrics {
    pub(crate) engine: Weak<Engine>,
    pub(crate) board: Arc<Board>,
}

impl fmt::Debug for EngineMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineMetrics")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouterLabels {
    vrid: u8,
    family: &'static str,
    interface: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InterfaceLabels {
    interface: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectedLabels {
    interface: String,
    reason: String,
}

/// Reads one counter.
type Read = fn(&RouterStatus) -> u64;

impl Collector for EngineMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(engine) = self.engine.upgrade() else { return Ok(()) };
        encode_routers(&mut encoder, &engine.snapshot())?;
        encode_links(&mut encoder, &engine.links())?;
        encode_lateness(&mut encoder, &engine.lateness())?;
        let conflicts = self.board.conflicts();
        counters(
            &mut encoder,
            "windlass_address_conflicts",
            "Times another station was seen to have a virtual IP of this node (at most one a minute each)",
            conflicts.into_iter().map(|(interface, count)| (InterfaceLabels { interface }, count)),
        )
    }
}

fn encode_routers(encoder: &mut DescriptorEncoder<'_>, routers: &[RouterStatus]) -> fmt::Result {
    let labels = |router: &RouterStatus| RouterLabels {
        vrid: router.key.vrid.get(),
        family: match router.key.family {
            Family::V4 => "ipv4",
            Family::V6 => "ipv6",
        },
        interface: router.key.interface.clone(),
    };
    gauges(
        encoder,
        "windlass_vrrp_state",
        "State of the virtual router on this node: 0 initialize, 1 backup, 2 active",
        routers.iter().map(|router| (labels(router), state(router.state))),
    )?;
    gauges(
        encoder,
        "windlass_vrrp_addresses",
        "Virtual IPs that the virtual router carries",
        routers
            .iter()
            .map(|router| (labels(router), i64::try_from(router.addresses.len()).unwrap_or(i64::MAX))),
    )?;
    gauges(
        encoder,
        "windlass_vrrp_failed",
        "1 while the virtual router cannot run on this node, as the agent's log says why",
        routers.iter().map(|router| (labels(router), i64::from(router.error.is_some()))),
    )?;
    let each: [(&str, &str, Read); 9] = [
        ("windlass_vrrp_transitions", "Times this node became Active", |r| r.counters.became_active),
        ("windlass_vrrp_adverts_sent", "Adverts sent", |r| r.counters.adverts_sent),
        ("windlass_vrrp_adverts_received", "Valid adverts received from the other candidates", |r| {
            r.counters.adverts_received
        }),
        ("windlass_vrrp_send_errors", "Adverts and ARP packets that the kernel refused to send", |r| {
            r.counters.send_errors
        }),
        ("windlass_vrrp_contentions", "Adverts of a lesser Active received while Active", |r| {
            r.counters.contentions
        }),
        (
            "windlass_vrrp_interval_mismatches",
            "Accepted adverts with another interval than configured",
            |r| r.counters.interval_mismatches,
        ),
        (
            "windlass_vrrp_stranger_adverts",
            "Ignored adverts with the virtual router's VRID from no candidate",
            |r| r.counters.strangers,
        ),
        ("windlass_vrrp_replies", "ARP requests and neighbour solicitations answered", |r| {
            r.counters.replies
        }),
        (
            "windlass_vrrp_announcements",
            "Gratuitous ARP and unsolicited neighbour advertisements sent",
            |r| r.counters.announcements,
        ),
    ];
    for (name, help, read) in each {
        counters(encoder, name, help, routers.iter().map(|router| (labels(router), read(router))))?;
    }
    Ok(())
}

fn encode_links(encoder: &mut DescriptorEncoder<'_>, links: &[LinkStatus]) -> fmt::Result {
    counters(
        encoder,
        "windlass_vrrp_rejected",
        "Packets refused, by reason",
        links.iter().flat_map(|link| {
            link.rejected.iter().map(|(reason, count)| {
                (RejectedLabels { interface: link.interface.clone(), reason: (*reason).to_owned() }, *count)
            })
        }),
    )?;
    counters(
        encoder,
        "windlass_vrrp_strangers",
        "Adverts heard from VRRP and CARP routers that are no candidates",
        links.iter().map(|link| (InterfaceLabels { interface: link.interface.clone() }, link.strangers)),
    )
}

fn encode_lateness(encoder: &mut DescriptorEncoder<'_>, lateness: &Lateness) -> fmt::Result {
    let bounds = lateness.bounds_seconds.iter().copied().chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(lateness.counts.iter().copied()).collect();
    encoder
        .encode_descriptor(
            "windlass_engine_lateness_seconds",
            "How late the timers of the virtual routers were acted on",
            None,
            MetricType::Histogram,
        )?
        .encode_histogram::<NoLabelSet>(
            lateness.sum.as_secs_f64(),
            lateness.counts.iter().sum(),
            &buckets,
            None,
        )?;
    encoder
        .encode_descriptor(
            "windlass_engine_lateness_max_seconds",
            "The latest of them since the agent started",
            None,
            MetricType::Gauge,
        )?
        .encode_gauge(&lateness.max.as_secs_f64())
}

fn state(state: State) -> i64 {
    match state {
        State::Initialize => 0,
        State::Backup => 1,
        State::Active => 2,
    }
}
