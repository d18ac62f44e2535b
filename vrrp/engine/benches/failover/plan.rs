//! Which group runs when.

use std::time::Instant;

use serde_json::Value;

use crate::group::Running;
use crate::node::missing;
use crate::report::Row;
use crate::setup::{FAMILIES, Fault, Group, Stress, System, family_name};
use crate::shared::load::Load;
use crate::shared::{OBSERVER, real_time, setting, wanted};

const INTERVALS_MS: [u32; 4] = [1000, 100, 30, 10];
/// From here on groups run side by side: they wait most of the time.
const LONG_MS: u32 = 1000;

/// Runs everything that is wanted, and returns the rows.
pub(crate) fn run() -> Vec<Value> {
    let rounds = setting("ROUNDS", 10);
    let batches = batches();
    let (begin, count) = (Instant::now(), u32::try_from(batches.len()).expect("a small number"));
    let mut rows = Vec::new();
    for (done, (stress, batch)) in (1..).zip(batches) {
        let load = (stress == Stress::Loaded).then(Load::start);
        let running: Vec<_> =
            batch.into_iter().map(|group| std::thread::spawn(move || one(group, stress, rounds))).collect();
        for group in running {
            rows.extend(group.join().unwrap_or_default());
        }
        drop(load);
        let spent = begin.elapsed();
        let rest = spent * (count - done) / done;
        println!(
            "bench: {done} of {count} batches after {} s, about {} s to go",
            spent.as_secs(),
            rest.as_secs()
        );
    }
    println!("\nTime without an answer, {rounds} faults each:");
    rows.sort_by_key(|row: &Row| {
        (row.group.interval_ms, row.stress.name(), row.fault.name(), family_name(row.group.family))
    });
    for row in &rows {
        println!("{}", row.line());
    }
    rows.iter().map(Row::json).collect()
}

/// Groups that run at the same time, under the same load.
fn batches() -> Vec<(Stress, Vec<Group>)> {
    let systems =
        System::ALL.into_iter().filter(|system| wanted("SYSTEMS", system.name())).filter(|system| {
            let program = missing(*system);
            if let Some(program) = program {
                println!("bench: without {}: {program} is missing (e2e/tools/packages)", system.name());
            }
            program.is_none()
        });
    let systems: Vec<System> = systems.collect();
    let mut batches = Vec::new();
    for stress in Stress::ALL.into_iter().filter(|stress| wanted("LOADS", stress.name())) {
        for interval_ms in INTERVALS_MS.into_iter().filter(|ms| wanted("INTERVALS", &ms.to_string())) {
            let groups: Vec<Group> = FAMILIES
                .into_iter()
                .filter(|family| wanted("FAMILIES", family_name(*family)))
                .flat_map(|family| systems.iter().map(move |&system| Group { system, family, interval_ms }))
                .collect();
            if interval_ms >= LONG_MS {
                batches.push((stress, groups));
            } else {
                batches.extend(groups.into_iter().map(|group| (stress, vec![group])));
            }
        }
    }
    batches
}

/// All faults of one group.
fn one(group: Group, stress: Stress, rounds: u32) -> Vec<Row> {
    real_time(OBSERVER);
    let mut running = Running::start(group);
    let mut rows = Vec::new();
    for fault in Fault::ALL.into_iter().filter(|fault| wanted("FAULTS", fault.name())) {
        let mut row = Row { group, stress, fault, measured: Vec::new(), failures: Vec::new() };
        for round in 0..rounds {
            let moment = (f64::from(round) + 0.5) / f64::from(rounds);
            match running.befall(fault, moment) {
                Ok(measured) => row.measured.push(measured),
                Err(reason) => {
                    println!("bench: {reason}");
                    row.failures.push(reason);
                    running = Running::start(group);
                }
            }
        }
        println!("bench: {}", row.line());
        rows.push(row);
    }
    rows
}
