//! Services whose status another controller writes, too: schedule of corrections and reports. Pure.
//!
//! A single write, by a user or by a controller that is just being replaced, is corrected immediately. A controller that writes the
//! same again and again is not corrected as often as it writes: each time every kube-proxy would program the Service again, and
//! neither controller would win.

mod leftovers;
mod report;
mod writer;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use windlass_api::ServiceRef;
use windlass_ccm::backoff::Backoff;

#[cfg(test)]
mod tests;

/// Number of changes that are corrected immediately.
const AT_ONCE: u32 = 3;
/// Delay before later changes are corrected.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(5));
/// Time without a change after which the conflict is over.
const OVER: Duration = Duration::from_mins(15);
/// Interval at which a lasting conflict is reported again: events are kept for an hour.
const REPORT_AGAIN: Duration = Duration::from_mins(55);

/// Time at which a change that is not ours is corrected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Correction {
    /// Now.
    Now,
    /// After this time.
    After(Duration),
    /// With an earlier change, whose correction is scheduled.
    AlreadyScheduled,
}

/// The conflict over one Service.
#[derive(Debug)]
struct StatusConflict {
    changes: u32,
    /// Time at which the last change is, or was to be, corrected.
    corrected_at: Timestamp,
    reported_at: Option<Timestamp>,
}

/// The conflicts, by Service.
#[derive(Debug, Default)]
pub(crate) struct StatusConflicts(BTreeMap<ServiceRef, StatusConflict>);

impl StatusConflicts {
    /// Records that another writer changed the status of `holder`'s Service. Returns when to correct it.
    pub(crate) fn changed(&mut self, holder: &ServiceRef, now: Timestamp) -> Correction {
        self.0.retain(|_, conflict| !conflict.is_over(now));
        let new = StatusConflict { changes: 0, corrected_at: now, reported_at: None };
        let conflict = self.0.entry(holder.clone()).or_insert(new);
        if conflict.corrected_at > now {
            return Correction::AlreadyScheduled;
        }
        conflict.changes = conflict.changes.saturating_add(1);
        let pause = pause(conflict.changes);
        conflict.corrected_at = now + pause;
        if pause.is_zero() { Correction::Now } else { Correction::After(pause) }
    }

    /// Returns true if another controller changes the status of `holder`'s Service again and again.
    pub(crate) fn is_ongoing(&self, holder: &ServiceRef, now: Timestamp) -> bool {
        self.0.get(holder).is_some_and(|conflict| conflict.changes > AT_ONCE && !conflict.is_over(now))
    }

    /// Returns true if a conflict over the status of `holder`'s Service with another controller is to be reported: once it clearly
    /// lasts, and again every `REPORT_AGAIN` while it does.
    pub(crate) fn should_report(&mut self, holder: &ServiceRef, now: Timestamp) -> bool {
        let Some(conflict) = self.0.get_mut(holder) else { return false };
        let lately = conflict.reported_at.is_some_and(|reported_at| elapsed(reported_at, now) < REPORT_AGAIN);
        if conflict.changes <= AT_ONCE || lately || conflict.is_over(now) {
            return false;
        }
        conflict.reported_at = Some(now);
        true
    }
}

impl StatusConflict {
    fn is_over(&self, now: Timestamp) -> bool {
        elapsed(self.corrected_at, now) >= OVER
    }
}

/// Returns the delay before the change with this number is corrected.
fn pause(change: u32) -> Duration {
    BACKOFF.delay(change.saturating_sub(AT_ONCE))
}

/// Returns the time from `since` to `now`; zero if `since` is later.
fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}
