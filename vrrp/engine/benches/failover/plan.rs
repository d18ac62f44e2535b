//! Which group runs when.

use std::cmp::Reverse;
use std::time::Instant;

use serde_json::Value;

use crate::group::Running;
use crate::node::missing;
use crate::report::{self, Row};
use crate::setup::{FAMILIES, Fault, Group, Stress, System, family_name};
use crate::shared::load::Load;
use crate::shared::{OBSERVER, real_time, setting, wanted};

const INTERVALS_MS: [u32; 4] = [1000, 100, 30, 10];
/// From here on the groups of all systems run side by side: they wait most of the time.
const LONG_MS: u32 = 100;
/// From here on two sites of each group share the faults.
const LONGEST_MS: u32 = 1000;

/// Groups that run at the same time, under the same load, each with the faults that befall it.
struct Batch {
    stress: Stress,
    groups: Vec<(Group, Vec<Fault>)>,
}

/// Runs everything that is wanted, and returns the rows.
pub(crate) fn run() -> Vec<Value> {
    let rounds = setting("ROUNDS", 10);
    let batches = batches();
    let (begin, count) = (Instant::now(), u32::try_from(batches.len()).expect("a small number"));
    let mut rows = Vec::new();
    for (done, Batch { stress, groups }) in (1..).zip(batches) {
        let load = (stress == Stress::Loaded).then(Load::start);
        let running: Vec<_> = groups
            .into_iter()
            .map(|(group, faults)| std::thread::spawn(move || one(group, &faults, stress, rounds)))
            .collect();
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
    rows.sort_by_key(|row: &Row| (row.stress.name(), Reverse(row.group.interval_ms)));
    report::print(&rows);
    rows.iter().map(Row::json).collect()
}

fn batches() -> Vec<Batch> {
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
            let groups = |system: System| {
                let families = FAMILIES.into_iter().filter(|family| wanted("FAMILIES", family_name(*family)));
                families.flat_map(move |family| sites(Group { system, family, interval_ms }))
            };
            if interval_ms >= LONG_MS {
                let groups = systems.iter().copied().flat_map(groups).collect();
                batches.push(Batch { stress, groups });
            } else {
                // One system at a time; its two families hardly disturb each other.
                batches
                    .extend(systems.iter().map(|&system| Batch { stress, groups: groups(system).collect() }));
            }
        }
    }
    batches
}

/// The sites of a group, and the faults that befall each.
fn sites(group: Group) -> Vec<(Group, Vec<Fault>)> {
    let faults: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| wanted("FAULTS", fault.name())).collect();
    let share = if group.interval_ms >= LONGEST_MS { faults.len().div_ceil(2) } else { faults.len() };
    faults.chunks(share.max(1)).map(|faults| (group, faults.to_vec())).collect()
}

/// These faults of one group.
fn one(group: Group, faults: &[Fault], stress: Stress, rounds: u32) -> Vec<Row> {
    real_time(OBSERVER);
    let mut running = Running::start(group);
    let mut rows = Vec::new();
    for &fault in faults {
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
