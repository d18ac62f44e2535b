//! How long a watch rests after a failure. Pure.

use std::time::Duration;

/// Delays after one failure after another: each twice as long as the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    /// The first one.
    pub first: Duration,
    /// The longest one.
    pub longest: Duration,
    /// All of them times this many percent, so that many watchers do not come back in the same instant.
    pub percent: u32,
}

impl Default for Delays {
    fn default() -> Self {
        Self { first: Duration::from_millis(800), longest: Duration::from_secs(30), percent: 100 }
    }
}

/// Counts failures in a row.
#[derive(Debug)]
pub(super) struct Pace {
    delays: Delays,
    failures: u32,
}

impl Pace {
    pub(super) const fn new(delays: Delays) -> Self {
        Self { delays, failures: 0 }
    }

    /// Another failure; returns how long to rest.
    pub(super) fn failed(&mut self) -> Duration {
        let doubled = self.delays.first.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        doubled.min(self.delays.longest).saturating_mul(self.delays.percent) / 100
    }

    /// It works.
    pub(super) const fn recovered(&mut self) {
        self.failures = 0;
    }

    /// How often it failed since it worked.
    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }
}
