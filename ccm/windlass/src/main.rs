//! The Windlass binary: `windlass controller`, `windlass agent`, `windlass probe`, `windlass convert`, `windlass vip`, `windlass uninstall`,
//! `windlass version`, and what [`inspect`] answers.

mod agent;
mod bridges;
mod cli;
mod controller;
mod convert;
mod failures;
mod host_pod;
mod http;
mod inspect;
mod listing;
mod priorities;
mod probe;
mod samples;
mod strict;
mod uninstall;
mod version;
mod vip;
mod wildcard;

use std::process::ExitCode;

// A thread of the engine that panics has the others resign for it, and a request that panics fails alone.
#[cfg(not(panic = "unwind"))]
compile_error!("Windlass is to be built with panics that unwind: leave `panic` out of the profile");

fn main() -> ExitCode {
    cli::run()
}
