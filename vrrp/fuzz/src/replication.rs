//! Replication: datagrams of a careless or hostile peer, for a receiver, and for a sender that another receiver follows.
//!
//! The peer knows what a captured node would know: epoch, challenge, ticket and number of each stream are filled in, so that an input
//! goes beyond the first message. Every number may be one at which sums overflow, instead.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_vrrp::replication::{
    Alive, Body, Change, Connections, Data, Entry, Epoch, Message, Missing, Reason, Receiver, ReceiverConfig,
    Sender, SenderConfig, Summary, WINDOW,
};
use windlass_vrrp::units::Time;

use crate::input::Input;

/// Most connections that the receiver takes: a snapshot must not fit.
const ENTRIES: usize = 8;
/// Most datagrams of one moment: a window, what is sent again, and some.
const AT_ONCE: usize = 1000;
/// The sender's epoch, and the one that the hostile peer claims to the receiver.
const SENDER: Epoch = Epoch { start: 2, random: 3 };
const CLAIMED: Epoch = Epoch { start: 3, random: 4 };
/// Numbers around which a sum or a comparison may go wrong.
const BOUNDARIES: [u64; 10] =
    [0, 1, WINDOW - 1, WINDOW, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX];

/// One input of `replication`: commands for both ends.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let vips: Arc<BTreeSet<IpAddr>> = Arc::new(
        [IpAddr::from([203, 0, 113, 1]), "2001:db8:1::1".parse().unwrap_or(IpAddr::from([0; 4]))].into(),
    );
    let now = Time::from_nanos(1);
    let config = ReceiverConfig { entries: ENTRIES, ..ReceiverConfig::default() };
    let mut ends = Ends {
        sender: Sender::new(
            SENDER,
            SenderConfig { queue: 4, ..SenderConfig::default() },
            Arc::clone(&vips),
            now,
        ),
        receiver: Receiver::new(0, config, Arc::clone(&vips), now),
        table: Connections::default(),
        kernel: BTreeSet::new(),
        vips,
        now,
        said: Vec::new(),
        known: Known { challenge: 0, next: 1, ticket: 1, last: 0, stream: 0 },
    };
    while ends.command(&mut input).is_some() {
        ends.check();
    }
}

struct Ends {
    sender: Sender,
    receiver: Receiver,
    table: Connections,
    /// What a kernel would have.
    kernel: BTreeSet<windlass_vrrp::replication::ConnectionKey>,
    vips: Arc<BTreeSet<IpAddr>>,
    now: Time,
    /// What both said last.
    said: Vec<Message>,
    known: Known,
}

/// What a peer learns from the datagrams that it is sent.
struct Known {
    /// Challenge of the receiver's last request, and the number in its stream that is next.
    challenge: u64,
    next: u64,
    /// Ticket of the sender, the last number in its stream, and the challenge of that.
    ticket: u64,
    last: u64,
    stream: u64,
}

impl Ends {
    fn command(&mut self, input: &mut Input<'_>) -> Option<()> {
        match input.byte()? % 8 {
            0 => self.now = self.now + Duration::from_millis(u64::from(input.short()?)),
            1 => {
                // A whole datagram, as it may arrive.
                let length = usize::from(input.short()?);
                self.hear(decode(input.at_most(length))?);
            }
            2 => {
                // The same with a head that fits: the rest is what matters.
                let kind = input.byte()?;
                let length = usize::from(input.byte()?);
                let number = u64::from(input.short()?);
                let flags_and_count = input.bytes::<2>()?;
                let body = input.at_most(length);
                let head = [&b"WLCN\x01"[..], &[kind], &flags_and_count].concat();
                let epoch = [2_u64, 3, 1, number].map(u64::to_be_bytes).concat();
                if let Some(message) = decode(&[&head, &epoch, body].concat()) {
                    self.hear(message);
                }
            }
            3 => {
                // An honest one, of those said last.
                let chosen = usize::from(input.byte()?);
                let message = self.said.get(chosen.checked_rem(self.said.len())?)?.clone();
                self.hear(message);
            }
            4 => {
                // The Active serves what some datagram says.
                let bytes = input.rest();
                for entry in entries(bytes) {
                    match entry {
                        Entry::Put(connection) => {
                            let _ = self.table.put(connection);
                            self.sender.added(&connection, self.now);
                        }
                        Entry::Ended(key) => {
                            self.table.remove(&key);
                            self.sender.ended(&key, self.now);
                        }
                    }
                }
            }
            5 => {
                let vips: BTreeSet<IpAddr> =
                    self.vips.iter().take(usize::from(input.byte()? % 3)).copied().collect();
                let changes = self.receiver.set_vips(Arc::new(vips), self.now);
                self.carry_out(&changes);
            }
            6 => self.poll(),
            _ => {
                let message = self.hostile(input)?;
                if let Some(message) = message.encode().ok().and_then(|bytes| decode(&bytes)) {
                    self.hear(message);
                }
            }
        }
        Some(())
    }

    /// Any message, with a head that fits unless the input says otherwise, and any numbers.
    fn hostile(&mut self, input: &mut Input<'_>) -> Option<Message> {
        let choice = input.byte()?;
        let Known { challenge, next, ticket, last, stream } = self.known;
        let flag = |bit: u8| choice & bit != 0;
        let (epoch, expected, body) = match choice % 8 {
            0 | 1 => {
                let alive = Alive {
                    beat: number(input, next)?,
                    ticket: number(input, ticket)?,
                    attached: flag(0x10),
                    last: number(input, next)?,
                    behind: flag(0x20),
                    summary: flag(0x40).then_some(Summary { count: u32::MAX, digest: u64::MAX }),
                };
                (CLAIMED, challenge, Body::Alive(alive))
            }
            2..=4 => {
                let sequence = number(input, next)?;
                let snapshot = u32::from(input.byte()? % 3).wrapping_sub(1);
                let length = usize::from(input.byte()?);
                let data = match choice >> 6 {
                    0 => Data::SnapshotBegin(snapshot),
                    1 => Data::SnapshotEnd(snapshot),
                    2 => Data::Update(entries(input.at_most(length))),
                    _ => {
                        let put =
                            entries(input.at_most(length)).into_iter().filter_map(|entry| match entry {
                                Entry::Put(connection) => Some(connection),
                                Entry::Ended(_) => None,
                            });
                        Data::SnapshotPart(snapshot, put.collect())
                    }
                };
                if sequence == next {
                    self.known.next = next.wrapping_add(1);
                }
                (CLAIMED, challenge, Body::Data { sequence, behind: flag(0x20), data })
            }
            5 | 6 => {
                let up_to = number(input, last)?;
                let mut missing = Vec::new();
                for _ in 0..(choice >> 6) {
                    let first = number(input, up_to.wrapping_add(1))?;
                    missing.push(Missing { first, last: number(input, first)? });
                }
                (SENDER, stream, Body::Acknowledge { up_to, missing, full: flag(0x20) })
            }
            _ => {
                let ticket = number(input, ticket)?;
                (SENDER, stream.wrapping_add(1), Body::Resync { ticket, reason: Reason::Start })
            }
        };
        let challenge = if flag(0x08) { number(input, 0)? } else { expected };
        Some(Message { epoch, challenge, body })
    }

    /// Takes note of what a peer learns from a datagram that it is sent.
    fn overhear(&mut self, message: &Message) {
        match &message.body {
            Body::Alive(alive) => self.known.ticket = alive.ticket,
            Body::Data { sequence, .. } => {
                (self.known.last, self.known.stream) = (*sequence, message.challenge);
            }
            Body::Resync { .. } => (self.known.challenge, self.known.next) = (message.challenge, 1),
            Body::Acknowledge { .. } => {}
        }
    }

    fn hear(&mut self, message: Message) {
        if message.is_for_sender() {
            self.sender.receive(&message, self.now);
        } else {
            let changes = self.receiver.receive(message, self.now);
            self.carry_out(&changes);
        }
    }

    fn poll(&mut self) {
        self.said.clear();
        let changes = self.receiver.handle_timeout(self.now);
        self.carry_out(&changes);
        let mut sent = 0;
        while let Some(bytes) = self.sender.poll_transmit(&self.table, self.now) {
            sent += 1;
            assert!(sent < AT_ONCE, "sends without end");
            self.said.extend(decode(&bytes));
        }
        while let Some(bytes) = self.receiver.poll_transmit(self.now) {
            sent += 1;
            assert!(sent < AT_ONCE, "answers without end");
            self.said.extend(decode(&bytes));
        }
        assert_eq!(self.said.len(), sent, "what is sent is decoded");
        for message in std::mem::take(&mut self.said) {
            self.overhear(&message);
            self.said.push(message);
        }
        assert!(self.sender.poll_timeout() > self.now);
        assert!(self.receiver.poll_timeout().is_none_or(|due| due > self.now));
    }

    fn carry_out(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(connection) => {
                    self.kernel.insert(connection.key);
                }
                Change::Forget(key) => assert!(self.kernel.remove(key), "{key:?} was not there"),
            }
        }
    }

    fn check(&self) {
        let window = usize::try_from(WINDOW).unwrap_or(usize::MAX);
        assert!(self.receiver.connections().len() <= ENTRIES);
        assert_eq!(self.receiver.connections().len(), self.kernel.len());
        assert!(self.receiver.out_of_order() < window);
        assert!(self.sender.unacknowledged() <= window && self.sender.waiting() <= 4);
    }
}

/// What is decoded is encoded the same.
fn decode(bytes: &[u8]) -> Option<Message> {
    let message = Message::decode(bytes).ok()?;
    let mut unsigned = bytes.to_vec();
    unsigned[6] &= 0x7f;
    assert_eq!(
        message.encode().ok(),
        (bytes.len() <= windlass_vrrp::replication::MAX_MESSAGE).then_some(unsigned)
    );
    Some(message)
}

/// A number of a message: one of the boundaries, or one near to what fits.
fn number(input: &mut Input<'_>, fitting: u64) -> Option<u64> {
    let choice = input.byte()?;
    match BOUNDARIES.get(usize::from(choice)) {
        Some(boundary) => Some(*boundary),
        None => Some(fitting.wrapping_add(u64::from(choice % 4)).wrapping_sub(2)),
    }
}

/// Entries of an update with this body.
fn entries(bytes: &[u8]) -> Vec<Entry> {
    let Some((count, body)) = bytes.split_first() else { return Vec::new() };
    let head = [&b"WLCN\x01\x01\x00"[..], &[*count], &[1; 32]].concat();
    match decode(&[&head, body].concat()).map(|message| message.body) {
        Some(Body::Data { data: Data::Update(entries), .. }) => entries,
        Some(_) | None => Vec::new(),
    }
}
