//! A kernel that does not tell of connections, for a while.

use super::*;
use crate::connections::scene::set;

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
