//! Which backend serves what a client sends.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;

use windlass_engine::{Balancer, ClientSource};

use crate::guard::scene::{connect, connect_while, pings, run};
use crate::lab::{Host, await_some, require_root, take_all_turns};

use super::scene::{API, CLIENT, Scene, TABLE, VIPS, ask_all, balancing, number_of};

const CLIENT_NUMBER: u8 = 4;

#[test]
fn what_comes_for_the_vip_reaches_the_nodes_own_server_and_no_other_port_of_it() {
    if !require_root() {
        return;
    }
    assert_eq!(number_of(CLIENT), CLIENT_NUMBER);
    let scene = Scene::new();
    let _node = scene.active(0);
    let kept = scene.balance(0, &[0]);
    for vip in VIPS {
        assert_eq!(scene.connect(vip).ask(), [1, CLIENT_NUMBER], "{vip}: it sees the client");
        let refused = connect(scene.client(), vip, 22).expect_err("a port that is not named");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{vip}");
        assert!(pings(scene.client(), vip, 20), "{vip}");
    }
    let shown = run(scene.node(0), "ip address", "");
    assert!(VIPS.iter().all(|vip| !shown.contains(&format!("{vip}/"))), "nothing is bound: {shown}");
    // Of no backend the guard says so.
    kept.balancer().apply(&balancing(0, &[], ClientSource::Masquerade)).unwrap();
    for vip in VIPS {
        let refused = connect(scene.client(), vip, API.port).expect_err("no backend");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{vip}");
    }
}

#[test]
fn backends_share_new_connections_and_keep_those_that_they_have() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let _node = scene.active(0);
    let kept = scene.balance(0, &[1, 2]);
    let mut connections = scene.connections(40);
    for of_family in connections.chunks_mut(40) {
        let seen: Vec<[u8; 2]> = of_family.iter_mut().map(super::scene::Connection::ask).collect();
        assert_eq!(seen.iter().collect::<BTreeSet<_>>(), [&[2, 1], &[3, 1]].into(), "both, who see the node");
    }
    let before: Vec<[u8; 2]> = connections.iter_mut().map(super::scene::Connection::ask).collect();
    kept.balancer().apply(&balancing(0, &[1], ClientSource::Masquerade)).unwrap();
    let mut new = scene.connections(20);
    assert_eq!(ask_all(&mut new), [[2, 1]].into(), "new ones are not the removed backend's");
    let after: Vec<[u8; 2]> = connections.iter_mut().map(super::scene::Connection::ask).collect();
    assert_eq!(before, after, "connections of both go on where they were");
    kept.balancer().apply(&balancing(0, &[], ClientSource::Masquerade)).unwrap();
    let at_last: Vec<[u8; 2]> = connections.iter_mut().map(super::scene::Connection::ask).collect();
    assert_eq!(before, at_last);
}

#[test]
fn the_nodes_own_server_sees_the_client_beside_others_that_do_not() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let _node = scene.active(0);
    let _kept = scene.balance(0, &[0, 1, 2]);
    let mut connections = scene.connections(60);
    for of_family in connections.chunks_mut(60) {
        assert_eq!(ask_all(of_family), [[1, CLIENT_NUMBER], [2, 1], [3, 1]].into());
    }
    // A client that is a backend itself may get itself.
    for vip in VIPS {
        let mut seen = BTreeSet::new();
        for _ in 0..60 {
            seen.insert(super::scene::Connection::open(scene.node(1), vip).unwrap().ask());
        }
        assert_eq!(seen, [[1, 2], [2, 1], [3, 1]].into(), "{vip}");
    }
}

/// What comes for the VIP by no LAN, as from a pod, is served where it comes by: it need not find the Active.
#[test]
fn a_pod_reaches_the_backends_by_its_own_node_whether_or_not_that_is_active() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let _nodes = [scene.active(0), scene.engine(1, 2)];
    let (node, pod) = (scene.node(1), Host::new());
    node.ip(&format!("link add pod0 type veth peer name eth0 netns {}", pod.tid()));
    for (host, device, id) in [(node, "pod0", 1), (&pod, "eth0", 9)] {
        host.ip(&format!("link set {device} up"));
        host.ip(&format!("addr add 198.51.100.{id}/24 dev {device}"));
        host.ip(&format!("addr add 2001:db8:1::{id}/64 dev {device} nodad"));
    }
    pod.ip("route add default via 198.51.100.1");
    pod.ip("route add default via 2001:db8:1::1");
    let kept = scene.balance(1, &[1, 2]);
    for vip in VIPS {
        let seen: BTreeSet<[u8; 2]> =
            (0..40).map(|_| super::scene::Connection::open(&pod, vip).unwrap().ask()).collect();
        assert_eq!(seen, [[2, 9], [3, 2]].into(), "{vip}");
    }
    // Of none it is not sent on to the Active.
    kept.balancer().apply(&balancing(1, &[], ClientSource::Masquerade)).unwrap();
    for vip in VIPS {
        await_some("refusal", || {
            connect(&pod, vip, API.port).err().filter(|e| e.kind() == ErrorKind::ConnectionRefused)
        });
    }
}

/// Does this again and again while the client opens connections, of which at most so many may fail.
fn connections_succeed_while(scene: &Scene, count: usize, most: usize, mut change: impl FnMut(&[usize])) {
    let mut backends = [&[1][..], &[0, 1], &[2], &[0, 1, 2], &[0]].into_iter().cycle();
    let mut changes = 0;
    let places = VIPS.map(|vip| SocketAddr::new(vip, API.port)).to_vec();
    let results = connect_while(scene.client(), count, places, || {
        change(backends.next().unwrap());
        changes += 1;
    });
    let errors: Vec<String> =
        results.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect();
    assert!(errors.len() <= most, "{errors:?} in {changes} changes");
    println!("{changes} changes, {errors:?}");
}

/// Nobody finds a moment in which a port has no backend.
#[test]
fn backends_are_exchanged_in_one_step() {
    if !require_root() {
        return;
    }
    let _turn = take_all_turns();
    let scene = Scene::new();
    let _node = scene.active(0);
    let kept = scene.balance(0, &[0]);
    connections_succeed_while(&scene, 12_000, 0, |to| {
        kept.balancer().apply(&balancing(0, to, ClientSource::Masquerade)).unwrap();
    });
}

/// So that an upgrade may bring a table that looks otherwise.
#[test]
fn a_process_that_makes_the_table_anew_does_so_in_one_step() {
    if !require_root() {
        return;
    }
    let _turn = take_all_turns();
    let scene = Scene::new();
    let _node = scene.active(0);
    drop(scene.balance(0, &[0]));
    // (One packet may be between the old table and the new one. In two steps, dozens would.)
    connections_succeed_while(&scene, 4_000, 1, |to| {
        let mut next = scene.node(0).run(|| Balancer::open(TABLE)).unwrap();
        next.apply(&balancing(0, to, ClientSource::Masquerade)).unwrap();
    });
}
