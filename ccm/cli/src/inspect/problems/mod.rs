//! Problems, each with its object, message, reason and remedy. Pure.

mod addresses;
mod controllers;
mod nodes;
mod pools;

use std::fmt::{self, Display, Formatter};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

pub(super) use self::controllers::leader;
use super::snapshot::{Missing, Snapshot};

#[cfg(test)]
mod tests;

/// Severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Something does not work.
    Error,
    /// It works, and not as well as it should, or not for long.
    Warning,
}

impl Display for Severity {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Problem {
    pub(super) severity: Severity,
    /// Kind of the object, as `Service`.
    pub(super) kind: &'static str,
    /// Its name, with its namespace if it has one, as `shop/web`.
    pub(super) name: String,
    /// One CamelCase word.
    pub(super) reason: String,
    /// Description of the problem.
    pub(super) message: String,
    /// Remedy.
    pub(super) remedy: String,
}

impl Problem {
    fn new(severity: Severity, kind: &'static str, name: impl Into<String>, reason: &str) -> Self {
        let (name, reason) = (name.into(), reason.to_owned());
        Self { severity, kind, name, reason, message: String::new(), remedy: String::new() }
    }

    pub(in crate::inspect) fn error(kind: &'static str, name: impl Into<String>, reason: &str) -> Self {
        Self::new(Severity::Error, kind, name, reason)
    }

    pub(in crate::inspect) fn warning(kind: &'static str, name: impl Into<String>, reason: &str) -> Self {
        Self::new(Severity::Warning, kind, name, reason)
    }

    pub(in crate::inspect) fn says(self, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { message: message.into(), remedy: remedy.into(), ..self }
    }

    /// Builds the problem that a condition reports.
    fn of(
        severity: Severity,
        kind: &'static str,
        name: impl Into<String>,
        condition: &Condition,
        remedy: fn(&str) -> &'static str,
    ) -> Self {
        let remedy = remedy(&condition.reason);
        Self::new(severity, kind, name, &condition.reason).says(condition.message.clone(), remedy)
    }
}

impl Display for Problem {
    /// All but the remedy.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { severity, kind, name, reason, message, remedy: _ } = self;
        write!(f, "{severity} {kind} {name} {reason}: {message}")
    }
}

/// All that is wrong, the worst first.
pub(super) fn all(snapshot: &Snapshot) -> Vec<Problem> {
    let mut problems: Vec<Problem> = snapshot.missing().map(unread).collect();
    problems.extend(controllers::problems(snapshot));
    problems.extend(addresses::problems(snapshot));
    problems.extend(pools::problems(snapshot));
    problems.extend(nodes::problems(snapshot));
    // Stable: what comes first of a severity matters more.
    problems.sort_by_key(|problem| problem.severity);
    problems
}

pub(super) fn unread(missing: &Missing) -> Problem {
    let severity = match missing.kind.as_str() {
        // Without these the answer is poorer, not wrong.
        "Pods" | "Events" | "Leases" => Severity::Warning,
        _ => Severity::Error,
    };
    let reason = format!("{:?}", missing.cause);
    Problem::new(severity, "Kind", &missing.kind, &reason).says(&missing.message, &missing.remedy)
}
