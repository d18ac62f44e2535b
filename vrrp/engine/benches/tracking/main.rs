//! `make bench-tracking`: what it costs to follow connections, and to read and change the kernel's table of them.
//!
//! Table: a kernel of its own is given 200,000 connections, lists them, is told of them again, and forgets them; then 10,000 are put in the
//! place of those that a backend's node knows by another's forwarding. Following: a client, a node that translates as kube-proxy does,
//! and a backend; connections that begin and end at once, as fast as they go, with nobody listening, with a follower of all that the
//! kernel tells, and with one of what matters. Figures: CPU time of the whole process, the kernel's work for its packets included, for
//! each connection, and of the follower's thread alone.
//!
//! Then engines that tell each other connections. Rest: 10,000 VIPs of 250 virtual routers, and nothing happens; CPU time of the thread of
//! connections, in thousandths of a processor. Memory: 200,000 connections of the Active's kernel are told to a Backup, which puts them
//! into its own; resident memory of the Backup's process before and after. Rate: 20,000 connections a second begin and end at once, with
//! and without replication; CPU time of everything, the kernel's work for packets and events included, and what replication is of it.
//!
//! Settings (environment): ROUNDS (5), ENTRIES (200000), CONNECTIONS (10000, in each round), RATE (20000, of each second), SECONDS (5),
//! REST (5, seconds), CASES (`table following rest memory rate`; all).
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
mod memory;
mod rate;
mod replica;
mod rest;
mod table;

/// Where the tests have it.
mod interop {
    pub(crate) use crate::process;
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|role| role == replica::ROLE) {
        replica::run(&arguments[1..]);
    }
    if !arguments.iter().any(|argument| argument == "--bench") {
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
    for (case, measure) in
        [("rest", rest::all as fn() -> Vec<Value>), ("memory", memory::all), ("rate", rate::all)]
    {
        if shared::wanted("CASES", case) {
            rows.extend(measure());
        }
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
