//! Execution of requests on the stored objects: admission, versions, the history that watches show, deletion with finalizers.

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Inner, RecordedWrite};
use crate::testing::admission::{admit, is_custom};
use crate::testing::patches;

/// Base of the creation times, in seconds since 1970.
const EPOCH: i64 = 1_767_225_600;

impl Inner {
    /// Executes a request, and records it if it is a write.
    pub(super) fn handle(
        &mut self,
        method: &Method,
        path: &str,
        body: Value,
        strategic: bool,
    ) -> Result<Value, (u16, String)> {
        let (verb, subresource) = match *method {
            Method::GET => return self.read(path),
            Method::POST => ("create", ""),
            Method::PUT => ("update", ""),
            Method::PATCH => ("patch", path.strip_suffix("/status").map_or("", |_| "status")),
            Method::DELETE => ("delete", ""),
            _ => return Err((405, format!("{method} is not supported"))),
        };
        self.writes.push(RecordedWrite { verb, path: path.to_owned(), body: body.clone() });
        if let Some(at) =
            self.refusals.iter().position(|(v, p, _)| *v == verb && path.starts_with(p.as_str()))
        {
            let (_, _, code) = self.refusals.remove(at);
            return Err((code, format!("fault {code}")));
        }
        let key = path.strip_suffix("/status").unwrap_or(path).to_owned();
        if verb == "create" {
            if let Some(answer) = self.access_rules.review(&key, body.clone()) {
                return Ok(answer);
            }
            let scope = if key.contains('/') { "" } else { "/" };
            let key = format!("{key}{scope}/{}", body["metadata"]["name"].as_str().unwrap_or_default());
            if self.objects.contains_key(&key) {
                return Err((409, format!("{key} already exists")));
            }
            return Ok(self.store(&key, self.with_server_fields(body)));
        }
        let current = self.objects.get(&key).cloned().ok_or((404, format!("{key} not found")))?;
        if verb == "delete" {
            return self.delete(&key, current, &body["preconditions"]);
        }
        let mut next = if verb == "update" { body.clone() } else { current.clone() };
        if verb == "patch" && strategic {
            patches::strategic(&mut next, &body).map_err(|reason| (422, reason))?;
        } else if verb == "patch" {
            patches::merge(&mut next, &body);
        }
        admit(&current, &mut next, &body, verb, subresource)?;
        Ok(self.store(&key, next))
    }

    /// Returns one object, or the list of a kind.
    fn read(&self, path: &str) -> Result<Value, (u16, String)> {
        if let Some(object) = self.objects.get(path) {
            return Ok(object.clone());
        }
        // `services/ns` lists those of one namespace.
        if path.matches('/').count() > 1 {
            return Err((404, format!("{path} not found")));
        }
        let prefix = format!("{path}/");
        let items: Vec<_> = self
            .objects
            .iter()
            .filter(|(key, _)| key.starts_with(&prefix))
            .map(|(_, object)| object)
            .collect();
        Ok(json!({
            "kind": "List", "apiVersion": "v1", "items": items,
            "metadata": { "resourceVersion": self.version.to_string() }
        }))
    }

    /// Returns the object with the fields that the API server sets in a new one: its UID, and a creation time that orders objects by age.
    fn with_server_fields(&self, mut object: Value) -> Value {
        let next = self.version + 1;
        let created = i64::try_from(next).ok().and_then(|next| Timestamp::from_second(EPOCH + next).ok());
        let metadata = &mut object["metadata"];
        if metadata["uid"].is_null() {
            metadata["uid"] = json!(format!("uid-{next}"));
        }
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = json!(created.unwrap_or_default().to_string());
        }
        if is_custom(&object) {
            object.as_object_mut().map(|fields| fields.remove("status"));
        }
        object
    }

    /// Deletes an object if the preconditions hold; with finalizers it is only marked.
    fn delete(&mut self, key: &str, current: Value, conditions: &Value) -> Result<Value, (u16, String)> {
        for field in ["uid", "resourceVersion"] {
            let asked = &conditions[field];
            if !asked.is_null() && *asked != current["metadata"][field] {
                return Err((409, format!("{key}: the precondition {field} failed")));
            }
        }
        let mut going = current;
        if going["metadata"]["deletionTimestamp"].is_null() {
            going["metadata"]["deletionTimestamp"] =
                json!(Timestamp::from_second(EPOCH).unwrap_or_default().to_string());
        }
        Ok(self.store(key, going))
    }

    /// Stores an object under its next version, or removes one that is being deleted and has no finalizer.
    pub(super) fn store(&mut self, key: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let going = !object["metadata"]["deletionTimestamp"].is_null();
        let kept = object
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array)
            .is_some_and(|all| !all.is_empty());
        if going && !kept {
            let removed = self.objects.remove(key);
            self.history.push((self.version, "DELETED", key.to_owned(), object.clone()));
            // Watches are shown a version of its own; the answer carries that of what was removed.
            let version = removed.map(|mut removed| removed["metadata"]["resourceVersion"].take());
            object["metadata"]["resourceVersion"] = version.unwrap_or_default();
            return object;
        }
        let kind =
            if self.objects.insert(key.to_owned(), object.clone()).is_some() { "MODIFIED" } else { "ADDED" };
        self.history.push((self.version, kind, key.to_owned(), object.clone()));
        object
    }
}
