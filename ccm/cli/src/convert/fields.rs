//! Reads the fields of an object without validation, and finds the fields that nothing read.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use super::selectors::{self, SelectorError};

/// Reason why a field cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FieldError {
    #[error("{field} is {found} instead of {expected}: correct it")]
    WrongKind { field: String, expected: &'static str, found: String },
    #[error("{field} is missing: add it")]
    Missing { field: String },
    #[error("{field} {error}")]
    Selector { field: String, error: SelectorError },
}

/// An object of the input, or a part of one. It records which of its fields were read.
pub(super) struct Object<'a> {
    value: &'a Value,
    /// Path of the part in the whole object; empty for the whole.
    path: String,
    /// Paths that were read, of all parts of the whole.
    read: Rc<RefCell<BTreeSet<String>>>,
}

impl<'a> Object<'a> {
    pub(super) fn new(value: &'a Value) -> Self {
        Self { value, path: String::new(), read: Rc::default() }
    }

    pub(super) const fn value(&self) -> &'a Value {
        self.value
    }

    pub(super) fn kind(&self) -> &'a str {
        self.value["kind"].as_str().unwrap_or_default()
    }

    /// True if its API group is `group`, of any version.
    pub(super) fn is_of(&self, group: &str) -> bool {
        let version = self.value["apiVersion"].as_str().and_then(|version| version.strip_prefix(group));
        version.is_some_and(|version| version.starts_with('/'))
    }

    /// The path of a field in the whole object.
    pub(super) fn path(&self, field: &str) -> String {
        match (self.path.as_str(), field) {
            ("", field) => field.to_owned(),
            (path, "") => path.to_owned(),
            (path, field) => format!("{path}.{field}"),
        }
    }

    /// The part at `field`; `None` if it is missing.
    pub(super) fn part(&self, field: &str) -> Option<Self> {
        let value = look(self.value, field)?;
        Some(Self { value, path: self.path(field), read: Rc::clone(&self.read) })
    }

    /// The parts in the list at `field`; none if it is missing.
    pub(super) fn parts(&self, field: &str) -> Result<Vec<Self>, FieldError> {
        let Some(value) = look(self.value, field) else { return Ok(Vec::new()) };
        let items = value.as_array().ok_or_else(|| wrong(self.path(field), "a list", value))?;
        let part = |(index, value)| Self {
            value,
            path: format!("{}[{index}]", self.path(field)),
            read: Rc::clone(&self.read),
        };
        Ok(items.iter().enumerate().map(part).collect())
    }

    /// Marks a field as read.
    pub(super) fn mark(&self, field: &str) {
        self.read.borrow_mut().insert(self.path(field));
    }

    /// The fields that are set and that nothing read, without those that every object has. Of a field with parts, the parts if
    /// one of them was read or is `known`, else the field.
    pub(super) fn unread(&self, known: &[(&str, &str)]) -> Vec<(String, &'a Value)> {
        let mut unread = Vec::new();
        for (name, value) in self.value.as_object().into_iter().flatten() {
            let is_general = self.path.is_empty()
                && matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status");
            if !is_general {
                walk(value, self.path(name), &self.read.borrow(), known, &mut unread);
            }
        }
        unread
    }
}

fn walk<'a>(
    value: &'a Value,
    path: String,
    read: &BTreeSet<String>,
    known: &[(&str, &str)],
    unread: &mut Vec<(String, &'a Value)>,
) {
    if read.contains(&path) || is_unset(value) {
        return;
    }
    let below =
        |other: &str| other.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']));
    let pattern = pattern(&path);
    let has_read_parts =
        read.range(path.clone()..).take_while(|other| other.starts_with(&path)).any(|other| below(other));
    let has_known_parts = known
        .iter()
        .any(|(other, _)| other.strip_prefix(pattern.as_str()).is_some_and(|rest| rest.starts_with('.')));
    match value {
        Value::Object(fields) if path == "spec" || has_read_parts || has_known_parts => {
            for (name, value) in fields {
                walk(value, format!("{path}.{name}"), read, known, unread);
            }
        }
        Value::Array(items) if has_read_parts || has_known_parts => {
            for (index, value) in items.iter().enumerate() {
                walk(value, format!("{path}[{index}]"), read, known, unread);
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            unread.push((path, value));
        }
    }
}

/// True of values that Go leaves out: they are as if they were not there.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is) => !is,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// A path without the numbers of items.
pub(super) fn pattern(path: &str) -> String {
    let mut parts = path.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |pattern, part| pattern + part.split_once(']').map_or("", |(_, rest)| rest))
}

/// The value at `path`, as `spec.addresses`; `None` if it is missing or null.
fn look<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.').filter(|name| !name.is_empty());
    names.try_fold(value, |value, name| value.get(name)).filter(|value| !value.is_null())
}

/// The value at `path`, which counts as read.
pub(super) fn at<'a>(object: &Object<'a>, path: &str) -> Option<&'a Value> {
    object.mark(path);
    look(object.value, path)
}

/// A text; `None` if it is missing.
pub(super) fn text<'a>(object: &Object<'a>, path: &str) -> Result<Option<&'a str>, FieldError> {
    at(object, path)
        .map(|value| value.as_str().ok_or_else(|| wrong(object.path(path), "a text", value)))
        .transpose()
}

/// A truth value.
pub(super) fn boolean(object: &Object<'_>, path: &str, default: bool) -> Result<bool, FieldError> {
    at(object, path).map_or(Ok(default), |value| {
        value.as_bool().ok_or_else(|| wrong(object.path(path), "true or false", value))
    })
}

/// A whole number; 0 if it is missing.
pub(super) fn number(object: &Object<'_>, path: &str) -> Result<i64, FieldError> {
    at(object, path).map_or(Ok(0), |value| {
        value.as_i64().ok_or_else(|| wrong(object.path(path), "a whole number", value))
    })
}

/// A list; empty if it is missing.
pub(super) fn list<'a>(object: &Object<'a>, path: &str) -> Result<&'a [Value], FieldError> {
    at(object, path).map_or(Ok(&[]), |value| {
        value.as_array().map(Vec::as_slice).ok_or_else(|| wrong(object.path(path), "a list", value))
    })
}

/// A list of texts; empty if it is missing.
pub(super) fn texts(object: &Object<'_>, path: &str) -> Result<Vec<String>, FieldError> {
    let item = |(index, value): (usize, &Value)| {
        let path = || format!("{}[{index}]", object.path(path));
        value.as_str().map(str::to_owned).ok_or_else(|| wrong(path(), "a text", value))
    };
    list(object, path)?.iter().enumerate().map(item).collect()
}

/// The labels of an object; none if they are missing.
pub(super) fn labels(object: &Object<'_>, path: &str) -> Result<BTreeMap<String, String>, FieldError> {
    let Some(value) = at(object, path) else { return Ok(BTreeMap::new()) };
    let labels = value.as_object().ok_or_else(|| wrong(object.path(path), "labels", value))?;
    let label = |(name, value): (&String, &Value)| match value.as_str() {
        Some(text) => Ok((name.clone(), text.to_owned())),
        None => Err(wrong(format!("{}.{name}", object.path(path)), "a text", value)),
    };
    labels.iter().map(label).collect()
}

/// A list of label selectors; empty if it is missing.
pub(super) fn label_selectors(object: &Object<'_>, path: &str) -> Result<Vec<LabelSelector>, FieldError> {
    let item = |(index, value): (usize, &Value)| selector(value, &format!("{}[{index}]", object.path(path)));
    list(object, path)?.iter().enumerate().map(item).collect()
}

/// A name, which has to be there.
pub(super) fn name(object: &Object<'_>, path: &str) -> Result<String, FieldError> {
    let name = text(object, path)?.filter(|name| !name.is_empty());
    name.map(str::to_owned).ok_or_else(|| FieldError::Missing { field: object.path(path) })
}

/// Returns the name of an object for messages: kind, namespace and name.
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
pub(super) fn label_selector(object: &Object<'_>, path: &str) -> Result<Option<LabelSelector>, FieldError> {
    let read = at(object, path).map(|value| selector(value, &object.path(path))).transpose()?;
    Ok(read.filter(|selector| !selectors::selects_all(selector)))
}

/// The label selector that stands in `field`.
fn selector(value: &Value, field: &str) -> Result<LabelSelector, FieldError> {
    let selector: LabelSelector = serde_json::from_value(value.clone())
        .map_err(|_| wrong(field.to_owned(), "a label selector", value))?;
    match selectors::check(&selector) {
        Ok(()) => Ok(selector),
        Err(error) => Err(FieldError::Selector { field: field.to_owned(), error }),
    }
}

fn wrong(field: String, expected: &'static str, value: &Value) -> FieldError {
    FieldError::WrongKind { field, expected, found: shown(value) }
}

/// A value, shortened for a message.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("{:?}", text.chars().take(60).collect::<String>()),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
