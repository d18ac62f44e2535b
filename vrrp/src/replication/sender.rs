//! The Active's side, towards one peer.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::connection::{Connection, ConnectionKey};
use super::message::{Alive, Body, Epoch, Message, Missing};
use super::number::{add, after, count};
use super::pace::Pace;
use super::table::Connections;
use crate::units::Time;

mod stream;

use stream::{Next, Stream};

/// Most datagrams on their way or lost, not acknowledged yet: 350 kB.
pub const WINDOW: u64 = 256;
/// Time after data without a full acknowledgement until the sender probes the peer.
const PROBE: Duration = Duration::from_millis(20);
/// Requests with a wrong ticket are answered no more often.
const ANSWER: Duration = Duration::from_millis(20);

/// Configuration of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SenderConfig {
    /// Longest time that a change waits for others to share its datagram.
    pub batch: Duration,
    /// Interval between heartbeats, which carry what the receiver should have.
    pub heartbeat: Duration,
    /// Most datagrams a second, in the long run: 2,000 are 2.8 MB, and a snapshot of 120,000 connections of IPv4 or 46,000 of IPv6.
    pub datagrams_per_second: u32,
    /// Most datagrams in one burst.
    pub burst: u32,
    /// Most changes that wait (80 bytes each); with more they are dropped, and a snapshot is sent instead.
    pub queue: usize,
    /// Time without an acknowledgement after which nothing is kept for a peer. It gets a snapshot when it is back.
    pub patience: Duration,
}

impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            batch: Duration::from_millis(5),
            heartbeat: Duration::from_millis(500),
            datagrams_per_second: 2000,
            burst: 64,
            queue: 32_768,
            patience: Duration::from_secs(15),
        }
    }
}

/// Counters of a sender since its creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SenderCounters {
    /// Datagrams sent, of all kinds.
    pub sent: u64,
    /// Datagrams sent a second time.
    pub resent: u64,
    /// Entries sent, the first time.
    pub entries: u64,
    /// Snapshots begun.
    pub snapshots: u64,
    /// Times that so many changes waited that they were dropped for a snapshot.
    pub overflows: u64,
    /// Streams given up because the peer acknowledged nothing.
    pub given_up: u64,
    /// Requests that began a stream, by [`super::Reason::index`].
    pub resyncs: [u64; 6],
    /// Acknowledgements and requests of another stream or another life, or replayed.
    pub refused_stale: u64,
    /// Datagrams that only a faulty peer sends: a number that was never sent, or a datagram for a receiver.
    pub refused_nonsense: u64,
}

/// Sends to one peer the connections that this node serves.
///
/// The caller keeps one [`Connections`] for all peers. It changes the table first, then notifies each sender ([`Self::added`],
/// [`Self::ended`]), and passes the table to [`Self::poll_transmit`], which reads the present state of a connection there. Only the
/// keys of changed connections wait, and the last state wins.
#[derive(Clone, Debug)]
pub struct Sender {
    epoch: Epoch,
    config: SenderConfig,
    vips: Arc<BTreeSet<IpAddr>>,
    ticket: u64,
    beat: u64,
    pace: Pace,
    heartbeat_due: Time,
    probe: Option<Probe>,
    answer: Option<Answer>,
    answered: Option<Time>,
    stream: Option<Stream>,
    /// True if the table may lack what this node serves, or have what it no longer serves.
    lags: bool,
    /// True if the peer has no room for some of the connections, by its latest acknowledgement.
    peer_is_full: bool,
    counters: SenderCounters,
}

/// Due time of the next probe of the peer, and the pause before it.
#[derive(Clone, Copy, Debug)]
struct Probe {
    due: Time,
    pause: Duration,
}

/// A request that named another ticket.
#[derive(Clone, Copy, Debug)]
struct Answer {
    due: Time,
    challenge: u64,
}

impl Sender {
    /// Creates a sender without a stream, in this life of the node's process. `vips`: VIPs whose connections are sent to the peer.
    pub fn new(epoch: Epoch, config: SenderConfig, vips: Arc<BTreeSet<IpAddr>>, now: Time) -> Self {
        Self {
            epoch,
            config,
            vips,
            ticket: 1,
            beat: 0,
            pace: Pace::new(config.datagrams_per_second, config.burst),
            heartbeat_due: now,
            probe: None,
            answer: None,
            answered: None,
            stream: None,
            lags: false,
            peer_is_full: false,
            counters: SenderCounters::default(),
        }
    }

    /// Sets whether the table may lack what this node serves, or have what it no longer serves. While it may, a receiver does not
    /// claim to be in sync.
    pub fn set_lagging(&mut self, lags: bool) {
        self.lags = lags;
    }

    /// Enqueues a connection that was added to the table, or changed there.
    pub fn added(&mut self, connection: &Connection, now: Time) {
        self.ended(&connection.key, now);
    }

    /// Enqueues a connection that was removed from the table.
    pub fn ended(&mut self, key: &ConnectionKey, now: Time) {
        if self.vips.contains(&key.vip.ip()) {
            self.enqueue(*key, now);
        }
    }

    /// Changes the VIPs whose connections are sent to the peer. Connections of VIPs that are no longer among them are sent as ended.
    pub fn set_vips(&mut self, vips: Arc<BTreeSet<IpAddr>>, table: &Connections, now: Time) {
        let former = std::mem::replace(&mut self.vips, vips);
        let changed: Vec<IpAddr> = former.symmetric_difference(&self.vips).copied().collect();
        for key in changed.iter().flat_map(|vip| table.of_vip(*vip)).map(|connection| connection.key) {
            self.enqueue(key, now);
        }
    }

    /// Handles a datagram of the peer.
    pub fn receive(&mut self, message: &Message, now: Time) {
        match &message.body {
            Body::Acknowledge { up_to, missing, full } => {
                if self.acknowledge(message, *up_to, missing, now) {
                    self.peer_is_full = *full;
                }
            }
            Body::Resync { ticket, reason } => {
                let challenge = message.challenge;
                let stream = self.stream.as_ref();
                if challenge == 0 || stream.is_some_and(|stream| stream.challenge == challenge) {
                    // It arrived twice.
                    count(&mut self.counters.refused_stale);
                } else if (message.epoch, *ticket) == (self.epoch, self.ticket) {
                    count(&mut self.counters.resyncs[reason.index()]);
                    self.ticket = after(self.ticket);
                    self.answer = None;
                    self.stream = Some(Stream::new(challenge, now));
                    self.peer_is_full = false;
                } else {
                    count(&mut self.counters.refused_stale);
                    let due = self.answered.map_or(now, |answered| now.max(answered + ANSWER));
                    self.answer = Some(Answer { due, challenge });
                }
            }
            Body::Data { .. } | Body::Alive(_) => count(&mut self.counters.refused_nonsense),
        }
    }

    /// The next message to send, without a trailer ([`super::Envelopes::close`] adds it); `None` until [`Self::poll_timeout`], or
    /// until a datagram arrives or a connection changes.
    pub fn poll_transmit(&mut self, table: &Connections, now: Time) -> Option<Vec<u8>> {
        if self.stream.as_ref().is_some_and(|stream| now >= stream.heard + self.config.patience) {
            self.stream = None;
            self.probe = None;
            // So that the peer, if it lives, learns that the stream is over.
            self.ticket = after(self.ticket);
            count(&mut self.counters.given_up);
        }
        let message = self.poll_data(table, now).or_else(|| self.poll_alive(table, now))?;
        count(&mut self.counters.sent);
        Some(message)
    }

    /// Time at which [`Self::poll_transmit`] may have something to send.
    pub fn poll_timeout(&self) -> Time {
        let mut due = self.alive_due();
        if let Some(answer) = self.answer {
            due = due.min(answer.due);
        }
        if let Some(stream) = &self.stream {
            due = due.min(stream.heard + self.config.patience);
            if let Some(ready) = stream.ready_at(&self.config) {
                due = due.min(ready.max(self.pace.ready_at()));
            }
        }
        due
    }

    /// Returns true if the peer has acknowledged everything, has room for it, and it is all that this node serves.
    pub fn is_told(&self) -> bool {
        !self.lags && !self.peer_is_full && self.stream.as_ref().is_some_and(Stream::is_told)
    }

    /// Returns true if the peer has no room for some of the connections, by its latest acknowledgement.
    pub fn peer_is_full(&self) -> bool {
        self.peer_is_full
    }

    /// Changes that wait; never more than [`SenderConfig::queue`].
    pub fn waiting(&self) -> usize {
        self.stream.as_ref().map_or(0, Stream::waiting)
    }

    /// Datagrams kept until they are acknowledged; never more than [`WINDOW`].
    pub fn unacknowledged(&self) -> usize {
        self.stream.as_ref().map_or(0, Stream::unacknowledged)
    }

    /// Counters of the sender.
    pub fn counters(&self) -> &SenderCounters {
        &self.counters
    }

    fn enqueue(&mut self, key: ConnectionKey, now: Time) {
        if let Some(stream) = &mut self.stream
            && key.client.is_ipv4() == key.vip.is_ipv4()
            && !stream.enqueue(key, self.config.queue, now)
        {
            count(&mut self.counters.overflows);
        }
    }

    /// Handles an acknowledgement. Returns false if it is of another stream, or of a number that was never sent.
    fn acknowledge(&mut self, message: &Message, up_to: u64, missing: &[Missing], now: Time) -> bool {
        let stream = self.stream.as_mut().filter(|stream| stream.challenge == message.challenge);
        let Some(stream) = stream.filter(|_| message.epoch == self.epoch) else {
            count(&mut self.counters.refused_stale);
            return false;
        };
        if !stream.acknowledge(up_to, missing, now) {
            count(&mut self.counters.refused_nonsense);
            return false;
        }
        if stream.unacknowledged() == 0 {
            self.probe = None;
        }
        true
    }

    fn alive_due(&self) -> Time {
        self.probe.map_or(self.heartbeat_due, |probe| probe.due.min(self.heartbeat_due))
    }

    fn poll_data(&mut self, table: &Connections, now: Time) -> Option<Vec<u8>> {
        // A sign of life reports what the receiver should have, so all is sent before it.
        let flush = now >= self.alive_due();
        let stream = self.stream.as_mut()?;
        if !stream.has_any(&self.config, flush, now) || !self.pace.allows(now) {
            return None;
        }
        let message = match stream.next(table, &self.vips, &self.config, flush, now)? {
            Next::Again(message) => {
                count(&mut self.counters.resent);
                message
            }
            Next::First { sequence, behind, data, entries } => {
                add(&mut self.counters.entries, entries);
                let begins = matches!(data, super::message::Data::SnapshotBegin(_));
                add(&mut self.counters.snapshots, u64::from(begins));
                let body = Body::Data { sequence, behind: behind || self.lags, data };
                let (message, _) = Message { epoch: self.epoch, challenge: stream.challenge, body }.write();
                stream.keep(sequence, message.clone(), now);
                message
            }
        };
        self.pace.take(now);
        self.probe = Some(Probe { due: now + PROBE, pause: PROBE });
        Some(message)
    }

    fn poll_alive(&mut self, table: &Connections, now: Time) -> Option<Vec<u8>> {
        let answer = self.answer.filter(|answer| now >= answer.due);
        if answer.is_none() && now < self.alive_due() {
            return None;
        }
        self.beat = after(self.beat);
        let mut alive = Alive {
            beat: self.beat,
            ticket: self.ticket,
            attached: false,
            last: 0,
            behind: false,
            summary: None,
        };
        let challenge = if let Some(answer) = answer {
            self.answer = None;
            self.answered = Some(now);
            answer.challenge
        } else {
            self.heartbeat_due = now + self.config.heartbeat;
            self.probe = self.probe.map(|probe| probe.pause.saturating_mul(2)).and_then(|pause| {
                (pause < self.config.heartbeat).then_some(Probe { due: now + pause, pause })
            });
            match &self.stream {
                None => 0,
                Some(stream) => {
                    alive.attached = true;
                    alive.last = stream.last();
                    alive.behind = self.lags || stream.is_behind(&self.config, now);
                    alive.summary = stream.is_settled().then(|| table.summary(&self.vips));
                    stream.challenge
                }
            }
        };
        Some(Message { epoch: self.epoch, challenge, body: Body::Alive(alive) }.write().0)
    }
}
