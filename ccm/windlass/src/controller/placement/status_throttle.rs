//! How often the counts in a pool's status are written. They change with every Service, and nobody waits for them: one write
//! tells of many. Conditions are written at once. Pure.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// Between two writes to a pool that change nothing but its counts.
const COUNTS_EVERY: Duration = Duration::from_secs(5);

/// When each pool's status was written last.
#[derive(Debug, Default)]
pub(crate) struct PoolStatusThrottle {
    written: HashMap<String, Instant>,
}

impl PoolStatusThrottle {
    /// Whether the status of a pool may be written at `now`, which then counts as done; else when.
    pub(crate) fn take(&mut self, pool: &str, counts_only: bool, now: Instant) -> Result<(), Instant> {
        let due = self.written.get(pool).map(|at| *at + COUNTS_EVERY).filter(|due| counts_only && now < *due);
        if let Some(due) = due {
            return Err(due);
        }
        // Pools that are gone are forgotten with all others that nothing is held back for.
        self.written.retain(|_, at| now.saturating_duration_since(*at) < COUNTS_EVERY);
        self.written.insert(pool.to_owned(), now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_at_once_and_then_every_five_seconds_and_conditions_at_any_time() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut throttle = PoolStatusThrottle::default();
        let rows = [
            (0, "a", true, Ok(())),
            (1, "a", true, Err(at(5000))),
            (1, "b", true, Ok(())),
            (4999, "a", true, Err(at(5000))),
            (5000, "a", true, Ok(())),
            (6000, "a", false, Ok(())),
            (10_500, "a", true, Err(at(11_000))),
            (11_000, "a", true, Ok(())),
        ];
        for (millis, pool, counts_only, expected) in rows {
            assert_eq!(throttle.take(pool, counts_only, at(millis)), expected, "{pool} at {millis} ms");
        }
        assert_eq!(throttle.written.len(), 1, "b is forgotten");
    }
}
