//! `make bench-tracking`: what it costs to follow connections, and to read and change the kernel's table of them.
//!
//! Table: a kernel of its own is given 200,000 connections, lists them, is told of them again, and forgets them; then 10,000 are put in the
//! place of those that a backend's node knows by another's forwarding. Following: a client, a node that translates as kube-proxy does,
//! and a backend; connections that begin and end at once, as fast as they go, with nobody listening, with a follower of all that the
//! kernel tells, and with one of what matters. Figures: CPU time of the whole process, the kernel's work for its packets included, for
//! each connection, and of the follower's thread alone.
//!
//! Settings (environment): ROUNDS (5), ENTRIES (200000), CONNECTIONS (10000, in each round), CASES (`table following`; both).
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "it ends at the first thing that is not as it should be, like a test"
)]

use std::process::ExitCode;

use serde_json::Value;

#[path = "../engine/cost.rs"]
#[allow(dead_code, reason = "made for another bench")]
mod cost;
#[path = "../../tests/it/lab.rs"]
#[allow(dead_code, reason = "made for the tests")]
mod lab;
#[path = "../../tests/it/interop/process.rs"]
#[allow(dead_code, reason = "made for the tests")]
mod process;
#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "shared by benches")]
mod shared;

mod following;
mod table;

/// Where the tests have it.
mod interop {
    pub(crate) use crate::process;
}

fn main() -> ExitCode {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("runs by `make bench-tracking` (cargo bench --bench tracking)");
        return ExitCode::SUCCESS;
    }
    if !lab::require_root() {
        return ExitCode::FAILURE;
    }
    let mut rows: Vec<Value> = Vec::new();
    if shared::wanted("CASES", "table") {
        rows.extend(table::all());
    }
    if shared::wanted("CASES", "following") {
        rows.extend(following::all());
    }
    for row in &rows {
        println!("{row}");
    }
    let measured: Vec<_> = rows.iter().filter_map(|row| row.get("what").cloned()).collect();
    let file = shared::write("tracking.json", rows, |row| {
        row.get("what").is_some_and(|what| measured.contains(what))
    });
    println!("\nbench: {}", file.display());
    ExitCode::SUCCESS
}

/// Least, middle and greatest.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_unstable_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]].map(shared::tenth)
}
