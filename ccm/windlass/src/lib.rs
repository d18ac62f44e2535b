//! The program `windlass`: its command line with all flags, and the crate that runs each command.

mod cli;
mod version;

pub use cli::{command, run};
