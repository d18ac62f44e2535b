//! Replication: datagrams of a peer without manners, for a receiver, and for a sender that another receiver follows.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_vrrp::replication::{
    Change, Connections, Entry, Epoch, Message, Receiver, ReceiverConfig, Sender, SenderConfig, WINDOW,
};
use windlass_vrrp::units::Time;

use crate::input::Input;

/// Most connections that the receiver takes: a snapshot must not fit.
const ENTRIES: usize = 8;
/// Most datagrams of one moment: a window, what is sent again, and some.
const AT_ONCE: usize = 1000;

/// One input of `replication`: commands for both ends.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let vips: Arc<BTreeSet<IpAddr>> = Arc::new(
        [IpAddr::from([203, 0, 113, 1]), "2001:db8:1::1".parse().unwrap_or(IpAddr::from([0; 4]))].into(),
    );
    let now = Time::from_nanos(1);
    let epoch = Epoch { start: 2, random: 3 };
    let config = ReceiverConfig { entries: ENTRIES, ..ReceiverConfig::default() };
    let mut ends = Ends {
        sender: Sender::new(
            epoch,
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
}

impl Ends {
    fn command(&mut self, input: &mut Input<'_>) -> Option<()> {
        match input.byte()? % 7 {
            0 => self.now = self.now + Duration::from_millis(u64::from(input.short()?)),
            1 => {
                // A whole datagram, as it may arrive.
                let length = usize::from(input.short()?);
                let bytes = input.rest();
                let (datagram, rest) = bytes.split_at(length.min(bytes.len()));
                *input = Input(rest);
                self.hear(decode(datagram)?);
            }
            2 => {
                // The same with a head that fits: the rest is what matters.
                let kind = input.byte()?;
                let length = usize::from(input.byte()?);
                let number = u64::from(input.short()?);
                let flags_and_count = input.bytes::<2>()?;
                let bytes = input.rest();
                let (body, rest) = bytes.split_at(length.min(bytes.len()));
                *input = Input(rest);
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
            _ => self.poll(),
        }
        Some(())
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

/// Entries of an update with this body.
fn entries(bytes: &[u8]) -> Vec<Entry> {
    use windlass_vrrp::replication::{Body, Data};
    let Some((count, body)) = bytes.split_first() else { return Vec::new() };
    let head = [&b"WLCN\x01\x01\x00"[..], &[*count], &[1; 32]].concat();
    match decode(&[&head, body].concat()).map(|message| message.body) {
        Some(Body::Data { data: Data::Update(entries), .. }) => entries,
        Some(_) | None => Vec::new(),
    }
}
