//! The thread `windlass-events`: passes events to the user's closure. One that blocks, panics or calls the engine back delays no
//! advert and no answer.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::event::Event;
use crate::supervisor::Helper;

#[cfg(test)]
mod tests;

/// Most events that wait: every state change of some thousand routers. Room for them is made at the start.
const MAX_WAITING_EVENTS: usize = 8192;

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
}

impl fmt::Debug for EventSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}

impl WaitingEvents {
    /// The thread's body; returns when every [`EventSender`] is gone and all events are delivered.
    pub(crate) fn deliver(&self, on_event: &dyn Fn(Event), helper: &Helper) {
        loop {
            helper.end_round();
            let Ok(event) = self.waiting.recv() else { return };
            helper.begin_round();
            // The user's state is the user's to mend: the closure is called again whatever it left behind.
            if catch_unwind(AssertUnwindSafe(|| on_event(event))).is_err() {
                tracing::error!("on_event panicked; the engine continues");
            }
            let lost = self.lost.swap(0, Ordering::Relaxed);
            if lost > 0 {
                tracing::error!(
                    lost,
                    "events were lost: on_event fell behind by more than {MAX_WAITING_EVENTS}; \
                     Engine::snapshot returns the present state"
                );
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn into_receiver(self) -> Receiver<Event> {
        self.waiting
    }
}
