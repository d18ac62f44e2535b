//! A watchdog for each controller's task: one that does not get to run, because its provider blocks its thread, fails
//! its health check, and the kubelet starts the process again.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

#[cfg(test)]
mod tests;

/// Interval at which a controller's task records that it runs.
const EVERY: Duration = Duration::from_secs(5);
/// Longest time that a controller's task may not get to run: longer than any honest computation on a busy machine takes.
const LIMIT: Duration = Duration::from_mins(1);

/// Records when a task last ran. Cheap to clone; all clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Watchdog(Arc<Mutex<Instant>>);

impl Watchdog {
    /// A task that runs at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self(Arc::new(Mutex::new(now)))
    }

    fn record(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// The health check at `now`.
    pub(super) fn check(&self, now: Instant) -> Result<(), String> {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = now.saturating_duration_since(last);
        if silent < LIMIT {
            return Ok(());
        }
        Err(format!(
            "its task did not get to run for {} s: a call to the provider blocks its thread",
            silent.as_secs()
        ))
    }

    /// Runs `work`, and records that its task runs.
    pub(super) async fn during<F: Future>(self, work: F) -> F::Output {
        let mut work = pin!(work);
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                output = &mut work => return output,
                now = ticks.tick() => self.record(now),
            }
        }
    }
}
