//! One Active and several Backups on a LAN with faults, on virtual time. All chance comes from the seed.

use std::collections::{BTreeMap, HashMap};

use super::*;
use crate::sim::Random;

/// How the LAN treats datagrams, in thousandths where it is no time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lan {
    pub(super) loss: u64,
    pub(super) duplicated: u64,
    /// Datagrams take between 0.1 ms and this much more: those sent close together overtake each other.
    pub(super) jitter: Duration,
    /// Datagrams recorded, forged and made up, for each that is sent.
    pub(super) attacks: u64,
}

pub(super) const GOOD: Lan = Lan { loss: 0, duplicated: 0, jitter: Duration::from_micros(400), attacks: 0 };
const LATENCY: Duration = Duration::from_micros(100);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    Sent,
    /// It arrived already, and was recorded.
    Recorded,
    /// Nobody sent it.
    Forged,
}

#[derive(Clone, Debug)]
struct Packet {
    backup: usize,
    to_backup: bool,
    origin: Origin,
    bytes: Vec<u8>,
}

pub(super) struct Backup {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// What the kernel would have by the changes told.
    pub(super) kernel: BTreeMap<ConnectionKey, Connection>,
    pub(super) running: bool,
    /// When the newest of what it heard was sent for the first time.
    newest: Time,
    /// How many connections it has room for.
    room: usize,
    address: IpAddr,
}

pub(super) struct World {
    pub(super) now: Time,
    pub(super) random: Random,
    pub(super) lan: Lan,
    pub(super) table: Connections,
    pub(super) backups: Vec<Backup>,
    pub(super) active_running: bool,
    sender_config: SenderConfig,
    receiver_config: ReceiverConfig,
    starts: u64,
    vips: Arc<BTreeSet<IpAddr>>,
    /// When each connection changed last.
    changed: HashMap<ConnectionKey, Time>,
    queue: BTreeMap<(Time, u64), Packet>,
    queued: u64,
    /// When each numbered datagram was sent for the first time: of a life, a stream, a number.
    first_sent: HashMap<(u64, u64, u64), Time>,
    recorded: Vec<Packet>,
    envelopes: Envelopes,
    /// Changes each second.
    pub(super) churn: u64,
    next_change: Time,
    next_number: u32,
    pub(super) checks: u64,
    pub(super) in_sync_checks: u64,
}

const ACTIVE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

impl World {
    pub(super) fn new(seed: u64, backups: u8, lan: Lan) -> Self {
        let mut world = Self {
            now: at(1000),
            random: Random::new(seed),
            lan,
            table: Connections::default(),
            backups: Vec::new(),
            active_running: true,
            sender_config: SenderConfig { queue: 700, ..SenderConfig::default() },
            receiver_config: ReceiverConfig { entries: 50_000, ..ReceiverConfig::default() },
            starts: 1,
            vips: vips(6),
            changed: HashMap::new(),
            queue: BTreeMap::new(),
            queued: 0,
            first_sent: HashMap::new(),
            recorded: Vec::new(),
            // What nobody forges need not be signed: that takes most of the time.
            envelopes: Envelopes::new((lan.attacks > 0).then(|| (keyring(7), AuthMode::Enforce))),
            churn: 0,
            next_change: at(1000),
            next_number: 0,
            checks: 0,
            in_sync_checks: 0,
        };
        for number in 0..backups {
            let (sender, receiver) = (world.sender(), world.receiver());
            let address = Ipv4Addr::new(192, 0, 2, 10 + number).into();
            let kernel = BTreeMap::new();
            let room = world.receiver_config.entries;
            world.backups.push(Backup {
                sender,
                receiver,
                kernel,
                running: true,
                newest: at(0),
                room,
                address,
            });
        }
        world
    }

    fn sender(&mut self) -> Sender {
        let epoch = Epoch { start: self.starts, random: self.random.roll() };
        Sender::new(epoch, self.sender_config, Arc::clone(&self.vips), self.now)
    }

    fn receiver(&mut self) -> Receiver {
        Receiver::new(self.random.roll(), self.receiver_config, Arc::clone(&self.vips), self.now)
    }

    /// The Active's process starts anew; its clock may have been set back meanwhile.
    pub(super) fn restart_active(&mut self, clock_went_back: bool) {
        self.starts = if clock_went_back { self.starts.saturating_sub(3) } else { self.starts + 1 };
        self.active_running = true;
        for index in 0..self.backups.len() {
            self.backups[index].sender = self.sender();
        }
    }

    /// A Backup's process starts anew, on a node that was off: its kernel has nothing.
    pub(super) fn restart_backup(&mut self, index: usize) {
        let receiver = self.receiver();
        let backup = &mut self.backups[index];
        (backup.receiver, backup.kernel, backup.running, backup.newest) =
            (receiver, BTreeMap::new(), true, at(0));
        backup.room = self.receiver_config.entries;
    }

    /// A Backup has room for so many from now on, and gives up what is beyond that.
    pub(super) fn set_room(&mut self, index: usize, room: usize) {
        let backup = &mut self.backups[index];
        backup.room = room;
        backup.receiver.set_room(room);
        let excess = backup.receiver.connections().len().saturating_sub(room);
        for change in backup.receiver.give_up(excess) {
            backup.carry_out(change);
        }
        assert!(backup.receiver.connections().len() <= room);
        assert!(excess == 0 || !backup.receiver.is_in_sync(self.now));
    }

    pub(super) fn put(&mut self, connection: Connection) {
        self.table.put(connection).unwrap();
        self.changed.insert(connection.key, self.now);
        if self.active_running {
            for backup in &mut self.backups {
                backup.sender.added(&connection, self.now);
            }
        }
    }

    pub(super) fn end(&mut self, key: ConnectionKey) {
        self.table.remove(&key);
        self.changed.insert(key, self.now);
        if self.active_running {
            for backup in &mut self.backups {
                backup.sender.ended(&key, self.now);
            }
        }
    }

    pub(super) fn add(&mut self, count: u32) {
        for _ in 0..count {
            self.next_number += 1;
            let vip = u8::try_from(self.random.below(6)).unwrap();
            self.put(connection(vip, self.next_number, 1));
        }
    }

    /// A connection begins, ends or has another backend.
    fn change(&mut self) {
        let number = u32::try_from(self.random.below(u64::from(self.next_number) + 1)).unwrap();
        let vip = u8::try_from(self.random.below(6)).unwrap();
        let old = connection(vip, number, 1);
        match self.random.below(4) {
            0 => self.put(connection(vip, number, 2)),
            1 | 2 if self.table.get(&old.key).is_some() => self.end(old.key),
            1 | 2 => self.put(old),
            _ => self.add(1),
        }
    }

    pub(super) fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        let mut next_check = self.now;
        while self.now < end {
            self.transmit();
            let mut next = end.min(next_check);
            if self.churn > 0 {
                next = next.min(self.next_change);
            }
            if let Some(((arrival, _), _)) = self.queue.first_key_value() {
                next = next.min(*arrival);
            }
            for backup in &self.backups {
                if self.active_running {
                    next = next.min(backup.sender.poll_timeout());
                }
                if let Some(due) = backup.receiver.poll_timeout().filter(|_| backup.running) {
                    next = next.min(due);
                }
            }
            self.now = self.now.max(next);
            if self.churn > 0 && self.now >= self.next_change {
                self.change();
                let pause = Duration::from_secs(2) / u32::try_from(self.churn).unwrap();
                self.next_change = self.now + self.random.duration(pause);
            }
            while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let packet = entry.remove();
                self.deliver(packet);
            }
            for backup in self.backups.iter_mut().filter(|backup| backup.running) {
                for change in backup.receiver.handle_timeout(self.now) {
                    backup.carry_out(change);
                }
            }
            if self.now >= next_check {
                next_check =
                    self.now + Duration::from_millis(3) + self.random.duration(Duration::from_millis(200));
                self.transmit();
                self.check();
            }
        }
        self.transmit();
    }

    fn transmit(&mut self) {
        for index in 0..self.backups.len() {
            for round in 0.. {
                assert!(round < 1000, "sends without end");
                let (active_running, now) = (self.active_running, self.now);
                let Backup { sender, receiver, running, .. } = &mut self.backups[index];
                let sent = active_running.then(|| sender.poll_transmit(&self.table, now)).flatten();
                let answer = running.then(|| receiver.poll_transmit(now)).flatten();
                if sent.is_none() && answer.is_none() {
                    break;
                }
                let backup = &self.backups[index];
                let way = Way { from: ACTIVE, to: backup.address };
                if let Some(message) = sent {
                    self.send(index, true, way, message);
                }
                if let Some(message) = answer {
                    self.send(index, false, Way { from: way.to, to: way.from }, message);
                }
            }
        }
    }

    fn send(&mut self, backup: usize, to_backup: bool, way: Way, message: Vec<u8>) {
        if let Message { epoch, challenge, body: Body::Data { sequence, .. } } =
            Message::decode(&message).unwrap()
        {
            self.first_sent.entry((epoch.random, challenge, sequence)).or_insert(self.now);
        }
        let bytes = self.envelopes.close(message, way);
        assert!(bytes.len() <= MAX_DATAGRAM);
        let copies = 1 + u64::from(self.random.chance(self.lan.duplicated));
        for _ in 0..copies {
            if !self.random.chance(self.lan.loss) {
                let delay = LATENCY + self.random.duration(self.lan.jitter);
                self.enqueue(Packet { backup, to_backup, origin: Origin::Sent, bytes: bytes.clone() }, delay);
            }
        }
        if self.random.chance(self.lan.attacks) {
            self.attack(backup, to_backup, bytes);
        }
    }

    fn enqueue(&mut self, packet: Packet, delay: Duration) {
        self.queued += 1;
        self.queue.insert((self.now + delay, self.queued), packet);
    }

    fn attack(&mut self, backup: usize, to_backup: bool, mut bytes: Vec<u8>) {
        let delay = self.random.duration(Duration::from_millis(50));
        let count = self.recorded.len() as u64;
        let chosen = usize::try_from(self.random.below(count)).unwrap();
        match self.random.below(4) {
            0 | 1 if count > 0 => {
                let recorded = self.recorded[chosen].clone();
                self.enqueue(Packet { origin: Origin::Recorded, ..recorded }, delay);
            }
            2 => {
                let at = usize::try_from(self.random.below(bytes.len() as u64)).unwrap();
                bytes[at] ^= 1 << self.random.below(8);
                self.enqueue(Packet { backup, to_backup, origin: Origin::Forged, bytes }, delay);
            }
            _ => {
                let length = self.random.below(1500);
                let mut bytes: Vec<u8> = (0..length).map(|_| self.random.roll().to_be_bytes()[0]).collect();
                for (byte, head) in bytes.iter_mut().zip(*b"WLCN\x01") {
                    *byte = head;
                }
                self.enqueue(Packet { backup, to_backup, origin: Origin::Forged, bytes }, delay);
            }
        }
    }

    fn deliver(&mut self, packet: Packet) {
        let Packet { backup: index, to_backup, origin, bytes } = &packet;
        let backup = &mut self.backups[*index];
        let (from, to) = if *to_backup { (ACTIVE, backup.address) } else { (backup.address, ACTIVE) };
        let opened = self.envelopes.open(bytes, Way { from, to });
        let message = match (origin, opened) {
            (Origin::Forged, Err(_)) => return,
            (Origin::Sent | Origin::Recorded, Ok(message)) => message,
            (origin, opened) => panic!("{origin:?}: {opened:?}"),
        };
        assert_eq!(message.is_for_sender(), !to_backup);
        if !to_backup {
            if self.active_running {
                let begun: u64 = backup.sender.counters().resyncs.iter().sum();
                backup.sender.receive(&message, self.now);
                let begins = backup.sender.counters().resyncs.iter().sum::<u64>() > begun;
                assert!(!begins || *origin == Origin::Sent, "a recorded request began a stream: {message:?}");
            }
        } else if backup.running {
            let sent = match &message.body {
                Body::Data { sequence, .. } => {
                    Some(self.first_sent[&(message.epoch.random, message.challenge, *sequence)])
                }
                // It was sent at most a flight ago.
                Body::Alive(alive) if alive.attached => Some(back(self.now, LATENCY + self.lan.jitter)),
                // The answer to a request of before says nothing of the stream.
                _ => None,
            };
            let duplicates = |backup: &Backup| {
                let counters = backup.receiver.counters();
                counters.refused_duplicate + counters.refused_stale + counters.refused_old_epoch
            };
            let before = duplicates(backup);
            let in_sync = backup.receiver.is_in_sync(self.now);
            let changes = backup.receiver.receive(message.clone(), self.now);
            match origin {
                Origin::Sent | Origin::Forged => {
                    if let Some(sent) = sent.filter(|_| duplicates(backup) == before) {
                        backup.newest = backup.newest.max(sent);
                    }
                }
                Origin::Recorded => {
                    assert_eq!(changes, [], "a recorded datagram changed something: {message:?}");
                    assert!(in_sync || !backup.receiver.is_in_sync(self.now), "{message:?}");
                }
            }
            for change in changes {
                backup.carry_out(change);
            }
            assert!(backup.receiver.out_of_order() < usize::try_from(WINDOW).unwrap());
            assert!(backup.receiver.connections().len() <= backup.room);
        }
        if *origin == Origin::Sent && self.lan.attacks > 0 && self.random.chance(100) {
            if self.recorded.len() < 1000 {
                self.recorded.push(packet);
            } else {
                let at = usize::try_from(self.random.below(1000)).unwrap();
                self.recorded[at] = packet;
            }
        }
    }

    /// What differs between the Active's table and a Backup's.
    pub(super) fn differences(&self, index: usize) -> Vec<ConnectionKey> {
        let (mut expected, mut had) =
            (self.table.iter().peekable(), self.backups[index].receiver.connections().iter().peekable());
        let mut differences = Vec::new();
        // Both are in the same order.
        let order = |connection: &Connection| {
            let ConnectionKey { transport, client, vip } = connection.key;
            (vip.ip(), client, vip.port(), transport)
        };
        loop {
            match (expected.peek(), had.peek()) {
                (None, None) => return differences,
                (Some(one), Some(other)) if one == other => {
                    expected.next();
                    had.next();
                }
                (Some(one), other) if other.is_none_or(|other| order(one) <= order(other)) => {
                    differences.push(one.key);
                    expected.next();
                }
                (_, Some(other)) => {
                    differences.push(other.key);
                    had.next();
                }
                (Some(_), None) => unreachable!("taken by an arm above"),
            }
        }
    }

    fn check(&mut self) {
        for index in 0..self.backups.len() {
            let Backup { sender, receiver, kernel, running, newest, .. } = &self.backups[index];
            assert!(sender.waiting() <= self.sender_config.queue);
            assert!(sender.unacknowledged() <= usize::try_from(WINDOW).unwrap());
            if !running {
                continue;
            }
            self.checks += 1;
            assert_eq!(kernel.len(), receiver.connections().len());
            if self.checks.is_multiple_of(16) {
                assert!(
                    receiver.connections().iter().all(|replica| kernel.get(&replica.key) == Some(&replica))
                );
            }
            let count =
                receiver.connections().vips().map(|vip| receiver.connections().len_of(vip)).sum::<usize>();
            assert_eq!(count, receiver.connections().len());
            if !receiver.is_in_sync(self.now) {
                continue;
            }
            self.in_sync_checks += 1;
            let silence = self.now.since(*newest);
            assert!(
                silence
                    <= Duration::from_millis(1500) + LATENCY + self.lan.jitter + Duration::from_millis(700),
                "{silence:?}"
            );
            let promised = back(*newest, self.sender_config.batch);
            for key in self.differences(index) {
                let changed = self.changed[&key];
                assert!(
                    changed >= promised,
                    "in sync, but {key:?} changed {:?} before the newest datagram was sent",
                    newest.since(changed)
                );
            }
        }
    }

    /// The LAN is good and nothing changes: soon all have the same.
    pub(super) fn assert_settles(&mut self) {
        self.lan = GOOD;
        (0..self.backups.len()).for_each(|index| self.set_room(index, self.receiver_config.entries));
        self.run_for(Duration::from_secs(8));
        let churn = std::mem::take(&mut self.churn);
        self.run_for(Duration::from_millis(30));
        for (index, backup) in self.backups.iter().enumerate().filter(|(_, backup)| backup.running) {
            let differences = self.differences(index);
            assert_eq!(
                differences.len(),
                0,
                "{index}: {:#?}\n{:#?}",
                backup.receiver.counters(),
                backup.sender.counters()
            );
            assert!(
                backup.receiver.is_in_sync(self.now),
                "{:#?} {:#?}",
                backup.receiver,
                backup.sender.counters()
            );
            assert_eq!(backup.receiver.connections().summary(&self.vips), self.table.summary(&self.vips));
        }
        self.churn = churn;
    }
}

impl Backup {
    fn carry_out(&mut self, change: Change) {
        match change {
            Change::Put(connection) => {
                self.kernel.insert(connection.key, connection);
            }
            Change::Forget(key) => assert!(self.kernel.remove(&key).is_some(), "{key:?} was not there"),
        }
    }
}

/// An instant so much earlier.
fn back(time: Time, duration: Duration) -> Time {
    at(0) + time.since(at(0) + duration)
}
