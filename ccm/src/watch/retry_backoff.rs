//! Delays of a watch after failures. Pure.

use std::time::Duration;

use crate::backoff::Backoff;

/// Counts failures in a row.
#[derive(Debug)]
pub(super) struct RetryBackoff {
    backoff: Backoff,
    failures: u32,
}

impl RetryBackoff {
    pub(super) const fn new(backoff: Backoff) -> Self {
        Self { backoff, failures: 0 }
    }

    /// Another failure; returns how long to rest.
    pub(super) fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.backoff.delay(self.failures)
    }

    /// It works.
    pub(super) const fn recovered(&mut self) {
        self.failures = 0;
    }

    /// Returns the number of failures since the last success.
    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }
}
