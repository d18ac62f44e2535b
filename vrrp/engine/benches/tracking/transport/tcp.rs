//! A prototype over TCP: the Backup connects and sends its nonce, the Active sends its own, a snapshot, then updates. A record is the
//! length and a signed message of the protocol over UDP, whose epoch and challenge are the nonces. There is no pace, and nothing is kept
//! for another transmission. Nobody attacks here, so the nonces are constants.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::SockRef;
use windlass_vrrp::Time;
use windlass_vrrp::replication::{
    Alive, Body, Connection, ConnectionKey, Connections, Data, Entry, Envelopes, Epoch, MAX_MESSAGE, Message,
    Reason, SenderConfig, Way,
};

use super::{ACTIVE, BACKUP, PORT, Sink, Source, Tcp, envelopes, ip, vip, way, way_back};
use crate::lab::Lan;

/// Most bytes of entries in a message.
const ROOM: usize = MAX_MESSAGE - 44;
/// Number of changes that wait no longer for others.
const FULL: usize = 60;
/// Time after data without an acknowledgement until the first heartbeat, which lets the kernel find a loss without its timeout.
const PROBE: Duration = Duration::from_millis(20);
const EPOCH: Epoch = Epoch { start: 1, random: 2 };
const CHALLENGE: u64 = 7;

pub(super) fn open(lan: &Lan, tcp: Tcp, now: Time) -> (Box<dyn Source>, Box<dyn Sink + Send>) {
    let listener = lan.hosts[ACTIVE].run(|| TcpListener::bind((ip(ACTIVE), PORT)).unwrap());
    let mut link = Link::new(lan.hosts[BACKUP].run(|| TcpStream::connect((ip(ACTIVE), PORT)).unwrap()), tcp);
    link.send(Body::Resync { ticket: 1, reason: Reason::Start }, way_back());
    let sink = TcpSink {
        link,
        replicas: Connections::default(),
        arrived: 0,
        is_complete: false,
        owes_acknowledgement: false,
    };
    let config = SenderConfig::default();
    let source = TcpSource {
        link: Link::new(listener.accept().unwrap().0, tcp),
        config,
        queue: VecDeque::new(),
        walk: Walk::Awaited,
        sent: 0,
        acknowledged: 0,
        beat: 0,
        heartbeat_due: now + config.heartbeat,
        probe: None,
        probes: tcp.probes,
    };
    (Box::new(source), Box::new(sink))
}

struct Link {
    stream: TcpStream,
    envelopes: Envelopes,
    input: Vec<u8>,
    /// Rest of a record that the kernel has not taken.
    output: Vec<u8>,
}

impl Link {
    fn new(stream: TcpStream, tcp: Tcp) -> Self {
        SockRef::from(&stream).set_tcp_congestion(tcp.congestion.as_bytes()).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, envelopes: envelopes(), input: Vec::new(), output: Vec::new() }
    }

    /// Returns the messages that have arrived.
    fn receive(&mut self, way: Way) -> Vec<Message> {
        let mut buffer = [0; 1 << 14];
        match self.stream.read(&mut buffer) {
            Ok(length) => self.input.extend_from_slice(&buffer[..length]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        let (mut messages, mut at) = (Vec::new(), 0);
        while let Some((head, rest)) = self.input[at..].split_first_chunk::<2>() {
            let Some(record) = rest.get(..usize::from(u16::from_be_bytes(*head))) else { break };
            messages.push(self.envelopes.open(record, way).unwrap());
            at += 2 + record.len();
        }
        self.input.drain(..at);
        messages
    }

    fn send(&mut self, body: Body, way: Way) {
        let message = Message { epoch: EPOCH, challenge: CHALLENGE, body }.encode().unwrap();
        let record = self.envelopes.close(message, way);
        self.output.extend(u16::try_from(record.len()).unwrap().to_be_bytes());
        self.output.extend(record);
        self.flush();
    }

    /// Returns true if the kernel has taken all.
    fn flush(&mut self) -> bool {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(length) => drop(self.output.drain(..length)),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    return false;
                }
            }
        }
        true
    }
}

enum Walk {
    Awaited,
    After(Option<ConnectionKey>),
    Done,
}

struct TcpSource {
    link: Link,
    config: SenderConfig,
    queue: VecDeque<(Time, ConnectionKey)>,
    walk: Walk,
    sent: u64,
    acknowledged: u64,
    beat: u64,
    heartbeat_due: Time,
    /// Due time of the next probe, and the pause before it.
    probe: Option<(Time, Duration)>,
    probes: bool,
}

impl TcpSource {
    fn changes_due(&self) -> Option<Time> {
        let (since, _) = self.queue.front()?;
        Some(if self.queue.len() >= FULL { Time::default() } else { *since + self.config.batch })
    }

    fn next(&mut self, table: &Connections, now: Time) -> Option<Data> {
        if self.changes_due().is_some_and(|due| now >= due) {
            let mut entries = Vec::new();
            let mut room = ROOM;
            while let Some((_, key)) = self.queue.front() {
                let entry = table.get(key).map_or(Entry::Ended(*key), Entry::Put);
                let Some(left) = room.checked_sub(entry.length()) else { break };
                room = left;
                entries.push(entry);
                self.queue.pop_front();
            }
            return Some(Data::Update(entries));
        }
        let Walk::After(cursor) = self.walk else { return None };
        if cursor.is_none() && self.sent == 0 {
            return Some(Data::SnapshotBegin(1));
        }
        let (mut connections, mut room) = (Vec::new(), ROOM);
        for connection in table.after(cursor.as_ref(), &[vip(0).into()].into()) {
            let Some(left) = room.checked_sub(Entry::Put(connection).length()) else { break };
            room = left;
            connections.push(connection);
        }
        if let Some(last) = connections.last() {
            self.walk = Walk::After(Some(last.key));
            Some(Data::SnapshotPart(1, connections))
        } else {
            self.walk = Walk::Done;
            Some(Data::SnapshotEnd(1))
        }
    }

    fn beat(&mut self, now: Time) {
        let probe = self.probe.filter(|(due, _)| now >= *due);
        if probe.is_none() && now < self.heartbeat_due {
            return;
        }
        if let Some((_, pause)) = probe {
            let pause = pause.saturating_mul(2);
            self.probe = (pause < self.config.heartbeat).then_some((now + pause, pause));
        }
        self.heartbeat_due = now + self.config.heartbeat;
        self.beat += 1;
        let alive = Alive {
            beat: self.beat,
            ticket: 1,
            attached: true,
            last: self.sent,
            behind: false,
            summary: None,
        };
        self.link.send(Body::Alive(alive), way());
    }
}

impl Source for TcpSource {
    fn changed(&mut self, connection: &Connection, now: Time) {
        match self.walk {
            Walk::Awaited => {}
            Walk::After(_) | Walk::Done => self.queue.push_back((now, connection.key)),
        }
    }

    fn turn(&mut self, table: &Connections, now: Time) -> Time {
        for message in self.link.receive(way_back()) {
            match message.body {
                Body::Resync { .. } => self.walk = Walk::After(None),
                Body::Acknowledge { up_to, .. } => self.acknowledged = up_to,
                Body::Data { .. } | Body::Alive(_) => unreachable!("{message:?}"),
            }
        }
        if self.acknowledged == self.sent {
            self.probe = None;
        }
        while self.link.flush() {
            let Some(data) = self.next(table, now) else { break };
            self.sent += 1;
            self.link.send(Body::Data { sequence: self.sent, behind: false, data }, way());
            self.probe = self.probes.then_some((now + PROBE, PROBE));
        }
        if self.link.output.is_empty() {
            self.beat(now);
        }
        let due = [self.changes_due(), self.probe.map(|(due, _)| due)];
        due.into_iter().flatten().fold(self.heartbeat_due, Time::min)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.link.stream.as_fd()
    }

    fn is_blocked(&self) -> bool {
        !self.link.output.is_empty()
    }

    fn is_acknowledged(&self) -> bool {
        self.queue.is_empty() && self.acknowledged == self.sent
    }
}

struct TcpSink {
    link: Link,
    replicas: Connections,
    arrived: u64,
    is_complete: bool,
    owes_acknowledgement: bool,
}

impl Sink for TcpSink {
    fn turn(&mut self, _now: Time) -> Option<Time> {
        for message in self.link.receive(way()) {
            self.owes_acknowledgement = true;
            let Body::Data { sequence, data, .. } = message.body else { continue };
            self.arrived = sequence;
            match data {
                Data::SnapshotBegin(_) => {}
                Data::SnapshotPart(_, connections) => {
                    for connection in connections {
                        self.replicas.put(connection).unwrap();
                    }
                }
                Data::SnapshotEnd(_) => self.is_complete = true,
                Data::Update(entries) => {
                    for entry in entries {
                        match entry {
                            Entry::Put(connection) => drop(self.replicas.put(connection).unwrap()),
                            Entry::Ended(key) => drop(self.replicas.remove(&key)),
                        }
                    }
                }
            }
        }
        if self.owes_acknowledgement && self.link.flush() {
            self.owes_acknowledgement = false;
            let body = Body::Acknowledge { up_to: self.arrived, missing: Vec::new(), full: false };
            self.link.send(body, way_back());
        }
        None
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.link.stream.as_fd()
    }

    fn replicas(&self) -> &Connections {
        &self.replicas
    }

    fn is_in_sync(&self, _now: Time) -> bool {
        self.is_complete
    }
}
