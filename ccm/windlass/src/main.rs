//! The Windlass binary: `windlass controller`, `windlass agent`, `windlass probe` and `windlass convert`.

mod agent;
mod bridges;
mod cli;
mod controller;
mod convert;
mod failures;
mod http;
mod priorities;
mod probe;
mod samples;
mod wildcard;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
