//! Where time is read.

use nix::time::{ClockId, clock_gettime};
use windlass_vrrp::Time;
use windlass_vrrp::auth::WallTime;

/// `CLOCK_BOOTTIME`: not moved by steps of the wall clock, and it counts the time that the machine was suspended, so that an
/// Active knows on waking that it was away.
pub(crate) fn now() -> Time {
    // Cannot fail for this clock; a frozen clock would only delay what is due.
    let Ok(time) = clock_gettime(ClockId::CLOCK_BOOTTIME) else { return Time::default() };
    let (seconds, nanos) = (time.tv_sec().unsigned_abs(), time.tv_nsec().unsigned_abs());
    Time::from_nanos(seconds * 1_000_000_000 + nanos)
}

/// The wall clock (UTC), for authentication alone: it may be set.
pub(crate) fn wall() -> WallTime {
    std::time::SystemTime::now().into()
}
