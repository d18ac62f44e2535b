//! A stream that the sender has begun: what arrived of it, and what did not.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::message::{Alive, Body, Data, Epoch, Message, Missing};
use super::super::number::{after, count};
use super::super::sender::WINDOW;
use super::super::wire::MAX_MISSING;
use super::ReceiverCounters;
use super::request::Known;
use crate::units::Time;

/// Longest time that an acknowledgement waits for more datagrams, ...
const ACKNOWLEDGE: Duration = Duration::from_millis(10);
/// ... unless this many have arrived.
const ACKNOWLEDGE_EACH: u32 = 32;
/// A datagram this much later than one behind it is missing.
const REORDERED: Duration = Duration::from_millis(10);
/// First pause between requests for missing datagrams, ...
const AGAIN: Duration = Duration::from_millis(20);
/// ... and the longest: it doubles while nothing arrives.
const AGAIN_LONGEST: Duration = Duration::from_millis(40);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Snapshot {
    /// None has begun.
    Awaited,
    /// This one has.
    UnderWay(u32),
    /// One was complete.
    Complete,
}

#[derive(Clone, Debug)]
pub(super) struct Attached {
    epoch: Epoch,
    challenge: u64,
    /// The ticket it took.
    pub(super) ticket: u64,
    pub(super) begun: Time,
    /// True if the replicas differ from what the sender reports.
    pub(super) diverged: bool,
    /// True if the sender has dropped the stream.
    pub(super) lost: bool,
    /// The number that is next.
    next: u64,
    /// The last number that the sender is known to have used.
    last: u64,
    /// Datagrams that arrived before their turn.
    waiting: BTreeMap<u64, (bool, Data)>,
    snapshot: Snapshot,
    behind: bool,
    beat: u64,
    acknowledge_due: Option<Time>,
    unacknowledged: u32,
    missing_due: Option<Time>,
    missing_pause: Duration,
}

impl Attached {
    pub(super) fn new(Known { epoch, ticket }: Known, challenge: u64, now: Time) -> Self {
        Self {
            epoch,
            challenge,
            ticket,
            begun: now,
            diverged: false,
            lost: false,
            next: 1,
            last: 0,
            waiting: BTreeMap::new(),
            snapshot: Snapshot::Awaited,
            behind: false,
            beat: 0,
            acknowledge_due: None,
            unacknowledged: 0,
            missing_due: None,
            missing_pause: AGAIN,
        }
    }

    pub(super) fn is(&self, epoch: Epoch, challenge: u64) -> bool {
        (self.epoch, self.challenge) == (epoch, challenge)
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns true if the snapshot is complete and, by the sender's latest message, nothing is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.snapshot == Snapshot::Complete
            && self.has_all(self.last)
            && !self.behind
            && !self.diverged
            && !self.lost
    }

    /// Returns true if all up to this number arrived, and nothing after it.
    pub(super) fn has_all(&self, last: u64) -> bool {
        self.next == after(last)
    }

    /// Returns true if no sender can have sent this number yet: it waits for acknowledgements.
    fn is_beyond_window(&self, number: u64) -> bool {
        number.saturating_sub(self.next) >= WINDOW
    }

    pub(super) fn has_begun(&self) -> bool {
        self.snapshot != Snapshot::Awaited
    }

    pub(super) fn is_at(&self, snapshot: u32) -> bool {
        self.snapshot == Snapshot::UnderWay(snapshot)
    }

    pub(super) fn begin_snapshot(&mut self, snapshot: u32) {
        self.snapshot = Snapshot::UnderWay(snapshot);
        self.diverged = false;
    }

    /// `false` if another one is under way, or none.
    pub(super) fn end_snapshot(&mut self, snapshot: u32) -> bool {
        let ends = self.is_at(snapshot);
        if ends {
            self.snapshot = Snapshot::Complete;
        }
        ends
    }

    /// Keeps a datagram until its turn. `false`: it is nothing new.
    pub(super) fn take(
        &mut self,
        sequence: u64,
        behind: bool,
        data: Data,
        counters: &mut ReceiverCounters,
        now: Time,
    ) -> bool {
        if sequence < self.next || self.waiting.contains_key(&sequence) {
            count(&mut counters.refused_duplicate);
            // The acknowledgement may have been lost.
            self.acknowledge_by(now + ACKNOWLEDGE);
            return false;
        }
        if self.is_beyond_window(sequence) {
            count(&mut counters.refused_nonsense);
            return false;
        }
        self.waiting.insert(sequence, (behind, data));
        self.last = self.last.max(sequence);
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        let wait = if self.unacknowledged >= ACKNOWLEDGE_EACH { Duration::ZERO } else { ACKNOWLEDGE };
        self.acknowledge_by(now + wait);
        if sequence == self.next {
            self.missing_pause = AGAIN;
        }
        self.note_missing(sequence == self.next, now);
        true
    }

    /// Takes the next datagram in order, if it has arrived.
    pub(super) fn next(&mut self) -> Option<Data> {
        let (behind, data) = self.waiting.remove(&self.next)?;
        self.next = after(self.next);
        self.behind = behind;
        if self.has_all(self.last) {
            self.missing_due = None;
        }
        Some(data)
    }

    /// Records a sign of life. Returns false if it is refused: a duplicate, or beyond the window.
    pub(super) fn hear_alive(&mut self, alive: &Alive, counters: &mut ReceiverCounters, now: Time) -> bool {
        if alive.beat <= self.beat {
            count(&mut counters.refused_duplicate);
            return false;
        }
        if self.is_beyond_window(alive.last) {
            count(&mut counters.refused_nonsense);
            return false;
        }
        self.beat = alive.beat;
        self.last = self.last.max(alive.last);
        if self.has_all(alive.last) {
            self.behind = alive.behind;
        }
        self.note_missing(false, now);
        self.acknowledge_by(now);
        true
    }

    /// Time at which an acknowledgement is due.
    pub(super) fn acknowledge_at(&self) -> Option<Time> {
        [self.acknowledge_due, self.missing_due].into_iter().flatten().min()
    }

    /// `full`: there is no room for some of what arrived.
    pub(super) fn poll_acknowledge(&mut self, full: bool, now: Time) -> Option<Message> {
        self.acknowledge_at().filter(|due| now >= *due)?;
        let mut missing = Vec::new();
        if self.missing_due.is_some_and(|due| now >= due) {
            missing = self.missing();
            self.missing_due = Some(now + self.missing_pause);
            self.missing_pause = self.missing_pause.saturating_mul(2).min(AGAIN_LONGEST);
        }
        self.acknowledge_due = None;
        self.unacknowledged = 0;
        let body = Body::Acknowledge { up_to: self.next.saturating_sub(1), missing, full };
        Some(Message { epoch: self.epoch, challenge: self.challenge, body })
    }

    fn acknowledge_by(&mut self, due: Time) {
        self.acknowledge_due = Some(self.acknowledge_due.map_or(due, |already| already.min(due)));
    }

    /// Starts the timer for missing datagrams if there is a gap and it does not run.
    fn note_missing(&mut self, in_turn: bool, now: Time) {
        // What is taken in turn is still among the waiting.
        let gap = self.last >= self.next.saturating_add(u64::from(in_turn));
        if gap && self.missing_due.is_none() {
            self.missing_due = Some(now + REORDERED);
        }
    }

    /// The first ranges of what is missing.
    fn missing(&self) -> Vec<Missing> {
        let mut ranges = Vec::new();
        let mut first = self.next;
        let end = after(self.last);
        for &there in self.waiting.keys().chain([&end]) {
            if first < there && ranges.len() < MAX_MISSING {
                ranges.push(Missing { first, last: there.saturating_sub(1) });
            }
            first = after(there);
        }
        ranges
    }
}
