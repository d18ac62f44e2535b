//! A peer that knows epoch, challenge and ticket of every stream and sends any message with any number.

use proptest::prelude::*;

use super::*;

const ENTRIES: usize = 8;
/// Most datagrams that one side sends at one instant: a window, what is sent again, and some.
const AT_ONCE: usize = 1000;
/// A number that no step contains.
const UNGUESSED: u64 = 1 << 40;

/// A number of a message.
#[derive(Clone, Copy, Debug)]
enum Number {
    /// This one.
    Fixed(u64),
    /// This much above the number that fits.
    Fitting(u64),
}

impl Number {
    fn given(self, fitting: u64) -> u64 {
        match self {
            Self::Fixed(number) => number,
            Self::Fitting(above) => fitting.wrapping_add(above),
        }
    }
}

/// The head of a message.
#[derive(Clone, Copy, Debug)]
enum Head {
    /// The epoch and the challenge that the victim expects.
    Fitting,
    /// The epoch alone.
    NoChallenge,
    Fixed([u64; 3]),
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    /// A message for the receiver.
    Alive {
        head: Head,
        numbers: [Number; 3],
        flags: [bool; 2],
        summary: Option<u64>,
    },
    Data {
        head: Head,
        sequence: Number,
        data: Data,
    },
    /// A message for the sender.
    Acknowledge {
        head: Head,
        up_to: Number,
        missing: Option<[Number; 2]>,
        full: bool,
    },
    Resync {
        head: Head,
        ticket: Number,
    },
    /// The victim serves one more connection.
    Serve(u32),
}

fn boundary() -> impl Strategy<Value = u64> {
    const EDGE: u64 = 1 << 63;
    const WORD: u64 = 1 << 32;
    prop::sample::select(vec![
        0,
        1,
        2,
        WINDOW - 1,
        WINDOW,
        WINDOW + 1,
        WORD - 1,
        WORD,
        EDGE - 1,
        EDGE,
        u64::MAX - 1,
        u64::MAX,
    ])
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![boundary().prop_map(Number::Fixed), (0..3_u64).prop_map(Number::Fitting)]
}

fn head() -> impl Strategy<Value = Head> {
    prop_oneof![
        6 => Just(Head::Fitting),
        3 => Just(Head::NoChallenge),
        1 => [boundary(), boundary(), boundary()].prop_map(Head::Fixed),
    ]
}

fn data() -> impl Strategy<Value = Data> {
    let snapshot = || prop::sample::select(vec![0, 1, u32::MAX]);
    let put = |number| connection(u8::try_from(number % 5).unwrap(), number, 1);
    prop_oneof![
        (0..20_u32, any::<bool>()).prop_map(move |(number, there)| {
            let entry = if there { Entry::Put(put(number)) } else { Entry::Ended(put(number).key) };
            Data::Update(vec![entry])
        }),
        snapshot().prop_map(Data::SnapshotBegin),
        (snapshot(), 0..20_u32).prop_map(move |(snapshot, number)| {
            Data::SnapshotPart(snapshot, (0..number).map(put).collect())
        }),
        snapshot().prop_map(Data::SnapshotEnd),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => prop::sample::select(vec![0, 1, 20, 500, 5000, 400_000]).prop_map(Step::Wait),
        3 => (head(), [number(), number(), number()], any::<[bool; 2]>(), prop::option::of(boundary()))
            .prop_map(|(head, numbers, flags, summary)| Step::Alive { head, numbers, flags, summary }),
        3 => (head(), number(), data())
            .prop_map(|(head, sequence, data)| Step::Data { head, sequence, data }),
        2 => (head(), number(), prop::option::of([number(), number()]), any::<bool>())
            .prop_map(|(head, up_to, missing, full)| Step::Acknowledge { head, up_to, missing, full }),
        2 => (head(), number()).prop_map(|(head, ticket)| Step::Resync { head, ticket }),
        1 => (0..20_u32).prop_map(Step::Serve),
    ]
}

/// A receiver and a sender whose only peer is hostile.
struct Victim {
    sender: Sender,
    receiver: Receiver,
    table: Connections,
    kernel: BTreeMap<ConnectionKey, Connection>,
    now: Time,
    /// Epoch that the peer claims, challenge of the receiver's last request, and the next number of its stream.
    claimed: (Epoch, u64, u64),
    /// Ticket and last number of the sender, and the challenge of its stream.
    sent: (u64, u64, u64),
}

const SENDER: Epoch = Epoch { start: 7, random: 8 };
const CLAIMED: Epoch = Epoch { start: 9, random: 1 };

impl Victim {
    fn new() -> Self {
        let config = ReceiverConfig { entries: ENTRIES, ..ReceiverConfig::default() };
        let sender_config = SenderConfig { queue: 4, ..SenderConfig::default() };
        Self {
            sender: Sender::new(SENDER, sender_config, vips(4), at(0)),
            receiver: Receiver::new(77, config, vips(4), at(0)),
            table: Connections::default(),
            kernel: BTreeMap::new(),
            now: at(0),
            claimed: (CLAIMED, 0, 1),
            sent: (1, 0, 0),
        }
    }

    fn take(&mut self, step: Step) {
        let (claimed, challenge, next) = self.claimed;
        let (ticket, last, stream) = self.sent;
        match step {
            Step::Wait(millis) => self.now = self.now + Duration::from_millis(millis),
            Step::Alive { head, numbers: [beat, ticket, last], flags: [attached, behind], summary } => {
                let (beat, ticket, last) = (beat.given(next), ticket.given(next), last.given(next));
                let summary = summary.map(|digest| Summary { count: u32::MAX, digest });
                let alive = Alive { beat, ticket, attached, last, behind, summary };
                self.arrives(head, (claimed, challenge), Body::Alive(alive));
            }
            Step::Data { head, sequence, data } => {
                let sequence = sequence.given(next);
                self.arrives(head, (claimed, challenge), Body::Data { sequence, behind: false, data });
                if sequence == next {
                    self.claimed.2 += 1;
                }
            }
            Step::Acknowledge { head, up_to, missing, full } => {
                let up_to = up_to.given(last);
                let missing = missing.map(|[first, last]| {
                    let first = first.given(up_to.wrapping_add(1));
                    Missing { first, last: last.given(first) }
                });
                let body = Body::Acknowledge { up_to, missing: missing.into_iter().collect(), full };
                self.arrives(head, (SENDER, stream), body);
            }
            Step::Resync { head, ticket: asked } => {
                let body = Body::Resync { ticket: asked.given(ticket), reason: Reason::Start };
                // Of a request each challenge is new.
                self.arrives(head, (SENDER, stream.wrapping_add(1)), body);
            }
            Step::Serve(number) => {
                let connection = connection(0, number, 1);
                self.table.put(connection).unwrap();
                self.sender.added(&connection, self.now);
            }
        }
        self.poll();
    }

    /// The message as the network would deliver it, if a datagram can carry it.
    fn arrives(&mut self, head: Head, (epoch, challenge): (Epoch, u64), body: Body) {
        let (epoch, challenge) = match head {
            Head::Fitting => (epoch, challenge),
            Head::NoChallenge => (epoch, 0),
            Head::Fixed([start, random, challenge]) => (Epoch { start, random }, challenge),
        };
        let bytes = Message { epoch, challenge, body }.encode().unwrap();
        let Ok(message) = Message::decode(&bytes) else { return };
        if message.is_for_sender() {
            self.sender.receive(&message, self.now);
        } else {
            let changes = self.receiver.receive(message, self.now);
            self.carry_out(changes);
        }
    }

    fn poll(&mut self) {
        let changes = self.receiver.handle_timeout(self.now);
        self.carry_out(changes);
        for round in 0.. {
            assert!(round < AT_ONCE, "sends without end");
            let sent = self.sender.poll_transmit(&self.table, self.now);
            let answered = self.receiver.poll_transmit(self.now);
            if sent.is_none() && answered.is_none() {
                break;
            }
            for bytes in sent.into_iter().chain(answered) {
                self.overhear(&Message::decode(&bytes).unwrap());
            }
        }
        assert!(self.sender.poll_timeout() > self.now);
        assert!(self.receiver.poll_timeout().is_none_or(|due| due > self.now));
        assert!(self.receiver.connections().len() <= ENTRIES);
        assert_eq!(self.receiver.connections().len(), self.kernel.len());
        let window = usize::try_from(WINDOW).unwrap();
        assert!(self.receiver.out_of_order() < window);
        assert!(self.sender.unacknowledged() <= window && self.sender.waiting() <= 4);
    }

    fn overhear(&mut self, message: &Message) {
        match &message.body {
            Body::Alive(alive) => self.sent.0 = alive.ticket,
            Body::Data { sequence, .. } => (self.sent.1, self.sent.2) = (*sequence, message.challenge),
            Body::Resync { .. } => (self.claimed.1, self.claimed.2) = (message.challenge, 1),
            Body::Acknowledge { .. } => {}
        }
    }

    fn carry_out(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Put(connection) => _ = self.kernel.insert(connection.key, connection),
                Change::Forget(key) => assert!(self.kernel.remove(&key).is_some(), "{key:?} was not there"),
            }
        }
    }

    /// An honest peer takes the place of the hostile one: soon both sides have what the other serves.
    fn recovers(mut self) {
        let mut table = Connections::default();
        table.put(connection(1, 3, 1)).unwrap();
        let start = self.now.nanos();
        // No random number and no challenge that the hostile peer has used: outside of tests it would have to guess them.
        let epoch = Epoch { start, random: UNGUESSED };
        let mut sender = Sender::new(epoch, SenderConfig::default(), vips(4), self.now);
        let mut receiver = Receiver::new(UNGUESSED, ReceiverConfig::default(), vips(4), self.now);
        let end = self.now + Duration::from_secs(30);
        while self.now < end {
            for change in self.receiver.handle_timeout(self.now) {
                self.carry_out(vec![change]);
            }
            receiver.handle_timeout(self.now);
            for round in 0.. {
                assert!(round < AT_ONCE, "sends without end");
                let to_peer =
                    [self.sender.poll_transmit(&self.table, self.now), self.receiver.poll_transmit(self.now)];
                let from_peer = [sender.poll_transmit(&table, self.now), receiver.poll_transmit(self.now)];
                if to_peer.iter().chain(&from_peer).all(Option::is_none) {
                    break;
                }
                for message in to_peer.into_iter().flatten().map(|bytes| Message::decode(&bytes).unwrap()) {
                    if message.is_for_sender() {
                        sender.receive(&message, self.now);
                    } else {
                        receiver.receive(message, self.now);
                    }
                }
                for message in from_peer.into_iter().flatten().map(|bytes| Message::decode(&bytes).unwrap()) {
                    if message.is_for_sender() {
                        self.sender.receive(&message, self.now);
                    } else {
                        let changes = self.receiver.receive(message, self.now);
                        self.carry_out(changes);
                    }
                }
            }
            let due = [self.sender.poll_timeout(), sender.poll_timeout()];
            let due = due.into_iter().chain(self.receiver.poll_timeout()).chain(receiver.poll_timeout());
            let due = due.min().unwrap();
            assert!(due > self.now, "a timer that is due stays due");
            self.now = due;
        }
        assert!(self.receiver.is_in_sync(self.now), "{:#?}", self.receiver);
        assert!(receiver.is_in_sync(self.now), "{:#?}", self.sender);
        assert_eq!(self.kernel.len(), 1);
        assert_eq!(receiver.connections().len(), self.table.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))] // 2.4 ms each

    #[test]
    fn no_peer_makes_anything_panic_or_grow_and_an_honest_one_is_in_sync_soon_after_it(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut victim = Victim::new();
        victim.poll();
        for step in steps {
            victim.take(step);
        }
        victim.recovers();
    }
}

/// Four datagrams: a sign of life, the begin of the stream that it made the receiver ask for, and another sign of life.
#[test]
fn a_peer_whose_ticket_is_the_last_there_is_changes_nothing() {
    for last in [u64::MAX, u64::MAX - 1] {
        let mut victim = Victim::new();
        let alive = |beat| Step::Alive {
            head: Head::NoChallenge,
            numbers: [Number::Fixed(beat), Number::Fixed(last), Number::Fixed(0)],
            flags: [false; 2],
            summary: None,
        };
        let begin =
            Step::Data { head: Head::Fitting, sequence: Number::Fitting(0), data: Data::SnapshotBegin(1) };
        for step in [alive(1), Step::Wait(1000), begin, alive(2), alive(3)] {
            victim.take(step);
        }
        victim.recovers();
    }
}
