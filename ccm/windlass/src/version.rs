//! `windlass version` and `--version`: which build this is.

use std::fmt;
use std::sync::LazyLock;

use clap::ValueEnum;
use jiff::Timestamp;
use serde::Serialize;

#[cfg(test)]
mod tests;

/// Value that a build does not know, as one from a source archive, where there is no git.
const UNKNOWN: &str = "unknown";

/// This build, as `windlass --version` prints it.
pub(crate) static LONG: LazyLock<String> = LazyLock::new(|| Build::this().to_string());

/// Format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Lines for people; the first is the version
    Text,
    /// An object
    Json,
}

/// A build of this program.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Build {
    version: &'static str,
    /// The whole hash; ends in `-dirty` where the sources were not those of the commit.
    commit: String,
    /// Time of the commit, RFC 3339, UTC: builds of the same sources are the same, whenever they are made.
    #[serde(rename = "buildDate")]
    date: String,
    rustc: String,
    target: String,
}

impl Build {
    /// The build that runs.
    pub(crate) fn this() -> Self {
        Self::new(
            option_env!("WINDLASS_COMMIT"),
            option_env!("SOURCE_DATE_EPOCH"),
            env!("WINDLASS_RUSTC"),
            env!("WINDLASS_TARGET"),
        )
    }

    /// `epoch`: seconds since 1970, as <https://reproducible-builds.org/specs/source-date-epoch/> has it. What is not given, empty or
    /// no such number is unknown.
    fn new(commit: Option<&str>, epoch: Option<&str>, rustc: &str, target: &str) -> Self {
        let known = |text: &str| if text.is_empty() { UNKNOWN } else { text }.to_owned();
        let seconds = epoch.and_then(|epoch| epoch.parse().ok());
        let date = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: known(commit.unwrap_or_default()),
            date: date.map_or_else(|| UNKNOWN.to_owned(), |date| date.to_string()),
            rustc: known(rustc),
            target: known(target),
        }
    }

    /// As `windlass version` prints it, without the end of the last line.
    pub(crate) fn print(&self, output: Output) -> serde_json::Result<String> {
        match output {
            Output::Text => Ok(format!("windlass {self}")),
            Output::Json => serde_json::to_string_pretty(self),
        }
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, commit, date, rustc, target } = self;
        write!(f, "{version}\ncommit: {commit}\nbuilt: {date}\nrustc: {rustc}\ntarget: {target}")
    }
}
