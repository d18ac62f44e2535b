//! What a probe answers, in the form of `k8s.io/apiserver`.

use std::fmt::Write as _;

use super::Probe;

/// What is asked of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    pub(crate) probe: Probe,
    /// One check only, as in `/healthz/ping`.
    pub(crate) name: Option<&'a str>,
    /// `?verbose`: every check on a line of its own.
    pub(crate) verbose: bool,
    /// `?exclude=name`: checks that are not to count.
    pub(crate) exclude: Vec<&'a str>,
}

impl<'a> Asked<'a> {
    /// `rest` is the path behind the probe's name: empty, or `/` and a check's name.
    pub(crate) fn new(probe: Probe, rest: &'a str, query: &'a str) -> Self {
        let pairs = || query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Self {
            probe,
            name: rest.strip_prefix('/').filter(|name| !name.is_empty()),
            verbose: pairs().any(|(key, _)| key == "verbose"),
            exclude: pairs().filter(|(key, _)| *key == "exclude").map(|(_, name)| name).collect(),
        }
    }
}

/// How one check went.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Ok,
    Failed(String),
    Excluded,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) outcome: Outcome,
}

/// How the checks went.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(super) lines: Vec<Line>,
    /// Names to exclude that no check has.
    pub(super) unmatched: Vec<String>,
}

impl Report {
    /// Status code and text. `reasons`: whether the caller may know why a check failed.
    pub(crate) fn answer(&self, asked: &Asked<'_>, reasons: bool) -> (u16, String) {
        let failed = self.lines.iter().any(|line| matches!(line.outcome, Outcome::Failed(_)));
        if let Some(name) = asked.name {
            return match self.lines.first().map(|line| &line.outcome) {
                None => (404, format!("there is no check {name:?} in {}\n", asked.probe.name())),
                Some(Outcome::Ok | Outcome::Excluded) => (200, "ok".to_owned()),
                Some(Outcome::Failed(reason)) => {
                    (500, format!("internal server error: {}\n", told(reason, reasons)))
                }
            };
        }
        if !failed && !asked.verbose {
            return (200, "ok".to_owned());
        }
        let mut text = String::new();
        for Line { name, outcome } in &self.lines {
            // Writing to a String does not fail.
            let _ = match outcome {
                Outcome::Ok => writeln!(text, "[+]{name} ok"),
                Outcome::Excluded => writeln!(text, "[+]{name} excluded: ok"),
                Outcome::Failed(reason) => writeln!(text, "[-]{name} failed: {}", told(reason, reasons)),
            };
        }
        if !self.unmatched.is_empty() {
            let names: Vec<_> = self.unmatched.iter().map(|name| format!("{name:?}")).collect();
            let _ = writeln!(
                text,
                "warn: some health checks cannot be excluded: no matches for {}",
                names.join(",")
            );
        }
        let verdict = if failed { "failed" } else { "passed" };
        let _ = writeln!(text, "{} check {verdict}", asked.probe.name());
        (if failed { 500 } else { 200 }, text)
    }
}

fn told(reason: &str, reasons: bool) -> &str {
    if reasons { reason } else { "reason withheld" }
}
