//! Changes of peers, interfaces and the table while it is in force.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, TryRecvError};
use std::thread;

use windlass_engine::{ConnectionForwarding, SharedBy, Shares};

use crate::guard::proxy::Mode;
use crate::guard::scene::run;
use crate::lab::{address, await_some, require_root, take_turn};

use super::scene::{NODES, Scene, VIPS, answer_of, directed, shares, table};

#[test]
fn lots_of_a_peer_that_has_not_answered_are_served_where_they_arrive_until_it_does() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new();
    let mut wanted = shares(|_| 1, SharedBy::Connection);
    let silent = address(9).into();
    wanted.peers.values_mut().for_each(|peers| peers.extend([silent]));
    wanted
        .services
        .iter_mut()
        .filter(|((vip, _), _)| vip.is_ipv4())
        .for_each(|(_, share)| Arc::make_mut(share).servers[1] = silent);
    let wanted = Arc::new(wanted);
    let director = &scene.nodes[0].engine;
    director.share(Arc::clone(&wanted));
    await_some("the shares", || Arc::ptr_eq(&director.sharing_status().in_force, &wanted).then_some(()));
    assert_eq!(director.sharing_status().unknown_peers, [silent].into());
    let client = scene.connect(VIPS[0]).unwrap();
    assert_eq!(client.answer, answer_of(0, client.own));
    scene.lan.hosts[2].ip("addr add 192.0.2.10/24 dev eth0");
    await_some("the peer's answer", || director.sharing_status().unknown_peers.is_empty().then_some(()));
    let client = scene.connect(VIPS[0]).unwrap();
    assert_eq!(client.answer, answer_of(2, client.own));
}

/// The node's first table waits for a peer that does not answer.
#[test]
fn a_director_to_be_leaves_the_address_to_the_present_one_until_its_table_is_in_force() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let forwarding = Some(ConnectionForwarding::default());
    let mut scene = Scene::with(NODES, Mode::Nftables, forwarding);
    scene.share_all(&shares(|_| 2, SharedBy::Connection));
    let clients = VIPS.iter().flat_map(|vip| (0..5).map(|_| scene.connect(*vip).unwrap()));
    let mut clients: Vec<_> = clients.collect();
    scene.restart(1, forwarding);
    let mut wanted = shares(|_| 2, SharedBy::Connection);
    wanted.peers.values_mut().for_each(|peers| peers.extend([IpAddr::from(address(9))]));
    scene.nodes[1].engine.share(Arc::new(wanted));
    let (telling, told) = mpsc::channel::<()>();
    let asked = &mut clients;
    thread::scope(|scope| {
        let asking = scope.spawn(move || {
            while told.try_recv() == Err(TryRecvError::Empty) {
                for client in asked.iter_mut() {
                    assert_eq!(client.ask().unwrap(), client.answer);
                }
            }
        });
        scene.make_director(1);
        drop(telling);
        asking.join().unwrap();
    });
}

#[test]
fn what_other_programs_do_to_the_table_is_undone_and_connections_go_on() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new();
    // `flush ruleset` takes the director's kube-proxy rules, too.
    scene.share_all(&shares(|_| 1, SharedBy::Connection));
    let director = &scene.lan.hosts[0];
    let intact = plain(&table(director).unwrap());
    for damage in [
        "flush ruleset",
        "delete table netdev windlass-sharing",
        "flush chain netdev windlass-sharing from-eth0",
        "insert rule netdev windlass-sharing direct accept",
        "flush map netdev windlass-sharing lots4",
    ] {
        run(director, "nft -f -", damage);
        await_some(damage, || (plain(&table(director)?) == intact).then_some(()));
        for vip in VIPS {
            let client = scene.connect(vip).unwrap();
            assert_eq!(client.answer, answer_of(1, client.own), "{damage}");
        }
    }
}

/// Without counts, and with elements in order.
fn plain(table: &str) -> Vec<String> {
    let words = table.split_whitespace().map(|word| word.trim_end_matches(',').to_owned());
    let mut words: Vec<_> = words.filter(|word| word.parse::<u64>().is_err()).collect();
    words.sort();
    words
}

#[test]
fn an_interface_that_is_removed_and_made_anew_is_directed_again() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new();
    let (lan, director) = (&scene.lan, &scene.lan.hosts[0]);
    director.ip("link del eth0");
    await_some("the loss", || {
        let status = scene.nodes[0].engine.sharing_status();
        (status.missing_interfaces == ["eth0".to_owned()].into()).then_some(())
    });
    lan.bridge.ip(&format!("link add port0 type veth peer name eth0 netns {}", director.tid()));
    lan.bridge.ip("link set port0 master br0 up");
    director.ip("link set eth0 up");
    director.ip("addr add 192.0.2.1/24 dev eth0");
    director.ip("addr add 2001:db8::1/64 dev eth0 nodad");
    scene.elect(0);
    scene.await_director();
    // The other nodes learn its new link-layer address, too.
    for n in 0..NODES {
        await_some("the peers", || {
            let status = scene.nodes[n].engine.sharing_status();
            let is_complete = status.missing_interfaces.is_empty() && status.unknown_peers.is_empty();
            (is_complete && status.error.is_none()).then_some(())
        });
    }
    let before = directed(director);
    for vip in VIPS {
        await_some("a directed connection", || {
            let client = scene.connect(vip).ok()?;
            (client.answer == answer_of(1, client.own) && client.expected() == 1).then_some(())
        });
    }
    assert!(directed(director) > before);
}

#[test]
fn the_table_goes_with_what_is_shared_and_with_the_engine() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let mut scene = Scene::new();
    let shown = table(&scene.lan.hosts[1]).unwrap();
    assert!(shown.contains("hook ingress device \"eth0\""), "{shown}");
    scene.share(1, &Shares::default());
    let shown = table(&scene.lan.hosts[1]).unwrap();
    assert!(!shown.contains("hook ingress") && !shown.contains("elements"), "{shown}");
    scene.nodes.remove(1).engine.shutdown();
    let host = &scene.lan.hosts[1];
    assert_eq!(table(host), None);
    // One that a killed process left, of a time when addresses were shared.
    run(host, "nft -f -", "add table netdev windlass-sharing");
    let next = host.engine();
    next.engine.share(Arc::default());
    await_some("the end of what was left", || table(host).is_none().then_some(()));
}
