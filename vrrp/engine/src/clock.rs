//! Where time is read.

use nix::time::{ClockId, clock_gettime};
use windlass_vrrp::Time;

/// `CLOCK_MONOTONIC`: not moved by steps of the wall clock.
pub(crate) fn now() -> Time {
    // Cannot fail for this clock; a frozen clock would only delay what is due.
    let Ok(time) = clock_gettime(ClockId::CLOCK_MONOTONIC) else { return Time::default() };
    let (seconds, nanos) = (time.tv_sec().unsigned_abs(), time.tv_nsec().unsigned_abs());
    Time::from_nanos(seconds * 1_000_000_000 + nanos)
}
