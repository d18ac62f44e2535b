//! `target/bench/moves.json` and the table on the terminal.

use std::fmt;

use serde::Serialize;
use windlass_e2e::{LoadOutcome, write_rows};

/// What a client saw of one move.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    system: &'static str,
    r#move: &'static str,
    /// Requests on connections of their own, and those without an answer.
    requests: u64,
    failed: u64,
    /// Connections that were kept, and those that ended.
    connections: u64,
    broken: u64,
    slowest_ms: u64,
}

impl Row {
    pub(crate) fn new(system: &'static str, kind: &'static str, seen: &LoadOutcome) -> Self {
        let LoadOutcome { requests, failed, connections, broken, slowest, .. } = *seen;
        let slowest_ms = u64::try_from(slowest.as_millis()).unwrap_or(u64::MAX);
        Self { system, r#move: kind, requests, failed, connections, broken, slowest_ms }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { system, r#move: kind, requests, failed, connections, broken, slowest_ms } = self;
        write!(
            f,
            "{system:27} {kind:15} {requests:8} {failed:7} {connections:11} {broken:7} {slowest_ms:7} ms"
        )
    }
}

/// Writes the rows and says where.
pub(crate) fn write(rows: &[Row]) -> anyhow::Result<()> {
    let file = write_rows("moves", &rows)?;
    println!("\n  {:27} {:15} requests  failed connections  broken    slowest", "system", "move");
    for row in rows {
        println!("  {row}");
    }
    println!("{}", file.display());
    Ok(())
}
