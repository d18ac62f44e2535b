//! Nodes that die, return or are frozen while they share addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use windlass_engine::{ConnectionForwarding, Engine, Options, SharedBy, Shares};

use crate::body::Body;
use crate::guard::proxy::Mode;
use crate::lab::{Capture, LIMIT, address, await_some, require_root, take_turn};

use super::scene::{NODES, Scene, TcpClient, VIPS, answer_of, shares};

const MARK: &str = "WINDLASS_TEST_SERVER";
/// Connections to each address.
const CONNECTIONS: usize = 15;
/// Time for which a client waits for the answer to its first packet.
const PATIENCE: Duration = Duration::from_millis(20);

fn scene() -> Scene {
    Scene::with(NODES, Mode::Nftables, Some(ConnectionForwarding::default()))
}

/// Connections, each served by the node of its lot.
fn connections(scene: &Scene) -> Vec<TcpClient> {
    let all = VIPS.iter().flat_map(|vip| (0..CONNECTIONS).map(|_| scene.connect(*vip).unwrap()));
    let all: Vec<_> = all.collect();
    for client in &all {
        assert_eq!(client.answer, answer_of(client.expected(), client.own));
    }
    all
}

/// Pulls the cables of these nodes. Returns the times until each address is served again for clients of the last one's lots.
fn pull(scene: &Scene, nodes: &[usize]) -> Vec<Duration> {
    for node in nodes {
        scene.lan.pull_cable(*node);
    }
    let (begun, mut waiting, mut outages) = (Instant::now(), VIPS.to_vec(), Vec::new());
    while !waiting.is_empty() {
        assert!(begun.elapsed() < LIMIT, "{waiting:?} are not served");
        waiting.retain(|vip| {
            let is_served = scene.connect_to(*nodes.last().unwrap(), *vip, PATIENCE).is_ok();
            outages.extend(is_served.then(|| begun.elapsed()));
            !is_served
        });
    }
    outages
}

/// Asks all again. Those that these nodes served are lost, and no others.
fn assert_lost(clients: &mut Vec<TcpClient>, dead: &[usize]) {
    clients.retain_mut(|client| {
        let is_dead = dead.contains(&client.expected());
        let answer = client.ask().ok();
        assert_eq!(answer, (!is_dead).then(|| client.answer.clone()), "{}", client.own);
        !is_dead
    });
}

/// New connections in lots of these nodes, which others serve.
fn begin_elsewhere(scene: &Scene, dead: &[usize]) -> Vec<TcpClient> {
    let all = dead.iter().flat_map(|node| VIPS.map(|vip| (*node, vip)));
    let all = all.flat_map(|one| std::iter::repeat_n(one, 4));
    let clients = all.map(|(node, vip)| scene.connect_to(node, vip, LIMIT).unwrap());
    let clients: Vec<_> = clients.collect();
    for client in &clients {
        assert!(!dead.iter().any(|node| client.answer == answer_of(*node, client.own)), "{}", client.answer);
    }
    clients
}

/// Plugs the cables in and waits until the lots have returned. Meanwhile and afterwards these connections go on, and new ones are served by
/// the nodes of their lots.
fn plug(scene: &Scene, nodes: &[usize], clients: [&mut [TcpClient]; 2]) {
    for node in nodes {
        scene.lan.plug_cable(*node);
    }
    let mut clients: Vec<_> = clients.into_iter().flatten().collect();
    await_some("the servers' return", || {
        for client in &mut clients {
            let answer = client.ask().ok();
            assert_eq!(answer.as_ref(), Some(&client.answer), "{} of {}", client.own, client.expected());
        }
        let status = scene.nodes.iter().map(|node| node.engine.sharing_status());
        let is_back = status.into_iter().all(|one| one.silent.is_empty() && one.returning.is_empty());
        is_back.then_some(())
    });
    scene.await_director();
    drop(connections(scene));
}

#[test]
fn lots_of_nodes_that_die_are_served_by_others_and_return_to_them_and_no_other_connection_breaks() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = scene();
    for dead in [&[1][..], &[0], &[0, 1]] {
        let mut clients = connections(&scene);
        let outages = pull(&scene, dead);
        eprintln!("nodes {dead:?} died: their lots were not served for {outages:?}");
        let mut begun = begin_elsewhere(&scene, dead);
        assert_lost(&mut clients, dead);
        if dead == [1] {
            let status = scene.nodes[0].engine.sharing_status();
            assert_eq!(status.silent, addresses(1), "{status:?}");
        }
        plug(&scene, dead, [&mut clients, &mut begun]);
        forget(&scene);
    }
    let mut outages: Vec<_> = (0..6)
        .flat_map(|n| {
            let node = 1 + n % 2;
            let outages = pull(&scene, &[node]);
            scene.lan.plug_cable(node);
            forget(&scene);
            outages
        })
        .collect();
    outages.sort();
    let [first, median, last] = [0, outages.len() / 2, outages.len() - 1].map(|at| outages[at]);
    eprintln!("outages of a dead server's lots: {first:?} at least, median {median:?}, {last:?} at most");
}

/// Both addresses of a node.
fn addresses(node: usize) -> BTreeSet<IpAddr> {
    even().services.values().map(|share| share.servers[node]).collect()
}

fn even() -> Shares {
    shares(|lot| lot % NODES, SharedBy::Connection)
}

/// Has all nodes forget which died, so that none counts as flapping.
fn forget(scene: &Scene) {
    scene.share_all(&Shares::default());
    scene.share_all(&even());
}

/// Not a test of its own: the process that the test below freezes.
#[test]
#[ignore = "the body of another test's process"]
fn server_process() {
    if std::env::var_os(MARK).is_none() {
        return;
    }
    let mut options = Options::new(|_| ());
    options.guard = true;
    options.connection_forwarding = Some(ConnectionForwarding::default());
    let engine = Engine::start(options).unwrap();
    let shares = Arc::new(even());
    engine.share(Arc::clone(&shares));
    await_some("the shares", || {
        let status = engine.sharing_status();
        (Arc::ptr_eq(&status.in_force, &shares) && status.unknown_peers.is_empty()).then_some(())
    });
    println!("{MARK}");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn a_server_whose_engine_is_frozen_keeps_its_lots() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let mut scene = scene();
    scene.nodes.remove(1).engine.shutdown();
    let host = &scene.lan.hosts[1];
    let mut process = Body::start(host, "sharing::alive::server_process", MARK, "1");
    process.next();
    let mut clients = connections(&scene);
    process.signal(Signal::SIGSTOP);
    let capture = Capture::on(host);
    for _ in 0..10 {
        let asked = [address(0).octets(), address(1).octets()];
        capture.await_frame("a question of the director", |frame| {
            let is_request = frame.len() >= 42 && frame[12..14] == [8, 6] && frame[20..22] == [0, 1];
            (is_request && frame[28..32] == asked[0] && frame[38..42] == asked[1]).then_some(())
        });
    }
    let status = scene.nodes[0].engine.sharing_status();
    assert!(status.silent.is_empty() && status.returning.is_empty(), "{status:?}");
    assert_lost(&mut clients, &[]);
    for vip in VIPS {
        let client = scene.connect_to(1, vip, LIMIT).unwrap();
        assert_eq!(client.answer, answer_of(1, client.own));
    }
}
