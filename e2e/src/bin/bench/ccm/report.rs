//! `target/bench/ccm.json` and the table on the terminal.

use std::{fmt, time::Duration};

use serde::Serialize;
use windlass_e2e::statistics::{Sorted, rounded};

/// One figure.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    measure: String,
    value: f64,
    unit: &'static str,
}

impl Row {
    /// Rounded to what a measurement can tell.
    pub(crate) fn new(measure: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { measure: measure.into(), value: rounded(value, 100.0), unit }
    }
}

/// Median, 99th percentile and maximum of times, in milliseconds.
pub(crate) fn times(what: &str, times: Vec<Duration>) -> Vec<Row> {
    let times: Sorted<Duration> = times.into_iter().collect();
    let row = |name: &str, percent| {
        let time = times.percentile(percent).unwrap_or_default();
        Row::new(format!("{what}, {name}"), time.as_secs_f64() * 1000.0, "ms")
    };
    vec![row("p50", 50), row("p99", 99), row("max", 100)]
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:70} {:10.2} {}", self.measure, self.value, self.unit)
    }
}
