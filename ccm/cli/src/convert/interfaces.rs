//! Names of interfaces, and regular expressions of them as the patterns of an `Announcement`.

use super::expressions::{self, Patterns, is_interface};
use super::write::Place;

/// Patterns that an `Announcement` takes.
const MAX_PATTERNS: usize = 32;

/// The patterns of a regular expression that stands in `field`; none if it has none, which is reported.
pub(super) fn patterns(expression: &str, field: &str, place: &Place<'_>) -> Vec<String> {
    let patterns = expressions::patterns(expression, MAX_PATTERNS)
        .filter(|Patterns { patterns, .. }| patterns.iter().all(|pattern| is_interface(pattern)));
    let Some(Patterns { patterns, is_wider }) = patterns else {
        place.refuse(format!(
            "{field} {expression:?} is a regular expression that an Announcement cannot express, because its only wildcard is *: \
             write the names of the interfaces, or patterns with *, into its spec.interfaces"
        ));
        return Vec::new();
    };
    if is_wider {
        place.warn(format!(
            "{field} {expression:?} became {patterns:?}, which does not match exactly the same names, because the only wildcard \
             of an Announcement is *: make sure that it matches no other interface of the nodes"
        ));
    }
    patterns
}
