use super::*;

/// A kernel that may refuse to answer.
#[derive(Default)]
struct Kernel {
    entries: BTreeMap<ConnectionKey, Connection>,
    /// Calls that are answered before it refuses.
    answers: usize,
    /// By these clients' ports another node forwards to a backend here.
    forwarded: BTreeSet<u16>,
    /// By these clients' ports a connection was closed.
    closed: BTreeSet<u16>,
    /// How many it has room for.
    room: usize,
    /// How long what was refreshed is remembered, by the clients' ports.
    remembered: BTreeMap<u16, Duration>,
}

impl Kernel {
    fn answering() -> Self {
        Self { answers: usize::MAX, room: usize::MAX, ..Self::default() }
    }

    fn answer(&mut self) -> Result<(), TrackingError> {
        self.answers = self.answers.checked_sub(1).ok_or(TrackingError::Unsteady { tries: 1 })?;
        Ok(())
    }

    fn ports(&self) -> Vec<u16> {
        self.entries.keys().map(|key| key.client.port()).collect()
    }

    /// Those of other clients that the backend would answer alike.
    fn same_answers(&self, connection: &Connection) -> Vec<ConnectionKey> {
        let is_one = |other: &&Connection| {
            other.key != connection.key
                && (other.backend, other.source) == (connection.backend, connection.source)
        };
        self.entries.values().filter(is_one).map(|other| other.key).collect()
    }

    fn insert(&mut self, connection: &Connection) -> Inserted {
        if !self.same_answers(connection).is_empty() {
            return Inserted::Clash(Blocking::SameAnswers);
        }
        if !self.entries.contains_key(&connection.key) && self.entries.len() >= self.room {
            return Inserted::TableFull;
        }
        match self.entries.insert(connection.key, *connection) {
            Some(former) if former == *connection => Inserted::Present,
            Some(_) | None => Inserted::New,
        }
    }
}

impl KernelTable for Kernel {
    fn update(&mut self, connections: &[Connection]) -> Result<Vec<Inserted>, TrackingError> {
        self.answer()?;
        let insert = |connection: &Connection| {
            if self.forwarded.contains(&connection.key.client.port()) {
                Inserted::Clash(Blocking::Forwarded)
            } else {
                for key in self.same_answers(connection) {
                    self.entries.remove(&key);
                }
                self.insert(connection)
            }
        };
        Ok(connections.iter().map(insert).collect())
    }

    fn restore(&mut self, connections: &[Connection]) -> Result<Vec<Inserted>, TrackingError> {
        self.answer()?;
        Ok(connections.iter().map(|connection| self.insert(connection)).collect())
    }

    fn replace(&mut self, connections: &[Connection]) -> Result<Vec<Inserted>, TrackingError> {
        self.answer()?;
        Ok(connections.iter().map(|connection| self.insert(connection)).collect())
    }

    fn delete(&mut self, keys: &[ConnectionKey]) -> Result<(), TrackingError> {
        self.answer()?;
        self.entries.retain(|key, _| !keys.contains(key));
        Ok(())
    }

    fn refresh(
        &mut self,
        keys: &[ConnectionKey],
        lifetime: Duration,
    ) -> Result<Vec<ConnectionKey>, TrackingError> {
        self.answer()?;
        let (there, absent): (Vec<ConnectionKey>, Vec<ConnectionKey>) =
            keys.iter().partition(|key| self.entries.contains_key(key));
        self.remembered.extend(there.into_iter().map(|key| (key.client.port(), lifetime)));
        Ok(absent)
    }

    fn are_established(&mut self, keys: &[ConnectionKey]) -> Result<Vec<bool>, TrackingError> {
        self.answer()?;
        let is_established =
            |key: &ConnectionKey| self.entries.contains_key(key) && !self.closed.contains(&key.client.port());
        Ok(keys.iter().map(is_established).collect())
    }
}

const VIP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 50));

/// From this port of a client.
fn connection(port: u16) -> Connection {
    let key = ConnectionKey {
        transport: Transport::Tcp,
        client: ([192, 0, 2, 3], port).into(),
        vip: (VIP, 80).into(),
    };
    Connection { key, backend: ([192, 0, 2, 4], 8080).into(), source: (VIP, port).into() }
}

fn put(port: u16) -> Change {
    Change::Put(connection(port))
}

fn forget(port: u16) -> Change {
    Change::Forget(connection(port).key)
}

fn nobody(_: &ConnectionKey) -> Option<Connection> {
    None
}

#[test]
fn what_the_kernel_did_not_carry_out_is_carried_out_when_it_answers_again() {
    // Wherever it refuses: before anything was done, after what is forgotten, after what is put.
    for answers in 0..4 {
        let mut replicas = KernelReplicas::default();
        let mut kernel = Kernel::answering();
        replicas.note(vec![put(1), put(2)], nobody);
        replicas.settle(&BTreeSet::new(), &mut kernel).unwrap();
        kernel.answers = answers;
        replicas.note(vec![put(3), forget(1), put(2)], nobody);
        let first = replicas.settle(&BTreeSet::new(), &mut kernel);
        assert_eq!((first.is_err(), replicas.owes()), (answers < 3, answers < 3), "{answers}");
        // What comes meanwhile is the last word.
        replicas.note(vec![put(4), forget(3)], nobody);
        kernel.answers = usize::MAX;
        replicas.settle(&BTreeSet::new(), &mut kernel).unwrap();
        assert_eq!(kernel.ports(), [2, 4], "{answers}");
        assert!(!replicas.owes());
    }
}

#[test]
fn what_either_side_has_closed_since_the_takeover_is_not_remembered_for_days() {
    let mut replicas = KernelReplicas::default();
    let mut kernel = Kernel::answering();
    replicas.note(vec![put(1), put(2)], nobody);
    replicas.settle(&BTreeSet::new(), &mut kernel).unwrap();
    kernel.closed.insert(2);
    replicas.extend(&[1, 2, 3].map(connection), &mut kernel).unwrap();
    assert_eq!(kernel.remembered, [(1, kernel_lifetime(Transport::Tcp))].into());
}

#[test]
fn what_comes_may_have_the_answers_of_what_goes() {
    let mut replicas = KernelReplicas::default();
    let mut kernel = Kernel::answering();
    replicas.note(vec![put(9)], nobody);
    replicas.settle(&BTreeSet::new(), &mut kernel).unwrap();
    let same_answers = Connection { source: connection(9).source, ..connection(1) };
    replicas.note(vec![Change::Put(same_answers), forget(9)], nobody);
    replicas.settle(&BTreeSet::new(), &mut kernel).unwrap();
    assert_eq!(kernel.ports(), [1]);
    assert_eq!(replicas.outcomes(), Outcomes::default());
}

/// As on a node that did not hear of an end, and has the backend's port for the new one from the node that did.
#[test]
fn what_is_told_later_has_the_answers_of_an_open_one_and_a_renewal_does_not_take_them_back() {
    let mut replicas = KernelReplicas::default();
    let mut kernel = Kernel::answering();
    let later = Connection { source: connection(9).source, ..connection(1) };
    replicas.note(vec![put(9)], nobody);
    replicas.settle(&BTreeSet::new(), &mut kernel).unwrap();
    replicas.note(vec![Change::Put(later)], nobody);
    replicas.settle(&BTreeSet::new(), &mut kernel).unwrap();
    assert_eq!(kernel.ports(), [1]);
    assert_eq!(replicas.outcomes(), Outcomes::default());
    replicas.renew(&[later, connection(9)], &mut kernel).unwrap();
    assert_eq!(kernel.ports(), [1]);
    assert_eq!(replicas.outcomes().refused, 1);
}

#[test]
fn what_one_peer_has_forgotten_and_another_tells_stays() {
    let mut replicas = KernelReplicas::default();
    let mut kernel = Kernel::answering();
    replicas.note(vec![put(1), put(2)], nobody);
    replicas.note(vec![forget(1), forget(2)], |key| Some(connection(2)).filter(|other| other.key == *key));
    replicas.settle(&BTreeSet::new(), &mut kernel).unwrap();
    assert_eq!(kernel.ports(), [2]);
}

#[test]
fn of_a_vip_that_has_become_this_nodes_nothing_is_forgotten_and_what_was_owed_is_put() {
    let mut replicas = KernelReplicas::default();
    let mut kernel = Kernel::answering();
    kernel.entries.insert(connection(1).key, connection(1));
    replicas.note(vec![forget(1), put(2)], nobody);
    replicas.settle(&[VIP].into(), &mut kernel).unwrap();
    assert_eq!(kernel.ports(), [1, 2]);
    replicas.settle(&BTreeSet::new(), &mut kernel).unwrap();
    assert_eq!(kernel.ports(), [1, 2], "nor later");
}

#[test]
fn no_more_is_kept_for_a_kernel_that_does_nothing_than_there_is_room_for() {
    let many = u32::try_from(MOST_OWED).unwrap();
    let numbered = |number: u32| {
        let port = u16::try_from(number % 60_000).unwrap();
        let client = (std::net::Ipv4Addr::from_bits(0xc612_0000 + number / 60_000), port).into();
        ConnectionKey { client, ..connection(1).key }
    };
    let mut replicas = KernelReplicas::default();
    replicas.note((0..many).map(|number| Change::Forget(numbered(number))).collect(), nobody);
    assert!(!replicas.limit());
    replicas.note(vec![put(7)], nobody);
    assert!(replicas.limit(), "all are to be renewed");
    assert!(!replicas.limit());
    assert_eq!(replicas.owed.len(), MOST_OWED, "what is to be forgotten");
    replicas.note(vec![Change::Forget(numbered(many))], nobody);
    assert!(replicas.limit());
    assert_eq!(replicas.owed.len(), MOST_OWED);
}

#[test]
fn it_is_full_as_long_as_there_is_a_replica_for_which_the_kernel_has_no_room() {
    let nothing = BTreeSet::new;
    let mut replicas = KernelReplicas::default();
    let mut kernel = Kernel { room: 1, ..Kernel::answering() };
    replicas.note(vec![put(1), put(2), put(3), put(4)], nobody);
    replicas.settle(&nothing(), &mut kernel).unwrap();
    assert!(replicas.is_full() && !replicas.owes());
    // One ends that was never there, and one for which there is room.
    replicas.note(vec![forget(2), forget(1)], nobody);
    replicas.settle(&nothing(), &mut kernel).unwrap();
    replicas.renew(&[connection(3)], &mut kernel).unwrap();
    assert!(replicas.is_full(), "the fourth");
    // Its VIP has become this node's.
    replicas.serve(&[VIP].into());
    assert!(!replicas.is_full());
    replicas.renew(&[connection(4)], &mut kernel).unwrap();
    assert!(replicas.is_full());
    kernel.room = 2;
    replicas.renew(&[connection(4)], &mut kernel).unwrap();
    assert!(!replicas.is_full());
    assert_eq!((kernel.ports(), replicas.outcomes().table_full), (vec![3, 4], 4));
}

#[test]
fn what_is_forwarded_here_waits_for_the_takeover_and_is_replaced_then() {
    let mut replicas = KernelReplicas::default();
    let mut kernel = Kernel { forwarded: [1].into(), ..Kernel::answering() };
    replicas.note(vec![put(1), put(2)], nobody);
    replicas.settle(&BTreeSet::new(), &mut kernel).unwrap();
    assert_eq!(kernel.ports(), [2]);
    assert!(replicas.take_news_of_blocked() && !replicas.take_news_of_blocked());
    assert!(replicas.blocks(&[VIP]) && !replicas.blocks(&[[192, 0, 2, 51].into()]));
    kernel.answers = 0;
    assert!(replicas.take_over(&[VIP].into(), &mut kernel).is_err());
    assert!(replicas.blocks(&[VIP]), "to be tried again");
    kernel.answers = usize::MAX;
    replicas.take_over(&[VIP].into(), &mut kernel).unwrap();
    assert_eq!(kernel.ports(), [1, 2]);
    assert!(!replicas.blocks(&[VIP]) && replicas.take_news_of_blocked());
}
