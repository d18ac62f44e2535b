//! Which connections are worth telling other nodes of: those that have lasted. Most end within a second, and cost no more than a place
//! in a queue.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use windlass_vrrp::Time;

use super::event::Event;
use windlass_vrrp::replication::{Connection, ConnectionKey};

#[cfg(test)]
mod tests;

/// After one side of a connection has ended: mostly the other ends at once.
const FIRST_LOOK_AFTER: Duration = Duration::from_millis(200);
/// Again and again as long as the other goes on.
const LOOK_AFTER: Duration = Duration::from_secs(5);

/// How long, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "made by users")]
pub struct AgingLimits {
    /// For how long a connection must have lasted.
    pub after: Duration,
    /// Most that began within that time, ended or not: some 300 bytes each.
    pub most_young: usize,
    /// Most that have lasted: some 10 bytes each.
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
    /// Those that have not lasted yet, with the time at which they will have.
    young: HashMap<ConnectionKey, (Time, Connection)>,
    /// The same in order, with those that have ended since.
    queue: VecDeque<(Time, ConnectionKey)>,
    /// Those of the old on which one side has ended, with the time at which they are to be looked at.
    closing: BTreeSet<(Time, ConnectionKey)>,
    /// Those that have lasted, by a number that stands for them.
    old: HashSet<u64>,
    /// So that nobody can choose two connections with one number.
    numbers: RandomState,
    overflowed: bool,
}

impl Aging {
    /// Nothing has begun.
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

    /// Takes note of an event. The connection whose end is to be told, if it is the end of one that had lasted. One that is half-closed
    /// before it has lasted counts as ended: only a list tells it if it goes on.
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

    /// The connection whose end is to be told.
    fn end(&mut self, key: &ConnectionKey) -> Option<ConnectionKey> {
        self.old.remove(&self.numbers.hash_one(key)).then_some(*key)
    }

    /// Takes note that it is to be looked at; without room for it, it has ended.
    fn look_at(&mut self, key: &ConnectionKey, when: Time) -> Option<ConnectionKey> {
        if self.closing.len() >= self.limits.most_young {
            return self.end(key);
        }
        if self.is_old(key) {
            self.closing.insert((when, *key));
        }
        None
    }

    /// A connection of which is to be found out whether it is still open; the answer is for [`Self::looked_at`]. To be called until there
    /// is none.
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

    /// Takes note of whether a connection is still open. Itself, if its end is to be told.
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

    /// A connection that has lasted by now, which is to be told; each once. To be called until there is none.
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

    /// When [`Self::due`] or [`Self::to_look_at`] is worth asking next.
    pub fn next(&self) -> Option<Time> {
        let first = self.queue.front().into_iter().chain(self.closing.first());
        first.map(|(due, _)| *due).min()
    }

    /// Whether something was not told that should have been, since this was last asked: a list tells what is.
    pub fn take_overflow(&mut self) -> bool {
        std::mem::take(&mut self.overflowed)
    }

    /// Takes a list in place of all that was heard: these have lasted, and have been told. Events that came while the list was made are to
    /// be heard after this, not before.
    pub fn relist<'a>(&mut self, connections: impl IntoIterator<Item = &'a ConnectionKey>) {
        self.young.clear();
        self.queue.clear();
        self.closing.clear();
        self.overflowed = false;
        let numbers = &self.numbers;
        self.old =
            connections.into_iter().take(self.limits.most_old).map(|key| numbers.hash_one(key)).collect();
    }

    /// How many have lasted, and how many may yet.
    pub fn counts(&self) -> (usize, usize) {
        (self.old.len(), self.young.len())
    }
}
