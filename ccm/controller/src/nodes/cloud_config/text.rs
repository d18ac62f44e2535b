//! Texts that Kubernetes has rules for, checked where they are read, so that an error has the line.

use std::fmt;

use serde::Deserialize;

macro_rules! checked {
    ($(#[$meta:meta])* $name:ident, $check:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
        #[serde(try_from = "String")]
        pub(super) struct $name(String);

        impl $name {
            pub(super) fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                $check(&text).map(|()| Self(text))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

checked! {
    /// Name of a label, as `app` or `example.com/app`.
    LabelKey, label_key
}
checked! {
    /// Value of a label; not empty.
    LabelValue, label_value
}
checked! {
    /// Name of a Node, in full.
    NodeName, node_name
}

fn label_key(text: &str) -> Result<(), String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if prefix.is_none_or(is_subdomain) && is_label_part(name) {
        return Ok(());
    }
    Err(format!("{text:?} cannot be the name of a label: write it as app, or as example.com/app"))
}

fn label_value(text: &str) -> Result<(), String> {
    if is_label_part(text) {
        return Ok(());
    }
    Err(format!(
        "{text:?} cannot be the value of a label: give 1 to 63 letters, digits, \"-\", \"_\" and \".\", with a letter or \
         digit at both ends"
    ))
}

fn node_name(text: &str) -> Result<(), String> {
    if text.contains('*') {
        return Err(format!("{text:?}: nodes are listed here by their full names, * is not understood"));
    }
    if is_subdomain(text) {
        return Ok(());
    }
    Err(format!("{text:?} can be the name of no node: give the name that `kubectl get nodes` shows"))
}

/// RFC 1123, as Kubernetes reads it.
fn is_subdomain(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    text.len() <= 253
        && text.split('.').all(|part| {
            let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            part.chars().all(legal) && ends(part.chars().next()) && ends(part.chars().last())
        })
}

fn is_label_part(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() <= 63 && text.chars().all(legal) && ends(text.chars().next()) && ends(text.chars().last())
}
