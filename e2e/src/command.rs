//! Common parts of the programs for people (demo, lab, benches): signals and exit codes.

use std::{fmt, process::ExitCode, time::Duration};

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal ended the lab; it was taken down in an orderly way.
#[derive(Clone, Copy, Debug)]
pub struct Interrupted {
    name: &'static str,
    number: u8,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ended by {}", self.name)
    }
}

impl std::error::Error for Interrupted {}

/// Runs a program for people. An error is one line on standard error, whatever `RUST_BACKTRACE` says, and exit code 1; a
/// signal is exit code 128 and its number, as shells have it.
pub fn run(program: impl FnOnce() -> anyhow::Result<()>) -> ExitCode {
    let Err(error) = program() else { return ExitCode::SUCCESS };
    if let Some(interrupted) = error.downcast_ref::<Interrupted>() {
        eprintln!("{interrupted}; nothing is left of the lab");
        return ExitCode::from(128 + interrupted.number);
    }
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}

/// Records a failure of one of several runs, so that the others follow; an interruption ends them all.
pub fn record(outcome: anyhow::Result<()>, failures: &mut Vec<String>) -> anyhow::Result<()> {
    match outcome {
        Err(error) if error.is::<Interrupted>() => return Err(error),
        Err(error) => failures.push(format!("{error:#}")),
        Ok(()) => {}
    }
    Ok(())
}

/// The signals by which a user or a system ends a program, caught instead of ending it on the spot.
pub(crate) enum Interrupts {
    Caught {
        interrupt: Signal,
        terminate: Signal,
        hang_up: Signal,
    },
    /// They do what they always do.
    Left,
}

impl Interrupts {
    /// Catches them from now on. To be called within a tokio runtime.
    pub(crate) fn catch() -> anyhow::Result<Self> {
        let catch = |kind| signal(kind).context("catching SIGINT, SIGTERM and SIGHUP");
        Ok(Self::Caught {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            hang_up: catch(SignalKind::hangup())?,
        })
    }

    /// Waits for one.
    pub(crate) async fn next(&mut self) -> Interrupted {
        let Self::Caught { interrupt, terminate, hang_up } = self else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => Interrupted { name: "SIGINT", number: 2 },
            _ = terminate.recv() => Interrupted { name: "SIGTERM", number: 15 },
            _ = hang_up.recv() => Interrupted { name: "SIGHUP", number: 1 },
        }
    }

    /// The signal if one has come, else `error`: Ctrl-C also ends the commands that the program waits for, and that they
    /// failed is not the news.
    pub(crate) async fn or(&mut self, error: anyhow::Error) -> anyhow::Error {
        if error.is::<Interrupted>() || matches!(self, Self::Left) {
            return error;
        }
        match tokio::time::timeout(Duration::from_millis(50), self.next()).await {
            Ok(interrupted) => interrupted.into(),
            Err(_) => error,
        }
    }
}
