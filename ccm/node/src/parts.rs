//! Parts of the process that announcing does not need.
//!
//! A part that panics loses its function until it is started again, with the state that it had: after 1 s, then after twice as long each
//! time, 1 min at most. Neither another part nor the engine stops.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_ccm::backoff::Backoff;
use windlass_engine::HelperStatus;

#[cfg(test)]
mod tests;

/// Delays before the next starts.
pub(crate) const RESTART: Backoff = Backoff::new(
    if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(1) },
    Duration::from_mins(1),
);
/// Time without a panic after which a part counts as well, so that its next delay is the first again.
pub(crate) const WELL_AFTER: Duration = Duration::from_mins(1);

/// Status of all parts, by name.
pub(crate) type Faults = BTreeMap<&'static str, HelperStatus>;

/// The parts of this process.
#[derive(Debug)]
pub(crate) struct Parts {
    known: watch::Sender<Faults>,
}

impl Parts {
    pub(crate) fn new() -> Self {
        Self { known: watch::Sender::new(BTreeMap::new()) }
    }

    /// Returns a receiver that is notified of each fault.
    pub(crate) fn faults(&self) -> watch::Receiver<Faults> {
        self.known.subscribe()
    }

    /// Returns the status of each part, in the order of their names.
    pub(crate) fn status(&self) -> Vec<HelperStatus> {
        self.known.borrow().values().cloned().collect()
    }

    /// Runs a part to its end, and returns its result. After a panic the part is started again; `None`: `token` was cancelled before.
    ///
    /// (`body` owns what it uses where the future is sent to another thread: the compiler does not see it of one that borrows.)
    pub(crate) fn keep<T, B: AsyncFnMut() -> T>(
        self: &Arc<Self>,
        part: &'static str,
        token: &CancellationToken,
        mut body: B,
    ) -> impl Future<Output = Option<T>> + use<T, B> {
        let (parts, token) = (Arc::clone(self), token.clone());
        parts.add(part);
        async move {
            let mut failures = 0;
            loop {
                let mut running = pin!(AssertUnwindSafe(async { body().await }).catch_unwind());
                let ended = if let Ok(early) = tokio::time::timeout(WELL_AFTER, running.as_mut()).await {
                    early
                } else {
                    parts.recover(part, std::mem::take(&mut failures));
                    running.await
                };
                match ended {
                    Ok(result) => {
                        parts.recover(part, failures);
                        return Some(result);
                    }
                    Err(panic) => {
                        failures += 1;
                        let delay = RESTART.delay(failures);
                        parts.fail(part, &*panic, delay);
                        token.run_until_cancelled(tokio::time::sleep(delay)).await?;
                    }
                }
            }
        }
    }

    /// Adds a part without faults.
    pub(crate) fn add(&self, part: &'static str) {
        self.known.send_if_modified(|known| {
            known.entry(part).or_insert(HelperStatus::new(part));
            false
        });
    }

    /// Records a panic of a part, which is started again after `delay`. Returns the message.
    pub(crate) fn fail(&self, part: &'static str, panic: &(dyn Any + Send), delay: Duration) -> String {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let error = format!(
            "{part} panicked, which is a bug, report it: {}; its function is missing until it is started again in {delay:?}",
            text.unwrap_or("no message")
        );
        tracing::error!(part, "{error}");
        self.known.send_modify(|known| {
            let status = known.entry(part).or_insert(HelperStatus::new(part));
            status.faults += 1;
            status.error = Some(error.clone());
        });
        error
    }

    /// Records that a part works, after this many failures in a row.
    pub(crate) fn recover(&self, part: &'static str, failures: u32) {
        if failures == 0 {
            return;
        }
        self.known.send_if_modified(|known| {
            let error = known.get_mut(part).and_then(|status| status.error.take());
            if error.is_some() {
                tracing::info!(part, "the part works again");
            }
            false
        });
    }
}

/// Runs work that blocks, on another thread. A panic there is one of the caller. `None`: the process ends.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => Some(result),
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Err(_) => None,
    }
}
