//! Which node serves a connection.

use std::collections::BTreeSet;

use windlass_engine::SharedBy;

use crate::guard::proxy::Mode;
use crate::guard::scene::{Refused, connect, refused};
use crate::lab::{require_root, take_turn};

use super::scene::{NODES, Scene, VIPS, answer_of, ask, expected, shares};

#[test]
fn connections_are_spread_by_lots_as_predicted_and_each_backend_sees_the_client() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    for mode in Mode::all() {
        let scene = Scene::beside(mode);
        for vip in VIPS {
            let mut served = BTreeSet::new();
            for _ in 0..30 {
                let client = scene.connect(vip).unwrap();
                assert_eq!(client.answer, answer_of(client.expected(), client.own), "{mode:?}");
                served.insert(client.expected());
            }
            assert_eq!(served.len(), NODES, "{mode:?} {vip}");
            for node in 0..NODES {
                let socket = scene.socket_to(node, vip);
                let expected = answer_of(node, socket.local_addr().unwrap());
                assert_eq!(ask(&socket, 1).unwrap(), expected, "{mode:?}");
            }
        }
    }
}

#[test]
fn all_connections_of_a_client_go_to_one_node_where_that_is_shared_by_client() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new();
    for shift in 0..NODES {
        scene.share_all(&shares(|lot| (lot + shift) % NODES, SharedBy::Client));
        for vip in VIPS {
            for _ in 0..5 {
                let client = scene.connect(vip).unwrap();
                let node = (expected(client.own, SharedBy::Client) + shift) % NODES;
                assert_eq!(client.answer, answer_of(node, client.own));
            }
        }
    }
}

#[test]
fn a_port_that_is_not_shared_is_left_to_the_guard_of_the_node_that_has_the_address() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new();
    for vip in VIPS {
        for _ in 0..6 {
            let refusal = connect(scene.client(), vip, 82).unwrap_err();
            assert_eq!(refusal.kind(), std::io::ErrorKind::ConnectionRefused, "{vip}");
        }
    }
    let counts = [0, 1, 2].map(|n| refused(&scene.lan.hosts[n], Refused::Reset));
    assert_eq!(counts, [12, 0, 0]);
}
