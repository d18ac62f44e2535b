//! The log: to standard error, as text or JSON, as detailed as `-v` says.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

#[cfg(test)]
mod tests;

/// Form of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// The filter of a verbosity as Kubernetes counts it: from 4 on what is for debugging, from 6 on everything.
pub fn filter(verbosity: i32) -> &'static str {
    match verbosity {
        ..=3 => "info",
        4..=5 => "debug,h2=info,hyper_util=info,rustls=info,tower=info",
        6.. => "trace",
    }
}

/// Reason that the log cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The filter is none.
    #[error(
        "cannot use {0:?} as log filter: {1}; give error, warn, info, debug or trace, or a list such as info,kube_client=debug"
    )]
    Filter(String, #[source] tracing_subscriber::filter::ParseError),
    /// A log is set up already.
    #[error("cannot set up the log: {0}; set it up once in a process")]
    Twice(String),
}

/// Checks a filter, as `info` or `info,kube_client=debug`.
pub fn check(filter: &str) -> Result<EnvFilter, LoggingError> {
    // The Kubernetes client logs every refused connection as an error of its own; the caller logs each failure once.
    EnvFilter::try_new(format!("kube_client=off,{filter}"))
        .map_err(|error| LoggingError::Filter(filter.to_owned(), error))
}

/// Sets up the log of this process.
pub fn init(format: LogFormat, filter: &str) -> Result<(), LoggingError> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(check(filter)?)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let done = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    done.map_err(|error| LoggingError::Twice(error.to_string()))
}
