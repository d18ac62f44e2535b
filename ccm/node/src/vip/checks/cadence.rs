//! Times at which attempts begin, and detection of a process that stood still. Pure.

use std::time::Duration;

use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// A process that is late by less was busy, and did not stand still.
const LEAST_STALL: Duration = Duration::from_millis(250);

/// The beginnings of attempts: each an interval after the one before, whatever the attempt takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cadence {
    next: Instant,
    interval: Duration,
}

impl Cadence {
    /// The first begins at `start`.
    pub(super) const fn new(start: Instant, interval: Duration) -> Self {
        Self { next: start, interval }
    }

    /// Returns the time at which the next attempt begins.
    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    /// Records the end of the attempt of [`Self::next`]. Beginnings that have passed are left out, so that there is no burst of attempts;
    /// one that is due by less than an interval is not.
    pub(super) fn advance(&mut self, now: Instant) {
        let late = now.saturating_duration_since(self.next + self.interval).as_nanos();
        let missed = late / self.interval.as_nanos().max(1);
        let missed = u32::try_from(missed).unwrap_or(u32::MAX);
        self.next += self.interval.saturating_mul(missed.saturating_add(1));
    }

    /// Returns true if the process stood still: it should have woken at `due`, and woke at `now`, an interval (at least [`LEAST_STALL`])
    /// later or more.
    pub(super) fn stalled(&self, due: Instant, now: Instant) -> bool {
        now.saturating_duration_since(due) >= self.interval.max(LEAST_STALL)
    }
}
