//! The thread `windlass-events`: hands events to the user, so that one who blocks, panics or calls the engine back keeps
//! no advert and no answer waiting.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::event::Event;

#[cfg(test)]
mod tests;

/// Most events that wait: every state change of some thousand routers. Room for them is made at the start.
const MAX_WAITING_EVENTS: usize = 8192;
/// How long the end of the engine waits for a user who is still busy with events.
const GRACE: Duration = Duration::from_secs(1);

/// Where events go, from whichever thread. Never waits.
#[derive(Clone)]
pub(crate) struct EventSender {
    events: SyncSender<Event>,
    lost: Arc<AtomicU64>,
}

/// The thread.
pub(crate) struct EventThread {
    thread: JoinHandle<()>,
    /// Says, by being closed, that everything was delivered. In a mutex for the sake of `Sync` alone.
    delivered: Mutex<Receiver<()>>,
}

/// Starts the thread. It ends when every [`EventSender`] is gone.
pub(crate) fn start(on_event: Box<dyn Fn(Event) + Send + Sync>) -> io::Result<(EventSender, EventThread)> {
    let (events, waiting) = sync_channel(MAX_WAITING_EVENTS);
    let lost = Arc::new(AtomicU64::new(0));
    let event_sender = EventSender { events, lost: Arc::clone(&lost) };
    let (closed_at_the_end, delivered) = sync_channel::<()>(0);
    let body = move || {
        deliver(&waiting, &lost, &*on_event);
        drop(closed_at_the_end);
    };
    let thread = thread::Builder::new().name("windlass-events".to_owned()).spawn(body)?;
    Ok((event_sender, EventThread { thread, delivered: Mutex::new(delivered) }))
}

impl EventSender {
    /// Has it delivered; in the order of the calls.
    pub(crate) fn send(&self, event: Event) {
        // It cannot be closed: the thread is there as long as this.
        if self.events.try_send(event).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for EventSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}

impl EventThread {
    /// Waits until everything was delivered, but not for long, and not from within the delivery of an event.
    pub(crate) fn finish(self) {
        if self.thread.thread().id() == thread::current().id() {
            return;
        }
        let delivered = self.delivered.into_inner().unwrap_or_else(PoisonError::into_inner);
        match delivered.recv_timeout(GRACE) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => drop(self.thread.join()),
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!(
                    "on_event did not return within {GRACE:?} of the engine's end; not waiting for it"
                );
            }
        }
    }
}

fn deliver(waiting: &Receiver<Event>, lost: &AtomicU64, on_event: &dyn Fn(Event)) {
    for event in waiting {
        // The user's state is the user's to mend: the closure is called again whatever it left behind.
        if catch_unwind(AssertUnwindSafe(|| on_event(event))).is_err() {
            tracing::error!("on_event panicked at an event; the engine goes on");
        }
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::error!(
                lost,
                "events were lost: on_event fell behind by more than {MAX_WAITING_EVENTS}; Engine::snapshot tells the present state"
            );
        }
    }
}
