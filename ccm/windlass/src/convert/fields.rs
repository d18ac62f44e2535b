//! Reading the fields of an object that nobody has validated.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use super::selectors::{self, SelectorError};

/// Why a field cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FieldError {
    #[error("{field} is {found} where {expected} belongs: correct it")]
    WrongKind { field: String, expected: &'static str, found: String },
    #[error("{field} is missing: add it")]
    Missing { field: String },
    #[error("{field} {error}")]
    Selector { field: String, error: SelectorError },
}

/// The value at `path`, as `spec.addresses`; `None` if it is missing or null.
pub(super) fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, name| value.get(name)).filter(|value| !value.is_null())
}

/// A text; `None` if it is missing.
pub(super) fn text<'a>(object: &'a Value, path: &str) -> Result<Option<&'a str>, FieldError> {
    at(object, path).map(|value| value.as_str().ok_or_else(|| wrong(path, "a text", value))).transpose()
}

/// A truth value.
pub(super) fn boolean(object: &Value, path: &str, default: bool) -> Result<bool, FieldError> {
    at(object, path)
        .map_or(Ok(default), |value| value.as_bool().ok_or_else(|| wrong(path, "true or false", value)))
}

/// A whole number; 0 if it is missing.
pub(super) fn number(object: &Value, path: &str) -> Result<i64, FieldError> {
    at(object, path).map_or(Ok(0), |value| value.as_i64().ok_or_else(|| wrong(path, "a whole number", value)))
}

/// A list; empty if it is missing.
pub(super) fn list<'a>(object: &'a Value, path: &str) -> Result<&'a [Value], FieldError> {
    at(object, path).map_or(Ok(&[]), |value| {
        value.as_array().map(Vec::as_slice).ok_or_else(|| wrong(path, "a list", value))
    })
}

/// A list of texts; empty if it is missing.
pub(super) fn texts(object: &Value, path: &str) -> Result<Vec<String>, FieldError> {
    let item = |(index, value): (usize, &Value)| {
        value.as_str().map(str::to_owned).ok_or_else(|| wrong(&format!("{path}[{index}]"), "a text", value))
    };
    list(object, path)?.iter().enumerate().map(item).collect()
}

/// The labels of an object; none if they are missing.
pub(super) fn labels(object: &Value, path: &str) -> Result<BTreeMap<String, String>, FieldError> {
    let Some(value) = at(object, path) else { return Ok(BTreeMap::new()) };
    let labels = value.as_object().ok_or_else(|| wrong(path, "labels", value))?;
    let label = |(name, value): (&String, &Value)| match value.as_str() {
        Some(text) => Ok((name.clone(), text.to_owned())),
        None => Err(wrong(&format!("{path}.{name}"), "a text", value)),
    };
    labels.iter().map(label).collect()
}

/// A list of label selectors; empty if it is missing.
pub(super) fn label_selectors(object: &Value, path: &str) -> Result<Vec<LabelSelector>, FieldError> {
    let item = |(index, value): (usize, &Value)| selector(value, &format!("{path}[{index}]"));
    list(object, path)?.iter().enumerate().map(item).collect()
}

/// A name, which has to be there.
pub(super) fn name(object: &Value, path: &str) -> Result<String, FieldError> {
    let name = text(object, path)?.filter(|name| !name.is_empty());
    name.map(str::to_owned).ok_or_else(|| FieldError::Missing { field: path.to_owned() })
}

/// What a message calls an object.
pub(super) fn origin(object: &Value) -> String {
    let text = |value: &Value| {
        value.as_str().map(|text| text.chars().filter(|c| !c.is_control()).take(253).collect::<String>())
    };
    let kind = text(&object["kind"]).unwrap_or_else(|| "an object without kind".to_owned());
    match (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"])) {
        (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
        (None, Some(name)) => format!("{kind} {name}"),
        (_, None) => kind,
    }
}

/// A label selector; `None` if it is missing or selects all.
pub(super) fn label_selector(object: &Value, path: &str) -> Result<Option<LabelSelector>, FieldError> {
    let read = at(object, path).map(|value| selector(value, path)).transpose()?;
    Ok(read.filter(|selector| !selectors::selects_all(selector)))
}

/// The label selector that stands in `field`.
fn selector(value: &Value, field: &str) -> Result<LabelSelector, FieldError> {
    let selector: LabelSelector =
        serde_json::from_value(value.clone()).map_err(|_| wrong(field, "a label selector", value))?;
    match selectors::check(&selector) {
        Ok(()) => Ok(selector),
        Err(error) => Err(FieldError::Selector { field: field.to_owned(), error }),
    }
}

/// What a value is, shortened for a message.
fn wrong(field: &str, expected: &'static str, value: &Value) -> FieldError {
    let found = match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("{:?}", text.chars().take(60).collect::<String>()),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    FieldError::WrongKind { field: field.to_owned(), expected, found }
}
