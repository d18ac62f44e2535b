//! The thread `windlass-events`: passes events to the user's closure. One that blocks, panics or calls the engine back delays no
//! advert and no answer.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::event::Event;
use crate::event_queue::{MAX_WAITING_EVENTS, WaitingEvents};
use crate::supervisor::Helper;

#[cfg(test)]
mod tests;

/// The thread's body; returns when all senders of events are gone and all events are delivered.
pub(crate) fn deliver(events: &WaitingEvents, on_event: &dyn Fn(Event), helper: &Helper) {
    loop {
        helper.end_round();
        let Some(event) = events.next() else { return };
        helper.begin_round();
        // The user's state is the user's to mend: the closure is called again whatever it left behind.
        if catch_unwind(AssertUnwindSafe(|| on_event(event))).is_err() {
            tracing::error!("on_event panicked; the engine continues");
        }
        let lost = events.take_lost();
        if lost > 0 {
            tracing::error!(
                lost,
                "events were lost: on_event fell behind by more than {MAX_WAITING_EVENTS}; \
                 Engine::snapshot returns the present state"
            );
        }
    }
}
