//! `target/bench/ccm.json` and the table on the terminal.

use std::{fmt, time::Duration};

use serde::Serialize;
use windlass_e2e::write_rows;

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
        Self { measure: measure.into(), value: (value * 100.0).round() / 100.0, unit }
    }
}

/// Median, 99th percentile and maximum of times, in milliseconds.
pub(crate) fn times(what: &str, mut times: Vec<Duration>) -> Vec<Row> {
    times.sort_unstable();
    let at = |percent: usize| {
        let index = (times.len() * percent).div_ceil(100).max(1) - 1;
        times.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
    };
    let row = |name: &str, percent| Row::new(format!("{what}, {name}"), at(percent), "ms");
    vec![row("p50", 50), row("p99", 99), row("max", 100)]
}

/// Counters are far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "a counter")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:70} {:10.2} {}", self.measure, self.value, self.unit)
    }
}

/// Writes the rows and says where.
pub(crate) fn write(rows: &[Row]) -> anyhow::Result<()> {
    let file = write_rows("ccm", &rows)?;
    println!();
    for row in rows {
        println!("  {row}");
    }
    println!("{}", file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let value = |count: u64| -> Vec<f64> {
            times("x", (1..=count).rev().map(Duration::from_millis).collect())
                .iter()
                .map(|row| row.value)
                .collect()
        };
        assert_eq!(value(1), [1.0, 1.0, 1.0]);
        assert_eq!(value(100), [50.0, 99.0, 100.0]);
        assert_eq!(value(500), [250.0, 495.0, 500.0]);
    }
}
