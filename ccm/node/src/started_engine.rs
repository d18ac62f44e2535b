//! The engine of this process: its start with a queue of its events, and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use tokio::sync::mpsc;
use windlass_engine::{Engine, Event, Options};

#[cfg(test)]
mod tests;

/// Capacity of the queue of events.
const EVENT_QUEUE: usize = 4096;

/// The engine, and what it reports.
pub(crate) struct StartedEngine {
    pub(crate) engine: Arc<Engine>,
    pub(crate) events: mpsc::Receiver<Event>,
    /// True once an event was lost because the queue was full.
    pub(crate) lost: Arc<AtomicBool>,
}

impl StartedEngine {
    /// Starts the engine with its default options, after `configure` has changed them.
    pub(crate) fn new(configure: impl FnOnce(&mut Options)) -> anyhow::Result<Self> {
        let (on_event, events, lost) = queue();
        let mut options = Options::new(on_event);
        configure(&mut options);
        let engine = Arc::new(Engine::start(options).context("cannot start the VRRP engine")?);
        Ok(Self { engine, events, lost })
    }
}

/// Fails if a thread has panicked that the election needs: the process has to end.
pub(crate) fn check(engine: &Engine) -> anyhow::Result<()> {
    let Some(thread) = engine.stopped_by() else { return Ok(()) };
    bail!("the thread {thread} of the VRRP engine panicked (see the log): this is a bug, report it")
}

/// Ends the engine, which resigns first. Does nothing while something else holds it.
pub(crate) async fn shut_down(engine: Arc<Engine>) {
    if let Some(engine) = Arc::into_inner(engine) {
        let _ = tokio::task::spawn_blocking(move || engine.shutdown()).await;
    }
}

/// Returns the engine's callback, the queue that it fills, and a flag that it sets when an event is lost because the queue is full.
fn queue() -> (impl Fn(Event) + Send + Sync + 'static, mpsc::Receiver<Event>, Arc<AtomicBool>) {
    let (sender, events) = mpsc::channel(EVENT_QUEUE);
    let lost = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&lost);
    let on_event = move |event| {
        if sender.try_send(event).is_err() {
            flag.store(true, Ordering::Relaxed);
        }
    };
    (on_event, events, lost)
}
