//! Connections that are forwarded, and whose port or address is no Service's any more.

use std::sync::Arc;

use windlass_engine::{ConnectionForwarding, Protocol, ProtocolPort, Restrictions};

use super::{CLIENT, Scene, VIPS, ask_all, assert_reset};
use crate::guard::proxy::Mode;
use crate::guard::scene::run;
use crate::lab::{Node, await_some, require_root, take_turn};

/// The VIPs with this port and these owners.
fn restricted(port: u16, owners: &[u64]) -> Arc<Restrictions> {
    let mut restrictions = Restrictions::default();
    for vip in VIPS {
        restrictions.only_ports(vip, [ProtocolPort { protocol: Protocol::Tcp, port }]);
        restrictions.owned_by(vip, owners.iter().copied());
    }
    Arc::new(restrictions)
}

/// Has both nodes enforce these, and waits until this set of theirs has this element.
fn restrict(scene: &Scene, nodes: &[Node; 2], restrictions: &Arc<Restrictions>, set: &str, element: &str) {
    for node in nodes {
        node.engine.restrict(Arc::clone(restrictions));
    }
    for host in &scene.lan.hosts[..CLIENT] {
        let list = || run(host, &format!("nft list set inet windlass {set}"), "");
        await_some(element, || list().contains(element).then_some(()));
    }
}

// shows: threats T-09; field-reports F-83
#[test]
fn connections_that_are_forwarded_end_with_their_port_and_with_the_owner_of_their_address() {
    if !require_root() {
        return;
    }
    let changes = [(restricted(443, &[1]), "ports6", "443"), (restricted(80, &[]), "ended6", "2001:db8::50")];
    for (restrictions, set, element) in changes {
        let _turn = take_turn();
        let scene = Scene::new(Mode::Nftables);
        let nodes = scene.nodes(ConnectionForwarding::default());
        restrict(&scene, &nodes, &restricted(80, &[1]), "ports6", "tcp . 80");
        let mut connections = scene.connections();
        ask_all(&mut connections, 1, "before");
        scene.prefer_second(&nodes, true);
        ask_all(&mut connections, 1, "after the move");
        restrict(&scene, &nodes, &restrictions, set, element);
        assert_reset(&mut connections, set);
    }
}
