//! `make chaos`: each fault alone, and then storms of them, as a client of the LAN sees it.

use std::process::ExitCode;

use anyhow::ensure;
use clap::Parser;
use serde::Serialize;
use windlass_e2e::{
    Lab,
    chaos::{self, FaultRow, Kind, Scene},
    command,
    soak::new_seed,
    write_rows,
};

/// Each fault alone, and then storms of faults that overlap.
#[derive(Parser)]
struct Arguments {
    /// How long the storms of each seed last; 0: no storms. By default 600, or none where faults are named.
    #[arg(long)]
    seconds: Option<u64>,
    /// What the storms follow from; several are run one after another. By default one that nobody tried.
    #[arg(long)]
    seed: Vec<u64>,
    /// Only this fault alone, as KeysGone; several, or one several times, are inflicted one after another. By default all.
    #[arg(long)]
    fault: Vec<Kind>,
    /// Only the storms.
    #[arg(long)]
    no_table: bool,
}

/// `target/bench/chaos.json`.
#[derive(Serialize)]
struct Report {
    /// How long the storms of each seed last at least.
    seconds: u64,
    /// What the storms followed from.
    seeds: Vec<u64>,
    /// Each fault alone, then each storm.
    rows: Vec<FaultRow>,
}

fn main() -> ExitCode {
    command::run(run)
}

fn run() -> anyhow::Result<()> {
    let Arguments { seconds, seed: mut seeds, fault: mut faults, no_table } = Arguments::parse();
    let seconds = seconds.unwrap_or(if faults.is_empty() { 600 } else { 0 });
    if faults.is_empty() {
        faults = Kind::ALL.to_vec();
    }
    if seeds.is_empty() {
        seeds.push(new_seed()?);
    }
    if seconds == 0 {
        seeds.clear();
    }
    let (mut report, mut failures) = (Report { seconds, seeds, rows: Vec::new() }, Vec::new());
    println!(
        "  {:>8} {:>9} {:>10} {:>8} {:>8} {:>6} {:>6} {:>6}  fault",
        "outage", "answering", "doubled", "calm", "requests", "failed", "kept", "broken"
    );
    if !no_table {
        let outcome = Lab::run("chaos-alone", chaos::lab(0).interactive(), async |lab| {
            chaos::alone(&Scene::set(lab).await?, &faults, |row| report.note(row)).await
        });
        write_rows("chaos", &report)?;
        command::record(outcome, &mut failures)?;
    }
    for seed in report.seeds.clone() {
        println!("chaos: SECONDS={seconds} SEED={seed}");
        let name = format!("chaos-{seed}");
        let outcome = Lab::run(&name, chaos::lab(seconds).interactive(), async |lab| {
            chaos::storms(&Scene::set(lab).await?, seed, seconds, |row| report.note(row)).await
        });
        write_rows("chaos", &report)?;
        command::record(outcome, &mut failures)?;
    }
    println!("chaos: wrote {}", write_rows("chaos", &report)?.display());
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

impl Report {
    fn note(&mut self, row: FaultRow) {
        let FaultRow {
            fault,
            outage_ms,
            max_answering,
            doubled_ms,
            calm_ms,
            requests,
            failed,
            connections,
            broken,
        } = &row;
        println!(
            "  {outage_ms:5} ms {max_answering:9} {doubled_ms:7} ms {calm_ms:5} ms {requests:8} {failed:6} {connections:6} {broken:6}  {fault}"
        );
        self.rows.push(row);
    }
}
