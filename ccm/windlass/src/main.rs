//! The Windlass binary: `windlass controller`, `windlass agent`, `windlass probe`, `windlass convert`, `windlass vip`, `windlass uninstall`,
//! `windlass version`, and what [`windlass_cli::inspect`] answers.

mod cli;
mod version;

use std::process::ExitCode;

// A thread of the engine that panics has the others resign for it; a task or a request that panics fails alone.
#[cfg(not(panic = "unwind"))]
compile_error!("Windlass is to be built with panics that unwind: leave `panic` out of the profile");

fn main() -> ExitCode {
    cli::run()
}
