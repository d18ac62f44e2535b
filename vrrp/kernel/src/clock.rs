//! Reads the clocks: `CLOCK_BOOTTIME` and the wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};
use windlass_vrrp::Time;
use windlass_vrrp::auth::WallTime;

/// `CLOCK_BOOTTIME`: not moved by steps of the wall clock, and it counts the time that the machine was suspended, so that an
/// Active knows on waking that it was away.
pub fn now() -> Time {
    // Cannot fail for this clock; a frozen clock would only delay what is due.
    let Ok(time) = clock_gettime(ClockId::CLOCK_BOOTTIME) else { return Time::default() };
    let (seconds, nanos) = (time.tv_sec().unsigned_abs(), time.tv_nsec().unsigned_abs());
    Time::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// Our clock and the wall clock, by which the kernel stamps packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clocks {
    /// Time of our clock.
    pub now: Time,
    /// Nanoseconds by which the wall clock is ahead (wrapping). It changes only when the wall clock is set: both are
    /// slewed alike.
    pub ahead: u64,
}

/// Reads both.
pub fn both() -> Clocks {
    let now = now();
    // The wall clock second: a thread that is held up in between takes a packet for older than it is, never for younger.
    Clocks { now, ahead: wall_nanos().wrapping_sub(now.nanos()) }
}

/// The wall clock in nanoseconds: greater than at a former start, unless it was set back.
pub fn wall_nanos() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    u64::try_from(wall).unwrap_or(u64::MAX)
}

/// The wall clock (UTC), for authentication: it may be set.
pub fn wall() -> WallTime {
    SystemTime::now().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: bgp D11
    #[test]
    fn the_clock_counts_from_the_boot_so_that_a_step_of_the_wall_clock_moves_no_timer() {
        let boot = || clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap();
        let (before, now, after) = (boot(), now(), boot());
        let nanos = [before, after].map(|time| time.tv_sec() * 1_000_000_000 + time.tv_nsec());
        let now = i64::try_from(now.nanos()).unwrap();
        assert!((nanos[0]..=nanos[1]).contains(&now), "{now} of {nanos:?}");
    }
}
