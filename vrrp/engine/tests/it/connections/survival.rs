//! What goes on when another node has the VIP.

use windlass_kernel::connections::{Blocking, Inserted, Transport};

use super::scene::{
    A, B, Backend, LIFETIME, Scene, VIPS, all_new, asked, await_listed, echoes, kept, key_of, listed,
};
use crate::lab::{await_some, require_root};

/// Connections of each family.
const MANY: usize = 10;

#[test]
fn connections_to_a_backend_on_a_third_host_go_on_where_they_were_inserted() {
    if !require_root() {
        return;
    }
    let scene = Scene::new(Backend::OnThirdHost);
    let streams = scene.connections(MANY);
    assert_eq!(kept(&streams), 2 * MANY);
    let connections = await_listed(&mut scene.tracking(A), 2 * MANY);
    let mut keys: Vec<_> = streams.iter().map(key_of).collect();
    keys.sort_unstable();
    assert_eq!(connections.iter().map(|connection| connection.key).collect::<Vec<_>>(), keys);
    for connection in &connections {
        assert_eq!(connection.backend, scene.backend(connection.key.vip.ip()));
        assert_eq!(connection.source.ip(), connection.key.vip.ip(), "translated to the VIP");
    }

    let mut second = scene.tracking(B);
    assert!(all_new(&second.insert(&connections, LIFETIME)));
    assert_eq!(listed(&mut second), connections, "as they were");
    scene.first_node_dies();
    assert_eq!(kept(&streams), 2 * MANY);
    // What a window that nobody told the kernel of lets through.
    assert!(streams.iter().take(2).all(|stream| echoes(stream, 8 << 20)), "a fast transfer");
    assert_eq!(kept(&scene.connections(1)), 2, "new ones");
}

#[test]
fn connections_that_were_not_inserted_end() {
    if !require_root() {
        return;
    }
    let scene = Scene::new(Backend::OnThirdHost);
    let streams = scene.connections(MANY);
    assert_eq!(kept(&streams), 2 * MANY);
    scene.first_node_dies();
    assert_eq!(kept(&streams), 0);
    assert_eq!(kept(&scene.connections(1)), 2, "new ones");
}

#[test]
fn connections_to_a_backend_on_the_next_node_take_the_place_of_the_forwarded_ones() {
    if !require_root() {
        return;
    }
    let scene = Scene::new(Backend::OnSecondNode);
    let streams = scene.connections(MANY);
    assert_eq!(kept(&streams), 2 * MANY);
    let connections = await_listed(&mut scene.tracking(A), 2 * MANY);
    let mut second = scene.tracking(B);
    let outcomes = second.insert(&connections, LIFETIME).expect("insert");
    assert_eq!(outcomes, vec![Inserted::Clash(Blocking::Forwarded); 2 * MANY]);
    assert_eq!(kept(&streams), 2 * MANY, "as long as the first node has the VIPs");

    // Before the address is announced, as a hold thread does: what a client says before that (the kernel may acknowledge the last answer
    // late) would be given another port, which the backend resets.
    scene.lan.pull_cable(A);
    assert!(all_new(&second.replace(&connections, LIFETIME)));
    scene.move_to(B);
    assert_eq!(kept(&streams), 2 * MANY);
    assert!(streams.iter().take(2).all(|stream| echoes(stream, 8 << 20)), "a fast transfer");
    assert_eq!(listed(&mut second), connections);
}

#[test]
fn udp_flows_go_on_too() {
    if !require_root() {
        return;
    }
    let scene = Scene::new(Backend::OnThirdHost);
    let flows = scene.flows(2);
    let mut first = scene.tracking(A);
    // The kernel takes a flow for lasting when it has gone both ways for two seconds.
    let (known, connections) = await_some("assured flows", || {
        let known: Vec<String> = flows.iter().map(asked).collect();
        Some((known, listed(&mut first))).filter(|(_, connections)| connections.len() == 4)
    });
    assert!(connections.iter().all(|connection| connection.key.transport == Transport::Udp));
    assert!(all_new(&scene.tracking(B).insert(&connections, LIFETIME)));
    scene.first_node_dies();
    assert_eq!(flows.iter().map(asked).collect::<Vec<_>>(), known, "the same to the backend");
    assert!(VIPS.iter().all(|vip| known.iter().any(|source| source.contains(&vip.to_string()))));
}

#[test]
fn connections_go_back_to_a_node_that_lives_again() {
    if !require_root() {
        return;
    }
    let scene = Scene::new(Backend::OnThirdHost);
    let streams = scene.connections(2);
    let connections = await_listed(&mut scene.tracking(A), 4);
    let mut second = scene.tracking(B);
    assert!(all_new(&second.insert(&connections, LIFETIME)));
    scene.first_node_dies();
    assert_eq!(kept(&streams), 4);
    let later = scene.connections(2);
    assert_eq!(kept(&later), 4);
    scene.lan.plug_cable(A);
    let all = await_listed(&mut second, 8);
    let outcomes = scene.tracking(A).insert(&all, LIFETIME).expect("insert");
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Inserted::New).count(), 4);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Inserted::Present).count(), 4, "{outcomes:?}");
    scene.move_to(A);
    assert_eq!(kept(&streams) + kept(&later), 8);
}
