//! `make bench-failover`: Windlass, keepalived and FRR side by side, on the same namespaces.
//!
//! Two nodes and a client are hosts on one bridge. The nodes' VRRP routers are processes of their own, with the same
//! priorities and interval; the VIP is bound on the Active node, where an echo server answers a request that the client sends
//! each millisecond. Something befalls the Active; the figure is the longest time between two answers.
//!
//! When the fault comes within the advertisement interval decides as much as the system does (the Active is missed from its
//! last advert on), so each system gets the same moments, spread evenly over the interval: the median's aim is the bound
//! less half an interval. What a node runs shares its fate: SIGKILL and SIGSTOP hit router and echo server alike, so
//! that the kernel, which keeps the addresses of the dead, does not answer in their place.
//!
//! Fairness: every router runs under SCHED_FIFO 10 in every row (keepalived and Windlass by their own means, FRR by chrt);
//! client and echo servers run below, under SCHED_FIFO 5, so that they do not add what the load does to them.
//!
//! Settings (environment): ROUNDS (10), INTERVALS, SYSTEMS, FAMILIES, FAULTS, LOADS (lists; all), FALSE_FAILOVERS (seconds,
//! 600; 0: none).
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "it ends at the first thing that is not as it should be, like a test"
)]

use std::process::ExitCode;

#[path = "../../tests/it/interop/process.rs"]
#[allow(dead_code, reason = "made for the tests")]
mod process;

#[path = "../../tests/it/lab.rs"]
#[allow(dead_code, reason = "made for the tests")]
mod lab;
#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "shared by two benches")]
mod shared;

mod echo;
mod group;
mod node;
mod plan;
mod report;
mod router;
mod setup;
mod steady;

/// Where the tests have it.
mod interop {
    pub(crate) use crate::process;
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(router::ROLE) => router::run(&arguments[1..]),
        Some(echo::ROLE) => echo::serve(&arguments[1..]),
        Some(shared::load::ROLE) => shared::load::spin(),
        Some("--bench") => return bench(),
        Some(_) | None => println!("runs by `make bench-failover` (cargo bench --bench failover)"),
    }
    ExitCode::SUCCESS
}

fn bench() -> ExitCode {
    if !lab::require_root() {
        return ExitCode::FAILURE;
    }
    let mut rows = plan::run();
    rows.extend(steady::run());
    let file = shared::write("failover.json", rows, |row| row["path"] == "engine");
    println!("bench: {}", file.display());
    ExitCode::SUCCESS
}
