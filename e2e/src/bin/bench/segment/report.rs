//! Results of the measurement.

use anyhow::ensure;
use serde::Serialize;
use windlass_e2e::write_rows;

/// All of it.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) nodes: usize,
    pub(crate) vips: usize,
    pub(crate) interval_ms: u32,
    /// From the first Service's creation until all addresses are announced.
    pub(crate) announced_s: f64,
    /// Addresses of the node that has the most, and the least.
    pub(crate) most: usize,
    pub(crate) least: usize,
    pub(crate) rest: Rest,
    /// Requests that write in that time and until nothing is written any more.
    pub(crate) rest_writes: u64,
    pub(crate) deaths: Vec<Death>,
}

/// Agents when nobody wants anything.
#[derive(Debug, Serialize)]
pub(crate) struct Rest {
    /// Processors that all agents keep busy.
    pub(crate) processors: f64,
    /// Packets that each port of the LAN receives.
    pub(crate) packets_per_second: f64,
    /// Resident, of the median agent, and of the largest.
    pub(crate) agent_mb: u32,
    pub(crate) largest_agent_mb: u32,
}

/// Results of the death of nodes.
#[derive(Debug, Serialize)]
pub(crate) struct Death {
    pub(crate) nodes: usize,
    /// The addresses that they had.
    pub(crate) vips: usize,
    /// The longest time without an answer to a client, of the median of these addresses, and of the worst.
    pub(crate) median_outage_ms: u64,
    pub(crate) longest_outage_ms: u64,
    /// Addresses of nodes that live which went to another node.
    pub(crate) others_moved: usize,
    /// Number of times that two nodes answered for an address, and the longest of them.
    pub(crate) doubled: usize,
    pub(crate) longest_doubled_ms: u64,
    /// The most of the addresses that one node took over.
    pub(crate) most_taken_over: usize,
    /// Requests that write.
    pub(crate) writes: u64,
}

/// Tells, writes the file and judges.
pub(crate) fn write(row: &Row) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(row)?);
    println!("{}", write_rows("segment", row)?.display());
    ensure!(row.most <= row.least + 1, "the shares differ by more than one: {} and {}", row.most, row.least);
    for death in &row.deaths {
        ensure!(death.others_moved == 0 && death.doubled == 0, "addresses moved or were doubled: {death:?}");
    }
    Ok(())
}
