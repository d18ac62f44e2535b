//! `target/bench/cluster.json` and the table on the terminal.

use std::fmt;

use serde::Serialize;
use windlass_e2e::write_rows;

/// The pulls of one system at one interval.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    system: &'static str,
    interval_ms: u32,
    fault: &'static str,
    min_ms: f64,
    median_ms: f64,
    max_ms: f64,
    /// What the protocol allows: three intervals and the skew time of the Backup (RFC 9568 §6.1).
    bound_ms: f64,
}

impl Row {
    /// Of an odd number of gaps, in milliseconds.
    pub(crate) fn new(
        system: &'static str,
        interval_ms: u32,
        backup_priority: u8,
        mut gaps: Vec<f64>,
    ) -> Self {
        gaps.sort_by(f64::total_cmp);
        let tenth = |ms: f64| (ms * 10.0).round() / 10.0;
        let at = |index: usize| tenth(gaps.get(index).copied().unwrap_or(f64::NAN));
        let interval = f64::from(interval_ms);
        let skew = interval * (256.0 - f64::from(backup_priority)) / 256.0;
        Self {
            system,
            interval_ms,
            fault: "cable pull",
            min_ms: at(0),
            median_ms: at(gaps.len() / 2),
            max_ms: at(gaps.len().saturating_sub(1)),
            bound_ms: tenth(3.0 * interval + skew),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:10} adverts every {:4} ms: min {:7.1}, median {:7.1}, max {:7.1} ms (bound {:.1})",
            self.system, self.interval_ms, self.min_ms, self.median_ms, self.max_ms, self.bound_ms
        )
    }
}

/// Writes the rows and says where.
pub(crate) fn write(rows: &[Row]) -> anyhow::Result<()> {
    let file = write_rows("cluster", &rows)?;
    println!("\nTime without an answer, five cable pulls each:");
    for row in rows {
        println!("  {row}");
    }
    println!("{}", file.display());
    Ok(())
}
