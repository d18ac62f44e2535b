//! Rate limit for datagrams.

use std::time::Duration;

use crate::units::Time;

/// Datagrams that are waited for at least, so that a sender at its limit is not woken for each one.
const GROUP: u32 = 8;

/// A rate with a burst: the generic cell rate algorithm (ITU-T I.371).
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    interval: Duration,
    /// Most that a datagram may be ahead of its due time.
    tolerance: Duration,
    /// Time at which the next datagram would be due at the rate alone.
    due: Time,
    rest_until: Time,
}

impl Pace {
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1).checked_div(per_second).unwrap_or(Duration::from_secs(1));
        let tolerance = interval.saturating_mul(burst.saturating_sub(1));
        Self { interval, tolerance, due: Time::default(), rest_until: Time::default() }
    }

    /// Returns true if a datagram may be sent now.
    pub(super) fn allows(&mut self, now: Time) -> bool {
        if now < self.rest_until {
            return false;
        }
        if self.due.since(now) <= self.tolerance {
            return true;
        }
        let group = self
            .interval
            .min(self.tolerance.checked_div(GROUP).unwrap_or_default())
            .saturating_mul(const { GROUP - 1 });
        self.rest_until = self.earliest() + group;
        false
    }

    /// Records that a datagram is sent.
    pub(super) fn take(&mut self, now: Time) {
        self.due = self.due.max(now) + self.interval;
    }

    /// Returns the earliest time for the next datagram.
    pub(super) fn ready_at(&self) -> Time {
        self.rest_until.max(self.earliest())
    }

    fn earliest(&self) -> Time {
        Time::default() + self.due.since(Time::default() + self.tolerance)
    }
}
