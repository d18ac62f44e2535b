//! The Windlass binary.

use std::process::ExitCode;

// A thread of the engine that panics has the others resign for it; a task or a request that panics fails alone.
#[cfg(not(panic = "unwind"))]
compile_error!("Windlass is to be built with panics that unwind: leave `panic` out of the profile");

fn main() -> ExitCode {
    windlass::run()
}
