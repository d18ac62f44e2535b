//! The response of a probe, in the form of `k8s.io/apiserver`.

use std::fmt::Write as _;

use super::Probe;

/// A request for a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HealthQuery<'a> {
    pub(crate) probe: Probe,
    /// One check only, as in `/healthz/ping`.
    pub(crate) name: Option<&'a str>,
    /// `?verbose`: every check on a line of its own.
    pub(crate) verbose: bool,
    /// `?exclude=name`: checks that are not to count.
    pub(crate) exclude: Vec<&'a str>,
}

impl<'a> HealthQuery<'a> {
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

/// Result of one check.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CheckResult {
    Ok,
    Failed(String),
    Excluded,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct CheckLine {
    pub(super) name: String,
    pub(super) outcome: CheckResult,
}

/// Results of the checks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HealthReport {
    pub(super) lines: Vec<CheckLine>,
    /// Names to exclude that no check has.
    pub(super) unmatched: Vec<String>,
}

impl HealthReport {
    /// Status code and text. `reasons`: whether the caller may know why a check failed.
    pub(crate) fn answer(&self, health_query: &HealthQuery<'_>, reasons: bool) -> (u16, String) {
        let failed = self.lines.iter().any(|line| matches!(line.outcome, CheckResult::Failed(_)));
        if let Some(name) = health_query.name {
            return match self.lines.first().map(|line| &line.outcome) {
                None => (404, format!("there is no check {name:?} in {}\n", health_query.probe.name())),
                Some(CheckResult::Ok | CheckResult::Excluded) => (200, "ok".to_owned()),
                Some(CheckResult::Failed(reason)) => {
                    (500, format!("internal server error: {}\n", shown_reason(reason, reasons)))
                }
            };
        }
        if !failed && !health_query.verbose {
            return (200, "ok".to_owned());
        }
        let mut text = String::new();
        for CheckLine { name, outcome } in &self.lines {
            // Writing to a String does not fail.
            let _ = match outcome {
                CheckResult::Ok => writeln!(text, "[+]{name} ok"),
                CheckResult::Excluded => writeln!(text, "[+]{name} excluded: ok"),
                CheckResult::Failed(reason) => {
                    writeln!(text, "[-]{name} failed: {}", shown_reason(reason, reasons))
                }
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
        let result = if failed { "failed" } else { "passed" };
        let _ = writeln!(text, "{} check {result}", health_query.probe.name());
        (if failed { 500 } else { 200 }, text)
    }
}

fn shown_reason(reason: &str, reasons: bool) -> &str {
    if reasons { reason } else { "reason withheld" }
}
