//! Stream to one receiver: what was sent since its request, and what is still to be sent.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use super::super::connection::ConnectionKey;
use super::super::entry::Entry;
use super::super::message::{Data, Missing};
use super::super::number::{after, count};
use super::super::table::Connections;
use super::super::wire::ROOM;
use super::{SenderConfig, WINDOW};
use crate::units::Time;

/// As many changes as fill a datagram, if they are of IPv4: they wait no longer.
const FULL: usize = 60;
/// While there is a snapshot to send, one datagram of it follows so many of changes.
const UPDATES_IN_A_ROW: u8 = 3;
/// A datagram is not sent again sooner.
const RESEND: Duration = Duration::from_millis(10);

/// Progress of a snapshot.
#[derive(Clone, Copy, Debug)]
enum Walk {
    /// To be begun.
    Wanted,
    /// Begun: the connections after this one are to be sent.
    After(Option<ConnectionKey>),
    /// Sent.
    Done,
}

#[derive(Clone, Debug)]
struct Kept {
    message: Vec<u8>,
    sent: Time,
}

/// The datagram that is next.
pub(super) enum Next {
    /// One that was sent before.
    Again(Vec<u8>),
    /// A new one.
    First { sequence: u64, behind: bool, data: Data, entries: u64 },
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) challenge: u64,
    /// Time at which the receiver last acknowledged anything, or requested the stream.
    pub(super) heard: Time,
    /// All up to this one was acknowledged.
    acknowledged: u64,
    /// Messages sent since, in order.
    kept: VecDeque<Kept>,
    /// Numbers of the messages to send again.
    lost: BTreeSet<u64>,
    /// Connections that changed, and when, oldest first. One may occur twice.
    queue: VecDeque<(Time, ConnectionKey)>,
    walk: Walk,
    snapshot: u32,
    updates_in_a_row: u8,
}

impl Stream {
    pub(super) fn new(challenge: u64, now: Time) -> Self {
        Self {
            challenge,
            heard: now,
            acknowledged: 0,
            kept: VecDeque::new(),
            lost: BTreeSet::new(),
            queue: VecDeque::new(),
            walk: Walk::Wanted,
            snapshot: 0,
            updates_in_a_row: 0,
        }
    }

    /// The last number used.
    pub(super) fn last(&self) -> u64 {
        self.acknowledged.saturating_add(self.kept.len() as u64)
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn unacknowledged(&self) -> usize {
        self.kept.len()
    }

    /// Returns true if everything was sent.
    pub(super) fn is_settled(&self) -> bool {
        self.queue.is_empty() && matches!(self.walk, Walk::Done)
    }

    /// Returns true if everything was sent and acknowledged.
    pub(super) fn is_told(&self) -> bool {
        self.is_settled() && self.kept.is_empty()
    }

    /// Returns true if something waits that should have been sent.
    pub(super) fn is_behind(&self, config: &SenderConfig, now: Time) -> bool {
        match self.walk {
            Walk::Wanted | Walk::After(_) => true,
            Walk::Done => self.is_due(config, now),
        }
    }

    /// Returns true if the changes wait no longer for others.
    fn is_due(&self, config: &SenderConfig, now: Time) -> bool {
        self.changes_due(config).is_some_and(|due| now >= due)
    }

    fn changes_due(&self, config: &SenderConfig) -> Option<Time> {
        if self.queue.len() >= FULL {
            return Some(Time::default());
        }
        self.queue.front().map(|(since, _)| *since + config.batch)
    }

    /// Enqueues a connection that changed. Returns false if so many wait that a snapshot is sent instead.
    pub(super) fn enqueue(&mut self, key: ConnectionKey, limit: usize, now: Time) -> bool {
        match self.walk {
            // It will be met on the walk.
            Walk::Wanted => return true,
            Walk::After(_) | Walk::Done => {}
        }
        if self.queue.len() >= limit {
            self.queue = VecDeque::new();
            self.walk = Walk::Wanted;
            return false;
        }
        self.queue.push_back((now, key));
        true
    }

    /// Records what arrived and what did not. Returns false if it acknowledges a number that was never sent.
    pub(super) fn acknowledge(&mut self, up_to: u64, missing: &[Missing], now: Time) -> bool {
        let last = self.last();
        if up_to > last {
            return false;
        }
        self.heard = now;
        while self.acknowledged < up_to && self.kept.pop_front().is_some() {
            count(&mut self.acknowledged);
        }
        let next = after(self.acknowledged);
        self.lost = self.lost.split_off(&next);
        for Missing { first, last: range_end } in missing {
            for sequence in (*first).max(next)..=(*range_end).min(last) {
                if self.kept_at(sequence).is_some_and(|kept| now >= kept.sent + RESEND) {
                    self.lost.insert(sequence);
                }
            }
        }
        true
    }

    /// Time at which there is something to send; `None` while nothing changes and no datagram arrives.
    pub(super) fn ready_at(&self, config: &SenderConfig) -> Option<Time> {
        if !self.lost.is_empty() {
            return Some(Time::default());
        }
        if self.kept.len() as u64 >= WINDOW {
            return None;
        }
        match self.walk {
            Walk::Wanted | Walk::After(_) => Some(Time::default()),
            Walk::Done => self.changes_due(config),
        }
    }

    /// Returns true if there is something to send now; with `flush` changes do not wait for others.
    pub(super) fn has_any(&self, config: &SenderConfig, flush: bool, now: Time) -> bool {
        self.ready_at(config).is_some_and(|ready| flush || now >= ready)
    }

    /// The next datagram.
    pub(super) fn next(
        &mut self,
        table: &Connections,
        vips: &BTreeSet<IpAddr>,
        config: &SenderConfig,
        flush: bool,
        now: Time,
    ) -> Option<Next> {
        if let Some(sequence) = self.lost.pop_first() {
            let kept = self.kept_at(sequence)?;
            kept.sent = now;
            return Some(Next::Again(kept.message.clone()));
        }
        let due = self.is_due(config, now) || flush && !self.queue.is_empty();
        let (data, entries) = match self.walk {
            Walk::Wanted => {
                self.queue.clear();
                self.snapshot = self.snapshot.wrapping_add(1);
                self.walk = Walk::After(None);
                (Data::SnapshotBegin(self.snapshot), 0)
            }
            Walk::After(_) if due && self.updates_in_a_row < UPDATES_IN_A_ROW => {
                self.updates_in_a_row = self.updates_in_a_row.saturating_add(1);
                self.update(table, vips)
            }
            Walk::After(cursor) => {
                self.updates_in_a_row = 0;
                self.part(cursor, table, vips)
            }
            Walk::Done if due => self.update(table, vips),
            Walk::Done => return None,
        };
        let (sequence, behind) = (after(self.last()), self.is_behind(config, now));
        Some(Next::First { sequence, behind, data, entries })
    }

    /// Keeps a datagram that is sent for the first time until it is acknowledged.
    pub(super) fn keep(&mut self, sequence: u64, message: Vec<u8>, now: Time) {
        debug_assert_eq!(sequence, after(self.last()));
        self.kept.push_back(Kept { message, sent: now });
    }

    fn kept_at(&mut self, sequence: u64) -> Option<&mut Kept> {
        let index = sequence.checked_sub(after(self.acknowledged))?;
        self.kept.get_mut(usize::try_from(index).ok()?)
    }

    /// Returns as many changes as fit, with the present states.
    fn update(&mut self, table: &Connections, vips: &BTreeSet<IpAddr>) -> (Data, u64) {
        let (mut entries, mut room) = (Vec::with_capacity(FULL), ROOM);
        while let Some((_, key)) = self.queue.front() {
            let now_there = table.get(key).filter(|_| vips.contains(&key.vip.ip()));
            let entry = now_there.map_or(Entry::Ended(*key), Entry::Put);
            let Some(left) = room.checked_sub(entry.length()) else { break };
            room = left;
            entries.push(entry);
            self.queue.pop_front();
        }
        let count = entries.len() as u64;
        (Data::Update(entries), count)
    }

    /// The next connections of the snapshot, or its end.
    fn part(
        &mut self,
        cursor: Option<ConnectionKey>,
        table: &Connections,
        vips: &BTreeSet<IpAddr>,
    ) -> (Data, u64) {
        let (mut connections, mut room) = (Vec::with_capacity(FULL), ROOM);
        for connection in table.after(cursor.as_ref(), vips) {
            let Some(left) = room.checked_sub(Entry::Put(connection).length()) else { break };
            room = left;
            connections.push(connection);
        }
        let count = connections.len() as u64;
        if let Some(last) = connections.last() {
            self.walk = Walk::After(Some(last.key));
            (Data::SnapshotPart(self.snapshot, connections), count)
        } else {
            self.walk = Walk::Done;
            (Data::SnapshotEnd(self.snapshot), 0)
        }
    }
}
