//! An API server in memory: lists, watches, patches and preconditions of the few kinds that the controllers use, with
//! the rules of the real one that they depend on. It records every write.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Method, Request, Response};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::faults::{Cut, Dice, Fate, Faults, Weather};
use super::patches;
use super::reviews::Accounts;

/// When the first object was made, in seconds since 1970.
const EPOCH: i64 = 1_767_225_600;

/// A write, as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// `create`, `update`, `patch` or `delete`.
    pub verb: &'static str,
    /// `services/default/web/status`.
    pub path: String,
    /// What was sent.
    pub body: Value,
}

impl Write {
    /// `type reason message` of an event, `None` for any other write.
    pub fn event(&self) -> Option<String> {
        let text = |field: &str| self.body[field].as_str().unwrap_or_default().to_owned();
        (self.verb == "create" && self.path.starts_with("events/"))
            .then(|| format!("{} {} {}", text("type"), text("reason"), text("message")))
    }
}

/// Errors that single writes are answered with.
type Fault = (&'static str, String, u16);

#[derive(Default)]
struct Inner {
    version: u64,
    /// By `plural/namespace/name` (`plural//name` for nodes).
    objects: BTreeMap<String, Value>,
    history: Vec<(u64, &'static str, String, Value)>,
    writes: Vec<Write>,
    refusals: Vec<Fault>,
    faults: Faults,
    accounts: Accounts,
    clients: u64,
    silent: bool,
    unhealthy: bool,
}

/// The API server; clones are the same one.
#[derive(Clone, Default)]
pub struct ApiServer {
    inner: Arc<Mutex<Inner>>,
    changed: Arc<Notify>,
}

impl ApiServer {
    /// A client in the namespace `default`.
    pub fn client(&self) -> Client {
        self.numbered_client().0
    }

    /// A client, and the number by which it can be cut off.
    pub fn numbered_client(&self) -> (Client, u64) {
        let number = {
            let mut inner = self.lock();
            inner.clients += 1;
            inner.clients
        };
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, std::convert::Infallible>(server.meet(number, request).await) }
        });
        (Client::new(service, "default"), number)
    }

    /// The client is cut off at its write after the next `at` ones (events do not count): no request of it arrives or is
    /// answered after that.
    pub fn cut_at_write(&self, client: u64, at: usize, cut: Cut) {
        self.lock().faults.cut(client, at, cut);
    }

    /// The client is cut off.
    pub fn cut_off(&self, client: u64) {
        self.lock().faults.cut_off_now(client);
        self.changed.notify_waiters();
    }

    /// Whether the client is cut off.
    pub fn is_cut_off(&self, client: u64) -> bool {
        self.lock().faults.is_cut_off(client)
    }

    /// What happens to requests from now on, by a repeatable sequence.
    pub fn set_weather(&self, weather: Weather, seed: u64) {
        let mut inner = self.lock();
        inner.faults.weather = weather;
        inner.faults.dice = Dice::new(seed);
    }

    /// Waits until something is written.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// All objects of one plural, as `virtualips`.
    pub fn list(&self, plural: &str) -> Vec<Value> {
        let prefix = format!("{plural}/");
        let inner = self.lock();
        let of_kind = inner.objects.iter().filter(|(key, _)| key.starts_with(&prefix));
        of_kind.map(|(_, object)| object.clone()).collect()
    }

    /// Creates or replaces an object, as a user would.
    pub fn put(&self, object: Value) {
        let key = key_of(&object);
        self.lock().store(&key, object);
        self.changed.notify_waiters();
    }

    /// Merges a change into an object, as a user would.
    pub fn edit(&self, key: &str, change: &Value) {
        {
            let mut inner = self.lock();
            let mut object = inner.objects[key].clone();
            patches::merge(&mut object, change);
            inner.store(key, object);
        }
        self.changed.notify_waiters();
    }

    /// Deletes an object as the API server does: with finalizers it is only marked.
    pub fn delete(&self, key: &str) {
        self.edit(key, &json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
    }

    /// An object by its key, as `services/default/web` or `nodes//n1`.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.lock().objects.get(key).cloned()
    }

    /// TokenReviews of this token name this user and these groups.
    pub fn add_token(&self, token: &str, user: &str, groups: &[&str]) {
        let user = json!({ "username": user, "uid": format!("uid-{user}"), "groups": groups });
        self.lock().accounts.tokens.insert(token.to_owned(), user);
    }

    /// The token is none any more.
    pub fn remove_token(&self, token: &str) {
        self.lock().accounts.tokens.remove(token);
    }

    /// SubjectAccessReviews of this user or group, for this verb and path outside the resources, are allowed.
    pub fn permit(&self, who: &str, verb: &str, path: &str) {
        self.lock().accounts.rights.insert((who.to_owned(), verb.to_owned(), path.to_owned()));
    }

    /// The next write of this verb whose path starts like this is answered with an error.
    pub fn fail(&self, verb: &'static str, path: &str, code: u16) {
        self.lock().refusals.push((verb, path.to_owned(), code));
    }

    /// Whether `/healthz` says from now on that all is well.
    pub fn set_healthy(&self, healthy: bool) {
        self.lock().unhealthy = !healthy;
    }

    /// From now on no request is answered, or all are again.
    pub fn set_silent(&self, silent: bool) {
        self.lock().silent = silent;
        self.changed.notify_waiters();
    }

    /// The writes so far, and forgets them.
    pub fn take_writes(&self) -> Vec<Write> {
        std::mem::take(&mut self.lock().writes)
    }

    /// The writes so far.
    pub fn writes(&self) -> Vec<Write> {
        self.lock().writes.clone()
    }

    /// The events written so far, in order.
    pub fn events(&self) -> Vec<String> {
        self.lock().writes.iter().filter_map(Write::event).collect()
    }

    /// Waits until `condition` holds, at most 20 minutes of the test's virtual time.
    pub async fn until(&self, what: &str, mut condition: impl FnMut(&Self) -> bool) {
        let limit = tokio::time::Instant::now() + Duration::from_mins(20);
        while !condition(self) {
            {
                let inner = self.lock();
                assert!(
                    tokio::time::Instant::now() < limit,
                    "waited in vain for: {what}\nwrites: {:#?}\nobjects: {:#?}",
                    inner.writes,
                    inner.objects
                );
            }
            // Virtual time: this lets every other task run first.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the way to the API server and back does to a request.
    async fn meet(&self, client: u64, request: Request<Body>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let watches = request.uri().query().unwrap_or_default().contains("watch=true");
        if watches {
            let response = self.answer(request).await;
            self.stay_if_cut_off(client).await;
            return response;
        }
        self.delay().await;
        self.stay_if_cut_off(client).await;
        let counts = request.method() != Method::GET && !path.contains("/events");
        let cut = if counts { self.lock().faults.write(client) } else { None };
        if cut == Some(Cut::Before) {
            self.changed.notify_waiters();
            return std::future::pending().await;
        }
        let fate = self.lock().faults.fate();
        if let Fate::Refused(code) = fate {
            return respond(code, &failure(code, "refused, as the test orders"));
        }
        let response = self.answer(request).await;
        self.delay().await;
        if cut.is_some() {
            self.changed.notify_waiters();
        }
        self.stay_if_cut_off(client).await;
        if fate == Fate::Lost { respond(500, &failure(500, "lost, as the test orders")) } else { response }
    }

    async fn stay_if_cut_off(&self, client: u64) {
        if self.is_cut_off(client) {
            std::future::pending::<()>().await;
        }
    }

    async fn delay(&self) {
        let delay = {
            let faults = &mut self.lock().faults;
            let longest = faults.weather.delay_ms;
            if longest == 0 { 0 } else { faults.dice.below(longest + 1) }
        };
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        while self.lock().silent {
            let changed = self.changed.notified();
            if self.lock().silent {
                changed.await;
            }
        }
        let (parts, body) = request.into_parts();
        if parts.uri.path() == "/healthz" {
            let code = if self.lock().unhealthy { 500 } else { 200 };
            return respond(code, &json!("health"));
        }
        let path = resource(parts.uri.path());
        let query = parts.uri.query().unwrap_or_default().to_owned();
        if parts.method == Method::GET && query.contains("watch=true") {
            return self.watch(&path, &query).await;
        }
        let body = body.collect_bytes().await.expect("a body");
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let strategic = parts
            .headers
            .get("content-type")
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/strategic-merge-patch"));
        let answer = self.lock().handle(&parts.method, &path, body, strategic);
        self.changed.notify_waiters();
        match answer {
            Ok(value) => respond(200, &value),
            Err((code, message)) => respond(code, &failure(code, &message)),
        }
    }

    /// Answers with the changes since the version asked for as soon as there are any; the client then asks again.
    async fn watch(&self, plural: &str, query: &str) -> Response<Body> {
        let since: u64 = query
            .split('&')
            .find_map(|part| part.strip_prefix("resourceVersion="))
            .and_then(|version| version.parse().ok())
            .unwrap_or_default();
        let prefix = format!("{plural}/");
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let lines: Vec<String> = self
                .lock()
                .history
                .iter()
                .filter(|(version, _, key, _)| *version > since && key.starts_with(&prefix))
                .map(|(_, kind, _, object)| json!({ "type": kind, "object": object }).to_string())
                .collect();
            if !lines.is_empty() {
                return Response::builder()
                    .status(200)
                    .body(Body::from((lines.join("\n") + "\n").into_bytes()))
                    .expect("a response");
            }
            changed.await;
        }
    }
}

impl Inner {
    fn handle(
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
        self.writes.push(Write { verb, path: path.to_owned(), body: body.clone() });
        if let Some(at) =
            self.refusals.iter().position(|(v, p, _)| *v == verb && path.starts_with(p.as_str()))
        {
            let (_, _, code) = self.refusals.remove(at);
            return Err((code, format!("fault {code}")));
        }
        let key = path.strip_suffix("/status").unwrap_or(path).to_owned();
        if verb == "create" {
            if let Some(answer) = self.accounts.review(&key, body.clone()) {
                return Ok(answer);
            }
            let scope = if key.contains('/') { "" } else { "/" };
            let key = format!("{key}{scope}/{}", body["metadata"]["name"].as_str().unwrap_or_default());
            if self.objects.contains_key(&key) {
                return Err((409, format!("{key} already exists")));
            }
            return Ok(self.store(&key, self.born(body)));
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
        admit(&current, &mut next, &body, subresource)?;
        Ok(self.store(&key, next))
    }

    fn read(&self, path: &str) -> Result<Value, (u16, String)> {
        if let Some(object) = self.objects.get(path) {
            return Ok(object.clone());
        }
        // `configmaps/kube-system` lists those of one namespace.
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

    /// What the API server sets in a new object: its UID, and a creation time that orders objects by age.
    fn born(&self, mut object: Value) -> Value {
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

    fn store(&mut self, key: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let going = !object["metadata"]["deletionTimestamp"].is_null();
        let kept = object
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array)
            .is_some_and(|all| !all.is_empty());
        let kind = if going && !kept {
            self.objects.remove(key);
            "DELETED"
        } else if self.objects.insert(key.to_owned(), object.clone()).is_some() {
            "MODIFIED"
        } else {
            "ADDED"
        };
        self.history.push((self.version, kind, key.to_owned(), object.clone()));
        object
    }
}

/// The rules of the API server that the controllers live with.
fn admit(current: &Value, next: &mut Value, body: &Value, subresource: &str) -> Result<(), (u16, String)> {
    let asked = body.pointer("/metadata/resourceVersion").filter(|version| !version.is_null());
    if asked.is_some_and(|version| *version != current["metadata"]["resourceVersion"]) {
        return Err((409, "the object has been modified".to_owned()));
    }
    let uid = body.pointer("/metadata/uid").filter(|uid| !uid.is_null());
    if uid.is_some_and(|uid| *uid != current["metadata"]["uid"]) {
        return Err((409, "the object has another UID".to_owned()));
    }
    let count = |object: &Value| {
        object.pointer("/metadata/finalizers").map_or(0, |list| list.as_array().map_or(0, Vec::len))
    };
    if !current["metadata"]["deletionTimestamp"].is_null() && count(next) > count(current) {
        return Err((422, "no new finalizers can be added if the object is being deleted".to_owned()));
    }
    let has_status = is_custom(current) || matches!(current["kind"].as_str(), Some("Service" | "Node"));
    match subresource {
        "status" if has_status => next["spec"] = current["spec"].clone(),
        _ if has_status => next["status"] = current["status"].clone(),
        _ => {}
    }
    if current["kind"] == "VirtualIP" {
        an_owner_stays(current, next)?;
    }
    let provider_id = &current["spec"]["providerID"];
    if current["kind"] == "Node" && !provider_id.is_null() && *provider_id != next["spec"]["providerID"] {
        return Err((422, "node updates may not change providerID".to_owned()));
    }
    if let Some(ingress) = next.pointer_mut("/status/loadBalancer/ingress").and_then(Value::as_array_mut) {
        if current["spec"]["type"] != "LoadBalancer" && !ingress.is_empty() {
            return Err((
                422,
                "status.loadBalancer.ingress may only be used when type is LoadBalancer".to_owned(),
            ));
        }
        for entry in ingress {
            if entry["ipMode"].is_null() {
                entry["ipMode"] = json!("VIP");
            }
        }
    }
    Ok(())
}

/// As the CRD's own rule has it.
fn an_owner_stays(current: &Value, next: &Value) -> Result<(), (u16, String)> {
    let owners = |object: &Value| object["spec"]["owners"].as_array().cloned().unwrap_or_default();
    let before = owners(current);
    if owners(next).iter().any(|one| before.iter().any(|old| old["uid"] == one["uid"])) {
        return Ok(());
    }
    Err((422, "one owner of a VirtualIP must stay: delete the VirtualIP to free its address".to_owned()))
}

fn is_custom(object: &Value) -> bool {
    object["apiVersion"].as_str().is_some_and(|version| version.starts_with("windlass.dev/"))
}

fn failure(code: u16, message: &str) -> Value {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        422 => "Invalid",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message,
            "reason": reason, "metadata": {} })
}

/// `/api/v1/namespaces/default/services/web/status` → `services/default/web/status`; `/api/v1/nodes/n1` → `nodes//n1`.
fn resource(path: &str) -> String {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let parts = if parts.first() == Some(&"api") { &parts[2..] } else { &parts[3..] };
    match parts {
        ["namespaces", namespace, plural, rest @ ..] => [&[*plural, *namespace], rest].concat().join("/"),
        [plural] => (*plural).to_owned(),
        [plural, rest @ ..] => [&[*plural, ""], rest].concat().join("/"),
        [] => String::new(),
    }
}

fn key_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
    format!("{}s/{namespace}/{name}", text(&object["kind"]).to_lowercase())
}

fn respond(code: u16, value: &Value) -> Response<Body> {
    Response::builder().status(code).body(Body::from(value.to_string().into_bytes())).expect("a response")
}
