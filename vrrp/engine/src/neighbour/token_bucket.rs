//! Pace of frames, or of something else, decided without clock: no delay up to a burst, even pace beyond it.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// Frames that may go together after a pause.
pub(crate) const BURST: u32 = 64;
/// Frames worth waking up for.
const WORTHWHILE: u32 = 16;

/// The pace of all frames on all interfaces: a takeover of thousands of addresses must not overrun the queues of switches
/// and of the hosts that listen.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    /// Time that one frame takes.
    gap: Duration,
    /// Time at which everything sent would have gone at an even pace.
    even: Time,
}

impl TokenBucket {
    pub(crate) fn new(frames_per_second: NonZeroU32) -> Self {
        Self {
            gap: Duration::from_nanos(1_000_000_000 / NonZeroU64::from(frames_per_second)),
            even: Time::default(),
        }
    }

    /// Returns the number of frames that may go now.
    pub(crate) fn allowance(&self, now: Time) -> usize {
        let ahead = self.even.since(now);
        let room = self.gap.saturating_mul(BURST).saturating_sub(ahead);
        let frames = room.as_nanos().checked_div(self.gap.as_nanos()).unwrap_or_default();
        usize::try_from(frames).unwrap_or(usize::MAX)
    }

    /// Records that this many went.
    pub(crate) fn spend(&mut self, frames: usize, now: Time) {
        self.even = self.even.max(now) + self.gap.saturating_mul(u32::try_from(frames).unwrap_or(u32::MAX));
    }

    /// Returns the time at which there is an allowance worth waking up for.
    pub(crate) fn next(&self, now: Time) -> Time {
        let wait = self.even.since(now).saturating_sub(self.gap.saturating_mul(const { BURST - WORTHWHILE }));
        now + wait
    }
}
