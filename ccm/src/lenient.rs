//! Objects as the API server holds them, which is more than our types can: one that cannot be read must not hide all others.
//!
//! A list is one answer, and with the plain types one object in it that does not decode makes all of it useless. Two things
//! are done about that. Times that no `Timestamp` holds (the API server takes the years 9999 and 0, and what a time zone
//! makes of them) become the nearest that it holds. What still does not decode is an object of its own, known by its
//! metadata.
//!
//! In the events of a watch the type must come before the object, as the API server writes them.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

#[cfg(test)]
mod tests;

/// Fields whose text is whatever their users like: what looks like a time there is none.
const FREE_TEXT: [&str; 6] = ["annotations", "labels", "matchLabels", "selector", "nodeSelector", "data"];

/// An object, or what is known of one that cannot be read. Use it for `K` in an [`kube::Api`].
#[derive(Debug, Clone)]
pub struct Lenient<K>(Result<K, Box<Unreadable>>);

/// An object that does not decode.
#[derive(Debug, Clone, PartialEq)]
pub struct Unreadable {
    /// Its name, namespace, UID and version, and no more.
    pub metadata: ObjectMeta,
    /// Decoding error.
    pub reason: String,
}

impl<K> Lenient<K> {
    /// An object to write.
    pub fn new(object: K) -> Self {
        Self(Ok(object))
    }

    /// The object.
    ///
    /// # Errors
    /// When it does not decode: what is known of it.
    pub fn read(self) -> Result<K, Box<Unreadable>> {
        self.0
    }

    /// The object in the answer to a call for one.
    ///
    /// # Errors
    /// When it does not decode.
    pub fn readable(self) -> Result<K, kube::Error> {
        self.0.map_err(|unreadable| {
            let name = unreadable.metadata.name.as_deref().unwrap_or_default();
            let words = format!("{name} does not decode: {}", unreadable.reason);
            kube::Error::SerdeError(serde_json::Error::custom(words))
        })
    }
}

/// Makes a call that is answered with an object.
///
/// # Errors
/// Those of the call, and when the object does not decode.
pub async fn read<K>(call: impl Future<Output = Result<Lenient<K>, kube::Error>>) -> Result<K, kube::Error> {
    call.await.and_then(Lenient::readable)
}

/// Makes a call that is answered with an object if there is one.
///
/// # Errors
/// Those of the call, and when the object does not decode.
pub async fn read_opt<K>(
    call: impl Future<Output = Result<Option<Lenient<K>>, kube::Error>>,
) -> Result<Option<K>, kube::Error> {
    call.await.and_then(|object| object.map(Lenient::readable).transpose())
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Lenient<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        match serde_json::from_str(raw.get()) {
            Ok(object) => Ok(Self(Ok(object))),
            Err(_) => decode_leniently(raw.get()).map_err(D::Error::custom),
        }
    }
}

/// Reads an object that does not decode as it is.
fn decode_leniently<K: DeserializeOwned>(text: &str) -> Result<Lenient<K>, serde_json::Error> {
    let mut value: Value = serde_json::from_str(text)?;
    clamp_times(&mut value);
    let metadata = identity(&value);
    match serde_json::from_value(value) {
        Ok(object) => Ok(Lenient(Ok(object))),
        // The object cannot be identified: it counts as none.
        Err(error) if metadata.name.is_none() => Err(error),
        Err(error) => Ok(Lenient(Err(Box::new(Unreadable { metadata, reason: error.to_string() })))),
    }
}

/// Returns the metadata that identifies an object: name, namespace, UID and version.
fn identity(object: &Value) -> ObjectMeta {
    let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
    ObjectMeta {
        name: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        ..ObjectMeta::default()
    }
}

/// Replaces times that no `Timestamp` holds by the nearest that it holds.
fn clamp_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(text) if is_time(field) => clamp_time(text),
                    // So Go writes the year 1, and conditions cannot be without.
                    Value::Null if field == "lastTransitionTime" => {
                        *value = Value::String(Timestamp::UNIX_EPOCH.to_string());
                    }
                    Value::Object(_) | Value::Array(_) if !FREE_TEXT.contains(&field.as_str()) => {
                        clamp_times(value);
                    }
                    _ => {}
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clamp_times),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns true if a field of this name holds a time, by the naming conventions of Kubernetes.
fn is_time(field: &str) -> bool {
    field == "time" || field == "timeAdded" || field.ends_with("Time") || field.ends_with("Timestamp")
}

fn clamp_time(text: &mut String) {
    if text.parse::<Timestamp>().is_ok() {
        return;
    }
    match text.as_bytes() {
        [b'-', ..] => *text = Timestamp::UNIX_EPOCH.to_string(),
        [b'0'..=b'9', ..] => *text = Timestamp::MAX.to_string(),
        _ => {}
    }
}

impl<K: Serialize> Serialize for Lenient<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Ok(object) => object.serialize(serializer),
            Err(unreadable) => Err(serde::ser::Error::custom(&unreadable.reason)),
        }
    }
}

impl<K: Resource> Resource for Lenient<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &K::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &K::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(object) => object.meta(),
            Err(unreadable) => &unreadable.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => object.meta_mut(),
            Err(unreadable) => &mut unreadable.metadata,
        }
    }
}
