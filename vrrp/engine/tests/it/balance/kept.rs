//! Clients whose addresses backends on other nodes see.

use std::collections::BTreeSet;

use windlass_engine::{BalanceObstacle, Balancer, ClientSource, State};

use crate::guard::scene::{connect, run};
use crate::lab::{await_some, require_root, take_turn};
use crate::other_marks;

use super::scene::{API, Connection, Kept, Scene, TABLE, VIPS, addresses, ask_all, await_active, balancing};

const NODES: [usize; 3] = [0, 1, 2];

/// A node that balances among all, and leads answers back to the others.
fn keep(scene: &Scene, n: usize, to: &[usize]) -> Kept {
    let mut balancer = scene.node(n).run(|| Balancer::open(TABLE)).unwrap();
    let wanted = balancing(n, to, ClientSource::Keep);
    let mut balancer = scene.node(n).run(move || {
        balancer.apply(&wanted).unwrap();
        balancer
    });
    // Until the peers are known: what comes by one that is not would be answered past it.
    await_some("all peers", || {
        balancer.check().unwrap();
        balancer
            .obstacles()
            .iter()
            .all(|one| matches!(one, BalanceObstacle::NotForwarding { .. }))
            .then_some(())
    });
    Kept::new(balancer)
}

fn rules(scene: &Scene, n: usize) -> String {
    let shown = ["-4", "-6"].map(|family| run(scene.node(n), &format!("ip {family} rule list"), "")).concat();
    // Of one priority they are in the order in which they were added.
    let mut lines: Vec<&str> = shown.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

#[test]
fn backends_on_other_nodes_see_the_client_and_its_connection_works() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    for n in NODES {
        other_marks::add(scene.node(n));
    }
    let _node = scene.active(0);
    let all = NODES.map(|n| keep(&scene, n, &NODES));
    let mut connections = scene.connections(60);
    for of_family in connections.chunks_mut(60) {
        assert_eq!(ask_all(of_family), [[1, 4], [2, 4], [3, 4]].into(), "{}", of_family[0].vip);
    }
    // Not by the VIP, at the same time: the answers take the short way.
    for address in addresses(1) {
        connect(scene.client(), address, API.port).expect("the server by its own address");
    }
    // A client that is a backend itself, and may get itself.
    for vip in VIPS {
        let seen: BTreeSet<[u8; 2]> =
            (0..60).map(|_| Connection::open(scene.node(1), vip).unwrap().ask()).collect();
        assert_eq!(seen, [[1, 2], [2, 1], [3, 1]].into(), "{vip}");
    }
    all[0].set_active(true);
    for vip in VIPS {
        let seen: BTreeSet<[u8; 2]> =
            (0..60).map(|_| Connection::open(scene.node(0), vip).unwrap().ask()).collect();
        assert_eq!(seen, [[1, 1], [2, 1], [3, 1]].into(), "{vip}");
    }
    // What is no backend any more keeps what it has, and so does one whose process is another.
    all[0].balancer().apply(&balancing(0, &[1], ClientSource::Keep)).unwrap();
    let [_, second, third] = all;
    drop(second);
    drop(third);
    assert_eq!(ask_all(&mut connections), [[1, 4], [2, 4], [3, 4]].into());
    let _next = [1, 2].map(|n| keep(&scene, n, &[]));
    assert_eq!(ask_all(&mut connections), [[1, 4], [2, 4], [3, 4]].into());
    assert_eq!(ask_all(&mut scene.connections(20)), [[2, 4]].into());
    for n in NODES {
        other_marks::assert_kept(scene.node(n));
    }
}

/// What the former Active forwards to a backend, it is sent itself by the next one: both use the same marks.
#[test]
fn connections_with_their_clients_addresses_go_on_when_the_vip_moves() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new();
    let first = scene.engine(0, 2);
    await_active(&first, State::Active);
    let _kept = NODES.map(|n| keep(&scene, n, &NODES));
    let second = scene.engine(1, 2);
    await_some("the first node's adverts", || {
        let heard = second.engine.snapshot().iter().all(|router| router.counters.adverts_received > 1);
        heard.then_some(())
    });
    let mut connections = scene.connections(30);
    let before: Vec<[u8; 2]> = connections.iter_mut().map(Connection::ask).collect();
    first.engine.shutdown();
    await_active(&second, State::Active);
    for _ in 0..2 {
        let after: Vec<[u8; 2]> = connections.iter_mut().map(Connection::ask).collect();
        assert_eq!(after, before);
        assert_eq!(ask_all(&mut scene.connections(60)), [[1, 4], [2, 4], [3, 4]].into());
    }
}

#[test]
fn routing_rules_are_put_back_and_go_with_the_table() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let plain = rules(&scene, 1);
    let kept = keep(&scene, 1, &NODES);
    let own = |shown: &str| shown.lines().filter(|line| line.contains("fwmark")).count();
    let with = rules(&scene, 1);
    assert_eq!(own(&with), 4, "to two peers for each of two families: {with}");
    // Marks of other programs may have the same bits, 2 for the first node: what is no server's goes as without us.
    for (from, client) in [("192.0.2.2", "192.0.2.4"), ("2001:db8::2", "2001:db8::4")] {
        for (mark, port, is_led) in
            [("0x2", API.port, true), ("0x2", 22, false), ("0x1bd12", 22, false), ("0x2", 0, false)]
        {
            let of_port =
                if port == 0 { String::new() } else { format!(" ipproto tcp sport {port} dport 40000") };
            let route =
                run(scene.node(1), &format!("ip route get {client} from {from} mark {mark}{of_port}"), "");
            assert_eq!(route.contains(" via "), is_led, "{mark}, port {port}: {route}");
        }
    }
    for family in ["-4", "-6"] {
        run(scene.node(1), &format!("ip {family} rule del priority 80"), "");
    }
    await_some("the rules", || (rules(&scene, 1) == with).then_some(()));
    // As if it were killed: the next process takes them over, and removes what is wanted no more.
    drop(kept);
    assert_eq!(rules(&scene, 1), with);
    let mut next = scene.node(1).run(|| Balancer::open(TABLE)).unwrap();
    let mut wanted = balancing(1, &NODES, ClientSource::Keep);
    wanted.returns.peers.retain(|peer| addresses(0).contains(peer));
    let mut next = scene.node(1).run(move || {
        next.apply(&wanted).unwrap();
        next
    });
    assert_eq!(own(&rules(&scene, 1)), 2);
    next.check().unwrap();
    next.close().unwrap();
    assert_eq!(rules(&scene, 1), plain);
    for family in ["-4", "-6"] {
        let routes = run(scene.node(1), &format!("ip {family} route list table all"), "");
        assert!(!routes.contains("throw") && !routes.contains("onlink"), "{routes}");
    }
}

#[test]
fn a_peer_to_which_no_answer_could_return_is_told() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    scene.node(0).ip("route add 203.0.113.0/24 via 192.0.2.2");
    let mut balancer = scene.node(0).run(|| Balancer::open(TABLE)).unwrap();
    let [silent, far] = ["192.0.2.99", "203.0.113.7"].map(|address| address.parse().unwrap());
    let mut wanted = balancing(0, &NODES, ClientSource::Keep);
    wanted.returns.peers = [silent, far].into();
    let found = scene.node(0).run(move || {
        balancer.apply(&wanted).unwrap();
        balancer.obstacles()
    });
    let expected =
        [BalanceObstacle::PeerSilent { peer: silent }, BalanceObstacle::PeerNotOnLan { peer: far }];
    assert_eq!(found, expected);
    for (obstacle, remedy) in expected.iter().zip(["check that the peer runs", "source: Masquerade"]) {
        assert!(obstacle.to_string().contains(remedy), "{obstacle}");
    }
}
