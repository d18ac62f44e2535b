//! Queue of events, from any thread to `windlass-events`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::event::Event;

/// Most events that wait: every state change of some thousand routers. Room for them is made at the start.
pub(crate) const MAX_WAITING_EVENTS: usize = 8192;

/// Sender of events, for any thread. Never waits.
#[derive(Clone)]
pub(crate) struct EventSender {
    events: SyncSender<Event>,
    lost: Arc<AtomicU64>,
}

/// The events that wait for the thread.
pub(crate) struct WaitingEvents {
    waiting: Receiver<Event>,
    lost: Arc<AtomicU64>,
}

/// Creates the two ends of the queue of events.
pub(crate) fn channel() -> (EventSender, WaitingEvents) {
    let (events, waiting) = sync_channel(MAX_WAITING_EVENTS);
    let lost = Arc::new(AtomicU64::new(0));
    (EventSender { events, lost: Arc::clone(&lost) }, WaitingEvents { waiting, lost })
}

impl EventSender {
    /// Queues the event; events are delivered in the order of the calls.
    pub(crate) fn send(&self, event: Event) {
        // It cannot be closed: the thread is there as long as this.
        if self.events.try_send(event).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[cfg(test)]
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for EventSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventSender")
    }
}

impl WaitingEvents {
    /// Waits for the next event; `None`: every [`EventSender`] is gone and all events are delivered.
    pub(crate) fn next(&self) -> Option<Event> {
        self.waiting.recv().ok()
    }

    /// Returns the number of events lost since the last call.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn into_receiver(self) -> Receiver<Event> {
        self.waiting
    }
}
