//! A flood at the port of replication from a host that is no peer.

use std::fs;

use super::*;
use crate::flood::Flood;
use crate::flooder::Flooder;
use crate::lab::{Host, address, take_all_turns};

/// It serves as backend as well.
const THIRD: usize = 3;
/// The port as `/proc/net/udp` has it.
const PORT_IN_HEX: &str = ":2780";
/// Datagrams to each node from each source.
const FLOOD: u64 = 50_000;

/// How many datagrams the kernel of this host has refused at the port.
fn refused(host: &Host) -> u64 {
    host.run(|| {
        let table = fs::read_to_string("/proc/thread-self/net/udp").expect("sockets");
        let own = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let own = own.filter(|line| line.get(1).is_some_and(|local| local.ends_with(PORT_IN_HEX)));
        own.map(|line| line.last().unwrap().parse::<u64>().unwrap()).sum()
    })
}

// shows: threats T-16
/// In its own name, and in a peer's from beyond a router, as fast as the third host can.
#[test]
fn a_flood_from_a_third_host_is_refused_in_the_kernel_and_leaves_both_nodes_in_sync() {
    if !require_root() {
        return;
    }
    let _turn = take_all_turns();
    let scene = Scene::for_engines(Backend::OnThirdHost);
    let nodes = start(&scene, replicate);
    await_replicas(&nodes[B], 0);
    let floods: Vec<Flood> = [(A, THIRD, 255), (A, B, 64), (B, THIRD, 255), (B, A, 64)]
        .into_iter()
        .map(|(to, from, hops)| {
            let flooder = move || Flooder::replicas(address(from), address(to), hops);
            Flood::from(&scene.lan.hosts[THIRD], flooder)
        })
        .collect();
    for flood in &floods {
        flood.await_sent(FLOOD);
    }
    for host in NODES {
        // The lab's own queues lose some.
        let seen = await_some("refusals", || Some(refused(scene.node(host))).filter(|seen| *seen > FLOOD));
        println!("node {host} refused {seen}");
    }
    let streams = scene.connections(MANY);
    assert_eq!(kept(&streams), 2 * MANY);
    await_replicas(&nodes[B], MANY);
    drop(floods);
    for host in NODES {
        assert!(all(&shared(&nodes[host]), |peer| peer.refused == 0), "none of it came as far as an agent");
    }
    first_node_dies(&scene, &nodes);
    assert_eq!(kept(&streams), 2 * MANY);
}
