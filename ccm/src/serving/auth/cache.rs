//! Cached answers of the API server. Bounded: callers choose the keys.

use std::collections::HashMap;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// Entries a cache holds at most.
const ENTRIES: usize = 1024;

/// A hash of what was asked: tokens are secrets and are not kept.
pub(crate) type Key = [u8; 32];

/// The key of what was asked.
pub(crate) fn key(asked: &[u8]) -> Key {
    Sha256::digest(asked).into()
}

/// Answers with their times of expiry.
#[derive(Debug)]
pub(crate) struct Cache<V> {
    entries: HashMap<Key, (V, Instant)>,
    limit: usize,
}

impl<V> Default for Cache<V> {
    fn default() -> Self {
        Self::with_limit(ENTRIES)
    }
}

impl<V> Cache<V> {
    /// A cache of at most `limit` entries.
    pub(crate) fn with_limit(limit: usize) -> Self {
        Self { entries: HashMap::new(), limit }
    }

    /// Keeps an answer for `ttl`. When there is no room, what is the next to run out goes.
    pub(crate) fn put(&mut self, key: Key, value: V, now: Instant, ttl: Duration) {
        if ttl.is_zero() || self.limit == 0 {
            return;
        }
        if self.entries.len() >= self.limit && !self.entries.contains_key(&key) {
            self.entries.retain(|_, (_, until)| *until > now);
        }
        if self.entries.len() >= self.limit && !self.entries.contains_key(&key) {
            let first = self.entries.iter().min_by_key(|(_, (_, until))| *until).map(|(key, _)| *key);
            first.map(|first| self.entries.remove(&first));
        }
        self.entries.insert(key, (value, now + ttl));
    }

    /// Removes an answer.
    pub(crate) fn remove(&mut self, key: &Key) {
        self.entries.remove(key);
    }
}

impl<V: Clone> Cache<V> {
    /// Returns the answer, unless it has expired.
    pub(crate) fn get(&self, key: &Key, now: Instant) -> Option<V> {
        self.entries.get(key).filter(|(_, until)| *until > now).map(|(value, _)| value.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    #[test]
    fn an_answer_is_believed_for_its_time_and_not_a_moment_longer() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.put(key(b"a"), 1, now, TTL);
        assert_eq!(cache.get(&key(b"a"), now + Duration::from_millis(9_999)), Some(1));
        assert_eq!(cache.get(&key(b"a"), now + TTL), None);
        assert_eq!(cache.get(&key(b"b"), now), None);
        cache.put(key(b"c"), 1, now, Duration::ZERO);
        assert_eq!(cache.get(&key(b"c"), now), None);
    }

    #[test]
    fn a_full_cache_lets_go_of_what_ran_out_and_else_of_what_is_next_to() {
        let (mut cache, now) = (Cache::with_limit(2), Instant::now());
        cache.put(key(b"old"), 1, now, TTL);
        cache.put(key(b"new"), 2, now, TTL * 3);
        cache.put(key(b"third"), 3, now, TTL * 2);
        assert_eq!(cache.entries.len(), 2);
        assert_eq!(cache.get(&key(b"old"), now), None);
        assert_eq!(cache.get(&key(b"new"), now), Some(2));
        cache.put(key(b"fourth"), 4, now + TTL * 5, TTL);
        assert_eq!(cache.entries.len(), 1, "both had run out");
        cache.put(key(b"fourth"), 5, now + TTL * 5, TTL);
        assert_eq!(cache.get(&key(b"fourth"), now + TTL * 5), Some(5));
    }
}
