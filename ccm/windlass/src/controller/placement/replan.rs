//! When the planner looks again: at once where an address waits for it, else a little later and for many changes together.
//!
//! A pass looks at everything. With thousands of addresses it takes tens of milliseconds, in which nothing else is decided;
//! a pass for each change of a burst would take a processor of its own and hold up what it is there for. So after each pass
//! the planner rests for a multiple of the time it took.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

#[cfg(test)]
mod tests;

/// How long what nobody waits for may wait: counts in the status of pools, Services that are gone.
const SOON: Duration = Duration::from_millis(500);
/// The planner rests this many times as long as a pass took, so that it takes a tenth of one processor at most.
const REST: u32 = 9;
/// It never rests longer.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// How a change concerns the planner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// Not at all.
    Never,
    /// Nobody waits for what it changes.
    Soon,
    /// An address may wait for it.
    Now,
}

/// Wishes for a pass, from whoever changes something, to the one planner.
#[derive(Debug, Default)]
pub(crate) struct Replan {
    due: Mutex<Option<Instant>>,
    news: Notify,
}

impl Replan {
    /// Something changed.
    pub(crate) fn ask(&self, urgency: Urgency) {
        let at = match urgency {
            Urgency::Never => return,
            Urgency::Soon => Instant::now() + SOON,
            Urgency::Now => Instant::now(),
        };
        self.ask_at(at);
    }

    /// Something is due at `at`.
    pub(crate) fn ask_at(&self, at: Instant) {
        let mut due = self.due();
        if due.is_none_or(|known| at < known) {
            *due = Some(at);
            self.news.notify_one();
        }
    }

    /// Waits until a pass is due, but not before `rested`. Wishes made from then on are for the next.
    pub(crate) async fn due_after(&self, rested: Instant) {
        loop {
            let due = *self.due();
            match due.map(|at| at.max(rested)) {
                Some(at) if at <= Instant::now() => {
                    *self.due() = None;
                    return;
                }
                Some(at) => tokio::select! {
                    () = sleep_until(at) => {}
                    () = self.news.notified() => {}
                },
                None => self.news.notified().await,
            }
        }
    }

    fn due(&self) -> MutexGuard<'_, Option<Instant>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until when the planner rests after a pass that took `taken` and ended at `now`.
pub(crate) fn rest(now: Instant, taken: Duration) -> Instant {
    now + (taken * REST).min(LONGEST_REST)
}
