//! The forms in which an answer is given.

use std::io::{self, Write as _};

use anyhow::Context as _;
use clap::ValueEnum;
use serde::Serialize;

/// Another form than text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For programs.
    Json,
    /// For programs and people.
    Yaml,
    /// With what is left out otherwise.
    Wide,
}

/// Prints an answer; `text` makes its form for people, a wide one for true.
///
/// # Errors
/// It cannot be written as structured text, which would be a defect of this program.
pub(super) fn print(
    answer: &impl Serialize,
    output: Option<Output>,
    text: impl FnOnce(bool) -> String,
) -> anyhow::Result<()> {
    let text = match output {
        Some(Output::Json) => {
            serde_json::to_string_pretty(answer).context("the answer cannot be written as JSON")?
        }
        Some(Output::Yaml) => {
            serde_saphyr::to_string(answer).context("the answer cannot be written as YAML")?
        }
        Some(Output::Wide) => text(true),
        None => text(false),
    };
    let text = text.trim_end();
    if !text.is_empty() {
        // Who reads no further has read enough.
        drop(writeln!(io::stdout(), "{text}"));
    }
    Ok(())
}
