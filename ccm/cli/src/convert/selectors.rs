//! Label selectors as `VirtualIPPool`s and Announcements take them: the rules of Kubernetes, with bounds.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use windlass_common::label_selector;

/// Maximum numbers of labels and expressions of a selector, and of values of an expression.
const MAX_PARTS: usize = 16;
const MAX_VALUES: usize = 32;

/// Reason why Windlass refuses a selector.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SelectorError {
    #[error(
        "has {0} labels or expressions, and a selector of Windlass has at most {MAX_PARTS} of each; split it"
    )]
    TooManyParts(usize),
    #[error("has {0} values, and a selector of Windlass has at most {MAX_VALUES}; split it")]
    TooManyValues(usize),
    #[error("has {0:?}, which is not a valid name of a label; correct it")]
    Name(String),
    #[error("has the value {0:?}, which is not a valid value of a label; correct it")]
    Value(String),
    #[error("has the operator {0:?}; write In, NotIn, Exists or DoesNotExist")]
    Operator(String),
    #[error(
        "has the operator {0} with {1} values: In and NotIn need at least one, Exists and DoesNotExist take none; correct it"
    )]
    Values(String, usize),
}

/// Checks that Windlass accepts the selector.
pub(super) fn check(selector: &LabelSelector) -> Result<(), SelectorError> {
    let labels = selector.match_labels.iter().flatten();
    let expressions = selector.match_expressions.as_deref().unwrap_or_default();
    let parts = labels.clone().count().max(expressions.len());
    if parts > MAX_PARTS {
        return Err(SelectorError::TooManyParts(parts));
    }
    for (name, value) in labels {
        check_name(name)?;
        check_value(value)?;
    }
    expressions.iter().try_for_each(check_expression)
}

/// Returns true if the selector has no conditions.
pub(super) fn selects_all(selector: &LabelSelector) -> bool {
    selector.match_labels.iter().flatten().next().is_none()
        && selector.match_expressions.iter().flatten().next().is_none()
}

/// Returns true if the selector, which has passed `check`, selects an object with these labels.
pub(super) fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    label_selector::selector(selector).is_ok_and(|selector| selector.matches(labels))
}

fn check_expression(expression: &LabelSelectorRequirement) -> Result<(), SelectorError> {
    let LabelSelectorRequirement { key, operator, values } = expression;
    let values = values.as_deref().unwrap_or_default();
    let compares = match operator.as_str() {
        "In" | "NotIn" => true,
        "Exists" | "DoesNotExist" => false,
        _ => return Err(SelectorError::Operator(operator.clone())),
    };
    if compares == values.is_empty() {
        return Err(SelectorError::Values(operator.clone(), values.len()));
    }
    if values.len() > MAX_VALUES {
        return Err(SelectorError::TooManyValues(values.len()));
    }
    check_name(key)?;
    values.iter().try_for_each(|value| check_value(value))
}

/// `name` or `example.com/name`.
fn check_name(name: &str) -> Result<(), SelectorError> {
    let (prefix, last) = name.rsplit_once('/').map_or((None, name), |(prefix, last)| (Some(prefix), last));
    let domain = |prefix: &str| {
        prefix.len() <= 253
            && is_word(prefix, |c| c.is_ascii_lowercase() || c.is_ascii_digit(), |c| matches!(c, '-' | '.'))
    };
    if is_label_word(last) && prefix.is_none_or(domain) {
        Ok(())
    } else {
        Err(SelectorError::Name(name.to_owned()))
    }
}

fn check_value(value: &str) -> Result<(), SelectorError> {
    if value.is_empty() || is_label_word(value) {
        Ok(())
    } else {
        Err(SelectorError::Value(value.to_owned()))
    }
}

fn is_label_word(word: &str) -> bool {
    word.len() <= 63 && is_word(word, |c| c.is_ascii_alphanumeric(), |c| matches!(c, '-' | '_' | '.'))
}

/// Returns true if `word` begins and ends with an outer character and contains only outer and inner ones.
fn is_word(word: &str, outer: impl Fn(char) -> bool, inner: impl Fn(char) -> bool) -> bool {
    word.starts_with(&outer) && word.ends_with(&outer) && word.chars().all(|c| outer(c) || inner(c))
}

#[cfg(test)]
mod tests;
