//! The pools as metrics, read from the ledger when they are asked for: what is gone is not shown, and only by the replica
//! that leads.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::TypedMetric as _;
use prometheus_client::metrics::gauge::ConstGauge;
use windlass_ipam::Family;

use super::pools::{Findings, available};
use crate::controller::state::State;
use crate::controller::state::shared::Shared;
use crate::samples::gauges;

/// Where the metrics find the state, while this process leads.
#[derive(Debug, Clone, Default)]
pub(crate) struct PoolMetrics(Arc<Mutex<Weak<Shared>>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Addresses {
    pool: String,
    family: &'static str,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPool {
    pool: String,
}

impl PoolMetrics {
    /// Shows `shared` as long as it lives.
    pub(crate) fn show(&self, shared: &Arc<Shared>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(shared);
    }

    fn shared(&self) -> Option<Arc<Shared>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }
}

impl Collector for PoolMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(shared) = self.shared() else { return Ok(()) };
        let (addresses, conflicts, waiting) = {
            let state = shared.state();
            if !state.ready {
                return Ok(());
            }
            (addresses(&state), conflicts(&state), state.waiting.len())
        };
        let help = "Addresses of the pool, by family: total, assigned, quarantined, available";
        gauges(&mut encoder, "windlass_pool_addresses", help, addresses.into_iter())?;
        let help = "Addresses of the pool that another station of the LAN has";
        gauges(&mut encoder, "windlass_pool_conflicts", help, conflicts.into_iter())?;
        let help = "Services that cannot be given the addresses they ask for";
        let kind = ConstGauge::<i64>::TYPE;
        let one = encoder.encode_descriptor("windlass_services_waiting", help, None, kind)?;
        ConstGauge::new(shown(waiting as u128)).encode(one)
    }
}

fn shown(count: u128) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn addresses(state: &State) -> Vec<(Addresses, i64)> {
    let mut samples = Vec::new();
    for reviewed in state.reviewed().iter() {
        for (family, name) in [(Family::V4, "ipv4"), (Family::V6, "ipv6")] {
            if reviewed.pool.addresses.count(family) == 0 {
                continue;
            }
            let counts = state.ledger.counts(&reviewed.pool.name, family);
            for (state, count) in [
                ("total", counts.total - counts.reserved),
                ("assigned", counts.assigned),
                ("quarantined", counts.quarantined),
                ("available", available(reviewed, counts)),
            ] {
                let labels = Addresses { pool: reviewed.pool.name.clone(), family: name, state };
                samples.push((labels, shown(count)));
            }
        }
    }
    samples
}

fn conflicts(state: &State) -> Vec<(OfPool, i64)> {
    let findings = Findings::of(&state.stores, &state.ledger);
    let count = |pool: &str| findings.get(pool).map_or(0, Findings::conflicts);
    let pools = state.reviewed();
    let names = pools.iter().map(|reviewed| &reviewed.pool.name);
    names.map(|pool| (OfPool { pool: pool.clone() }, shown(count(pool) as u128))).collect()
}

#[cfg(test)]
mod tests;
