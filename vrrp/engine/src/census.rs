//! What was seen of others, and when it is time to say so again. Bounded: a flood of forged packets fills neither memory
//! nor the log.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// Time until the same thing is reported again.
const REPEAT: Duration = Duration::from_mins(1);
/// Most things remembered. Beyond it new ones wait until older ones were not seen for [`REPEAT`].
const LIMIT: usize = 1024;

/// Remembers things seen, to report each once a minute.
pub(crate) struct Sightings<K> {
    reported: HashMap<K, Time>,
}

impl<K: Eq + Hash> Sightings<K> {
    pub(crate) fn new() -> Self {
        Self { reported: HashMap::new() }
    }

    /// Notes `seen` and tells whether to report it now.
    pub(crate) fn note(&mut self, seen: K, now: Time) -> bool {
        if self.reported.get(&seen).is_some_and(|&last| now.since(last) < REPEAT) {
            return false;
        }
        if self.reported.len() >= LIMIT {
            self.reported.retain(|_, last| now.since(*last) < REPEAT);
            if self.reported.len() >= LIMIT {
                return false;
            }
        }
        self.reported.insert(seen, now);
        true
    }
}
