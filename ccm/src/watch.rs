//! Watches of one kind, in the whole cluster or in one namespace, which outlast whatever an API server does.
//!
//! Here every call has a limit, what was not understood is asked for again from the version before it, what goes wrong costs
//! a growing delay, and one object that cannot be read ([`crate::lenient`]) concerns only itself.
//!
//! A cluster whose etcd was restored to an older state no longer has versions that were shown: an API server accepts a watch from
//! such a version without an error, and shows nothing until its count has come that far. So whenever a watch ended otherwise than
//! by its time, the API server is asked for its version first ([`Error::Restored`]).
//!
//! A wrapper around the watcher of kube-runtime, which is begun anew on trouble, was tried (5.0) and does not keep that.
//! Of the tests of this module it fails `an_api_server_that_never_answers_well_is_asked_less_and_less` (a watch that ends as
//! soon as it began is taken up again without an item and without a rest, 2000 times in two minutes) and
//! `a_watch_that_is_idle_is_taken_up_again_and_lists_nothing` (from outside, an idle watch that is taken up again looks like
//! a connection that is dead, so that the wrapper's limit lists everything anew).

mod retry_backoff;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::core::ObjectList;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until, timeout};

use self::retry_backoff::RetryBackoff;
use crate::apiserver::{CALL_TIMEOUT, describe};
use crate::backoff::Backoff;
use crate::lenient::{Lenient, Unreadable};

#[cfg(test)]
mod tests;

/// Objects in one answer to a list.
const PAGE: u32 = 500;
/// A watch that ends sooner and has shown nothing was no watch.
const SHORT: Duration = Duration::from_secs(1);
/// A watch that lives as long works, also if it shows nothing.
const SOUND: Duration = Duration::from_secs(10);
/// An answer that is late by this much after the API server was to end the watch will not come.
const GRACE: Duration = Duration::from_secs(5);
/// Longest silence of a watch after a bookmark in its middle: from then on Kubernetes sends one each minute. (It sends none before the
/// version is newer than that from which the watch began. Where etcd notifies it of progress each few seconds, as by kubeadm and k3s,
/// the first comes after a minute; elsewhere with the first change.)
const QUIET: Duration = Duration::from_secs(90);
/// Number of failures in a row at which everything is listed anew instead of resuming the watch.
const ATTEMPTS: u32 = 4;

/// Options of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchOptions {
    /// Only the objects of this name.
    pub name: Option<String>,
    /// The API server ends a watch after this many seconds, and it is taken up again where it ended. An API server that stops
    /// sending is found 5 s later, or by 90 s of silence in a watch with bookmarks. (A connection that died is found
    /// sooner: [`crate::client`].)
    pub seconds: u32,
    /// Objects in one answer to a list, which are in memory as they came, with all that nobody reads, until they are taken in.
    pub page: u32,
    /// Delays after failures.
    pub backoff: Backoff,
}

impl Default for WatchOptions {
    fn default() -> Self {
        let backoff = Backoff::new(Duration::from_millis(800), Duration::from_secs(30));
        Self { name: None, seconds: 290, page: PAGE, backoff }
    }
}

/// Event of a watch.
#[derive(Debug, Clone)]
pub enum Event<K> {
    /// A list begins. One that had begun is void.
    Init,
    /// An object of the list.
    InitApply(K),
    /// An object of the list that cannot be read: it is there, and what was known of it stays.
    InitUnreadable(Box<ObjectMeta>),
    /// The list is complete: what it does not hold is gone.
    InitDone,
    /// An object was made or changed.
    Apply(K),
    /// An object is gone.
    Delete(K),
}

impl<K> Event<K> {
    /// The same of another form of the object.
    pub fn map<T>(self, form: impl FnOnce(K) -> T) -> Event<T> {
        match self {
            Self::Init => Event::Init,
            Self::InitApply(object) => Event::InitApply(form(object)),
            Self::InitUnreadable(metadata) => Event::InitUnreadable(metadata),
            Self::InitDone => Event::InitDone,
            Self::Apply(object) => Event::Apply(form(object)),
            Self::Delete(object) => Event::Delete(form(object)),
        }
    }
}

/// Reason that a watch is incomplete for now. It resumes by itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The list was refused or lost.
    #[error("cannot list: {}{}", describe(.0), remedy(.0))]
    List(#[source] kube::Error),
    /// The watch was refused or broke.
    #[error("cannot watch: {}", describe(.0))]
    Watch(#[source] kube::Error),
    /// The API server sent an event of type `ERROR`.
    #[error("the API server ended the watch: {message} ({code})")]
    ErrorEvent {
        /// The HTTP status code it would have been.
        code: u16,
        /// Its words.
        message: String,
    },
    /// Silence.
    #[error("no answer from the API server within {0:?}")]
    Timeout(Duration),
    /// The API server's state is older than the state that was shown; all objects are listed anew.
    #[error(
        "the cluster's state (version {current}) is older than the state shown before ({shown}), as after a \
         restore of etcd from a backup: a process that acted on the newer state has to restart"
    )]
    Restored {
        /// The version that the API server has.
        current: u64,
        /// The newest that it had.
        shown: u64,
    },
    /// It ended as soon as it began.
    #[error("the watch ended immediately")]
    EndedAtOnce,
    /// The answer holds no version to resume from.
    #[error("the answer of the API server names no resourceVersion")]
    NoVersion,
    /// One object; all others are shown.
    #[error("{} does not decode and is left as it was known: {}", name(&.0.metadata), .0.reason)]
    Unreadable(Box<Unreadable>),
}

/// Returns a remedy for a list error whose own message is not enough, or an empty text.
fn remedy(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if status.code == 404 => {
            " (this API server does not have the kind: if a CustomResourceDefinition makes it, apply that)"
        }
        _ => "",
    }
}

/// `namespace/name`.
fn name(metadata: &ObjectMeta) -> String {
    let name = metadata.name.as_deref().unwrap_or_default();
    metadata.namespace.as_deref().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

/// A watch that never ends: what goes wrong is an item of it, after which it waits before it tries again.
pub fn watch<K>(client: &Client, options: WatchOptions) -> BoxStream<'static, Result<Event<K>, Error>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let watcher = Watcher {
        api: Api::<Lenient<K>>::all(client.clone()),
        fields: options.name.map(|name| format!("metadata.name={name}")),
        seconds: options.seconds,
        page: options.page,
        state: WatchState::Start,
        shown: None,
        retry_backoff: RetryBackoff::new(options.backoff),
        rests_until: None,
    };
    stream::unfold(watcher, |mut watcher| async { Some((watcher.next().await, watcher)) }).boxed()
}

type Watching<K> = BoxStream<'static, Result<WatchEvent<Lenient<K>>, kube::Error>>;

/// State of a watch in its cycle of list and watch.
enum WatchState<K: Clone> {
    /// Nothing is known that could be gone on from.
    Start,
    /// In the middle of a list. `next`: of its pages the next one, if there are more.
    Listing {
        items: VecDeque<Lenient<K>>,
        next: Continuation,
    },
    /// All up to `version` was shown. `doubtful`: the API server may be another one since, and know less.
    Listed {
        version: String,
        doubtful: bool,
    },
    Watching {
        version: String,
        events: Watching<K>,
        progress: Progress,
    },
}

/// Course of a watch so far.
#[derive(Clone, Copy)]
struct Progress {
    since: Instant,
    /// It has shown something new.
    progressed: bool,
    /// It has shown a bookmark, not only the one just before its end.
    has_bookmarks: bool,
}

/// Continuation of a list after the items at hand.
enum Continuation {
    Page(Option<String>),
    Complete { version: String },
}

struct Watcher<K: Clone> {
    api: Api<Lenient<K>>,
    /// Field selector.
    fields: Option<String>,
    seconds: u32,
    page: u32,
    state: WatchState<K>,
    /// The newest version that was shown, as a number: Kubernetes counts them.
    shown: Option<u64>,
    retry_backoff: RetryBackoff,
    rests_until: Option<Instant>,
}

impl<K> Watcher<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    async fn next(&mut self) -> Result<Event<K>, Error> {
        if let Some(until) = self.rests_until.take() {
            sleep_until(until).await;
        }
        loop {
            let state = std::mem::replace(&mut self.state, WatchState::Start);
            if let Some(item) = self.step(state).await {
                return item;
            }
        }
    }

    /// Goes on from `state`. What it leaves as `self.state` is [`WatchState::Start`] unless it sets another.
    async fn step(&mut self, state: WatchState<K>) -> Option<Result<Event<K>, Error>> {
        match state {
            WatchState::Start => {
                self.state = WatchState::Listing { items: VecDeque::new(), next: Continuation::Page(None) };
                Some(Ok(Event::Init))
            }
            WatchState::Listing { mut items, next } => {
                if let Some(item) = items.pop_front() {
                    self.state = WatchState::Listing { items, next };
                    return Some(Ok(item.read().map_or_else(
                        |unreadable| {
                            tracing::warn!(kind = %K::kind(&()), "{}", Error::Unreadable(unreadable.clone()));
                            Event::InitUnreadable(Box::new(unreadable.metadata))
                        },
                        Event::InitApply,
                    )));
                }
                match next {
                    Continuation::Complete { version } => {
                        if let Some(restored) = self.restored(&version) {
                            return Some(Err(self.failed(restored)));
                        }
                        self.note(&version);
                        self.state = WatchState::Listed { version, doubtful: false };
                        Some(Ok(Event::InitDone))
                    }
                    Continuation::Page(token) => match self.page(token).await {
                        Ok((items, next)) => {
                            self.state = WatchState::Listing { items, next };
                            None
                        }
                        Err(error) => Some(Err(self.failed(error))),
                    },
                }
            }
            WatchState::Listed { version, doubtful: true } => match self.current_version().await {
                Ok(current) => {
                    if let Some(restored) = self.restored(&current) {
                        return Some(Err(self.failed(restored)));
                    }
                    self.state = WatchState::Listed { version, doubtful: false };
                    None
                }
                Err(error) => Some(Err(self.resume(version, error))),
            },
            WatchState::Listed { version, doubtful: false } => match self.begin(&version).await {
                Ok(events) => {
                    let progress =
                        Progress { since: Instant::now(), progressed: false, has_bookmarks: false };
                    self.state = WatchState::Watching { version, events, progress };
                    None
                }
                Err(error) => Some(Err(self.resume(version, error))),
            },
            WatchState::Watching { version, mut events, progress } => {
                let Progress { since, progressed, .. } = progress;
                let limit = self.limit(progress);
                let event = timeout(limit, events.next()).await;
                // Also one that breaks: load balancers end connections by which nothing comes for a while, and the address of the API
                // servers moves. One that was silent beyond its time may never have worked.
                if since.elapsed() >= SOUND && event.is_ok() {
                    self.retry_backoff.recovered();
                }
                match event {
                    Ok(Some(Ok(event))) => self.shown(event, version, events, progress),
                    Ok(Some(Err(error))) => Some(Err(self.resume(version, Error::Watch(error)))),
                    Ok(None) if progressed || since.elapsed() >= SHORT => {
                        let doubtful = since.elapsed() + GRACE < Duration::from_secs(self.seconds.into());
                        self.state = WatchState::Listed { version, doubtful };
                        None
                    }
                    Ok(None) => Some(Err(self.resume(version, Error::EndedAtOnce))),
                    Err(_) => Some(Err(self.resume(version, Error::Timeout(limit)))),
                }
            }
        }
    }

    fn shown(
        &mut self,
        event: WatchEvent<Lenient<K>>,
        before: String,
        events: Watching<K>,
        mut progress: Progress,
    ) -> Option<Result<Event<K>, Error>> {
        let (object, gone) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(mark) => {
                // One that names no version marks nothing.
                let version = Some(mark.metadata.resource_version).filter(|version| !version.is_empty());
                let version = version.unwrap_or(before);
                self.note(&version);
                progress.has_bookmarks |= self.remaining(progress.since) > 2 * GRACE;
                self.state = WatchState::Watching { version, events, progress };
                return None;
            }
            WatchEvent::Error(status) => {
                let error = Error::ErrorEvent { code: status.code, message: status.message };
                return Some(Err(self.resume(before, error)));
            }
        };
        let Some(version) = object.meta().resource_version.clone().filter(|version| !version.is_empty())
        else {
            return Some(Err(self.failed(Error::NoVersion)));
        };
        self.note(&version);
        // One that shows the same over and over does not get anywhere.
        progress.progressed |= version != before;
        if progress.progressed {
            self.retry_backoff.recovered();
        }
        match object.read() {
            Ok(object) => {
                self.state = WatchState::Watching { version, events, progress };
                Some(Ok(if gone { Event::Delete(object) } else { Event::Apply(object) }))
            }
            // A list shows that it is gone.
            Err(unreadable) if gone => Some(Err(self.failed(Error::Unreadable(unreadable)))),
            Err(unreadable) => {
                self.state = WatchState::Watching { version, events, progress };
                Some(Err(Error::Unreadable(unreadable)))
            }
        }
    }

    fn note(&mut self, version: &str) {
        self.shown = version.parse().ok().max(self.shown);
    }

    /// Returns, once, the error that this version of the API server is older than one that was shown.
    fn restored(&mut self, current: &str) -> Option<Error> {
        let (current, shown) = (current.parse().ok()?, self.shown?);
        (current < shown).then(|| {
            self.shown = None;
            Error::Restored { current, shown }
        })
    }

    /// The version that the API server has now.
    async fn current_version(&mut self) -> Result<String, Error> {
        let answer = timeout(CALL_TIMEOUT, self.api.list(&ListParams::default().limit(1))).await;
        let list = answer.map_err(|_| Error::Timeout(CALL_TIMEOUT))?.map_err(Error::List)?;
        list.metadata.resource_version.filter(|version| !version.is_empty()).ok_or(Error::NoVersion)
    }

    async fn page(&mut self, token: Option<String>) -> Result<(VecDeque<Lenient<K>>, Continuation), Error> {
        let params = ListParams {
            field_selector: self.fields.clone(),
            limit: Some(self.page),
            continue_token: token,
            ..ListParams::default()
        };
        let answer = timeout(CALL_TIMEOUT, self.api.list(&params)).await;
        let ObjectList { items, metadata, .. } =
            answer.map_err(|_| Error::Timeout(CALL_TIMEOUT))?.map_err(Error::List)?;
        let next = match (metadata.continue_.filter(|token| !token.is_empty()), metadata.resource_version) {
            // A page of nothing that has another one after it would continue for ever.
            (Some(token), _) if !items.is_empty() => Continuation::Page(Some(token)),
            (None, Some(version)) if !version.is_empty() => Continuation::Complete { version },
            (_, _) => return Err(Error::NoVersion),
        };
        Ok((items.into(), next))
    }

    async fn begin(&mut self, version: &str) -> Result<Watching<K>, Error> {
        let params = WatchParams { field_selector: self.fields.clone(), ..WatchParams::default() };
        let params = params.timeout(self.seconds);
        match timeout(CALL_TIMEOUT, self.api.watch(&params, version)).await {
            Ok(Ok(events)) => Ok(events.boxed()),
            Ok(Err(error)) => Err(Error::Watch(error)),
            Err(_) => Err(Error::Timeout(CALL_TIMEOUT)),
        }
    }

    /// Everything is listed anew after a while.
    fn failed(&mut self, error: Error) -> Error {
        self.rests_until = Some(Instant::now() + self.retry_backoff.failed().max(asked_to_wait(&error)));
        self.state = WatchState::Start;
        error
    }

    /// The watch is taken up again after a while where it was, unless that makes no sense.
    fn resume(&mut self, version: String, error: Error) -> Error {
        let error = self.failed(error);
        if !is_stale(&error) && self.retry_backoff.failures() < ATTEMPTS {
            self.state = WatchState::Listed { version, doubtful: true };
        }
        error
    }

    /// Time until the API server is to end a watch that began at `since`.
    fn remaining(&self, since: Instant) -> Duration {
        Duration::from_secs(self.seconds.into()).saturating_sub(since.elapsed())
    }

    /// Longest wait for the next event.
    fn limit(&self, progress: Progress) -> Duration {
        let until_end = self.remaining(progress.since) + GRACE;
        if progress.has_bookmarks { until_end.min(QUIET) } else { until_end }
    }
}

/// Returns true if the API server does not know the version (any more) or does not accept it: only a new list helps.
fn is_stale(error: &Error) -> bool {
    let code = match error {
        Error::ErrorEvent { code, .. } => *code,
        Error::Watch(kube::Error::Api(status)) => status.code,
        _ => return false,
    };
    (400..500).contains(&code) && code != 429
}

/// Returns the delay that the API server requested, or zero.
fn asked_to_wait(error: &Error) -> Duration {
    match error {
        Error::List(error) | Error::Watch(error) => {
            crate::apiserver::asked_to_wait(error).unwrap_or_default()
        }
        Error::ErrorEvent { .. }
        | Error::Timeout(_)
        | Error::Restored { .. }
        | Error::EndedAtOnce
        | Error::NoVersion
        | Error::Unreadable(_) => Duration::ZERO,
    }
}
