//! The Windlass binary: `windlass controller` and `windlass agent`.

mod agent;
mod cli;
mod client;
mod controller;
mod http;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
