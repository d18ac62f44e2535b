//! Lets each event through once in a period, so that reports of it do not fill the log. Bounded: a flood of forged packets
//! does not fill the memory either.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// Most events recorded. Beyond it new ones wait until older ones are a period old.
const MAX_ENTRIES: usize = 1024;

/// Records the time at which each event was let through last.
pub(crate) struct RateLimiter<K> {
    last_permitted: HashMap<K, Time>,
    period: Duration,
    /// Until then no entry expires: in a flood of new events the table is not searched for old ones each time.
    full_until: Time,
}

impl<K: Eq + Hash> RateLimiter<K> {
    /// Limiter for reports: each event once a minute.
    pub(crate) fn new() -> Self {
        Self::with_period(Duration::from_mins(1))
    }

    /// Limiter that lets each event through once in this time.
    pub(crate) fn with_period(period: Duration) -> Self {
        Self { last_permitted: HashMap::new(), period, full_until: Time::default() }
    }

    /// Returns true if `event` is to be acted on now, and then records it.
    pub(crate) fn permits(&mut self, event: K, now: Time) -> bool {
        let recently = |last: Time| now.since(last) < self.period;
        if self.last_permitted.get(&event).is_some_and(|last| recently(*last)) {
            return false;
        }
        if self.last_permitted.len() >= MAX_ENTRIES {
            if now < self.full_until {
                return false;
            }
            self.last_permitted.retain(|_, last| recently(*last));
            if self.last_permitted.len() >= MAX_ENTRIES {
                self.full_until =
                    self.last_permitted.values().min().map_or(now, |oldest| *oldest + self.period);
                return false;
            }
        }
        self.last_permitted.insert(event, now);
        true
    }
}
