//! `make bench-engine`: what the engine costs, and how long many VIPs take to move.
//!
//! Two hosts with the same virtual routers, each by a process of its own, and an observer, on as many segments as the number
//! of virtual routers needs (250 on each). Figures of a case: CPU time and memory of the Active's and of the Backup's process
//! while nothing happens; then the Active is killed, half an interval after one of its adverts, and the observer notes when
//! each VIP is announced by the other for the first time. Then the same of one virtual router while a third host sends 50,000
//! or 300,000 adverts a second (`flood-50000`, `flood-300000`; a machine that cannot send as many prints the rate that it reached), and of one that takes over 10,000 guarded VIPs while its kernel tracks 1,000,000 connections to them
//! and a program changes nftables each second (`crowded`). A last case lets one process send as many adverts as it can (`flat-out`).
//!
//! Settings (environment): ROUNDS (faults of each case, 3; of `crowded` 20), ENTRIES (connections of `crowded`, 1000000), CASES (a list of names as `10000-vips-v4-respond`; all), REST
//! (seconds over which CPU time is taken, 5).
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "it ends at the first thing that is not as it should be, like a test"
)]

use std::process::ExitCode;

#[path = "../../tests/it/interop/process.rs"]
#[allow(dead_code, reason = "made for the tests")]
mod process;

#[path = "../../tests/it/flooder.rs"]
mod flooder;
#[path = "../../tests/it/lab.rs"]
#[allow(dead_code, reason = "made for the tests")]
mod lab;
#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "shared by two benches")]
mod shared;

mod announcements;
mod case;
mod cost;
mod crowded;
mod flood;
mod measure;
mod report;
mod routers;

/// Where the tests have it.
mod interop {
    pub(crate) use crate::process;
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(routers::ROLE) => routers::run(&arguments[1..]),
        Some(flood::ROLE) => flood::run(&arguments[1..]),
        Some("--bench") => return bench(),
        Some(_) | None => println!("runs by `make bench-engine` (cargo bench --bench engine)"),
    }
    ExitCode::SUCCESS
}

fn bench() -> ExitCode {
    if !lab::require_root() {
        return ExitCode::FAILURE;
    }
    let mut rows = measure::all();
    for (name, rate) in flood::CASES {
        if shared::wanted("CASES", name) {
            rows.extend(flood::all(name, rate));
        }
    }
    if shared::wanted("CASES", crowded::CASE) {
        let row = crowded::measure();
        println!("bench: {}", report::line(&row));
        rows.push(row);
    }
    report::print(&rows);
    let file = shared::write("engine.json", rows, |_| true);
    println!("\nbench: {}", file.display());
    ExitCode::SUCCESS
}
