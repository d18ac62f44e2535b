//! Record of recent events, so that a repeated event is counted there. Pure: time comes in as an argument.
//!
//! Thousands of Services may get their address within seconds, so an event is stored in few bytes: its key is a hash, keyed anew in each
//! process, and its name follows from the object and the time.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::EventType;

#[cfg(test)]
mod tests;

/// A repeated event is counted on the earlier one for this long.
pub const SERIES: Duration = Duration::from_mins(10);
/// Least number of stored events at which expired ones are removed.
const FEW: usize = 64;

/// An event as it was written last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    /// Start of its series, in nanoseconds since the Unix epoch: the suffix of the event's name.
    pub(crate) stamp: i128,
    /// Number of occurrences in the series.
    pub(crate) count: i32,
    pub(crate) at: Instant,
}

/// The events of the last [`SERIES`].
#[derive(Debug)]
pub(crate) struct Series {
    hasher: RandomState,
    written: HashMap<u64, Written>,
    /// Number of entries at which expired ones are removed.
    full: usize,
}

impl Default for Series {
    fn default() -> Self {
        Self { hasher: RandomState::new(), written: HashMap::new(), full: FEW }
    }
}

impl Series {
    /// Returns the key of the series: a hash of all that its events have in common, everything but the time.
    pub(crate) fn key(&self, object: &ObjectReference, kind: EventType, reason: &str, message: &str) -> u64 {
        let object = (&object.kind, &object.namespace, &object.name, &object.uid);
        self.hasher.hash_one((object, kind, reason, message))
    }

    /// The event to count the next one on, if its series is not over at `now`.
    pub(crate) fn last(&self, key: u64, now: Instant) -> Option<Written> {
        self.written.get(&key).copied().filter(|event| is_recent(event, now))
    }

    /// Records that the event was written or counted. Removes expired entries often enough that they make up at most half of all.
    pub(crate) fn written(&mut self, key: u64, event: Written) {
        self.written.insert(key, event);
        if self.written.len() >= self.full {
            self.written.retain(|_, other| is_recent(other, event.at));
            self.full = (2 * self.written.len()).max(FEW);
        }
    }
}

fn is_recent(event: &Written, now: Instant) -> bool {
    now.saturating_duration_since(event.at) < SERIES
}
