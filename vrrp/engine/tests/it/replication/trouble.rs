//! A kernel that does not tell of connections, for a while.

use std::net::Ipv4Addr;

use windlass_engine::connections::{Connection, ConnectionKey, Tracking, Transport};

use super::*;
use crate::connections::scene::{LIFETIME, set};

const EVENTS: &str = "netfilter/nf_conntrack_events";

fn await_error(node: &Node, there: bool) {
    await_some("whether there is an error", || {
        let error = node.engine.replication_status().error.clone();
        (error.is_some_and(|error| error.contains("nf_conntrack_events")) == there).then_some(())
    });
}

#[test]
fn who_does_not_hear_of_its_connections_says_so_until_it_does_and_nobody_is_in_sync_meanwhile() {
    if !require_root() {
        return;
    }
    let scene = Scene::for_engines(Backend::OnThirdHost);
    set(scene.node(A), EVENTS, "0");
    let nodes = start(&scene, replicate);
    await_error(&nodes[A], true);
    let streams = scene.connections(MANY);
    assert_eq!(kept(&streams), 2 * MANY);
    await_some("that they hear of each other", || {
        all(&shared(&nodes[B]), |peer| peer.answers && !peer.in_sync).then_some(())
    });
    await_error(&nodes[A], true);
    set(scene.node(A), EVENTS, "1");
    await_error(&nodes[A], false);
    await_replicas(&nodes[B], MANY);
    first_node_dies(&scene, &nodes);
    assert_eq!(kept(&streams), 2 * MANY);
}

#[test]
fn a_backup_that_would_not_hear_of_its_own_connections_has_those_of_the_active() {
    if !require_root() {
        return;
    }
    let scene = Scene::for_engines(Backend::OnThirdHost);
    set(scene.node(B), EVENTS, "0");
    let nodes = start(&scene, replicate);
    await_error(&nodes[B], true);
    let streams = scene.connections(MANY);
    assert_eq!(kept(&streams), 2 * MANY);
    await_some("that the Backup has them", || {
        let all_known = |peer: &PeerReplication| peer.knows_all;
        let have = listed(&mut scene.tracking(B)).len() == 2 * MANY;
        (have && all(&shared(&nodes[A]), all_known)).then_some(())
    });
    first_node_dies(&scene, &nodes);
    assert_eq!(kept(&streams), 2 * MANY);
}

/// Has the kernel track so many connections that it has no room for replicas; what they are.
fn fill(tracking: Tracking) -> Vec<ConnectionKey> {
    // Above what replicas may use.
    const PERCENT: u8 = 92;
    let mut tracking = tracking.with_share(PERCENT);
    let room = tracking.usage().expect("usage").room(PERCENT);
    let many: Vec<Connection> = (0..u32::try_from(room).unwrap())
        .map(|number| {
            let port = u16::try_from(1024 + number % 50_000).unwrap();
            let client = (Ipv4Addr::from_bits(0xc612_0000 + number / 50_000), port).into();
            let vip = ([198, 51, 100, 9], PORT).into();
            let key = ConnectionKey { transport: Transport::Tcp, client, vip };
            Connection { key, backend: ([198, 51, 100, 10], 8080).into(), source: client }
        })
        .collect();
    tracking.insert(&many, LIFETIME).expect("insert");
    many.iter().map(|connection| connection.key).collect()
}

#[test]
fn a_backup_whose_kernel_is_full_does_not_count_until_it_has_room() {
    if !require_root() {
        return;
    }
    let _turn = one_at_a_time();
    let scene = Scene::for_engines(Backend::OnThirdHost);
    let nodes = start(&scene, replicate);
    await_replicas(&nodes[B], 0);
    let others = fill(scene.tracking(B));
    let streams = scene.connections(MANY);
    assert_eq!(kept(&streams), 2 * MANY);
    await_some("that the Active knows of it", || {
        all(&shared(&nodes[A]), |peer| peer.is_full && !peer.knows_all).then_some(())
    });
    assert!(all(&shared(&nodes[B]), |peer| !peer.in_sync));
    assert_eq!(listed(&mut scene.tracking(B)), []);
    // Room for these, and for what the node itself tracks.
    scene.tracking(B).delete(&others[..10_000]).expect("delete");
    await_some("that it has them", || {
        all(&shared(&nodes[A]), |peer| !peer.is_full && peer.knows_all).then_some(())
    });
    await_replicas(&nodes[B], MANY);
    first_node_dies(&scene, &nodes);
    assert_eq!(kept(&streams), 2 * MANY);
}
