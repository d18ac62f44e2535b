//! What was measured.

use std::{fs, time::Duration};

use anyhow::{Context as _, ensure};
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
    /// What every port of the LAN gets.
    pub(crate) packets_per_second: f64,
    /// Resident, of the median agent, and of the largest.
    pub(crate) agent_mb: u64,
    pub(crate) largest_agent_mb: u64,
}

/// What came of it that nodes died.
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
    /// How often two nodes answered one question for an address, and for how long.
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

pub(crate) fn resident_kib(pid: i32) -> anyhow::Result<u64> {
    let file = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&file).with_context(|| format!("reading {file}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    resident.with_context(|| format!("{file} has no VmRSS"))
}

pub(crate) fn milliseconds(duration: Option<&Duration>) -> u64 {
    duration.map_or(0, |duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
