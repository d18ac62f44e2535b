//! `make chaos`: each fault alone, and then storms of them, as a client of the LAN sees it.

use std::process::ExitCode;

use anyhow::ensure;
use clap::Parser;
use serde::Serialize;
use windlass_e2e::{
    Lab,
    chaos::{self, FaultRow, StormRow},
    command,
    soak::new_seed,
    write_rows,
};

/// Each fault alone, and then storms of faults that overlap.
#[derive(Parser)]
struct Arguments {
    /// How long the storms of each seed last; 0: no storms.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// What the storms follow from; several are run one after another. By default one that nobody tried.
    #[arg(long)]
    seed: Vec<u64>,
    /// Only the storms.
    #[arg(long)]
    no_table: bool,
}

#[derive(Default, Serialize)]
struct Rows {
    alone: Vec<FaultRow>,
    storms: Vec<StormRow>,
}

fn main() -> ExitCode {
    command::run(run)
}

fn run() -> anyhow::Result<()> {
    let Arguments { seconds, seed: mut seeds, no_table } = Arguments::parse();
    if seeds.is_empty() {
        seeds.push(new_seed()?);
    }
    if seconds == 0 {
        seeds.clear();
    }
    let (mut rows, mut failures) = (Rows::default(), Vec::new());
    if !no_table {
        println!(
            "  {:38} {:6} {:>8} {:>9} {:>10} {:>8} {:>6} {:>11} {:>6}",
            "fault",
            "family",
            "outage",
            "answering",
            "doubled",
            "requests",
            "failed",
            "connections",
            "broken"
        );
        let outcome = Lab::run("chaos-alone", chaos::lab(0).interactive(), async |lab| {
            chaos::alone(lab, |row| {
                print(&row);
                rows.alone.push(row);
            })
            .await
        });
        write_rows("chaos", &rows)?;
        note(outcome, &mut failures)?;
    }
    for seed in seeds {
        println!("chaos: SECONDS={seconds} SEED={seed}");
        let mut row = StormRow { seed, seconds, ..StormRow::default() };
        let name = format!("chaos-{seed}");
        let outcome = Lab::run(&name, chaos::lab(seconds).interactive(), async |lab| {
            chaos::storms(lab, &mut row).await
        });
        println!("chaos: {}", serde_json::to_string(&row)?);
        rows.storms.push(row);
        write_rows("chaos", &rows)?;
        note(outcome, &mut failures)?;
    }
    println!("chaos: wrote {}", write_rows("chaos", &rows)?.display());
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// Goes on after a failure, to tell all of them at the end; an interruption ends it.
fn note(outcome: anyhow::Result<()>, failures: &mut Vec<String>) -> anyhow::Result<()> {
    match outcome {
        Err(error) if error.is::<command::Interrupted>() => return Err(error),
        Err(error) => failures.push(format!("{error:#}")),
        Ok(()) => {}
    }
    Ok(())
}

fn print(row: &FaultRow) {
    let FaultRow {
        fault,
        family,
        outage_ms,
        max_answering,
        doubled_ms,
        requests,
        failed,
        connections,
        broken,
    } = row;
    println!(
        "  {fault:38} {family:6} {outage_ms:5} ms {max_answering:9} {doubled_ms:7} ms {requests:8} {failed:6} {connections:11} {broken:6}"
    );
}
