//! The Windlass binary: `windlass controller`, `windlass agent`, `windlass probe`, `windlass convert` and
//! `windlass uninstall`.

mod agent;
mod bridges;
mod cli;
mod controller;
mod convert;
mod failures;
mod http;
mod listing;
mod priorities;
mod probe;
mod samples;
mod strict;
mod uninstall;
mod wildcard;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
