//! One sender and one receiver, and what passes between them.

use super::*;

struct Pair {
    table: Connections,
    sender: Sender,
    receiver: Receiver,
    now: u64,
    changes: Vec<Change>,
    /// What the sender said, of the last step.
    sent: Vec<Message>,
    /// What the receiver said, of the last step.
    answered: Vec<Message>,
}

fn epoch(start: u64) -> Epoch {
    Epoch { start, random: 1000 }
}

fn sender(start: u64, now: u64) -> Sender {
    let epoch = Epoch { start, random: 1000 + now };
    Sender::new(epoch, SenderConfig { queue: 100, ..SenderConfig::default() }, vips(4), at(now))
}

impl Pair {
    fn new(entries: usize) -> Self {
        let config = ReceiverConfig { entries, ..ReceiverConfig::default() };
        let receiver = Receiver::new(77, config, vips(4), at(0));
        let (table, sender) = (Connections::default(), sender(5, 0));
        Self { table, sender, receiver, now: 0, changes: Vec::new(), sent: Vec::new(), answered: Vec::new() }
    }

    /// With connections 0 to `count` of VIP 0, in sync.
    fn with(count: u32, entries: usize) -> Self {
        let mut pair = Self::new(entries);
        for number in 0..count {
            pair.put(connection(0, number, 1));
        }
        // Until well between two heartbeats.
        pair.run(1200);
        pair
    }

    fn put(&mut self, connection: Connection) {
        self.table.put(connection).unwrap();
        self.sender.added(&connection, at(self.now));
    }

    fn end(&mut self, key: ConnectionKey) {
        self.table.remove(&key);
        self.sender.ended(&key, at(self.now));
    }

    /// One millisecond; `carried` says what the LAN carries.
    fn step(&mut self, carried: impl Fn(&Message) -> bool) {
        self.now += 1;
        let now = at(self.now);
        self.changes.extend(self.receiver.handle_timeout(now));
        (self.sent, self.answered) = (Vec::new(), Vec::new());
        loop {
            if let Some(bytes) = self.sender.poll_transmit(&self.table, now) {
                let message = Message::decode(&bytes).unwrap();
                if carried(&message) {
                    self.changes.extend(self.receiver.receive(message.clone(), now));
                }
                self.sent.push(message);
            } else if let Some(bytes) = self.receiver.poll_transmit(now) {
                let message = Message::decode(&bytes).unwrap();
                if carried(&message) {
                    self.sender.receive(&message, now);
                }
                self.answered.push(message);
            } else {
                break;
            }
        }
        assert!(self.sender.poll_timeout() > now);
        assert!(self.receiver.poll_timeout().is_none_or(|due| due > now));
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.step(|_| true);
        }
    }

    fn is_in_sync(&self) -> bool {
        self.receiver.is_in_sync(at(self.now))
    }

    fn numbers(&self) -> usize {
        self.receiver.connections().len()
    }

    /// The changes since the last call, and how many there are of puts and of forgets.
    fn told(&mut self) -> (usize, usize) {
        let changes = std::mem::take(&mut self.changes);
        let puts = changes.iter().filter(|change| matches!(change, Change::Put(_))).count();
        (puts, changes.len() - puts)
    }
}

#[test]
fn who_may_lack_what_it_serves_says_so_and_nobody_claims_to_be_in_sync_with_it() {
    let mut pair = Pair::with(10, 100);
    assert!(pair.is_in_sync() && pair.sender.is_told());
    pair.sender.set_lagging(true);
    assert!(!pair.sender.is_told());
    pair.run(500);
    assert!(!pair.is_in_sync(), "by a sign of life");
    pair.put(connection(0, 10, 1));
    pair.run(10);
    assert!(pair.numbers() == 11 && !pair.is_in_sync(), "by a change");
    pair.run(20_000);
    assert_eq!((pair.numbers(), pair.sender.counters().snapshots), (11, 1), "nothing is given up");
    pair.sender.set_lagging(false);
    pair.run(500);
    assert!(pair.is_in_sync() && pair.sender.is_told());
}

#[test]
fn a_change_is_told_after_five_milliseconds_or_with_sixty_others() {
    let mut pair = Pair::with(10, 100);
    assert_eq!(pair.told(), (10, 0));
    assert!(pair.is_in_sync() && pair.sender.is_told());
    pair.put(connection(0, 10, 1));
    pair.end(connection(0, 3, 1).key);
    pair.put(connection(0, 4, 2));
    pair.run(4);
    assert_eq!(pair.told(), (0, 0));
    pair.run(1);
    let expected = [
        Change::Put(connection(0, 10, 1)),
        Change::Forget(connection(0, 3, 1).key),
        Change::Put(connection(0, 4, 2)),
    ];
    assert_eq!(std::mem::take(&mut pair.changes), expected);
    for number in 20..80 {
        pair.put(connection(0, number, 1));
    }
    pair.run(1);
    assert!(pair.told().0 >= 50);
}

/// What is over by the time it would be told is no connection that anybody needs.
#[test]
fn the_last_state_is_what_is_told() {
    let mut pair = Pair::with(1, 100);
    pair.told();
    pair.put(connection(0, 5, 1));
    pair.put(connection(0, 5, 2));
    pair.end(connection(0, 5, 2).key);
    pair.run(10);
    assert_eq!(pair.told(), (0, 0));
    pair.end(connection(0, 0, 1).key);
    pair.put(connection(0, 0, 2));
    pair.run(10);
    assert_eq!(pair.changes, [Change::Put(connection(0, 0, 2))]);
}

#[test]
fn what_is_lost_is_sent_again_and_nobody_is_in_sync_meanwhile() {
    let mut pair = Pair::with(1, 100);
    pair.put(connection(0, 1, 1));
    for _ in 0..6 {
        pair.step(|message| !matches!(message.body, Body::Data { .. }));
    }
    assert!(pair.is_in_sync(), "it cannot know");
    pair.put(connection(0, 2, 1));
    pair.run(5);
    assert!(!pair.is_in_sync() && pair.numbers() == 1, "a gap");
    pair.run(20);
    assert!(pair.is_in_sync() && pair.numbers() == 3);
    assert_eq!((pair.sender.counters().resent, pair.sender.counters().snapshots), (1, 1));
    // The last one is missed by the sign of life that follows it.
    pair.put(connection(0, 3, 1));
    for _ in 0..6 {
        pair.step(|message| !matches!(message.body, Body::Data { .. }));
    }
    pair.run(40);
    assert!(pair.is_in_sync() && pair.numbers() == 4);
}

#[test]
fn changes_that_may_not_wait_any_more_become_a_snapshot() {
    let mut pair = Pair::with(10, 1000);
    pair.told();
    // Nothing is acknowledged, so the window fills and changes wait.
    for number in 0..50_000 {
        pair.put(connection(0, number % 500, u8::from(number % 1000 >= 500)));
        if number % 100 == 0 {
            pair.step(|message| !message.is_for_sender());
        }
        assert!(pair.sender.waiting() <= 100 && pair.sender.unacknowledged() <= 256);
    }
    assert!(pair.sender.counters().overflows > 0);
    pair.run(800);
    assert!(pair.is_in_sync());
    assert_eq!(pair.receiver.connections().summary(&vips(4)), pair.table.summary(&vips(4)));
}

#[test]
fn for_a_peer_that_is_dead_nothing_is_kept_and_little_is_sent() {
    let mut pair = Pair::with(10, 1000);
    for number in 0..1000 {
        pair.put(connection(0, number, 1));
        pair.step(|_| false);
    }
    let sent = pair.sender.counters().sent;
    for _ in 0..30_000 {
        pair.step(|_| false);
    }
    assert!(pair.sender.counters().sent - sent < 100, "{}", pair.sender.counters().sent - sent);
    assert_eq!((pair.sender.waiting(), pair.sender.unacknowledged()), (0, 0));
    assert_eq!(pair.sender.counters().given_up, 1);
    assert!(!pair.is_in_sync());
    pair.run(6000);
    assert!(pair.is_in_sync() && pair.numbers() == 1000);
}

#[test]
fn a_sender_that_is_silent_for_long_is_forgotten_and_the_kernel_keeps_what_this_node_is_active_for() {
    let mut pair = Pair::with(10, 1000);
    pair.put(connection(1, 1, 1));
    pair.run(10);
    pair.receiver.keep(vip(1));
    pair.told();
    for _ in 0..299_000 {
        pair.step(|_| false);
    }
    assert_eq!((pair.told(), pair.numbers()), ((0, 0), 11));
    for _ in 0..2000 {
        pair.step(|_| false);
    }
    assert_eq!((pair.told(), pair.numbers()), ((0, 10), 0));
    assert_eq!(
        pair.receiver.release(vip(1), at(pair.now)),
        [],
        "nothing comes back that may have ended since"
    );
    pair.receiver.keep(vip(1));
    // It is back: what it says of the other VIP is told when this node is Active for it no more.
    pair.put(connection(1, 2, 1));
    pair.end(connection(1, 1, 1).key);
    pair.run(6000);
    assert!(pair.is_in_sync());
    assert_eq!(pair.told(), (10, 0));
    assert_eq!(pair.receiver.release(vip(1), at(pair.now)), [Change::Put(connection(1, 2, 1))]);
    assert_eq!(pair.receiver.release(vip(1), at(pair.now)), []);
}

/// As after a takeover whose new Active has to let go, for its own cable's sake: the kernel has them, and no other node has.
#[test]
fn what_a_dead_peer_told_of_a_vip_is_this_nodes_own_after_it_was_active() {
    let mut pair = Pair::with(10, 1000);
    pair.told();
    pair.receiver.keep(vip(0));
    for _ in 0..2000 {
        pair.step(|_| false);
    }
    assert_eq!(pair.receiver.release(vip(0), at(pair.now)), [], "what has ended since does not come back");
    let forgotten = pair.receiver.set_vips(vips(0), at(pair.now));
    assert_eq!(forgotten, [], "nor is what goes on forgotten, whatever becomes of the virtual router");
    assert_eq!(pair.receiver.set_vips(vips(4), at(pair.now)), []);
    for _ in 0..302_000 {
        pair.step(|_| false);
    }
    assert_eq!((pair.told(), pair.numbers()), ((0, 0), 0), "nor after minutes");
    // It was not dead after all, and serves them.
    pair.run(16_000);
    assert!(pair.is_in_sync());
    assert_eq!((pair.told(), pair.numbers()), ((10, 0), 10));
}

#[test]
fn connections_of_vips_that_are_not_ours_are_refused_until_they_are() {
    let mut pair = Pair::with(5, 1000);
    pair.put(connection(1, 1, 1));
    pair.run(10);
    let told = pair.receiver.set_vips(vips(1), at(pair.now));
    assert_eq!(told, [Change::Forget(connection(1, 1, 1).key)]);
    pair.put(connection(2, 1, 1));
    pair.run(2000);
    assert_eq!((pair.numbers(), pair.receiver.counters().refused_vip), (5, 1));
    assert!(pair.is_in_sync(), "of what is its own");
    assert_eq!(pair.sender.counters().snapshots, 1);
    assert_eq!(pair.receiver.set_vips(vips(4), at(pair.now)), []);
    pair.run(6000);
    assert!(pair.is_in_sync() && pair.numbers() == 7);
    assert_eq!(pair.sender.counters().resyncs, [1, 0, 0, 0, 1, 0]);
}

#[test]
fn a_sender_tells_only_of_the_vips_that_the_peer_is_to_know() {
    let mut pair = Pair::with(5, 1000);
    pair.put(connection(1, 1, 1));
    pair.run(10);
    pair.told();
    pair.sender.set_vips(vips(1), &pair.table, at(pair.now));
    pair.put(connection(1, 2, 1));
    pair.run(10);
    assert_eq!(pair.changes, [Change::Forget(connection(1, 1, 1).key)]);
    pair.sender.set_vips(vips(2), &pair.table, at(pair.now));
    pair.run(1000);
    assert!(pair.is_in_sync() && pair.numbers() == 7);
    assert_eq!(pair.sender.counters().snapshots, 1);
}

#[test]
fn who_is_full_says_so_and_asks_again_when_there_is_room() {
    let mut pair = Pair::with(100, 80);
    assert!(pair.receiver.is_full() && !pair.is_in_sync());
    assert_eq!((pair.numbers(), pair.receiver.counters().refused_full), (80, 20));
    pair.run(10_000);
    assert_eq!(pair.sender.counters().snapshots, 1, "it would be full again");
    for number in 0..50 {
        pair.end(connection(0, number, 1).key);
    }
    pair.run(6000);
    assert!(!pair.receiver.is_full() && pair.is_in_sync());
    assert_eq!(pair.numbers(), 50);
}

#[test]
fn the_oldest_are_given_up_and_asked_for_again_when_there_is_room_for_all() {
    let mut pair = Pair::with(50, 1000);
    for number in 50..100 {
        pair.put(connection(0, number, 1));
    }
    pair.run(1200);
    pair.receiver.set_room(60);
    let given_up = pair.receiver.give_up(40);
    let first: BTreeSet<ConnectionKey> = (0..50).map(|number| connection(0, number, 1).key).collect();
    let is_first = |change: &Change| matches!(change, Change::Forget(key) if first.contains(key));
    assert!(given_up.len() == 40 && given_up.iter().all(is_first));
    assert!((50..100).all(|number| pair.receiver.connections().get(&connection(0, number, 1).key).is_some()));
    assert!(pair.receiver.is_full() && !pair.is_in_sync());
    pair.told();
    pair.run(20_000);
    assert!(pair.sender.peer_is_full() && !pair.sender.is_told(), "the sender knows");
    assert_eq!((pair.told(), pair.sender.counters().snapshots), ((0, 0), 1), "they do not come back");
    // Less than an eighth is free, and that is enough.
    pair.receiver.set_room(100);
    pair.run(6000);
    assert_eq!(pair.told(), (40, 0));
    assert!(pair.is_in_sync() && pair.sender.is_told() && pair.numbers() == 100);
}

#[test]
fn what_this_node_is_active_for_is_not_given_up() {
    let mut pair = Pair::with(10, 1000);
    pair.put(connection(1, 1, 1));
    pair.run(10);
    pair.receiver.keep(vip(0));
    assert_eq!(pair.receiver.give_up(usize::MAX), [Change::Forget(connection(1, 1, 1).key)]);
    assert_eq!(pair.numbers(), 10);
}

/// The digest finds what no number shows: here the sender was not told of a change.
#[test]
fn divergence_is_found_within_a_heartbeat_and_mended() {
    let mut pair = Pair::with(10, 1000);
    pair.run(5000);
    pair.table.put(connection(0, 3, 9)).unwrap();
    pair.run(501);
    assert_eq!(pair.receiver.counters().diverged, 1);
    pair.run(50);
    assert!(pair.is_in_sync());
    assert_eq!(pair.receiver.connections().get(&connection(0, 3, 9).key), Some(connection(0, 3, 9)));
    // At most one snapshot in five seconds.
    for _ in 0..10 {
        pair.table.put(connection(0, 3, u8::try_from(pair.now % 200).unwrap())).unwrap();
        pair.run(1000);
    }
    assert!(pair.sender.counters().snapshots <= 5, "{}", pair.sender.counters().snapshots);
}

#[test]
fn a_sender_that_starts_anew_is_followed_whatever_its_clock_says() {
    for start in [6, 4, 5] {
        let mut pair = Pair::with(10, 1000);
        pair.told();
        pair.sender = sender(start, pair.now);
        pair.sender.added(&connection(0, 99, 1), at(pair.now));
        pair.end(connection(0, 1, 1).key);
        pair.run(10_000);
        assert!(pair.is_in_sync() && pair.numbers() == 9, "{start}");
        assert_eq!(pair.told(), (0, 1), "{start}: what is the same is not told again");
    }
}

/// What was said in a former life, to either side, is worth nothing.
#[test]
fn recorded_datagrams_change_nothing() {
    let mut pair = Pair::new(1000);
    let mut recorded = Vec::new();
    for number in 0..100 {
        pair.put(connection(0, number, 1));
        for _ in 0..10 {
            pair.run(1);
            recorded.extend(pair.sent.iter().chain(&pair.answered).cloned());
        }
    }
    for number in 0..100 {
        pair.end(connection(0, number, 1).key);
    }
    pair.run(100);
    for (sender_anew, receiver_anew) in [(false, false), (false, true), (true, false), (true, true)] {
        if sender_anew {
            pair.sender = sender(6, pair.now);
        }
        if receiver_anew {
            pair.receiver = Receiver::new(pair.now << 32, ReceiverConfig::default(), vips(4), at(pair.now));
        }
        for round in 0..3 {
            pair.told();
            let begun = pair.sender.counters().resyncs;
            let was_in_sync = pair.is_in_sync();
            for message in &recorded {
                if message.is_for_sender() {
                    pair.sender.receive(message, at(pair.now));
                } else {
                    let changes = pair.receiver.receive(message.clone(), at(pair.now));
                    assert_eq!(changes, [], "{message:?}");
                }
            }
            assert_eq!(pair.sender.counters().resyncs, begun);
            assert_eq!((pair.is_in_sync(), pair.numbers()), (was_in_sync, 0));
            pair.run(1000);
            assert_eq!(pair.told(), (0, 0));
            assert!(pair.is_in_sync(), "{sender_anew} {receiver_anew} {round}");
        }
    }
}

/// It would keep replicas alive for ever, and a Backup in sync that is not.
#[test]
fn recorded_signs_of_life_are_none() {
    let mut pair = Pair::with(10, 1000);
    let mut recorded = Vec::new();
    for _ in 0..5000 {
        pair.run(1);
        recorded.append(&mut pair.sent);
    }
    assert!(recorded.len() >= 9);
    for round in 0..400 {
        for message in &recorded {
            pair.receiver.receive(message.clone(), at(pair.now));
        }
        for _ in 0..1000 {
            pair.step(|_| false);
        }
        assert!(round < 2 || !pair.is_in_sync());
    }
    assert_eq!(pair.numbers(), 0);
}

#[test]
fn a_peer_in_error_harms_nothing() {
    let mut pair = Pair::with(10, 1000);
    let (epoch, last) = (epoch(5), 1_000_000);
    let head = |body| Message { epoch, challenge: 78, body };
    let data = |sequence, data| head(Body::Data { sequence, behind: false, data });
    let put = Data::Update(vec![Entry::Put(connection(0, 50, 1))]);
    for message in [
        data(last, put.clone()),
        head(Body::Acknowledge { up_to: 0, missing: Vec::new(), full: false }),
        head(Body::Alive(Alive {
            beat: u64::MAX,
            ticket: 0,
            attached: true,
            last,
            behind: false,
            summary: None,
        })),
    ] {
        let before = pair.receiver.counters().refused_nonsense;
        assert_eq!(pair.receiver.receive(message.clone(), at(pair.now)), []);
        assert_eq!(pair.receiver.counters().refused_nonsense, before + 1, "{message:?}");
    }
    for message in [head(Body::Acknowledge { up_to: last, missing: Vec::new(), full: false }), data(1, put)] {
        let before = pair.sender.counters().refused_nonsense;
        pair.sender.receive(&message, at(pair.now));
        assert_eq!(pair.sender.counters().refused_nonsense, before + 1, "{message:?}");
    }
    let far = vec![Missing { first: 1, last: u64::MAX }];
    pair.sender.receive(&head(Body::Acknowledge { up_to: 0, missing: far, full: false }), at(pair.now));
    pair.run(600);
    assert!(pair.is_in_sync());
    // An end of a snapshot that never began is divergence, and mended.
    for sequence in 1..10 {
        pair.receiver.receive(data(sequence, Data::SnapshotEnd(999)), at(pair.now));
    }
    assert!(!pair.is_in_sync());
    pair.run(8000);
    assert!(pair.is_in_sync() && pair.numbers() == 10);
}

#[test]
fn a_receiver_whose_kernel_is_full_says_so_until_it_has_room() {
    let mut pair = Pair::with(10, 1000);
    assert!(pair.is_in_sync() && pair.sender.is_told());
    pair.receiver.set_kernel_full(true);
    assert!(!pair.is_in_sync());
    pair.run(600);
    assert!(!pair.sender.is_told() && pair.sender.peer_is_full(), "with the next sign of life");
    pair.put(connection(0, 10, 1));
    pair.run(20_000);
    assert!(!pair.sender.is_told());
    assert_eq!((pair.numbers(), pair.sender.counters().snapshots), (11, 1), "nothing is given up");
    pair.receiver.set_kernel_full(false);
    pair.run(600);
    assert!(pair.is_in_sync() && pair.sender.is_told() && !pair.sender.peer_is_full());
}

/// A sender at its limit says so, and nobody is in sync until it has caught up.
#[test]
fn a_receiver_of_a_sender_that_is_behind_is_not_in_sync() {
    let mut pair = Pair::with(10, 10_000);
    let config = SenderConfig { datagrams_per_second: 100, burst: 1, ..SenderConfig::default() };
    pair.sender = Sender::new(epoch(6), config, vips(4), at(pair.now));
    pair.run(1200);
    assert!(pair.is_in_sync());
    for number in 0..300 {
        pair.put(connection(0, number, 1));
    }
    pair.run(4);
    for _ in 0..1000 {
        pair.run(1);
        assert!(!pair.is_in_sync() || pair.numbers() == 300, "{} at {}", pair.numbers(), pair.now);
    }
    assert!(pair.is_in_sync());
}

/// Else two streams could have the same, and a datagram of the one would fit the other.
#[test]
fn each_ticket_is_asked_with_a_challenge_of_its_own() {
    let mut pair = Pair::new(1000);
    let mut asked = BTreeMap::new();
    let mut again = 0;
    for millis in 0..20_000 {
        if millis % 2500 == 0 {
            pair.sender = sender(6 + millis, pair.now);
        }
        // No stream ever begins: the receiver hears signs of life alone.
        pair.step(|message| matches!(message.body, Body::Alive(Alive { attached: false, .. })));
        for message in &pair.answered {
            if let Body::Resync { ticket, .. } = message.body {
                let first = *asked.entry(message.challenge).or_insert((message.epoch, ticket));
                assert_eq!(first, (message.epoch, ticket));
                again += 1;
            }
        }
    }
    assert!(asked.len() >= 8 && again > asked.len(), "{} challenges, {again} requests", asked.len());
}
