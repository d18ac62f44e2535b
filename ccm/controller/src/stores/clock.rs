//! Clock that tests can replace.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use windlass_ipam::Moment;

/// A clock.
#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        (self.0)()
    }

    /// Returns a clock that shows the time that `time` returns.
    #[cfg(test)]
    pub(crate) fn new(time: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(time))
    }
}

impl Default for Clock {
    /// The machine's clock.
    fn default() -> Self {
        Self(Arc::new(Timestamp::now))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// The same point in time for the allocator: milliseconds since 1970.
pub(crate) fn moment(time: Timestamp) -> Moment {
    Moment(u64::try_from(time.as_millisecond()).unwrap_or(0))
}
