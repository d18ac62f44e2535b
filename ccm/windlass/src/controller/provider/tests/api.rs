//! The part of an API server that claims need: VirtualIPs that are created, read and deleted, names being unique.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use windlass_api::VirtualIP;

const PATH: &str = "/apis/windlass.dev/v1alpha1/virtualips";

#[derive(Default)]
struct Inner {
    version: u64,
    objects: BTreeMap<String, Value>,
    writes: Vec<String>,
    /// Requests that are carried out and then answered with an error.
    lost_answers: usize,
}

/// The API server; clones are the same one.
#[derive(Clone, Default)]
pub(super) struct Api(Arc<Mutex<Inner>>);

impl Api {
    pub(super) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let method = request.method().clone();
                let name = request
                    .uri()
                    .path()
                    .strip_prefix(PATH)
                    .map(|rest| rest.trim_start_matches('/').to_owned());
                let body = request.into_body().collect_bytes().await.expect("a body");
                // Others may come first.
                tokio::task::yield_now().await;
                let body =
                    if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).expect("JSON") };
                let (code, answer) = api.answer(&method, &name.expect("a path of VirtualIPs"), body);
                tokio::task::yield_now().await;
                let body = Body::from(serde_json::to_vec(&answer).expect("JSON"));
                Ok::<_, Infallible>(Response::builder().status(code).body(body).expect("an answer"))
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, method: &Method, name: &str, body: Value) -> (u16, Value) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = |code: u16, reason: &str| {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                                 "reason": reason, "message": reason, "metadata": {} });
            (code, status)
        };
        let known = inner.objects.get(name).cloned();
        let done = match (method, known) {
            (&Method::GET, Some(object)) => (200, object),
            (&Method::GET | &Method::DELETE, None) => refused(404, "NotFound"),
            (&Method::DELETE, Some(object)) => {
                if body["preconditions"]["uid"] != object["metadata"]["uid"] {
                    return refused(409, "Conflict");
                }
                inner.writes.push(format!("delete {name}"));
                inner.objects.remove(name);
                (200, object)
            }
            (&Method::POST, _) => {
                let name = body["metadata"]["name"].as_str().expect("a name").to_owned();
                if inner.objects.contains_key(&name) {
                    return refused(409, "AlreadyExists");
                }
                inner.writes.push(format!("create {name}"));
                (201, inner.store(body))
            }
            (method, _) => panic!("unexpected {method} {name}"),
        };
        if inner.lost_answers > 0 && *method == Method::POST {
            inner.lost_answers -= 1;
            return refused(500, "InternalError");
        }
        done
    }

    /// Writes an object as another client would, and returns it.
    pub(super) fn put(&self, object: &VirtualIP) -> VirtualIP {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = inner.store(serde_json::to_value(object).expect("JSON"));
        serde_json::from_value(stored).expect("a VirtualIP")
    }

    /// Deletes an object as another client would.
    pub(super) fn remove(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).objects.remove(name);
    }

    /// The next creation is carried out, and its answer lost.
    pub(super) fn lose_answer(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lost_answers += 1;
    }

    /// `name owner` of every object.
    pub(super) fn claims(&self) -> Vec<(String, String)> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let owner =
            |object: &Value| object["spec"]["owners"][0]["name"].as_str().expect("an owner").to_owned();
        inner.objects.iter().map(|(name, object)| (name.clone(), owner(object))).collect()
    }

    /// Every object.
    pub(super) fn objects(&self) -> Vec<VirtualIP> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner
            .objects
            .values()
            .map(|object| serde_json::from_value(object.clone()).expect("a VirtualIP"))
            .collect()
    }

    /// The writes so far, and forgets them.
    pub(super) fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).writes)
    }
}

impl Inner {
    fn store(&mut self, mut object: Value) -> Value {
        self.version += 1;
        let version = self.version + 100;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("vip-{version}"));
        }
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        self.objects.insert(name, object.clone());
        object
    }
}
