//! Metrics of the engine's helper threads.

use prometheus::proto::MetricFamily;
use windlass_common::samples::{counters, gauges};
use windlass_engine::HelperStatus;

/// Returns the metrics of the engine's helper threads.
pub(crate) fn helpers(helpers: &[HelperStatus]) -> Vec<MetricFamily> {
    let thread = |helper: &HelperStatus| [helper.thread.to_owned()];
    vec![
        gauges(
            "windlass_engine_helper_away",
            "1 while a thread that the election does not need is missing: it panicked, failed or stalls",
            ["thread"],
            helpers.iter().map(|helper| (thread(helper), i64::from(helper.error.is_some()))),
        ),
        counters(
            "windlass_engine_helper_faults_total",
            "Times a thread that the election does not need panicked, failed or stalled",
            ["thread"],
            helpers.iter().map(|helper| (thread(helper), helper.faults)),
        ),
    ]
}
