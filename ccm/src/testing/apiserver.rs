//! An API server in memory: lists, watches, patches and preconditions of the few kinds that the controllers use, with
//! the rules of the real one that they depend on. It records every write.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::fault_responses;
use super::faults::{Delivery, Disconnect, Executed, Fault, FaultPlan, FaultRates, Random};
use super::patches;
use super::responses::failure;
use super::reviews::AccessRules;

mod body;
mod storage;
mod watching;

use body::StreamBody;
use watching::Watching;

/// A write, as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedWrite {
    /// `create`, `update`, `patch` or `delete`.
    pub verb: &'static str,
    /// `services/default/web/status`.
    pub path: String,
    /// Body of the request.
    pub body: Value,
}

impl RecordedWrite {
    /// `type reason message` of an event, `None` for any other write.
    pub fn event(&self) -> Option<String> {
        let text = |field: &str| self.body[field].as_str().unwrap_or_default().to_owned();
        (self.verb == "create" && self.path.starts_with("events/"))
            .then(|| format!("{} {} {}", text("type"), text("reason"), text("message")))
    }
}

/// Errors that single writes are answered with.
type WriteRefusal = (&'static str, String, u16);

#[derive(Default)]
struct Inner {
    version: u64,
    /// By `plural/namespace/name` (`plural//name` for nodes).
    objects: BTreeMap<String, Value>,
    history: Vec<(u64, &'static str, String, Value)>,
    writes: Vec<RecordedWrite>,
    refusals: Vec<WriteRefusal>,
    fault_plan: FaultPlan,
    access_rules: AccessRules,
    clients: u64,
    silent: bool,
    /// Idle time after which watches break.
    breaks_idle_after: Option<Duration>,
    /// Time without a change after which watches show a bookmark.
    bookmarks_after: Option<Duration>,
    /// Number of times that the requests pending in a silence were answered while the silence lasted.
    answers: u64,
    /// Number of times that the requests pending in a silence were lost.
    losses: u64,
    unhealthy: bool,
    /// Number of restarts.
    starts: u64,
    /// All that was asked so far: the method, the path and how.
    requests: Vec<String>,
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
            async move { server.inject_fault(number, request).await }
        });
        (Client::new(service, "default"), number)
    }

    /// The client is cut off at its write after the next `at` ones (events do not count): no request of it arrives or is
    /// answered after that.
    pub fn cut_at_write(&self, client: u64, at: usize, cut: Disconnect) {
        self.lock().fault_plan.cut(client, at, cut);
    }

    /// The client is cut off.
    pub fn cut_off(&self, client: u64) {
        self.lock().fault_plan.cut_off_now(client);
        self.changed.notify_waiters();
    }

    /// Returns true if the client is cut off.
    pub fn is_cut_off(&self, client: u64) -> bool {
        self.lock().fault_plan.is_cut_off(client)
    }

    /// Sets the faults of requests from now on, in a repeatable sequence.
    pub fn set_fault_rates(&self, fault_rates: FaultRates, seed: u64) {
        let mut inner = self.lock();
        inner.fault_plan.fault_rates = fault_rates;
        inner.fault_plan.random = Random::new(seed);
    }

    /// Orders a fault for the request after the next `at` ones, whatever its client and its content.
    pub fn fault_at(&self, at: usize, fault: Fault, executed: Executed) {
        let mut inner = self.lock();
        let number = inner.requests.len() + at;
        inner.fault_plan.fault_at(number, fault, executed);
    }

    /// From now on any fault happens to so many of 100 requests, by a repeatable sequence.
    pub fn set_random_faults(&self, percent: u64, seed: u64) {
        self.lock().fault_plan.set_random_faults(percent, seed);
    }

    /// The version of all that there is.
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    /// Its etcd is restored to what it held at this version, and it starts anew: all watches end.
    pub fn restore(&self, version: u64) {
        let mut inner = self.lock();
        inner.version = version;
        inner.starts += 1;
        inner.history.retain(|(at, ..)| *at <= version);
        let mut objects = BTreeMap::new();
        for (_, kind, key, object) in &inner.history {
            if *kind == "DELETED" {
                objects.remove(key);
            } else {
                objects.insert(key.clone(), object.clone());
            }
        }
        inner.objects = objects;
        drop(inner);
        self.changed.notify_waiters();
    }

    /// All that was asked so far, as `GET services (watch)`, or `(one)` for a list of one object.
    pub fn requests(&self) -> Vec<String> {
        self.lock().requests.clone()
    }

    /// Returns the number of requests so far.
    pub fn request_count(&self) -> usize {
        self.lock().requests.len()
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
        self.lock().access_rules.tokens.insert(token.to_owned(), user);
    }

    /// The token is none any more.
    pub fn remove_token(&self, token: &str) {
        self.lock().access_rules.tokens.remove(token);
    }

    /// SubjectAccessReviews of this user or group, for this verb and path outside the resources, are allowed.
    pub fn permit(&self, who: &str, verb: &str, path: &str) {
        self.lock().access_rules.rights.insert((who.to_owned(), verb.to_owned(), path.to_owned()));
    }

    /// The next write of this verb whose path starts like this is answered with an error.
    pub fn fail(&self, verb: &'static str, path: &str, code: u16) {
        self.lock().refusals.push((verb, path.to_owned(), code));
    }

    /// Sets whether `/healthz` reports from now on that all is well.
    pub fn set_healthy(&self, healthy: bool) {
        self.lock().unhealthy = !healthy;
    }

    /// From now on no request is answered, or all are again.
    pub fn set_silent(&self, silent: bool) {
        self.lock().silent = silent;
        self.changed.notify_waiters();
    }

    /// Answers the requests received while the server was silent; later ones stay unanswered.
    pub fn answer_unanswered(&self) {
        self.lock().answers += 1;
        self.changed.notify_waiters();
    }

    /// Drops the requests received while the server was silent; later ones are answered.
    pub fn lose_unanswered(&self) {
        let mut inner = self.lock();
        (inner.silent, inner.losses) = (false, inner.losses + 1);
        self.changed.notify_waiters();
    }

    /// Breaks connections that were idle for `after`, from now on, as a load balancer between server and clients does.
    pub fn break_idle_watches(&self, after: Duration) {
        self.lock().breaks_idle_after = Some(after);
    }

    /// Sends bookmarks from now on: one in each such time in which a watch shows nothing else. `None`: none.
    pub fn send_bookmarks(&self, each: Option<Duration>) {
        self.lock().bookmarks_after = each;
    }

    /// Returns the writes so far, and removes them.
    pub fn take_writes(&self) -> Vec<RecordedWrite> {
        std::mem::take(&mut self.lock().writes)
    }

    /// The writes so far.
    pub fn writes(&self) -> Vec<RecordedWrite> {
        self.lock().writes.clone()
    }

    /// The events written so far, in order.
    pub fn events(&self) -> Vec<String> {
        self.lock().writes.iter().filter_map(RecordedWrite::event).collect()
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

    /// Counts a request, and lets happen to it what is to happen.
    async fn inject_fault(
        &self,
        client: u64,
        request: Request<Body>,
    ) -> Result<Response<StreamBody>, std::io::Error> {
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.contains("watch=true");
        let how = if is_watch {
            " (watch)"
        } else if query.split('&').any(|part| part == "limit=1") {
            " (one)"
        } else {
            ""
        };
        let what = format!("{} {}{}", request.method(), resource(request.uri().path()), how);
        let fault = {
            let mut inner = self.lock();
            let number = inner.requests.len();
            inner.requests.push(what);
            inner.fault_plan.next_fault(number)
        };
        let Some((fault, executed)) = fault else { return Ok(self.deliver(client, request).await) };
        if executed == Executed::Yes && !is_watch {
            let _answer = self.deliver(client, request).await;
        }
        if fault == Fault::Silence {
            return std::future::pending().await;
        }
        if fault == Fault::Reset {
            return Err(std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset by peer"));
        }
        let body = fault_responses::body(fault, is_watch);
        Ok(respond_with(fault_responses::code(fault, is_watch), body.into_bytes()))
    }

    /// Carries a request to the API server and the answer back, with the delays and faults that the test orders.
    async fn deliver(&self, client: u64, request: Request<Body>) -> Response<StreamBody> {
        let path = request.uri().path().to_owned();
        let watches = request.uri().query().unwrap_or_default().contains("watch=true");
        if watches {
            let response = self.answer(client, request).await;
            self.hang_if_cut_off(client).await;
            return response;
        }
        self.delay().await;
        self.hang_if_cut_off(client).await;
        let counts = request.method() != Method::GET && !path.contains("/events");
        let cut = if counts { self.lock().fault_plan.write(client) } else { None };
        if cut == Some(Disconnect::Before) {
            self.changed.notify_waiters();
            return std::future::pending().await;
        }
        let delivery = self.lock().fault_plan.next_delivery();
        if let Delivery::Refused(code) = delivery {
            return respond(code, &failure(code, "refused, as the test orders"));
        }
        let response = self.answer(client, request).await;
        self.delay().await;
        if cut.is_some() {
            self.changed.notify_waiters();
        }
        self.hang_if_cut_off(client).await;
        if delivery == Delivery::Lost {
            respond(500, &failure(500, "lost, as the test orders"))
        } else {
            response
        }
    }

    async fn hang_if_cut_off(&self, client: u64) {
        if self.is_cut_off(client) {
            std::future::pending::<()>().await;
        }
    }

    async fn delay(&self) {
        let delay = {
            let fault_plan = &mut self.lock().fault_plan;
            let longest = fault_plan.fault_rates.delay_ms;
            if longest == 0 { 0 } else { fault_plan.random.below(longest + 1) }
        };
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
    }

    async fn answer(&self, client: u64, request: Request<Body>) -> Response<StreamBody> {
        let (losses, answers) = {
            let inner = self.lock();
            (inner.losses, inner.answers)
        };
        let waits = || {
            let inner = self.lock();
            inner.silent && inner.answers == answers
        };
        while waits() {
            let changed = self.changed.notified();
            if waits() {
                changed.await;
            }
        }
        if self.lock().losses != losses {
            return std::future::pending().await;
        }
        let (parts, body) = request.into_parts();
        if parts.uri.path() == "/healthz" {
            let code = if self.lock().unhealthy { 500 } else { 200 };
            return respond(code, &json!("health"));
        }
        let path = resource(parts.uri.path());
        let query = parts.uri.query().unwrap_or_default().to_owned();
        if parts.method == Method::GET && query.contains("watch=true") {
            return self.watch(client, &path, &query);
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

    /// Shows the changes since the version asked for, until the time asked for is over.
    fn watch(&self, client: u64, plural: &str, query: &str) -> Response<StreamBody> {
        let watching = Watching::new(self, client, plural, query);
        let lines =
            stream::unfold(watching, |mut watching| async { Some((watching.lines().await?, watching)) });
        Response::new(StreamBody::new(lines.boxed()))
    }
}

/// `/api/v1/namespaces/default/services/web/status` → `services/default/web/status`; `/api/v1/nodes/n1` → `nodes//n1`.
fn resource(path: &str) -> String {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let prefix = if parts.first() == Some(&"api") { 2 } else { 3 };
    let parts = parts.get(prefix..).unwrap_or(&parts);
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

fn respond(code: u16, value: &Value) -> Response<StreamBody> {
    respond_with(code, value.to_string().into_bytes())
}

fn respond_with(code: u16, body: Vec<u8>) -> Response<StreamBody> {
    Response::builder().status(code).body(StreamBody::whole(body)).expect("a response")
}
