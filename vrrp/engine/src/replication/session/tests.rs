use windlass_vrrp::replication::Transport;

use super::*;

const VIP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 50));
const ENDS: [IpAddr; 2] =
    [IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2))];

/// An Active and a Backup that is told its connections.
struct Pair {
    table: Connections,
    active: Session,
    backup: Session,
    now: Time,
}

impl Pair {
    fn new() -> Self {
        let now = Time::default();
        let ends = |own: usize| Ends { own: ENDS[own], interface: 1, peer: ENDS[1 - own] };
        let (mut active, mut backup) = (Session::new(ends(0), 7, now), Session::new(ends(1), 8, now));
        let (table, epoch) = (Connections::default(), |start| move || Epoch { start, random: 1 });
        let told = PeerPlan { is_replica: true, told: [VIP].into(), believed: [VIP].into(), keys: None };
        let believed = PeerPlan { believed: [VIP].into(), ..PeerPlan::default() };
        active.follow(&told, &[VIP].into(), &table, epoch(1), now);
        backup.follow(&believed, &BTreeSet::new(), &table, epoch(2), now);
        Self { table, active, backup, now }
    }

    /// The Active has another connection.
    fn put(&mut self, port: u16) -> Connection {
        let key = ConnectionKey {
            transport: Transport::Tcp,
            client: ([192, 0, 2, 3], port).into(),
            vip: (VIP, 80).into(),
        };
        let connection =
            Connection { key, backend: ([192, 0, 2, 4], 8080).into(), source: (VIP, port).into() };
        self.table.put(connection).unwrap();
        self.active.tell(&[Told::Added(connection)], self.now);
        connection
    }

    /// What follows for the Backup's kernel within this time.
    fn run(&mut self, answers: bool, time: Duration) -> Vec<Change> {
        let (end, none) = (self.now + time, Connections::default());
        let mut changes = Vec::new();
        while self.now < end {
            self.now = self.now + Duration::from_millis(1);
            changes.extend(self.backup.handle_timeout(self.now));
            while let Some(datagram) = self.active.poll_transmit(&self.table, true, self.now) {
                changes.extend(self.backup.receive(&datagram, self.now));
            }
            while let Some(datagram) = self.backup.poll_transmit(&none, answers, self.now) {
                self.active.receive(&datagram, self.now);
            }
            assert!(self.backup.poll_timeout(answers).is_none_or(|due| due > self.now), "it would spin");
        }
        changes
    }

    fn knows_all(&self) -> bool {
        self.active.status(true, self.now).knows_all
    }
}

#[test]
fn what_is_not_in_the_kernel_is_heard_and_not_acknowledged() {
    let mut pair = Pair::new();
    let first = pair.put(1);
    assert_eq!(pair.run(true, Duration::from_secs(1)), [Change::Put(first)]);
    assert!(pair.knows_all() && pair.backup.status(true, pair.now).in_sync);
    let second = pair.put(2);
    assert_eq!(pair.run(false, Duration::from_secs(10)), [Change::Put(second)], "heard all the same");
    assert!(!pair.knows_all(), "as the kernel does not have it");
    assert!(!pair.backup.status(false, pair.now).in_sync);
    // The stream was not given up: nothing is told anew.
    assert_eq!(pair.run(true, Duration::from_secs(1)), []);
    assert!(pair.knows_all() && pair.backup.status(true, pair.now).in_sync);
    // After a longer trouble it was.
    let third = pair.put(3);
    assert_eq!(pair.run(false, Duration::from_mins(1)), [Change::Put(third)]);
    let fourth = pair.put(4);
    assert_eq!(pair.run(false, Duration::from_secs(1)), [], "and nothing is asked for that has no place");
    assert_eq!(pair.run(true, Duration::from_secs(2)), [Change::Put(fourth)]);
    assert!(pair.knows_all() && pair.backup.status(true, pair.now).in_sync);
}

#[test]
fn who_is_not_told_anything_asks_and_so_is_known_to_live() {
    let mut pair = Pair::new();
    // Told nothing: there is no sender.
    let untold = PeerPlan { believed: [VIP].into(), ..PeerPlan::default() };
    pair.active.follow(&untold, &[VIP].into(), &pair.table, || unreachable!("no sender begins"), pair.now);
    let answers = |pair: &Pair| pair.active.status(true, pair.now).answers;
    assert!(!answers(&pair));
    for second in 0..60 {
        pair.run(true, Duration::from_secs(1));
        assert!(answers(&pair), "{second}");
    }
    // It dies.
    pair.now = pair.now + LIVES;
    assert!(!answers(&pair));
}

/// As where its interface was down: the node goes on, and so does the peer.
#[test]
fn a_session_that_begins_anew_is_heard_by_who_heard_the_former_one() {
    let mut pair = Pair::new();
    pair.put(1000);
    pair.run(true, Duration::from_secs(1));
    let is_in_sync = |pair: &Pair| {
        let (told, heard) = (pair.active.status(true, pair.now), pair.backup.status(true, pair.now));
        told.knows_all && heard.in_sync && heard.connections == pair.table.len()
    };
    assert!(is_in_sync(&pair));
    let plan = pair.active.plan.clone();
    pair.active = Session::new(pair.active.ends, 9, pair.now);
    pair.active.follow(&plan, &[VIP].into(), &pair.table, || Epoch { start: 2, random: 2 }, pair.now);
    pair.put(1001);
    pair.run(true, Duration::from_secs(10));
    assert!(is_in_sync(&pair));
}
