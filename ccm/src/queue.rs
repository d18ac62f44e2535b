//! The work queue of a controller, without a clock: what is due, what is being worked on, what is to be tried again.
//!
//! The rules are client-go's: a key is worked on once at a time; a key that is added while it is worked on comes again
//! afterwards, so no change is lost; keys that failed come back after a delay that doubles.
//!
//! The clock is read only to measure how long keys wait and take: nothing is decided by that.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::metrics::{QueueGauges, WorkTimer};

/// A queue of keys; time comes in as an argument.
#[derive(Debug)]
pub(crate) struct WorkQueue<K> {
    backoff: Backoff,
    gauges: QueueGauges,
    /// Due, in order; every key at most once.
    ready: VecDeque<K>,
    /// The same keys: thousands are added while thousands are due.
    is_ready: HashSet<K>,
    /// Due later. A key is in `ready` or here, not in both.
    delayed: BTreeSet<(Instant, K)>,
    due: HashMap<K, Instant>,
    /// Time since which each key that waits for work is due.
    since: HashMap<K, Instant>,
    working: HashMap<K, WorkTimer>,
    /// Added while being worked on; `true`: urgent.
    again: HashMap<K, bool>,
    failures: HashMap<K, u32>,
}

impl<K: Clone + Eq + Hash + Ord> WorkQueue<K> {
    pub(crate) fn new(backoff: Backoff, gauges: QueueGauges) -> Self {
        Self {
            backoff,
            gauges,
            ready: VecDeque::new(),
            is_ready: HashSet::new(),
            delayed: BTreeSet::new(),
            due: HashMap::new(),
            since: HashMap::new(),
            working: HashMap::new(),
            again: HashMap::new(),
            failures: HashMap::new(),
        }
    }

    /// The key is due now, also if it was to wait.
    pub(crate) fn add(&mut self, key: &K) {
        self.put(key, false);
    }

    /// The key is due now, before all others.
    pub(crate) fn add_urgent(&mut self, key: &K) {
        self.put(key, true);
    }

    fn put(&mut self, key: &K, urgent: bool) {
        self.gauges.adds.inc();
        self.since.entry(key.clone()).or_insert_with(Instant::now);
        if self.working.contains_key(key) {
            *self.again.entry(key.clone()).or_default() |= urgent;
            return;
        }
        self.undelay(key);
        match (self.is_ready.insert(key.clone()), urgent) {
            (false, false) => {}
            (false, true) => {
                self.ready.retain(|other| other != key);
                self.ready.push_front(key.clone());
            }
            (true, false) => self.ready.push_back(key.clone()),
            (true, true) => self.ready.push_front(key.clone()),
        }
        self.measure();
    }

    /// The key is due at `at`, unless it is due earlier.
    pub(crate) fn add_at(&mut self, key: &K, at: Instant) {
        if self.again.contains_key(key) || self.is_ready.contains(key) {
            return;
        }
        if self.due.get(key).is_some_and(|due| *due <= at) {
            return;
        }
        self.undelay(key);
        self.delayed.insert((at, key.clone()));
        self.due.insert(key.clone(), at);
    }

    /// Counts a failure and has the key come back after its back-off; returns when.
    pub(crate) fn retry(&mut self, key: &K, now: Instant) -> Instant {
        let failures = self.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        let at = now + self.backoff.delay(*failures);
        self.gauges.retries.inc();
        self.add_at(key, at);
        at
    }

    /// Resets the failures of the key.
    pub(crate) fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// Takes the next due key; it is worked on until [`WorkQueue::done`].
    pub(crate) fn pop(&mut self, now: Instant) -> Option<K> {
        while let Some((at, key)) = self.delayed.first().cloned()
            && at <= now
        {
            self.undelay(&key);
            self.since.entry(key.clone()).or_insert(at);
            if self.working.contains_key(&key) {
                self.again.entry(key).or_default();
            } else if self.is_ready.insert(key.clone()) {
                self.ready.push_back(key);
            }
        }
        let key = self.ready.pop_front()?;
        self.is_ready.remove(&key);
        let since = self.since.remove(&key).unwrap_or(now);
        self.working.insert(key.clone(), self.gauges.begin(since, now));
        self.measure();
        Some(key)
    }

    /// Pops as [`WorkQueue::pop`], with the value that `find` returns for the key; keys without a value are dropped.
    pub(crate) fn pop_known<V>(&mut self, now: Instant, find: impl Fn(&K) -> Option<V>) -> Option<(K, V)> {
        while let Some(key) = self.pop(now) {
            if let Some(known) = find(&key) {
                return Some((key, known));
            }
            self.forget(&key);
            self.done(&key);
        }
        None
    }

    /// The work on the key has ended; it comes again if it was added meanwhile.
    pub(crate) fn done(&mut self, key: &K) {
        if let Some(work) = self.working.remove(key) {
            work.end(Instant::now());
        }
        if let Some(urgent) = self.again.remove(key) {
            self.put(key, urgent);
        }
    }

    /// Returns the time to look for the next delayed key, or `None` while there is no room to work on it: an overdue key would wake its
    /// reader again and again, and the end of a piece of work wakes it anyway.
    pub(crate) fn next_due(&self, room: bool) -> Option<Instant> {
        self.delayed.first().filter(|_| room).map(|(at, _)| *at)
    }

    fn undelay(&mut self, key: &K) {
        if let Some(at) = self.due.remove(key) {
            self.delayed.remove(&(at, key.clone()));
        }
    }

    fn measure(&self) {
        self.gauges.depth.set(i64::try_from(self.ready.len()).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests;
