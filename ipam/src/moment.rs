//! Points in time, which callers hand in: this library has no clock.

use std::time::Duration;

/// A point in time: milliseconds since any fixed point, the same for all calls on one allocator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl Moment {
    /// `time` later; the last moment there is if that is beyond it.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }
}
