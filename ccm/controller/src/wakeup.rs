//! Schedule of the planner, and of the upkeep beside it: they reconcile immediately where an address waits for it, else a little later
//! and for many changes together.
//!
//! A pass looks at everything. With ten thousand addresses it takes tens of milliseconds; one for each change of a burst would
//! take a processor of its own. So after each pass it rests for a multiple of the time that took.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use windlass_ccm::ProviderError;
use windlass_ccm::backoff::Backoff;

#[cfg(test)]
mod tests;

/// Delay of what no address waits for: counts in the status of pools, Services that are gone.
const SOON: Duration = Duration::from_millis(500);
/// It rests this many times as long as a pass took to decide, so that it takes a twentieth of one processor at most.
const REST: u32 = 19;
/// It never rests longer.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// Pause after failed passes.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// Urgency with which a change is to be reconciled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// Not at all.
    Never,
    /// No address waits for it.
    Soon,
    /// An address may wait for it.
    Now,
}

/// Requests for a pass, to the one task that makes passes.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    due: Mutex<Option<Instant>>,
    notify: Notify,
}

impl Wakeup {
    /// Something changed.
    pub(crate) fn request(&self, urgency: Urgency) {
        let at = match urgency {
            Urgency::Never => return,
            Urgency::Soon => Instant::now() + SOON,
            Urgency::Now => Instant::now(),
        };
        self.request_at(at);
    }

    /// Something is due at `at`.
    pub(crate) fn request_at(&self, at: Instant) {
        let mut due = self.due();
        if due.is_none_or(|known| at < known) {
            *due = Some(at);
            self.notify.notify_one();
        }
    }

    /// Waits until a pass is due, but not before `rested`. Requests made from then on are for the next.
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
                    () = self.notify.notified() => {}
                },
                None => self.notify.notified().await,
            }
        }
    }

    fn due(&self) -> MutexGuard<'_, Option<Instant>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Result of a pass.
#[derive(Debug, Default)]
pub(crate) struct ReconcileReport {
    /// Time that the decision took.
    pub(crate) decision_time: Duration,
    pub(crate) failures: Vec<ProviderError>,
}

/// Work that is done in passes over everything.
pub(crate) trait Reconciler {
    /// The requests for a pass.
    fn wakeup(&self) -> &Wakeup;

    /// Returns when a pass is due without a request.
    fn due(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Makes a pass.
    fn reconcile(&mut self) -> impl Future<Output = ReconcileReport> + Send;
}

/// Makes a pass whenever one is requested or due, and with back-off after one that failed, until `token` is cancelled. New
/// requests do not wait for that back-off: one object that cannot be written holds up no other.
pub(crate) async fn run(mut work: impl Reconciler, token: CancellationToken) {
    let (mut failed, mut rested, mut retry) = (0_u32, Instant::now(), None);
    loop {
        tokio::select! {
            () = token.cancelled() => return,
            () = work.wakeup().due_after(rested) => {}
            () = work.due(), if retry.is_none() => {}
            () = sleep_until(retry.unwrap_or(rested)), if retry.is_some() => {}
        }
        let ReconcileReport { decision_time, failures } = tokio::select! {
            () = token.cancelled() => return,
            reconcile = work.reconcile() => reconcile,
        };
        rested = rest(Instant::now(), decision_time);
        let Some(first) = failures.first() else {
            (failed, retry) = (0, None);
            continue;
        };
        failed = failed.saturating_add(1);
        let pause = BACKOFF.delay(failed);
        tracing::warn!(failed = failures.len(), error = %first, retry_in = ?pause, "not everything was done");
        let now = Instant::now();
        (rested, retry) = (rested.max(now + BACKOFF.first), Some(now + pause));
    }
}

/// Returns the end of the rest after a pass that took `taken` to decide and ended at `now`.
fn rest(now: Instant, taken: Duration) -> Instant {
    now + (taken * REST).min(LONGEST_REST)
}
