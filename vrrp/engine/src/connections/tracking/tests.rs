use super::*;
use crate::connections::Inserted;
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
