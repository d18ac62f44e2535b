//! The earliest deadline: a heap with one entry for each timer, whose position in it is known.
//!
//! A timer that is set again moves within the heap; nothing is left behind and nothing is allocated but by [`Deadlines::add`].

#![cfg_attr(not(test), expect(clippy::arithmetic_side_effects, reason = "positions in its own heap"))]

use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// Timers by their deadline. `K` identifies the owner of a timer.
pub(super) struct Deadlines<K> {
    timers: Vec<Timer<K>>,
    /// Slots of running timers, as a binary heap: the earliest first.
    heap: Vec<usize>,
    free: Vec<usize>,
}

/// Identifies a timer, given by [`Deadlines::add`] and good until [`Deadlines::remove`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TimerId(usize);

struct Timer<K> {
    key: K,
    due: Time,
    /// Position in the heap; `None`: it does not run.
    position: Option<usize>,
}

impl<K: Copy> Deadlines<K> {
    pub(super) fn new() -> Self {
        Self { timers: Vec::new(), heap: Vec::new(), free: Vec::new() }
    }

    /// A timer that does not run yet.
    pub(super) fn add(&mut self, key: K) -> TimerId {
        let timer = Timer { key, due: Time::default(), position: None };
        self.heap.reserve(self.timers.len() + 1 - self.heap.len());
        if let Some(timer_id) = self.free.pop() {
            self.timers[timer_id] = timer;
            return TimerId(timer_id);
        }
        self.timers.push(timer);
        self.free.reserve(self.timers.len());
        TimerId(self.timers.len() - 1)
    }

    /// The slot is given to another timer later.
    pub(super) fn remove(&mut self, timer_id: TimerId) {
        self.set(timer_id, None);
        self.free.push(timer_id.0);
    }

    /// Sets a timer, or stops it.
    pub(super) fn set(&mut self, TimerId(timer_id): TimerId, due: Option<Time>) {
        match (due, self.timers[timer_id].position) {
            (None, None) => {}
            (Some(due), Some(position)) => {
                self.timers[timer_id].due = due;
                self.settle(position);
            }
            (Some(due), None) => {
                self.timers[timer_id].due = due;
                self.heap.push(timer_id);
                self.settle(self.heap.len() - 1);
            }
            (None, Some(position)) => {
                self.timers[timer_id].position = None;
                self.heap.swap_remove(position);
                if position < self.heap.len() {
                    self.settle(position);
                }
            }
        }
    }

    /// The earliest.
    pub(super) fn first(&self) -> Option<(Time, K)> {
        let timer = &self.timers[*self.heap.first()?];
        Some((timer.due, timer.key))
    }

    /// Moves what is at `position` up or down to where it belongs.
    fn settle(&mut self, mut position: usize) {
        while position > 0 && self.due(position) < self.due((position - 1) / 2) {
            self.heap.swap(position, (position - 1) / 2);
            self.note(position);
            position = (position - 1) / 2;
        }
        loop {
            let children = (2 * position + 1)..self.heap.len().min(2 * position + 3);
            let Some(child) = children.min_by_key(|child| self.due(*child)) else { break };
            if self.due(position) <= self.due(child) {
                break;
            }
            self.heap.swap(position, child);
            self.note(position);
            position = child;
        }
        self.note(position);
    }

    fn due(&self, position: usize) -> Time {
        self.timers[self.heap[position]].due
    }

    fn note(&mut self, position: usize) {
        self.timers[self.heap[position]].position = Some(position);
    }
}
