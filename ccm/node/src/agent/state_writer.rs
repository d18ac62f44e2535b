//! Writes the state file whenever the desired state changes.

use std::sync::Arc;
use std::time::Duration;

use prometheus::IntGauge;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::desired::Desired;
use super::state::StateFile;
use crate::parts::blocking;

#[cfg(test)]
mod tests;

/// Delay before a failed write (a full disk) is retried.
const RETRY: Duration = Duration::from_secs(5);

/// Shortest pause between writes: a burst of updates causes few writes.
const LEAST_PAUSE: Duration = Duration::from_millis(250);
/// Pause as a multiple of the time that the last write took: each contains all addresses.
const REST: u32 = 20;

/// Longest pause: a node without the API server starts from the state on disk.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Writes the newest state; a state that is replaced before its turn is never written. An unwritable folder is logged, and reported by
/// `write_failed`; nothing else depends on it. If most addresses vanish in one update, the file that has them is kept beside the new one.
/// Once `token` is cancelled, writes the last state and returns.
pub(crate) async fn run(
    file: &StateFile,
    desired: &mut watch::Receiver<Option<Arc<Desired>>>,
    write_failed: &IntGauge,
    token: &CancellationToken,
) {
    // A panic may have interrupted a write.
    desired.mark_changed();
    let path = file.path();
    let mut failed = false;
    if let Err(error) = file.prove_writable() {
        failed = true;
        write_failed.set(1);
        tracing::error!(path = %path.display(), %error,
            "cannot keep the state: if this node restarts while the API server is away, it starts from an older one or \
             from none; make the folder writable or give another with --state-dir");
    }
    let mut not_before = Instant::now();
    let mut on_disk = file.load().ok().flatten().map_or(0, |state| addresses(&state));
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(not_before) => {}
            () = token.cancelled() => {}
        }
        let stopping = tokio::select! {
            changed = desired.changed() => changed.is_err(),
            () = tokio::time::sleep(RETRY), if failed => false,
            () = token.cancelled() => true,
        };
        let news = failed || !stopping || desired.has_changed().unwrap_or(false);
        let Some(state) = desired.borrow_and_update().clone().filter(|_| news) else {
            if stopping {
                return;
            }
            continue;
        };
        let target = file.clone();
        let count = addresses(&state);
        let lacks_most = 2 * count < on_disk && !failed;
        let began = Instant::now();
        let written = blocking(move || {
            if lacks_most {
                keep_previous(&target, on_disk, count);
            }
            target.store(&state)
        })
        .await;
        let rest = began.elapsed().saturating_mul(REST).clamp(LEAST_PAUSE, LONGEST_PAUSE);
        not_before = Instant::now() + rest;
        write_failed.set(i64::from(!matches!(written, Some(Ok(())))));
        match written {
            Some(Ok(())) => {
                on_disk = count;
                if std::mem::take(&mut failed) {
                    tracing::info!(path = %path.display(), "the state is on disk again");
                }
            }
            Some(Err(error)) => {
                if !std::mem::replace(&mut failed, true) {
                    tracing::error!(path = %path.display(), %error,
                        "cannot write the state: if this node restarts while the API server is away, it starts \
                         from an older one; free space or repair the disk, it is tried again every 5 s");
                }
            }
            // The runtime is going down.
            None => return,
        }
        if stopping {
            return;
        }
    }
}

/// Keeps the previous file for an admin to inspect. A failure is only logged.
fn keep_previous(file: &StateFile, before: usize, after: usize) {
    match file.keep_previous() {
        Ok(previous) => tracing::warn!(previous = %previous.display(), before, after,
            "most addresses of this node have gone: the state before is kept, to be looked at"),
        Err(error) => tracing::warn!(%error, before, after,
            "most addresses of this node have gone, and the state before could not be kept"),
    }
}

fn addresses(state: &Desired) -> usize {
    state.assignments.iter().map(|one| one.addresses.len()).sum()
}
