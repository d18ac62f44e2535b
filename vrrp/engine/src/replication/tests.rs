use std::net::{Ipv4Addr, SocketAddr};

use windlass_kernel::connections::Usage;
use windlass_vrrp::replication::{ConnectionKey, Connections, Transport};

use super::plan::PeerPlan;
use super::served::Told;
use super::*;
use crate::lab::{hosts, take_all_turns};

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 50));
/// Connections of the peer.
const REPLICAS: u32 = 20;

#[test]
fn where_nobody_replicates_the_thread_sleeps_until_something_is_wanted() {
    let mut replication = Replication::new(ConnectionReplication::default());
    for second in 0..3 {
        let now = Time::default() + Duration::from_secs(second);
        replication.take_over(&BTreeSet::new(), now);
        assert_eq!(replication.round(Vec::new(), now), None);
    }
}

/// Connection of the client with this number.
fn connection(number: u32) -> Connection {
    let client = SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0001 + number), 40_000));
    let key = ConnectionKey { transport: Transport::Tcp, client, vip: SocketAddr::new(VIP, 80) };
    Connection { key, backend: ([192, 0, 2, 4], 8080).into(), source: client }
}

/// A session that has received these connections from its peer.
fn session(connections: impl Iterator<Item = Connection>) -> (Ends, Session) {
    let [own, peer] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
    let ends = Ends { own, interface: 1, peer };
    let mut now = Time::default();
    let mut session = Session::new(ends, 7, now);
    let mut active = Session::new(Ends { own: peer, peer: own, ..ends }, 8, now);
    let (mut table, none) = (Connections::default(), Connections::default());
    let told: Vec<Told> = connections
        .map(|connection| {
            table.put(connection).expect("room in the table");
            Told::Added(connection)
        })
        .collect();
    let believes = PeerPlan { believed: [VIP].into(), ..PeerPlan::default() };
    let tells = PeerPlan { is_replica: true, told: [VIP].into(), ..believes.clone() };
    session.follow(&believes, &BTreeSet::new(), &none, || Epoch { start: 1, random: 1 }, now);
    active.follow(&tells, &[VIP].into(), &table, || Epoch { start: 1, random: 2 }, now);
    active.tell(&told, now);
    for _ in 0..10_000 {
        now = now + Duration::from_millis(1);
        while let Some(datagram) = active.poll_transmit(&table, true, now) {
            session.receive(&datagram, now);
        }
        while let Some(datagram) = session.poll_transmit(&none, true, now) {
            active.receive(&datagram, now);
        }
        if session.replicas().len() == table.len() {
            return (ends, session);
        }
    }
    panic!("{} of {} connections are known", session.replicas().len(), table.len());
}

/// Fills the kernel's table up to this percentage, with the peer's connections first. Returns its use.
fn fill(percent: u8) -> Usage {
    let mut tracking = Tracking::open().expect("open connection tracking").with_share(100);
    let Usage { limit, .. } = tracking.usage().expect("usage");
    let wanted = u32::try_from(u64::from(limit) * u64::from(percent) / 100).expect("fewer than the limit");
    let numbers: Vec<u32> = (0..wanted).collect();
    for some in numbers.chunks(4096) {
        let connections: Vec<Connection> = some.iter().map(|number| connection(*number)).collect();
        tracking.insert(&connections, Duration::from_hours(1)).expect("insert");
    }
    tracking.usage().expect("usage")
}

// The decision and its figures are tested in `budget`.
#[test]
fn replicas_are_given_up_once_the_kernels_table_is_nearly_full_and_that_is_counted() {
    hosts::in_namespace(|| {
        let _turns = take_all_turns();
        let mut replication = Replication::new(ConnectionReplication::default());
        replication.sessions.extend([session((0..REPLICAS).map(connection))]);
        let held = |replication: &Replication| -> Vec<usize> {
            replication.sessions.values().map(|session| session.replicas().len()).collect()
        };
        let keys: Vec<ConnectionKey> = (0..REPLICAS).map(|number| connection(number).key).collect();
        let now = Time::default() + Duration::from_secs(1);
        replication.round(Vec::new(), now);
        assert_eq!((held(&replication), replication.status(now).table_full), (vec![20], 0), "an empty table");
        let usage = fill(96);
        replication.round(Vec::new(), now);
        assert_eq!(held(&replication), [20], "it is looked at once a second");
        let now = now + USAGE_LOOK;
        replication.round(Vec::new(), now);
        assert_eq!(replication.status(now).error, None);
        assert_eq!((held(&replication), replication.budget), (vec![0], 0), "{usage:?}");
        assert_eq!(replication.status(now).table_full, u64::from(REPLICAS));
        let mut tracking = Tracking::open().expect("open connection tracking");
        assert_eq!(tracking.delete(&keys).expect("delete"), 0, "the kernel has none of them");
        let others: Vec<ConnectionKey> = (REPLICAS..40).map(|number| connection(number).key).collect();
        assert_eq!(tracking.delete(&others).expect("delete"), others.len(), "and all others");
    });
}
