//! Limits the number of labs that run at the same time on this machine.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::LabBuilder;

#[cfg(test)]
mod tests;

/// Room for each two processors, in light labs. With four of them twelve and more threads waited for a processor all the time, and no more
/// tests ended in a minute.
const LABS_PER_TWO_PROCESSORS: usize = 3;

static ROOM: Room = Room::new();

/// Room for labs. Whoever comes first is served first, so that small labs cannot keep a large one waiting for ever.
struct Room {
    inner: Mutex<Inner>,
    changed: Condvar,
}

struct Inner {
    used: usize,
    /// The ticket that is given out next, and the one whose turn it is.
    next: u64,
    turn: u64,
}

/// A part of the room; given back when it is dropped, also by a test that fails.
pub(crate) struct Place<'a> {
    room: &'a Room,
    size: usize,
}

/// Waits until there is room for `count` labs of this kind beside those that run.
pub(crate) fn take(builder: &LabBuilder, count: u8) -> Place<'static> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let capacity = (processors * LABS_PER_TWO_PROCESSORS).div_ceil(2);
    ROOM.take(builder.size() * usize::from(count), capacity)
}

impl Room {
    const fn new() -> Self {
        Self { inner: Mutex::new(Inner { used: 0, next: 0, turn: 0 }), changed: Condvar::new() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `size` fits into what is left of `capacity`. What is larger than all of it runs alone.
    fn take(&self, size: usize, capacity: usize) -> Place<'_> {
        let size = size.min(capacity);
        let mut inner = self.inner();
        let ticket = inner.next;
        inner.next += 1;
        let waits = |inner: &mut Inner| inner.turn != ticket || inner.used + size > capacity;
        let mut inner = self.changed.wait_while(inner, waits).unwrap_or_else(PoisonError::into_inner);
        inner.turn += 1;
        inner.used += size;
        drop(inner);
        self.changed.notify_all();
        Place { room: self, size }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.room.inner().used -= self.size;
        self.room.changed.notify_all();
    }
}
