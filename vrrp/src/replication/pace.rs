//! How fast datagrams go out.

use std::time::Duration;

use crate::units::Time;

/// Datagrams that are waited for at least, so that a sender at its limit is not woken for each one.
const GROUP: u32 = 8;

/// A rate with a burst: the generic cell rate algorithm (ITU-T I.371).
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    interval: Duration,
    /// How far ahead of its time a datagram may be.
    tolerance: Duration,
    /// When the next would be due at the rate alone.
    due: Time,
    rest_until: Time,
}

impl Pace {
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1).checked_div(per_second).unwrap_or(Duration::from_secs(1));
        let tolerance = interval.saturating_mul(burst.saturating_sub(1));
        Self { interval, tolerance, due: Time::default(), rest_until: Time::default() }
    }

    /// Whether a datagram may go now.
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

    /// One goes.
    pub(super) fn take(&mut self, now: Time) {
        self.due = self.due.max(now) + self.interval;
    }

    /// When the next may go.
    pub(super) fn ready_at(&self) -> Time {
        self.rest_until.max(self.earliest())
    }

    fn earliest(&self) -> Time {
        Time::default() + self.due.since(Time::default() + self.tolerance)
    }
}
