//! Pauses after what did not go well, longer each time.

use std::time::Duration;

use windlass_vrrp::Time;

/// The longest.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(30);

/// A pause, and how long the next one would be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    pub(super) until: Time,
    pub(super) next: Duration,
}

impl Pause {
    /// Creates a pause of this length from `now` on. The next one is twice as long, at least `shortest` and at most [`MAX_PAUSE`].
    pub(super) fn new(length: Duration, shortest: Duration, now: Time) -> Self {
        Self { until: now + length, next: length.saturating_mul(2).clamp(shortest, MAX_PAUSE) }
    }
}
