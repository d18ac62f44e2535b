//! A node's clock: it goes at a rate of its own and stands still while its machine is suspended.

use std::time::Duration;

use crate::units::Time;

const MILLION: u128 = 1_000_000;

/// A node's clock, as a function of the simulation's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Clock {
    /// Millionths by which it is faster than the simulation's time; negative if slower.
    parts_per_million: i32,
    /// Total time for which it has stood still.
    stood_still: Duration,
}

impl Clock {
    /// A clock that is faster by so many millionths: 10 000 is 1 %. Below -999 999 it is taken for that.
    pub fn faster_by(parts_per_million: i32) -> Self {
        Self { parts_per_million: parts_per_million.max(-999_999), stood_still: Duration::ZERO }
    }

    /// Returns the time that it shows at `now`.
    pub fn read(&self, now: Time) -> Time {
        let gone = now.since(Time::default() + self.stood_still).as_nanos();
        nanos(gone * self.rate() / MILLION)
    }

    /// The first instant at which it shows `clock_time` or more.
    pub fn when(&self, clock_time: Time) -> Time {
        nanos((u128::from(clock_time.nanos()) * MILLION).div_ceil(self.rate())) + self.stood_still
    }

    /// Returns the time that it takes to advance by `clock_time`, rounded up.
    pub fn takes(&self, clock_time: Duration) -> Duration {
        let nanos = (clock_time.as_nanos() * MILLION).div_ceil(self.rate());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// It stood still for `duration`.
    pub(super) fn stand_still(&mut self, duration: Duration) {
        self.stood_still += duration;
    }

    fn rate(&self) -> u128 {
        MILLION.saturating_add_signed(i128::from(self.parts_per_million))
    }
}

fn nanos(value: u128) -> Time {
    Time::from_nanos(u64::try_from(value).unwrap_or(u64::MAX))
}
