//! Names of nodes with `*`.

use serde::Deserialize;

/// A name in which `*` stands for any characters, or none.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Glob(String);

impl Glob {
    /// Whether the whole name matches.
    pub(super) fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        // Each part at its first place leaves the most for those that follow.
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
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
