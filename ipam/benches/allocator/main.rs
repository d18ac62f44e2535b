//! `make bench-ipam`: what giving, releasing and adopting an address costs, from 10 to 1,000,000 addresses in use.
//!
//! Each operation is measured with a certain number of addresses in use: a batch is timed, and what it did is undone
//! without the clock, which counts the time on a core. Owners are numbers: comparing the names of Services comes on top. A last run of ten million mixed
//! operations at 1,000,000 in use, with memory per address.
//!
//! Settings (environment): IN_USE (a list of numbers, `10 10000 1000000`), OPERATIONS (of the mixed run, 10000000).
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "it ends at the first thing that is not as it should be"
)]

mod mixed;
mod report;
mod site;

use std::cell::RefCell;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use report::Row;
use site::{Operation, Site};
use windlass_ipam::Family;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == mixed::MEMORY) {
        return mixed::print_memory(&arguments[1..]);
    }
    // `cargo test --all-targets` runs it without an argument.
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("runs by `make bench-ipam` (cargo bench --bench allocator)");
        return;
    }
    let mut rows = Vec::new();
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .without_plots()
        .configure_from_args();
    let sizes: Vec<u64> = setting("IN_USE", "10 10000 1000000")
        .split_whitespace()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("IN_USE: {text:?} is no number")))
        .collect();
    for family in Family::ALL {
        for in_use in &sizes {
            for operation in Operation::ALL {
                rows.push(measure(&mut criterion, operation, family, *in_use));
            }
        }
    }
    let operations = setting("OPERATIONS", "10000000").parse().expect("OPERATIONS is a number");
    for family in Family::ALL {
        rows.push(mixed::run(family, 1_000_000, operations));
    }
    report::print(&rows);
    println!("\nbench: {}", report::write(&rows).display());
}

fn setting(name: &str, otherwise: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| otherwise.to_owned())
}

/// The median over criterion's samples.
fn measure(criterion: &mut Criterion, operation: Operation, family: Family, in_use: u64) -> Row {
    let samples = RefCell::new(Vec::new());
    let mut site = Site::new(family, in_use, operation.is_fragmented());
    let name = format!("{} {family}", operation.name());
    criterion.bench_with_input(BenchmarkId::new(name, in_use), &(), |bencher, ()| {
        bencher.iter_custom(|iterations| {
            let time = site.time(operation, iterations);
            #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
            samples.borrow_mut().push(time.as_nanos() as f64 / iterations as f64);
            time
        });
    });
    let mut samples = samples.into_inner();
    samples.sort_by(f64::total_cmp);
    let ns_per_op = samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN);
    Row { operation: operation.name(), family, in_use, ns_per_op, bytes_per_address: None }
}
