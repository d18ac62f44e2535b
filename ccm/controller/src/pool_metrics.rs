//! The pools, and what the nodes report, as metrics, read from ledger and stores when they are asked for: what is gone is not shown,
//! and only by the replica that leads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use prometheus::Registry;
use prometheus::proto::MetricFamily;
use windlass_common::samples::{self, gauges};
use windlass_ipam::Family;

use crate::allocation::pools::{PoolFindings, available};
use crate::state::ClusterState;
use crate::state::shared::SharedState;

/// Reference from the metrics to the state, while this process leads.
#[derive(Debug, Clone, Default)]
pub(crate) struct PoolMetrics(Arc<Mutex<Weak<SharedState>>>);

impl PoolMetrics {
    pub(crate) fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        let metrics = self.clone();
        samples::register(registry, move || metrics.families())
    }

    /// Shows `shared` as long as it lives.
    pub(crate) fn show(&self, shared: &Arc<SharedState>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(shared);
    }

    fn shared(&self) -> Option<Arc<SharedState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    fn families(&self) -> Vec<MetricFamily> {
        let shared = self.shared();
        let mut state =
            shared.as_ref().map(|shared| shared.state()).filter(|state| state.allocation.is_ready());
        vec![
            gauges(
                "windlass_pool_addresses",
                "Addresses of a pool: `total` (usable), `assigned`, `quarantined`, `available`, up to \
                 2^63; on the leader",
                ["pool", "family", "state"],
                state.as_deref().map(addresses).unwrap_or_default(),
            ),
            gauges(
                "windlass_pool_conflicts",
                "Addresses of the pool that another host of the LAN has",
                ["pool"],
                state.as_deref_mut().map(conflicts).unwrap_or_default(),
            ),
            gauges(
                "windlass_pool_foreign_external_ips",
                "Refused entries of `spec.externalIPs` with addresses of the pool: kube-proxy takes \
                 traffic to them",
                ["pool"],
                state.as_deref().map(foreign_external_ips).unwrap_or_default(),
            ),
            gauges(
                "windlass_pool_contested_external_ips",
                "Refused entries of `spec.externalIPs` on a port that the address's owner uses, too",
                ["pool"],
                state.as_deref().map(contested_external_ips).unwrap_or_default(),
            ),
            gauges(
                "windlass_node_report_doubts",
                "Rejected findings in the report of a node",
                ["node"],
                state.as_deref().map(doubts).unwrap_or_default(),
            ),
            gauges(
                "windlass_agents",
                "Reporting agents by version; `other`: no version, or more than 16 versions",
                ["version"],
                state.as_deref().map(versions).unwrap_or_default(),
            ),
            gauges(
                "windlass_services_waiting",
                "Services that do not get the addresses they request",
                [],
                state.as_deref().map(|state| ([], shown(state.allocation.services_waiting() as u128))),
            ),
            gauges(
                "windlass_unshared_addresses",
                "Virtual IPs with `loadSharing` that one node alone serves although several could, by the \
                 condition `LoadShared`",
                [],
                state.as_deref().map(|state| ([], unshared(state))),
            ),
        ]
    }
}

fn shown(count: u128) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn addresses(state: &ClusterState) -> Vec<([String; 3], i64)> {
    let mut samples = Vec::new();
    for reviewed in state.allocation.reviewed().iter() {
        for (family, name) in [(Family::V4, "ipv4"), (Family::V6, "ipv6")] {
            if reviewed.pool.addresses.count(family) == 0 {
                continue;
            }
            let counts = state.allocation.ledger().counts(&reviewed.pool.name, family);
            for (state, count) in [
                ("total", counts.total - counts.reserved),
                ("assigned", counts.assigned),
                ("quarantined", counts.quarantined),
                ("available", available(reviewed, counts)),
            ] {
                let labels = [reviewed.pool.name.clone(), name.to_owned(), state.to_owned()];
                samples.push((labels, shown(count)));
            }
        }
    }
    samples
}

fn unshared(state: &ClusterState) -> i64 {
    shown(state.stores.vips.iter().filter(|vip| vip.unshared().is_some()).count() as u128)
}

fn conflicts(state: &mut ClusterState) -> Vec<([String; 1], i64)> {
    let findings = state.allocation.findings(&state.stores);
    of_pools(state, |pool| findings.get(pool).map_or(0, PoolFindings::conflicts))
}

fn doubts(state: &ClusterState) -> Vec<([String; 1], i64)> {
    let doubts = state.doubts().into_iter();
    doubts.map(|(node, doubts)| ([node], shown(doubts.len() as u128))).collect()
}

/// Versions of agents that are shown; beyond it, and where a text is no version, they are `other`: a node may write what it likes.
const VERSIONS: usize = 16;

fn versions(state: &ClusterState) -> Vec<([String; 1], i64)> {
    let is_version = |text: &str| {
        (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(&byte))
    };
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for report in state.stores.reports().of_nodes() {
        let version = report.spec.agent_version.as_str();
        let is_shown = is_version(version) && (counts.len() < VERSIONS || counts.contains_key(version));
        *counts.entry(if is_shown { version } else { "other" }).or_default() += 1;
    }
    counts.into_iter().map(|(version, count)| ([version.to_owned()], count.into())).collect()
}

fn foreign_external_ips(state: &ClusterState) -> Vec<([String; 1], i64)> {
    of_pools(state, |pool| state.allocation.refused_external_ips().count(pool))
}

fn contested_external_ips(state: &ClusterState) -> Vec<([String; 1], i64)> {
    of_pools(state, |pool| state.allocation.refused_external_ips().contested(pool))
}

fn of_pools(state: &ClusterState, count: impl Fn(&str) -> usize) -> Vec<([String; 1], i64)> {
    let pools = state.allocation.reviewed();
    let names = pools.iter().map(|reviewed| &reviewed.pool.name);
    names.map(|pool| ([pool.clone()], shown(count(pool) as u128))).collect()
}

#[cfg(test)]
mod tests;
