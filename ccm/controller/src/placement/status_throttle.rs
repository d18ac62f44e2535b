//! Limit on the writes of counts in the status of a pool or an Announcement. They change with every Service, and nothing waits for
//! them: one write covers many changes. Conditions are written immediately. Pure.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// Between two writes to an object that change nothing but its counts.
const COUNTS_EVERY: Duration = Duration::from_secs(5);

/// A kind whose status has counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CountedKind {
    /// `VirtualIPPool`.
    Pool,
    /// `Announcement`.
    Announcement,
}

/// Time of the last write of each object's status, by its kind and name.
#[derive(Debug, Default)]
pub(crate) struct StatusThrottle {
    written: HashMap<(CountedKind, String), Instant>,
}

impl StatusThrottle {
    /// Returns `Ok` if the status of an object may be written at `now`, and records the write; else the time from which it may be.
    pub(crate) fn take(
        &mut self,
        (kind, name): (CountedKind, &str),
        counts_only: bool,
        now: Instant,
    ) -> Result<(), Instant> {
        let key = (kind, name.to_owned());
        let due = self.written.get(&key).map(|at| *at + COUNTS_EVERY).filter(|due| counts_only && now < *due);
        if let Some(due) = due {
            return Err(due);
        }
        // Objects that are gone are forgotten with all others that nothing is held back for.
        self.written.retain(|_, at| now.saturating_duration_since(*at) < COUNTS_EVERY);
        self.written.insert(key, now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::CountedKind::{Announcement, Pool};
    use super::*;

    #[test]
    fn counts_are_written_at_once_and_then_every_five_seconds_and_conditions_at_any_time() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut throttle = StatusThrottle::default();
        let rows = [
            (0, (Pool, "a"), true, Ok(())),
            (1, (Pool, "a"), true, Err(at(5000))),
            (1, (Pool, "b"), true, Ok(())),
            (1, (Announcement, "a"), true, Ok(())),
            (4999, (Pool, "a"), true, Err(at(5000))),
            (5000, (Pool, "a"), true, Ok(())),
            (6000, (Pool, "a"), false, Ok(())),
            (10_500, (Pool, "a"), true, Err(at(11_000))),
            (11_000, (Pool, "a"), true, Ok(())),
        ];
        for (millis, object, counts_only, expected) in rows {
            assert_eq!(throttle.take(object, counts_only, at(millis)), expected, "{object:?} at {millis} ms");
        }
        assert_eq!(throttle.written.len(), 1, "the others are forgotten");
    }
}
