//! What is due first: a heap with one entry for each timer, whose place in it is known.
//!
//! A timer that is set again moves within the heap; nothing is left behind and nothing is allocated but by [`Deadlines::add`].

use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// Timers by their deadline. `K` says whose timer it is.
pub(super) struct Deadlines<K> {
    timers: Vec<Timer<K>>,
    /// Slots of running timers, as a binary heap: the earliest first.
    heap: Vec<usize>,
    free: Vec<usize>,
}

/// A timer's place, given by [`Deadlines::add`] and good until [`Deadlines::remove`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot(usize);

struct Timer<K> {
    key: K,
    due: Time,
    /// Where it is in the heap; `None`: it does not run.
    place: Option<usize>,
}

impl<K: Copy> Deadlines<K> {
    pub(super) fn new() -> Self {
        Self { timers: Vec::new(), heap: Vec::new(), free: Vec::new() }
    }

    /// A timer that does not run yet.
    pub(super) fn add(&mut self, key: K) -> Slot {
        let timer = Timer { key, due: Time::default(), place: None };
        self.heap.reserve(self.timers.len() + 1 - self.heap.len());
        if let Some(slot) = self.free.pop() {
            self.timers[slot] = timer;
            return Slot(slot);
        }
        self.timers.push(timer);
        self.free.reserve(self.timers.len());
        Slot(self.timers.len() - 1)
    }

    /// The slot is given to another timer later.
    pub(super) fn remove(&mut self, slot: Slot) {
        self.set(slot, None);
        self.free.push(slot.0);
    }

    /// Sets a timer, or stops it.
    pub(super) fn set(&mut self, Slot(slot): Slot, due: Option<Time>) {
        match (due, self.timers[slot].place) {
            (None, None) => {}
            (Some(due), Some(place)) => {
                self.timers[slot].due = due;
                self.settle(place);
            }
            (Some(due), None) => {
                self.timers[slot].due = due;
                self.heap.push(slot);
                self.settle(self.heap.len() - 1);
            }
            (None, Some(place)) => {
                self.timers[slot].place = None;
                self.heap.swap_remove(place);
                if place < self.heap.len() {
                    self.settle(place);
                }
            }
        }
    }

    /// The earliest.
    pub(super) fn first(&self) -> Option<(Time, K)> {
        let timer = &self.timers[*self.heap.first()?];
        Some((timer.due, timer.key))
    }

    /// Moves what is at `place` up or down to where it belongs.
    fn settle(&mut self, mut place: usize) {
        while place > 0 && self.due(place) < self.due((place - 1) / 2) {
            self.heap.swap(place, (place - 1) / 2);
            self.note(place);
            place = (place - 1) / 2;
        }
        loop {
            let children = (2 * place + 1)..self.heap.len().min(2 * place + 3);
            let Some(child) = children.min_by_key(|child| self.due(*child)) else { break };
            if self.due(place) <= self.due(child) {
                break;
            }
            self.heap.swap(place, child);
            self.note(place);
            place = child;
        }
        self.note(place);
    }

    fn due(&self, place: usize) -> Time {
        self.timers[self.heap[place]].due
    }

    fn note(&mut self, place: usize) {
        self.timers[self.heap[place]].place = Some(place);
    }
}
