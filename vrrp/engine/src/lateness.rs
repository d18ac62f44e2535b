//! Lateness of the timer thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Upper bounds of the buckets, in seconds.
const BOUNDS: [f64; 12] =
    [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5];

/// Lateness of timers, of virtual routers and of one that runs four times in the shortest interval of adverts: the cost of the
/// machine's scheduling. Adverts and takeovers are late by as much.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Lateness {
    /// Upper bounds of the buckets in seconds, ascending.
    pub bounds_seconds: &'static [f64],
    /// Timers in each bucket (not cumulative); the last, one more than there are bounds, is for all later ones.
    pub counts: Vec<u64>,
    /// Sum of the lateness of all timers.
    pub sum: Duration,
    /// Greatest lateness.
    pub max: Duration,
}

/// Counts timers by their lateness.
#[derive(Debug, Default)]
pub(crate) struct LatenessMeter {
    counts: [AtomicU64; BOUNDS.len() + 1],
    sum: AtomicU64,
    max: AtomicU64,
    /// Greatest lateness since it was last taken.
    recent: AtomicU64,
}

impl LatenessMeter {
    pub(crate) fn note(&self, late: Duration) {
        let seconds = late.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        let nanos = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(nanos, Ordering::Relaxed);
        self.max.fetch_max(nanos, Ordering::Relaxed);
        self.recent.fetch_max(nanos, Ordering::Relaxed);
    }

    /// Returns the greatest lateness since the last call.
    pub(crate) fn take_recent(&self) -> Duration {
        Duration::from_nanos(self.recent.swap(0, Ordering::Relaxed))
    }

    pub(crate) fn read(&self) -> Lateness {
        Lateness {
            bounds_seconds: &BOUNDS,
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: Duration::from_nanos(self.sum.load(Ordering::Relaxed)),
            max: Duration::from_nanos(self.max.load(Ordering::Relaxed)),
        }
    }
}
