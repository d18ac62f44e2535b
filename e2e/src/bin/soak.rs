//! `make soak`: storms of random edits and faults, in the light lab with a real etcd, API server, controllers and agents.

use std::process::ExitCode;

use anyhow::ensure;
use clap::Parser;
use windlass_e2e::{
    Lab, command,
    soak::{self, Row},
    write_rows,
};

/// Storms of random edits and faults, and between them calms in which all has to be in order.
#[derive(Parser)]
struct Arguments {
    /// How long the storms of each seed last.
    #[arg(long, default_value_t = 1800)]
    seconds: u64,
    /// What all follows from; several are run one after another. By default one that nobody tried.
    #[arg(long)]
    seed: Vec<u64>,
}

fn main() -> ExitCode {
    command::run(run)
}

fn run() -> anyhow::Result<()> {
    let Arguments { seconds, seed: mut seeds } = Arguments::parse();
    if seeds.is_empty() {
        seeds.push(soak::new_seed()?);
    }
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    for seed in seeds {
        println!("soak: SECONDS={seconds} SEED={seed}");
        let mut row = Row { seed, seconds, ..Row::default() };
        let name = format!("soak-{seed}");
        let outcome =
            Lab::run(&name, soak::lab(seconds).interactive(), async |lab| soak::soak(lab, &mut row).await);
        println!("soak: {}", serde_json::to_string(&row)?);
        rows.push(row);
        write_rows("soak", &rows)?;
        command::record(outcome, &mut failures)?;
    }
    println!("soak: wrote {}", write_rows("soak", &rows)?.display());
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}
