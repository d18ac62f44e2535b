//! Which events were written lately, so that one that repeats itself is counted there. Pure: time comes in as an argument.
//!
//! Thousands of Services may get their address at once, so an event is remembered in few bytes: its key is a hash, keyed
//! anew in each process, and its name follows from the object and the time.

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
/// How many are remembered before those that are over are looked for.
const FEW: usize = 64;

/// An event as it was written last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    /// When its series began, in nanoseconds since the Unix epoch: the end of its name.
    pub(crate) stamp: i128,
    /// How often it was said.
    pub(crate) count: i32,
    pub(crate) at: Instant,
}

/// The events of the last [`SERIES`].
#[derive(Debug)]
pub(crate) struct Series {
    hasher: RandomState,
    written: HashMap<u64, Written>,
    /// Once there are so many, those that are over are forgotten.
    full: usize,
}

impl Default for Series {
    fn default() -> Self {
        Self { hasher: RandomState::new(), written: HashMap::new(), full: FEW }
    }
}

impl Series {
    /// What all events have in common that are one series: everything but the time.
    pub(crate) fn key(&self, object: &ObjectReference, kind: EventType, reason: &str, message: &str) -> u64 {
        let object = (&object.kind, &object.namespace, &object.name, &object.uid);
        self.hasher.hash_one((object, kind, reason, message))
    }

    /// The event to count the next one on, if its series is not over at `now`.
    pub(crate) fn last(&self, key: u64, now: Instant) -> Option<Written> {
        self.written.get(&key).copied().filter(|event| is_recent(event, now))
    }

    /// The event was written, or counted. Forgets what is over often enough that no more than half of what is kept is.
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
