//! Services whose status another controller writes, too: how soon each of its changes is put right, and when to tell. Pure.
//!
//! What is written once, by hand or by a controller that is just being replaced, is put right at once. One that writes the
//! same again and again would be answered as often as it writes: each time both write the Service, every kube-proxy programs
//! it anew, and neither wins.

mod leftovers;
mod told;
mod writer;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use windlass_api::ServiceRef;
use windlass_ccm::backoff::Backoff;

#[cfg(test)]
mod tests;

/// Changes that are put right at once.
const AT_ONCE: u32 = 3;
/// What those after them wait.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(5));
/// Without a change for so long it is over.
const OVER: Duration = Duration::from_mins(15);
/// How often one that lasts is told again: events are kept for an hour.
const TELL_AGAIN: Duration = Duration::from_mins(55);

/// What is to be done about a change that is not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Put it right.
    Now,
    /// Put it right after this time.
    After(Duration),
    /// It will be put right: an earlier change is to be.
    Awaited,
}

/// One Service.
#[derive(Debug)]
struct Contest {
    changes: u32,
    /// When the last change is, or was to be, put right.
    answered: Timestamp,
    told: Option<Timestamp>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct StatusConflicts(BTreeMap<ServiceRef, Contest>);

impl StatusConflicts {
    /// Somebody else changed the status of `holder`'s Service.
    pub(crate) fn changed(&mut self, holder: &ServiceRef, now: Timestamp) -> Answer {
        self.0.retain(|_, contest| !contest.is_over(now));
        let new = Contest { changes: 0, answered: now, told: None };
        let contest = self.0.entry(holder.clone()).or_insert(new);
        if contest.answered > now {
            return Answer::Awaited;
        }
        contest.changes = contest.changes.saturating_add(1);
        let pause = pause(contest.changes);
        contest.answered = now + pause;
        if pause.is_zero() { Answer::Now } else { Answer::After(pause) }
    }

    /// Whether another controller changes the status of `holder`'s Service again and again.
    pub(crate) fn goes_on(&self, holder: &ServiceRef, now: Timestamp) -> bool {
        self.0.get(holder).is_some_and(|contest| contest.changes > AT_ONCE && !contest.is_over(now))
    }

    /// Whether to tell that another controller writes the status of `holder`'s Service: once it is clear that it goes on
    /// doing so, and every hour that it does.
    pub(crate) fn is_to_be_told(&mut self, holder: &ServiceRef, now: Timestamp) -> bool {
        let Some(contest) = self.0.get_mut(holder) else { return false };
        let lately = contest.told.is_some_and(|told| elapsed(told, now) < TELL_AGAIN);
        if contest.changes <= AT_ONCE || lately || contest.is_over(now) {
            return false;
        }
        contest.told = Some(now);
        true
    }
}

impl Contest {
    fn is_over(&self, now: Timestamp) -> bool {
        elapsed(self.answered, now) >= OVER
    }
}

/// What the change with this number waits.
fn pause(change: u32) -> Duration {
    BACKOFF.delay(change.saturating_sub(AT_ONCE))
}

/// Nothing for a time to come.
fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}
