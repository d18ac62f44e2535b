//! Label selectors as Kubernetes defines them, and the requester that they match.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Requester of an address, for the selectors of pools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requester {
    /// Its namespace.
    pub namespace: String,
    /// Labels of that namespace.
    pub namespace_labels: Labels,
    /// Its own labels.
    pub labels: Labels,
}

/// A LabelSelector: all of it must hold. The empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// Labels with exactly these values (`matchLabels`).
    pub labels: Labels,
    /// Further conditions (`matchExpressions`).
    pub requirements: Vec<Requirement>,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requirement {
    /// The label is there, with one of these values.
    In(String, BTreeSet<String>),
    /// The label is not there, or has none of these values.
    NotIn(String, BTreeSet<String>),
    /// The label is there.
    Exists(String),
    /// The label is not there.
    DoesNotExist(String),
}

impl Selector {
    /// Returns true if it selects an object with `labels`.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.requirements.iter().all(|requirement| requirement.holds(labels))
    }
}

impl fmt::Display for Selector {
    /// As `kubectl get --selector` takes it: `app=web,tier in (a,b),!old`. The empty one is `everything`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.labels.iter().map(|(key, value)| format!("{key}={value}"));
        let parts: Vec<String> = labels.chain(self.requirements.iter().map(Requirement::to_string)).collect();
        f.write_str(if parts.is_empty() { "everything" } else { "" })?;
        f.write_str(&parts.join(","))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match self {
            Self::In(key, values) => write!(f, "{key} in ({})", list(values)),
            Self::NotIn(key, values) => write!(f, "{key} notin ({})", list(values)),
            Self::Exists(key) => f.write_str(key),
            Self::DoesNotExist(key) => write!(f, "!{key}"),
        }
    }
}

impl Requirement {
    fn holds(&self, labels: &Labels) -> bool {
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => labels.contains_key(key),
            Self::DoesNotExist(key) => !labels.contains_key(key),
        }
    }
}
