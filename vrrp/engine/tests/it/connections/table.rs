//! The table of a kernel: what is put there, what is refused, and what is left alone.

use std::net::SocketAddr;
use std::time::Duration;

use windlass_kernel::connections::{
    Blocking, Connection, ConnectionKey, Inserted, InvalidConnection, Tracking, Transport, kernel_lifetime,
};

use super::scene::{
    A, B, Backend, LIFETIME, PORT, Scene, VIPS, all_new, await_listed, echoes, key_of, listed, set,
};
use crate::lab::{Host, require_root};

/// A connection of the VIP of IPv4 that nobody has.
fn invented(number: u16) -> Connection {
    let client = SocketAddr::from(([198, 18, (number >> 8) as u8, (number & 0xff) as u8], 40_000));
    Connection {
        key: ConnectionKey { transport: Transport::Tcp, client, vip: SocketAddr::new(VIPS[0], PORT) },
        backend: ([192, 0, 2, 4], 8080).into(),
        source: SocketAddr::new(VIPS[0], 1024 + number),
    }
}

/// The tracking of a kernel of its own.
fn alone() -> (Host, Tracking) {
    let host = Host::new();
    let tracking = host.run(|| Tracking::open().expect("open connection tracking"));
    (host, tracking)
}

fn lifetimes(tracking: &mut Tracking) -> Vec<Duration> {
    let mut found = Vec::new();
    let told = |_, lifetime| found.push(lifetime);
    tracking.list(windlass_engine::Family::V4, &VIPS.into(), told).expect("list");
    found
}

#[test]
fn each_entry_is_answered_for_itself() {
    if !require_root() {
        return;
    }
    let (_host, mut tracking) = alone();
    let good = invented(1);
    let no_port = Connection { backend: ([192, 0, 2, 4], 0).into(), ..invented(2) };
    let mixed = Connection { source: "[2001:db8::50]:1".parse().unwrap(), ..invented(3) };
    let group = Connection { backend: ([224, 0, 0, 1], 80).into(), ..invented(4) };
    // The backend cannot tell it from the first one.
    let same_answers = Connection { source: good.source, ..invented(5) };
    // The same client's port, with another backend.
    let other_backend = Connection { backend: ([192, 0, 2, 5], 8080).into(), ..good };
    let last = invented(6);
    let outcomes = tracking
        .insert(&[good, no_port, mixed, group, same_answers, other_backend, good, last], LIFETIME)
        .expect("insert");
    assert_eq!(outcomes[0], Inserted::New);
    assert!(matches!(outcomes[1], Inserted::Invalid(InvalidConnection::NoPort { .. })), "{:?}", outcomes[1]);
    assert!(matches!(outcomes[2], Inserted::Invalid(InvalidConnection::MixedFamilies { .. })));
    assert!(matches!(outcomes[3], Inserted::Invalid(InvalidConnection::NoHost { .. })));
    assert_eq!(outcomes[4], Inserted::Clash(Blocking::SameAnswers));
    assert_eq!(outcomes[5], Inserted::Clash(Blocking::Earlier));
    assert_eq!(outcomes[6], Inserted::Present);
    assert_eq!(outcomes[7], Inserted::New);
    assert_eq!(listed(&mut tracking), [good, last]);

    let outcomes = tracking.restore(&[same_answers, other_backend], LIFETIME).expect("restore");
    assert_eq!(outcomes, [Inserted::Clash(Blocking::SameAnswers), Inserted::New]);
    assert_eq!(listed(&mut tracking), [other_backend, last]);
    let outcomes = tracking.replace(&[good], LIFETIME).expect("replace");
    assert_eq!(outcomes, [Inserted::New]);
    assert_eq!(listed(&mut tracking), [good, last]);
    // What the backend has by another node's word.
    assert_eq!(tracking.update(&[same_answers], LIFETIME).expect("update"), [Inserted::New]);
    let mut left = [same_answers, last];
    left.sort_unstable();
    assert_eq!(listed(&mut tracking), left);
}

/// As on a node that was Active until a moment ago.
#[test]
fn what_is_over_gives_way_to_a_connection_whose_answers_it_had() {
    if !require_root() {
        return;
    }
    let scene = Scene::new(Backend::OnThirdHost);
    scene.move_to(B);
    let streams = scene.connections(2);
    let mut second = scene.tracking(B);
    let over = await_listed(&mut second, 4);
    // The next client is given the same port by the other node.
    let mut next: Vec<Connection> = over
        .iter()
        .map(|one| {
            let client = SocketAddr::new(one.key.client.ip(), one.key.client.port() ^ 1 << 14);
            Connection { key: ConnectionKey { client, ..one.key }, ..*one }
        })
        .collect();
    next.sort_unstable();
    let refused = second.restore(&next, LIFETIME).expect("restore");
    assert_eq!(refused, vec![Inserted::Clash(Blocking::SameAnswers); 4], "while they are open");
    drop(streams);
    await_listed(&mut second, 0);
    assert!(all_new(&second.restore(&next, LIFETIME)));
    assert_eq!(listed(&mut second), next);
}

#[test]
fn a_source_that_is_not_translated_stays_as_it_is() {
    if !require_root() {
        return;
    }
    let (_host, mut tracking) = alone();
    let first = Connection { source: invented(1).key.client, ..invented(1) };
    let second = Connection { key: ConnectionKey { transport: Transport::Udp, ..first.key }, ..first };
    assert!(all_new(&tracking.insert(&[first, second], LIFETIME)));
    // Another VIP with the same backend and the same client: the kernel would choose another port for it by itself.
    let clash =
        Connection { key: ConnectionKey { vip: ([192, 0, 2, 51], PORT).into(), ..first.key }, ..first };
    assert_eq!(tracking.insert(&[clash], LIFETIME).expect("insert"), [Inserted::Clash(Blocking::Other)]);
    assert_eq!(listed(&mut tracking), [first, second]);
}

#[test]
fn a_lifetime_is_what_it_was_told_last_and_what_is_absent_is_told() {
    if !require_root() {
        return;
    }
    let (host, mut tracking) = alone();
    assert!(all_new(&tracking.insert(&[invented(1)], Duration::from_secs(50))));
    assert!(lifetimes(&mut tracking).iter().all(|lifetime| lifetime.as_secs() <= 50));
    let keys = [invented(2).key, invented(1).key];
    assert_eq!(tracking.refresh(&keys, Duration::from_secs(5000)).expect("refresh"), [invented(2).key]);
    assert!(lifetimes(&mut tracking).iter().all(|lifetime| lifetime.as_secs() > 4000));
    set(&host, "netfilter/nf_conntrack_tcp_timeout_established", "7777");
    let of_kernel = host.run(|| [Transport::Tcp, Transport::Udp].map(kernel_lifetime));
    assert_eq!(of_kernel[0], Duration::from_secs(7777));
    assert!(of_kernel[1] >= Duration::from_secs(1));
}

#[test]
fn only_what_began_towards_the_vip_is_deleted() {
    if !require_root() {
        return;
    }
    let scene = Scene::new(Backend::OnThirdHost);
    let streams = scene.connections(1);
    let mut first = scene.tracking(A);
    let connections = await_listed(&mut first, 2);
    for connection in &connections {
        // As if the backend were a client of the VIP: these are the answers of the connection.
        let answers =
            ConnectionKey { transport: Transport::Tcp, client: connection.backend, vip: connection.source };
        assert_eq!(first.delete(&[answers]).expect("delete"), 0);
        let absent = ConnectionKey { client: "198.18.0.1:1".parse().unwrap(), ..connection.key };
        assert_eq!(first.delete(&[absent]).expect("delete"), 0, "absent, or of two families");
    }
    assert!(streams.iter().all(|stream| echoes(stream, 5)));
    let keys: Vec<_> = streams.iter().map(key_of).collect();
    assert_eq!(first.delete(&keys).expect("delete"), 2);
    assert_eq!(first.delete(&keys).expect("delete"), 0, "gone");
    assert_eq!(listed(&mut first), []);
}

// shows: threats T-16
#[test]
fn a_table_that_is_full_for_replicas_has_room_for_the_nodes_own() {
    if !require_root() {
        return;
    }
    let scene = Scene::new(Backend::OnThirdHost);
    let limit = scene.tracking(B).usage().expect("usage").limit;
    let mut second = scene.tracking(B).with_share(1);
    let room = usize::try_from(limit / 100).unwrap();
    let many: Vec<_> = (0..u16::try_from(room + 300).unwrap()).map(invented).collect();
    let outcomes = second.insert(&many, LIFETIME).expect("insert");
    let new = outcomes.iter().filter(|outcome| **outcome == Inserted::New).count();
    let full = outcomes.iter().filter(|outcome| **outcome == Inserted::TableFull).count();
    assert_eq!(new + full, many.len());
    // The node's own may have come or gone meanwhile.
    assert!((250..=320).contains(&full), "{full}");
    let again = second.insert(&many[..10], LIFETIME).expect("insert");
    assert_eq!(again, vec![Inserted::Present; 10], "what is there is told all the same");
    scene.move_to(B);
    assert!(scene.connections(1).iter().all(|stream| echoes(stream, 5)), "the node's own");
    let keys: Vec<_> = many.iter().map(|connection| connection.key).collect();
    assert_eq!(second.delete(&keys).expect("delete"), new);
}
