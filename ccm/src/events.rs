//! Events on the objects that users look at: core/v1 Events, as `kubectl describe` shows them.
//!
//! An event that repeats itself (same object, type, reason and message) within [`SERIES`] is counted on the event that is already there, as
//! client-go does, and not written again. kube's own recorder leaves the message out of that comparison and would keep showing the first
//! one.

mod series;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

pub use self::series::SERIES;
use self::series::{Series, Written};
use crate::apiserver::{EVENT_TIMEOUT, describe};
use crate::text::shortened;

/// The API server refuses longer messages (bytes).
const MAX_MESSAGE: usize = 1024;
/// Events waiting to be written. When it is full, further ones are dropped: they must never slow a sync down.
const QUEUE: usize = 4096;

/// `type` of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Nothing to worry about.
    Normal,
    /// Something the user should see.
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Writes events, one call each.
#[derive(Clone)]
pub struct Recorder {
    client: Client,
    component: String,
    series: Arc<Mutex<Series>>,
}

impl Recorder {
    /// Returns a recorder whose events name `component` as their source.
    pub fn new(client: Client, component: &str) -> Self {
        Self { client, component: component.to_owned(), series: Arc::default() }
    }

    /// Writes an event on `object`, or counts it on an equal one.
    pub async fn publish(
        &self,
        object: &ObjectReference,
        kind: EventType,
        reason: &str,
        message: &str,
    ) -> Result<(), kube::Error> {
        let namespace = object.namespace.as_deref().unwrap_or("default");
        let api = Api::<Event>::namespaced(self.client.clone(), namespace);
        let message = shortened(message, MAX_MESSAGE);
        let series = self.series().key(object, kind, reason, message);
        let now = Timestamp::now();
        let base = object.name.as_deref().unwrap_or(&self.component);
        let before = self.series().last(series, Instant::now());
        if let Some(Written { stamp, count, .. }) = before {
            let count = count.saturating_add(1);
            let patch = Patch::Merge(json!({ "count": count, "lastTimestamp": Time(now) }));
            match api.patch(&event_name(base, stamp), &PatchParams::default(), &patch).await {
                Ok(_) => {
                    self.series().written(series, Written { stamp, count, at: Instant::now() });
                    return Ok(());
                }
                // Events expire: write it anew.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        let stamp = now.as_nanosecond();
        let event = self.event(object, kind, reason, message, event_name(base, stamp), now);
        api.create(&PostParams::default(), &event).await?;
        self.series().written(series, Written { stamp, count: 1, at: Instant::now() });
        Ok(())
    }

    /// Writes an event that is named after its content, so that only one exists, whichever process writes it. `may_exist`: an existing
    /// event is left alone; else its time is advanced.
    async fn publish_once(
        &self,
        object: &ObjectReference,
        kind: EventType,
        reason: &str,
        message: &str,
        may_exist: bool,
    ) -> Result<(), kube::Error> {
        let namespace = object.namespace.as_deref().unwrap_or("default");
        let api = Api::<Event>::namespaced(self.client.clone(), namespace);
        let message = shortened(message, MAX_MESSAGE);
        let now = Timestamp::now();
        // (The same in every process of one version, which is all that is asked of it.)
        let mut hasher = DefaultHasher::new();
        (&object.uid, kind.as_str(), reason, message).hash(&mut hasher);
        let base = object.name.as_deref().unwrap_or(&self.component);
        let name = format!("{base}.{:016x}", hasher.finish());
        let event = self.event(object, kind, reason, message, name.clone(), now);
        match api.create(&PostParams::default(), &event).await {
            Err(kube::Error::Api(status)) if status.code == 409 && may_exist => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let patch = Patch::Merge(json!({ "lastTimestamp": Time(now) }));
                api.patch(&name, &PatchParams::default(), &patch).await.map(drop)
            }
            created => created.map(drop),
        }
    }

    fn event(
        &self,
        object: &ObjectReference,
        kind: EventType,
        reason: &str,
        message: &str,
        name: String,
        now: Timestamp,
    ) -> Event {
        let namespace = object.namespace.clone().unwrap_or_else(|| "default".to_owned());
        Event {
            metadata: ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() },
            involved_object: object.clone(),
            type_: Some(kind.as_str().to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource { component: Some(self.component.clone()), host: None }),
            ..Event::default()
        }
    }

    fn series(&self) -> MutexGuard<'_, Series> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Name of the event about the object `base` that was written at `stamp`.
fn event_name(base: &str, stamp: i128) -> String {
    format!("{base}.{stamp:x}")
}

#[derive(Debug)]
struct QueuedEvent {
    object: ObjectReference,
    kind: EventType,
    reason: &'static str,
    message: String,
    repetition: Repetition,
}

/// Handling of an event that was written before.
#[derive(Debug, Clone, Copy)]
enum Repetition {
    /// It is counted or, after [`SERIES`], written anew.
    InSeries,
    /// There is one only: see [`Recorder::publish_once`].
    Once { may_exist: bool },
}

/// Hands events to a task that writes them, in order, so that no sync waits for them.
#[derive(Debug, Clone)]
pub struct EventSink {
    queue: mpsc::Sender<QueuedEvent>,
}

impl EventSink {
    /// The sink, and the task behind it that the caller must run until `token` is cancelled or the sink is dropped.
    pub fn new(recorder: Recorder, token: CancellationToken) -> (Self, impl Future<Output = ()>) {
        let (sink, mut writer) = Self::with_writer(recorder);
        (sink, async move { token.run_until_cancelled(Box::pin(writer.run())).await.unwrap_or(()) })
    }

    /// The sink, and the writer behind it, which can be run again after a panic.
    pub fn with_writer(recorder: Recorder) -> (Self, EventWriter) {
        let (queue, requests) = mpsc::channel(QUEUE);
        (Self { queue }, EventWriter { recorder, requests })
    }

    /// Queues an event; never waits.
    pub fn send(
        &self,
        object: ObjectReference,
        kind: EventType,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.queue(QueuedEvent {
            object,
            kind,
            reason,
            message: message.into(),
            repetition: Repetition::InSeries,
        });
    }

    /// Queues an event of which there is to be one only, as long as the API server keeps it; never waits. `may_exist`: a process
    /// before this one may have written it, and then nothing is done.
    pub fn send_once(
        &self,
        object: ObjectReference,
        kind: EventType,
        reason: &'static str,
        message: impl Into<String>,
        may_exist: bool,
    ) {
        let repetition = Repetition::Once { may_exist };
        self.queue(QueuedEvent { object, kind, reason, message: message.into(), repetition });
    }

    /// Returns true if more than half of the queue is free. A caller that sends many events without urgency leaves that half to the others.
    pub fn has_room(&self) -> bool {
        self.queue.capacity() > QUEUE / 2
    }

    fn queue(&self, request: QueuedEvent) {
        let reason = request.reason;
        if let Err(dropped) = self.queue.try_send(request) {
            tracing::debug!(reason, error = %dropped, "event dropped");
        }
    }
}

/// Writer of the events of an [`EventSink`].
pub struct EventWriter {
    recorder: Recorder,
    requests: mpsc::Receiver<QueuedEvent>,
}

impl EventWriter {
    /// Writes until the sink is dropped.
    pub async fn run(&mut self) {
        while let Some(request) = self.requests.recv().await {
            let QueuedEvent { object, kind, reason, message, repetition } = request;
            let writing = async {
                match repetition {
                    Repetition::InSeries => self.recorder.publish(&object, kind, reason, &message).await,
                    Repetition::Once { may_exist } => {
                        self.recorder.publish_once(&object, kind, reason, &message, may_exist).await
                    }
                }
            };
            let failure = match timeout(EVENT_TIMEOUT, writing).await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => describe(&error),
                Err(_) => "no answer from the API server".to_owned(),
            };
            tracing::debug!(
                object = object.name.as_deref().unwrap_or_default(), reason, error = %failure,
                "event not written"
            );
        }
    }
}

/// Does `work`, which does not end by itself, beside the task that writes its events, until `token` is cancelled.
pub(crate) async fn run_with_events<W: Future<Output = ()>>(
    recorder: Recorder,
    token: CancellationToken,
    work: impl FnOnce(EventSink) -> W,
) {
    let (events, writer) = EventSink::new(recorder, token.clone());
    // On the heap: the loop of a controller is large, and moved several times before it begins.
    let working = Box::pin(work(events));
    let until_cancelled = async {
        tokio::select! {
            () = token.cancelled() => {}
            () = working => {}
        }
    };
    tokio::join!(until_cancelled, writer);
}

#[cfg(test)]
mod tests;
