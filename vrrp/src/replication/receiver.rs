//! A Backup's side, towards one peer.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::connection::{Connection, ConnectionKey};
use super::message::{Alive, Body, Data, Message, Reason};
use super::number::{after, count};
use super::table::{Connections, Summary};
use crate::units::Time;

mod attached;
mod counters;
mod replicas;
mod request;

use attached::Attached;
pub use counters::ReceiverCounters;
use replicas::Replicas;
use request::{Known, Request};

/// Heartbeats without a message after which a receiver does not claim to be in sync, ...
const HEARTBEATS: u32 = 3;
/// ... and after which it requests a new stream. Rare while the sender lives: once in a thousand times at 50 % loss.
const SILENT_HEARTBEATS: u32 = 10;
/// Shortest time from the begin of a stream to a request for the next, unless the stream has become worthless.
const RESYNC_PAUSE: Duration = Duration::from_secs(5);

/// Configuration of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverConfig {
    /// The sender's heartbeat ([`super::SenderConfig::heartbeat`]).
    pub heartbeat: Duration,
    /// Most connections accepted from this peer (45 bytes each for IPv4, 95 for IPv6), until [`Receiver::set_room`] changes it.
    pub entries: usize,
    /// Time without a message from the sender after which its connections are removed.
    pub silence: Duration,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self { heartbeat: Duration::from_millis(500), entries: 524_288, silence: Duration::from_mins(5) }
    }
}

/// Change to make in the kernel's connection tracking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Insert the connection, in place of one with the same original direction.
    Put(Connection),
    /// Delete the connection.
    Forget(ConnectionKey),
}

/// Receives from one peer the connections that it serves.
///
/// The receiver begins each stream, with a random number that was never used before: the challenge, which all datagrams of the stream
/// repeat. Datagrams recorded in a former life of the receiver, or in a former stream, have another one.
#[derive(Clone, Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    replicas: Replicas,
    /// The challenge of the next request.
    next_challenge: u64,
    known: Option<Known>,
    stream: Option<Attached>,
    request: Option<Request>,
    /// Time at which something new last arrived.
    heard: Time,
    /// True if the replicas were removed since then.
    expired: bool,
    /// True if the kernel has no room for some of the replicas.
    kernel_is_full: bool,
    counters: ReceiverCounters,
}

impl Receiver {
    /// A receiver of the connections of these VIPs. `challenge` is drawn at the start from all 64-bit numbers, anew for each
    /// receiver and each life of the node's process.
    pub fn new(challenge: u64, config: ReceiverConfig, vips: Arc<BTreeSet<IpAddr>>, now: Time) -> Self {
        let mut receiver = Self {
            config,
            replicas: Replicas::new(config.entries, vips),
            next_challenge: challenge,
            known: None,
            stream: None,
            request: None,
            heard: now,
            expired: false,
            kernel_is_full: false,
            counters: ReceiverCounters::default(),
        };
        receiver.ask(Reason::Start, now);
        receiver
    }

    /// Handles a datagram of the peer. Returns the changes to make, in this order.
    pub fn receive(&mut self, message: Message, now: Time) -> Vec<Change> {
        let mut changes = Vec::new();
        count(&mut self.counters.received);
        match message.body {
            Body::Alive(alive) => self.receive_alive(message.epoch, message.challenge, alive, now),
            Body::Data { sequence, behind, data } => {
                let of_request = |request: &Request| request.is_answered_by(message.epoch, message.challenge);
                if let Some(request) = self.request.filter(of_request) {
                    self.attach(request, now);
                }
                let of_stream = |stream: &&mut Attached| stream.is(message.epoch, message.challenge);
                let Some(stream) = self.stream.as_mut().filter(of_stream) else {
                    count(&mut self.counters.refused_stale);
                    return changes;
                };
                if stream.take(sequence, behind, data, &mut self.counters, now) {
                    self.heard_something(now);
                    self.apply(&mut changes, now);
                }
            }
            Body::Acknowledge { .. } | Body::Resync { .. } => count(&mut self.counters.refused_nonsense),
        }
        changes
    }

    /// The next message to send, without a trailer ([`super::Envelopes::close`] adds it).
    pub fn poll_transmit(&mut self, now: Time) -> Option<Vec<u8>> {
        let full = self.is_full();
        let message = self.poll_request(now).or_else(|| self.stream.as_mut()?.poll_acknowledge(full, now))?;
        count(&mut self.counters.sent);
        Some(message.write().0)
    }

    /// Time at which [`Self::poll_transmit`] and [`Self::handle_timeout`] are due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let request = self.request.map(|request| request.due);
        let acknowledge = self.stream.as_ref().and_then(Attached::acknowledge_at);
        let silent =
            (self.stream.is_some() && self.request.is_none()).then_some(self.silent_at(SILENT_HEARTBEATS));
        let expiry = (!self.expired).then_some(self.heard + self.config.silence);
        [request, acknowledge, silent, expiry].into_iter().flatten().min()
    }

    /// Handles the timeout of [`Self::poll_timeout`]. Called early it does nothing.
    pub fn handle_timeout(&mut self, now: Time) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.stream.is_some() && now >= self.silent_at(SILENT_HEARTBEATS) {
            self.ask(Reason::Silent, now);
        }
        if !self.expired && now >= self.heard + self.config.silence {
            self.expired = true;
            self.stream = None;
            self.replicas.forget_all(&mut self.counters, &mut changes);
            self.ask(Reason::Silent, now);
        }
        changes
    }

    /// Changes the VIPs whose connections are accepted. Connections of other VIPs are removed.
    pub fn set_vips(&mut self, vips: Arc<BTreeSet<IpAddr>>, now: Time) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.replicas.set_vips(vips, &mut self.counters, &mut changes) {
            self.ask(Reason::Vips, now);
        }
        changes
    }

    /// Marks a VIP for which this node is Active: its connections in the kernel are this node's own. The replicas continue to follow
    /// the peer, and their changes are not returned.
    pub fn keep(&mut self, vip: IpAddr) {
        self.replicas.keep(vip);
    }

    /// Unmarks a VIP for which this node is no longer Active. Returns the peer's connections of it. Connections that the peer ended
    /// meanwhile are not returned, so the caller must compare what else the kernel has. The replicas of a peer that is silent or has
    /// begun anew are dropped: this node served the VIP since, and its kernel knows better which connections are left.
    pub fn release(&mut self, vip: IpAddr, now: Time) -> Vec<Change> {
        let is_current = self.stream.as_ref().is_some_and(|stream| !stream.lost);
        self.replicas.release(vip, is_current && now < self.silent_at(HEARTBEATS))
    }

    /// Returns true if the replicas match the sender's connections at its latest message, which arrived within three heartbeats.
    /// Changes that the sender may hold back to fill a datagram ([`super::SenderConfig::batch`]) do not count.
    pub fn is_in_sync(&self, now: Time) -> bool {
        now < self.silent_at(HEARTBEATS)
            && !self.is_full()
            && self.stream.as_ref().is_some_and(Attached::is_complete)
    }

    /// Its replicas.
    pub fn connections(&self) -> &Connections {
        self.replicas.connections()
    }

    /// Sets whether the kernel has no room for some of the replicas. While it has none, the sender is notified, and this node does
    /// not claim to be in sync.
    pub fn set_kernel_full(&mut self, full: bool) {
        self.kernel_is_full = full;
    }

    /// Sets the most connections accepted from this peer. Existing replicas stay.
    pub fn set_room(&mut self, entries: usize) {
        self.replicas.set_limit(entries);
    }

    /// Removes the `count` oldest replicas, except those of VIPs that this node is Active for, because this node has no room for
    /// them. The sender is notified, and they are requested again when there is room for all.
    pub fn give_up(&mut self, count: usize) -> Vec<Change> {
        self.replicas.give_up(count, &mut self.counters)
    }

    /// Returns true if there is no room for some of the peer's connections: in [`Self::set_room`], or in the kernel.
    pub fn is_full(&self) -> bool {
        self.kernel_is_full || self.replicas.is_full()
    }

    /// Datagrams that wait for one before them; fewer than [`super::WINDOW`].
    pub fn out_of_order(&self) -> usize {
        self.stream.as_ref().map_or(0, Attached::waiting)
    }

    /// Counters of the receiver.
    pub fn counters(&self) -> &ReceiverCounters {
        &self.counters
    }

    fn silent_at(&self, heartbeats: u32) -> Time {
        self.heard + self.config.heartbeat.saturating_mul(heartbeats)
    }

    fn heard_something(&mut self, now: Time) {
        self.heard = now;
        self.expired = false;
    }

    /// Applies what has arrived in order.
    fn apply(&mut self, changes: &mut Vec<Change>, now: Time) {
        let Some(stream) = &mut self.stream else { return };
        self.replicas.set_time(now);
        while let Some(data) = stream.next() {
            let fits = match data {
                Data::Update(entries) => {
                    self.replicas.update(&entries, &mut self.counters, changes);
                    stream.has_begun()
                }
                Data::SnapshotBegin(snapshot) => {
                    self.replicas.begin_snapshot();
                    stream.begin_snapshot(snapshot);
                    true
                }
                Data::SnapshotPart(snapshot, connections) => {
                    for connection in connections {
                        self.replicas.put(connection, &mut self.counters, changes);
                    }
                    stream.is_at(snapshot)
                }
                Data::SnapshotEnd(snapshot) => {
                    let complete = stream.end_snapshot(snapshot);
                    if complete {
                        count(&mut self.counters.snapshots);
                        self.replicas.end_snapshot(&mut self.counters, changes);
                    }
                    complete
                }
            };
            if !fits {
                count(&mut self.counters.refused_nonsense);
                stream.diverged = true;
            }
        }
        if stream.diverged {
            self.ask(Reason::Diverged, now);
        } else if self.replicas.has_room_again() {
            self.ask(Reason::Room, now);
        }
    }

    fn compare(&mut self, summary: Summary, now: Time) {
        let Some(stream) = &mut self.stream else { return };
        if self.replicas.summary() == summary {
            stream.diverged = false;
            self.replicas.has_all();
            let needless = |request: &Request| request.reason == Reason::Diverged && request.asked.is_none();
            self.request = self.request.filter(|request| !needless(request));
        } else if self.replicas.has_room_for(summary) {
            self.ask(Reason::Room, now);
        } else if !self.replicas.lacks_some() {
            stream.diverged = true;
            count(&mut self.counters.diverged);
            self.ask(Reason::Diverged, now);
        }
    }

    fn receive_alive(&mut self, epoch: super::Epoch, challenge: u64, alive: Alive, now: Time) {
        // What repeats the challenge of the request was sent after it, whatever the sender's clock shows.
        let fresh = self.request.is_some_and(|request| request.challenge == challenge);
        match &mut self.known {
            Some(known) if known.epoch == epoch => known.ticket = known.ticket.max(alive.ticket),
            Some(known) if !fresh && epoch.start <= known.epoch.start => {
                count(&mut self.counters.refused_old_epoch);
                return;
            }
            Some(_) | None => self.known = Some(Known { epoch, ticket: alive.ticket }),
        }
        if let Some(request) =
            self.request.filter(|request| alive.attached && request.is_answered_by(epoch, challenge))
        {
            self.attach(request, now);
        }
        match &mut self.stream {
            None => self.ask(Reason::Start, now),
            Some(stream) if alive.attached && stream.is(epoch, challenge) => {
                if !stream.hear_alive(&alive, &mut self.counters, now) {
                    return;
                }
                let comparable = alive.summary.filter(|_| stream.has_all(alive.last));
                self.heard_something(now);
                // The sender is there after all.
                self.request = self.request.filter(|request| request.reason != Reason::Silent);
                if let Some(summary) = comparable {
                    self.compare(summary, now);
                }
            }
            // Its own beginning took one ticket; another one was taken since.
            Some(stream) if stream.epoch() != epoch || alive.ticket > after(stream.ticket) => {
                stream.lost = true;
                self.ask(Reason::Lost, now);
            }
            // The sender answers the request, and has the stream still: what looked like another life of it was a recording.
            Some(stream) if fresh && alive.ticket == after(stream.ticket) => {
                let worthless = |request: &Request| matches!(request.reason, Reason::Lost | Reason::Silent);
                stream.lost &= !self.request.as_ref().is_some_and(worthless);
                self.request = self.request.filter(|request| !worthless(request));
            }
            Some(_) => {}
        }
        if let (Some(request), Some(known)) = (&mut self.request, self.known) {
            request.hasten(known, now);
        }
    }

    /// Attaches to the stream that the sender has begun on request.
    fn attach(&mut self, request: Request, now: Time) {
        if let Some(asked) = request.asked {
            self.stream = Some(Attached::new(asked, request.challenge, now));
            self.request = None;
        }
    }

    /// Requests a new stream. One request at a time.
    fn ask(&mut self, reason: Reason, now: Time) {
        let worthless = match reason {
            Reason::Start | Reason::Silent | Reason::Lost => true,
            Reason::Diverged | Reason::Vips | Reason::Room => false,
        };
        let begun = self.stream.as_ref().map(|stream| stream.begun);
        let due = begun.filter(|_| !worthless).map_or(now, |begun| now.max(begun + RESYNC_PAUSE));
        if let Some(request) = &mut self.request {
            request.due = request.due.min(due.max(request.earliest));
        } else {
            let challenge = self.draw();
            self.request = Some(Request::new(challenge, reason, due));
        }
    }

    /// A challenge that was not used before.
    fn draw(&mut self) -> u64 {
        // 0 is no challenge.
        self.next_challenge = self.next_challenge.checked_add(1).unwrap_or(1);
        self.next_challenge
    }

    fn poll_request(&mut self, now: Time) -> Option<Message> {
        let known = self.known;
        let request = self.request.filter(|request| now >= request.due)?;
        // To each ticket its own challenge: two streams never have the same.
        let challenge =
            if request.asked.is_some() && request.asked != known { self.draw() } else { request.challenge };
        let sent = request.sent(challenge, known, now);
        self.request = Some(sent);
        count(&mut self.counters.resyncs[request.reason.index()]);
        let Known { epoch, ticket } = known.unwrap_or_default();
        Some(Message { epoch, challenge, body: Body::Resync { ticket, reason: request.reason } })
    }
}
