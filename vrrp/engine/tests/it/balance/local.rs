//! What the node itself sends to a VIP.

use crate::lab::{await_some, require_root};

use super::scene::{Connection, Scene, VIPS};

#[test]
fn the_nodes_own_connections_go_to_backends_only_while_it_is_active_and_the_process_lives() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    // Another is Active, and serves by itself.
    let _node = scene.active(1);
    let _there = scene.balance(1, &[1]);
    let here = scene.balance(0, &[0]);
    let served_by = |vip| Connection::open(scene.node(0), vip).unwrap().ask();
    for vip in VIPS {
        assert_eq!(served_by(vip), [2, 1], "{vip}: by the LAN, from the node's own address");
    }
    here.set_active(true);
    for vip in VIPS {
        assert_eq!(served_by(vip), [1, 1], "{vip}: by the node itself");
    }
    here.set_active(false);
    for vip in VIPS {
        assert_eq!(served_by(vip), [2, 1], "{vip}: by the LAN again");
    }
    here.set_active(true);
    let mut lasting = VIPS.map(|vip| Connection::open(scene.node(0), vip).unwrap());
    drop(here);
    for vip in VIPS {
        await_some("a connection of the other node's", || (served_by(vip) == [2, 1]).then_some(()));
    }
    for connection in &mut lasting {
        assert_eq!(connection.ask(), [1, 1], "{}: what was begun goes on", connection.vip);
    }
}

#[test]
fn the_nodes_own_connections_are_spread_and_have_its_own_address() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let _node = scene.active(0);
    let kept = scene.balance(0, &[0, 1, 2]);
    kept.set_active(true);
    for vip in VIPS {
        let mut seen: Vec<_> = (0..60).map(|_| Connection::open(scene.node(0), vip).unwrap().ask()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [[1, 1], [2, 1], [3, 1]], "{vip}");
    }
}
