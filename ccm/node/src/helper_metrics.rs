//! Metrics of the engine's helper threads and of the process's parts.

use prometheus::proto::MetricFamily;
use windlass_common::samples::{counters, gauges};
use windlass_engine::{Engine, HelperStatus};

use crate::parts::Parts;

/// Returns the status of the engine's helper threads and of the process's parts.
pub(crate) fn status(engine: &Engine, parts: &Parts) -> Vec<HelperStatus> {
    engine.helpers().into_iter().chain(parts.status()).collect()
}

/// Returns the metrics of the engine's helper threads and of the process's parts.
pub(crate) fn helpers(all: &[HelperStatus]) -> Vec<MetricFamily> {
    let thread = |part: &HelperStatus| [part.thread.to_owned()];
    vec![
        gauges(
            "windlass_engine_helper_away",
            "1 while a thread or a part of the process that announcing does not need panicked, failed \
             or stalls; for a part (`agent-…`, `vip-…`, `windlass-nat`) from a panic until it has run \
             for a minute",
            ["thread"],
            all.iter().map(|part| (thread(part), i64::from(part.error.is_some()))),
        ),
        counters(
            "windlass_engine_helper_faults_total",
            "Times a thread or a part of the process that announcing does not need panicked, failed or \
             stalled",
            ["thread"],
            all.iter().map(|part| (thread(part), part.faults)),
        ),
    ]
}
