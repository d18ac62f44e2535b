//! What was seen of others, and when it is time to say so again. Bounded: a flood of forged packets fills neither memory
//! nor the log.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// Most things remembered. Beyond it new ones wait until older ones were not told for as long as they are told once.
const LIMIT: usize = 1024;

/// Remembers things seen, to act on each once in a while.
pub(crate) struct Sightings<K> {
    told: HashMap<K, Time>,
    repeat: Duration,
    /// Until then no place becomes free: a flood of new things is not searched for old ones each time.
    full_until: Time,
}

impl<K: Eq + Hash> Sightings<K> {
    /// For reports: each thing once a minute.
    pub(crate) fn new() -> Self {
        Self::every(Duration::from_mins(1))
    }

    /// Each thing once in this time.
    pub(crate) fn every(repeat: Duration) -> Self {
        Self { told: HashMap::new(), repeat, full_until: Time::default() }
    }

    /// Notes `seen` and tells whether to act on it now.
    pub(crate) fn note(&mut self, seen: K, now: Time) -> bool {
        let recently = |last: Time| now.since(last) < self.repeat;
        if self.told.get(&seen).is_some_and(|last| recently(*last)) {
            return false;
        }
        if self.told.len() >= LIMIT {
            if now < self.full_until {
                return false;
            }
            self.told.retain(|_, last| recently(*last));
            if self.told.len() >= LIMIT {
                self.full_until = self.told.values().min().map_or(now, |oldest| *oldest + self.repeat);
                return false;
            }
        }
        self.told.insert(seen, now);
        true
    }
}
