//! Names of nodes with `*`.

use serde::Deserialize;
use windlass_common::wildcard;

/// A name in which `*` stands for any characters, or none.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Glob(String);

impl Glob {
    /// Returns true if the whole name matches.
    pub(super) fn matches(&self, name: &str) -> bool {
        wildcard::matches(&self.0, name)
    }
}

impl TryFrom<String> for Glob {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | '*');
        if text.is_empty() || text.len() > 253 || !text.chars().all(legal) {
            return Err(format!(
                "{text:?} matches no node: give a name as `kubectl get nodes` shows it, with * for any characters"
            ));
        }
        Ok(Self(text))
    }
}
