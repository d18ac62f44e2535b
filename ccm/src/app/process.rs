//! Start and end of the process.

use std::error::Error;
use std::future::Future;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::flags::Flags;
use super::provider::{BoxError, CloudProvider};
use super::run::run;
use super::{identity, logging};
use crate::apiserver::sentence;

#[cfg(test)]
mod tests;

/// Exit code of flags that make no sense, as clap's.
const USAGE: u8 = 2;

/// The whole of a cloud-controller-manager: `main` of a provider's binary after its flags are read.
///
/// Exit code 0: asked to stop, and did. 1: failed, with one sentence on standard error; a lost lease is a failure
/// (service-contract S-61). 2: flags that make no sense.
pub fn main<P: CloudProvider>(provider: P, flags: &Flags) -> ExitCode {
    let print_error = |error: &(dyn Error + 'static)| eprintln!("{}: {}", P::NAME, sentence(error));
    let options = match identity() {
        Ok(identity) => flags.options(P::NAME, identity),
        Err(error) => {
            print_error(&error);
            return ExitCode::FAILURE;
        }
    };
    let options = match options {
        Ok(options) => options,
        Err(error) => {
            print_error(&error);
            return ExitCode::from(USAGE);
        }
    };
    let log = &flags.logging;
    let filter = log.filter.as_deref().unwrap_or_else(|| logging::filter(log.verbosity));
    if let Err(error) = logging::init(log.logging_format, filter) {
        print_error(&error);
        return ExitCode::FAILURE;
    }
    match until_signal(|token| run(provider, options, token)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&*error);
            ExitCode::FAILURE
        }
    }
}

/// Runs until the work ends; SIGTERM (the kubelet) or SIGINT (a terminal) asks it to, by cancelling its token.
pub fn until_signal<F, E>(work: impl FnOnce(CancellationToken) -> F) -> Result<(), BoxError>
where
    F: Future<Output = Result<(), E>>,
    E: Into<BoxError>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the asynchronous runtime (threads, epoll): {error}"))?;
    let result = runtime.block_on(async {
        let token = stop_on_signal()?;
        work(token).await.map_err(Into::into)
    });
    // A request to an API server that does not answer must not hold up the end of the process.
    runtime.shutdown_background();
    result
}

fn stop_on_signal() -> Result<CancellationToken, BoxError> {
    let handle = |kind, name| signal(kind).map_err(|error| format!("cannot handle {name}: {error}"));
    let mut terminate = handle(SignalKind::terminate(), "SIGTERM")?;
    let mut interrupt = handle(SignalKind::interrupt(), "SIGINT")?;
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "stopping");
        stop.cancel();
    });
    Ok(token)
}
