use windlass_vrrp::replication::Connection;

use super::*;
use crate::connections::{Blocking, Inserted, InvalidConnection};
use crate::lab::{Host, require_root};

fn connection(number: u16) -> Connection {
    let key = ConnectionKey {
        transport: Transport::Tcp,
        client: ([198, 18, 0, 1], 1024 + number).into(),
        vip: ([192, 0, 2, 50], 80).into(),
    };
    Connection {
        key,
        backend: ([192, 0, 2, 4], 8080).into(),
        source: ([192, 0, 2, 50], 1024 + number).into(),
    }
}

#[test]
fn a_table_has_room_for_replicas_up_to_its_share() {
    let usage = |entries, limit| Usage { entries, limit };
    assert_eq!(usage(100, 1000).room(90), 800);
    assert_eq!(usage(900, 1000).room(90), 0);
    assert_eq!(usage(2000, 1000).room(200), 0, "more than it takes");
    assert_eq!(usage(400, 1000).room(200), 600, "at most all of it");
    assert!(usage(5, 0).room(90) > 1_000_000, "no limit");
}

/// The kernel's answers to one send do not fit, and each entry is answered all the same.
#[test]
fn answers_that_were_lost_are_asked_for_again() {
    if !require_root() {
        return;
    }
    let host = Host::new();
    host.run(|| {
        let mut tracking = Tracking::with_buffer(8192).unwrap();
        let connections: Vec<_> = (0..600).map(connection).collect();
        let keys: Vec<_> = connections.iter().map(|connection| connection.key).collect();
        let lifetime = Duration::from_secs(100);
        assert_eq!(tracking.insert(&connections, lifetime).unwrap(), vec![Inserted::New; 600]);
        assert_eq!(tracking.insert(&connections, lifetime).unwrap(), vec![Inserted::Present; 600]);
        assert_eq!(tracking.are_open(&keys).unwrap(), vec![true; 600]);
        assert_eq!(tracking.delete(&keys).unwrap(), 600);
        assert_eq!(tracking.refresh(&keys, lifetime).unwrap().len(), 600);
        assert_eq!(tracking.delete(&keys).unwrap(), 0);
    });
}

// shows: threats T-16
/// A node that lies about its backends leads nobody to the sockets of its peers.
#[test]
fn a_replica_whose_backend_is_this_node_waits_for_what_this_node_has_accepted_or_is_refused() {
    if !require_root() {
        return;
    }
    let host = Host::new();
    host.ip("link set lo up");
    host.ip("address add 192.0.2.2/32 dev lo");
    host.run(|| {
        let mut tracking = Tracking::open().unwrap();
        let lifetime = Duration::from_secs(100);
        let here = Connection { backend: ([192, 0, 2, 2], 10_250).into(), ..connection(1) };
        let is_refused = |outcome: &Inserted| {
            matches!(outcome, Inserted::Invalid(InvalidConnection::OwnAddress { address }) if *address == here.backend)
        };
        let replicas = [here, connection(2)];
        for outcome in [
            tracking.update(&replicas, lifetime).unwrap(),
            tracking.restore(&replicas, lifetime).unwrap(),
            tracking.replace(&replicas, lifetime).unwrap(),
        ] {
            assert!(is_refused(&outcome[0]) && !is_refused(&outcome[1]), "{outcome:?}");
        }
        assert_eq!(tracking.are_open(&[here.key, connection(2).key]).unwrap(), [false, true]);
        // As another node forwards it.
        let key = ConnectionKey { transport: Transport::Tcp, client: here.source, vip: here.backend };
        let forwarded = Connection { key, backend: here.backend, source: here.source };
        assert_eq!(tracking.insert(&[forwarded], lifetime).unwrap(), [Inserted::New]);
        let waits = Inserted::Clash(Blocking::Forwarded);
        assert_eq!(tracking.update(&replicas, lifetime).unwrap(), [waits, Inserted::Present]);
        assert_eq!(tracking.replace(&replicas, lifetime).unwrap(), [Inserted::New, Inserted::Present]);
        assert_eq!(tracking.update(&replicas, lifetime).unwrap(), [Inserted::Present, Inserted::Present]);
    });
}
