//! A kernel that does not tell of connections, for a while.

use windlass_kernel::connections::{Connection, ConnectionKey, Tracking, Transport};

use super::crowd::track_flows;
use super::*;
use crate::connections::scene::{LIFETIME, set};
use crate::lab::{Host, take_all_turns};

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
    let _turn = take_turn();
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
fn who_hears_of_its_connections_no_more_says_so_until_it_does() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::for_engines(Backend::OnThirdHost);
    let nodes = start(&scene, replicate);
    await_replicas(&nodes[B], 0);
    set(scene.node(A), EVENTS, "0");
    await_error(&nodes[A], true);
    await_some("that the Backup is not in sync", || {
        all(&shared(&nodes[B]), |peer| !peer.in_sync).then_some(())
    });
    let streams = scene.connections(MANY);
    assert_eq!(kept(&streams), 2 * MANY);
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
    let _turn = take_turn();
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

/// Has the kernel of a host track so many flows and connections that it has no room for replicas. The connections, without which it has room.
fn fill(host: &Host) -> Vec<ConnectionKey> {
    // Replicas may use 90.
    const FLOWS: u8 = 86;
    const ALL: u8 = 92;
    let room = |tracking: &mut Tracking, percent| tracking.usage().expect("usage").room(percent);
    let mut tracking = host.run(|| Tracking::open().expect("open connection tracking").with_share(ALL));
    track_flows(host, room(&mut tracking, FLOWS));
    host.run(move || {
        let many: Vec<Connection> = (0..u16::try_from(room(&mut tracking, ALL)).unwrap())
            .map(|number| {
                let (client, vip) =
                    (([198, 18, 0, 1], 1024 + number).into(), ([198, 51, 100, 9], PORT).into());
                let key = ConnectionKey { transport: Transport::Tcp, client, vip };
                Connection { key, backend: ([198, 51, 100, 10], 8080).into(), source: client }
            })
            .collect();
        tracking.insert(&many, LIFETIME).expect("insert");
        many.iter().map(|connection| connection.key).collect()
    })
}

#[test]
fn a_backup_whose_kernel_is_full_does_not_count_until_it_has_room() {
    if !require_root() {
        return;
    }
    let _turn = take_all_turns();
    let scene = Scene::for_engines(Backend::OnThirdHost);
    let nodes = start(&scene, replicate);
    await_replicas(&nodes[B], 0);
    let others = fill(scene.node(B));
    let streams = scene.connections(MANY);
    assert_eq!(kept(&streams), 2 * MANY);
    await_some("that the Active knows of it", || {
        all(&shared(&nodes[A]), |peer| peer.is_full && !peer.knows_all).then_some(())
    });
    assert!(all(&shared(&nodes[B]), |peer| !peer.in_sync));
    assert_eq!(listed(&mut scene.tracking(B)), []);
    scene.tracking(B).delete(&others).expect("delete");
    await_some("that it has them", || {
        all(&shared(&nodes[A]), |peer| !peer.is_full && peer.knows_all).then_some(())
    });
    await_replicas(&nodes[B], MANY);
    first_node_dies(&scene, &nodes);
    assert_eq!(kept(&streams), 2 * MANY);
}
