//! Selects the connections to report to other nodes: those that have lasted. Most close within a second, and cost no more than a
//! place in a queue.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use windlass_vrrp::Time;

use super::event::Event;
use windlass_vrrp::replication::{Connection, ConnectionKey};

#[cfg(test)]
mod tests;

/// Delay of the first check after one side of a connection has closed: mostly the other side has closed by then.
const FIRST_LOOK_AFTER: Duration = Duration::from_millis(200);
/// Interval of the further checks while the other side stays open.
const LOOK_AFTER: Duration = Duration::from_secs(5);

/// Limits of [`Aging`]: the minimum age and the numbers of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "made by users")]
pub struct AgingLimits {
    /// Age from which a connection is reported.
    pub after: Duration,
    /// Maximum number that began within that time, closed or not: some 300 bytes each.
    pub most_young: usize,
    /// Maximum number of lasting connections: some 10 bytes each.
    pub most_old: usize,
}

impl Default for AgingLimits {
    fn default() -> Self {
        Self { after: Duration::from_secs(1), most_young: 1 << 16, most_old: 1 << 20 }
    }
}

/// Connections that may last, and those that have.
#[derive(Debug)]
pub struct Aging {
    limits: AgingLimits,
    /// Connections that have not lasted yet, with the time at which they will have.
    young: HashMap<ConnectionKey, (Time, Connection)>,
    /// The same in order of time, including those that have closed since.
    queue: VecDeque<(Time, ConnectionKey)>,
    /// Lasting connections of which one side has closed, with the time of their next check.
    closing: BTreeSet<(Time, ConnectionKey)>,
    /// Hashes of the keys of lasting connections.
    old: HashSet<u64>,
    /// Randomly seeded hasher: no client can choose two connections with the same hash.
    numbers: RandomState,
    overflowed: bool,
}

impl Aging {
    /// Starts without connections.
    pub fn new(limits: AgingLimits) -> Self {
        Self {
            limits,
            young: HashMap::new(),
            queue: VecDeque::new(),
            closing: BTreeSet::new(),
            old: HashSet::new(),
            numbers: RandomState::new(),
            overflowed: false,
        }
    }

    /// Processes an event. Returns the connection whose end is to be reported, if the event closes a lasting one. A connection that
    /// is half-closed before it has lasted counts as closed: only a list shows it if it continues.
    pub fn hear(&mut self, event: &Event, now: Time) -> Option<ConnectionKey> {
        match event {
            Event::Established(connection) => {
                self.begin(connection, now);
                None
            }
            Event::Closing(key) => {
                self.young.remove(key);
                self.look_at(key, now + FIRST_LOOK_AFTER)
            }
            Event::Ended(key) => {
                self.young.remove(key);
                self.end(key)
            }
            // Until a list tells what is.
            Event::Lost => {
                self.overflowed = true;
                None
            }
        }
    }

    fn is_old(&self, key: &ConnectionKey) -> bool {
        self.old.contains(&self.numbers.hash_one(key))
    }

    /// Removes a lasting connection and returns it: its end is to be reported.
    fn end(&mut self, key: &ConnectionKey) -> Option<ConnectionKey> {
        self.old.remove(&self.numbers.hash_one(key)).then_some(*key)
    }

    /// Schedules a check of a lasting connection. Without room for it, treats the connection as closed.
    fn look_at(&mut self, key: &ConnectionKey, when: Time) -> Option<ConnectionKey> {
        if self.closing.len() >= self.limits.most_young {
            return self.end(key);
        }
        if self.is_old(key) {
            self.closing.insert((when, *key));
        }
        None
    }

    /// Returns a connection to check for being still open; the caller passes the result to [`Self::looked_at`]. To be called until it
    /// returns `None`.
    pub fn to_look_at(&mut self, now: Time) -> Option<ConnectionKey> {
        while self.closing.first().is_some_and(|(due, _)| *due <= now) {
            let (_, key) = self.closing.pop_first()?;
            // It may have ended since.
            if self.is_old(&key) {
                return Some(key);
            }
        }
        None
    }

    /// Records whether a connection is still open. Returns its key if its end is to be reported.
    pub fn looked_at(&mut self, key: &ConnectionKey, is_open: bool, now: Time) -> Option<ConnectionKey> {
        if is_open { self.look_at(key, now + LOOK_AFTER) } else { self.end(key) }
    }

    fn begin(&mut self, connection: &Connection, now: Time) {
        let key = connection.key;
        if self.is_old(&key) {
            return;
        }
        if let Some((_, known)) = self.young.get_mut(&key) {
            *known = *connection;
            return;
        }
        if self.queue.len() >= self.limits.most_young {
            self.overflowed = true;
            return;
        }
        let due = now + self.limits.after;
        self.young.insert(key, (due, *connection));
        self.queue.push_back((due, key));
    }

    /// Returns a connection that has lasted by now and is to be reported; each once. To be called until it returns `None`.
    pub fn due(&mut self, now: Time) -> Option<Connection> {
        while self.queue.front().is_some_and(|(due, _)| *due <= now) {
            let (due, key) = self.queue.pop_front()?;
            // It may have ended, and another of the same name have begun.
            if self.young.get(&key).is_none_or(|(of_young, _)| *of_young != due) {
                continue;
            }
            let (_, connection) = self.young.remove(&key)?;
            // No list would find room for it. The next one that comes anyway does, if there is some by then.
            if self.old.len() >= self.limits.most_old {
                continue;
            }
            self.old.insert(self.numbers.hash_one(key));
            return Some(connection);
        }
        None
    }

    /// Time from which [`Self::due`] or [`Self::to_look_at`] may next return a connection.
    pub fn next(&self) -> Option<Time> {
        let first = self.queue.front().into_iter().chain(self.closing.first());
        first.map(|(due, _)| *due).min()
    }

    /// Returns true if an event or a connection was missed since the last call: only a list shows the actual connections.
    pub fn take_overflow(&mut self) -> bool {
        std::mem::take(&mut self.overflowed)
    }

    /// Replaces all that events reported by a list: these connections have lasted, and have been reported. Events received while the
    /// list was made are to be processed after this, not before.
    pub fn relist<'a>(&mut self, connections: impl IntoIterator<Item = &'a ConnectionKey>) {
        self.young.clear();
        self.queue.clear();
        self.closing.clear();
        self.overflowed = false;
        let numbers = &self.numbers;
        self.old =
            connections.into_iter().take(self.limits.most_old).map(|key| numbers.hash_one(key)).collect();
    }

    /// Returns the number of lasting connections, and of those that may yet last.
    pub fn counts(&self) -> (usize, usize) {
        (self.old.len(), self.young.len())
    }
}
