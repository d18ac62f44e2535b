//! Ports of a client that come round again: a node knows them by other connections than those that use them now.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use windlass_engine::{ConnectionForwarding, State};

use super::{CLIENT, Connection, Scene, ask_all, assert_reset, await_active, connect_from};
use crate::guard::proxy::Mode;
use crate::guard::scene::run;
use crate::lab::{Host, await_some, require_root, take_turn};

/// As of a client that opens connections all the time: it comes by each of its ports within minutes.
#[test]
fn connections_go_on_from_ports_that_a_node_knows_by_connections_that_are_closed() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new(Mode::Nftables);
    let nodes = scene.nodes(ConnectionForwarding::default());
    let closed = closed(&scene);
    scene.prefer_second(&nodes, true);
    let mut connections = connect_again(&scene, closed);
    ask_all(&mut connections, 2, "before");
    scene.prefer_second(&nodes, false);
    ask_all(&mut connections, 2, "where each port was used before");
}

/// What the kernel took for closed would be dropped, not reset: clients would wait for minutes. (A packet that comes before the closed
/// connection is forgotten, and whose number follows on it, goes where that went: to the same server, which answers.)
#[test]
fn no_connection_waits_where_none_are_forwarded_though_the_node_knows_its_port_by_another_that_is_closed() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new(Mode::Nftables);
    let nodes = scene.nodes(None);
    let closed = closed(&scene);
    scene.prefer_second(&nodes, true);
    let mut connections = connect_again(&scene, closed);
    ask_all(&mut connections, 2, "before");
    scene.prefer_second(&nodes, false);
    for connection in &mut connections {
        let (vip, told) = (connection.vip, connection.ask().map_err(|error| error.kind()));
        let is_told = matches!(told, Ok(_) | Err(ErrorKind::ConnectionReset));
        assert!(is_told, "where each port was used before: a connection to {vip}: {told:?}");
    }
}

/// From where connections came that the server has closed, and then the client.
fn closed(scene: &Scene) -> Vec<(SocketAddr, IpAddr)> {
    let close = |mut connection: Connection| {
        connection.stream.write_all(b"!").unwrap();
        assert_eq!(connection.stream.read(&mut [0]).unwrap(), 0, "the server closes");
        (connection.stream.local_addr().unwrap(), connection.vip)
    };
    scene.connections().into_iter().map(close).collect()
}

/// From the very addresses and ports of connections that were reset: a client comes by each of its ports within minutes.
fn again(scene: &Scene, reset: Vec<Connection>) -> Vec<Connection> {
    let ports = reset.into_iter().map(|one| (one.stream.local_addr().unwrap(), one.vip)).collect();
    connect_again(scene, ports)
}

fn connect_again(scene: &Scene, ports: Vec<(SocketAddr, IpAddr)>) -> Vec<Connection> {
    let client = &scene.lan.hosts[CLIENT];
    let connections = ports.into_iter().map(|(from, vip)| {
        let stream = connect_from(client, from, vip).expect("a connection from the same port");
        Connection { stream, vip }
    });
    connections.collect()
}

#[test]
fn connections_go_on_from_ports_that_a_node_knows_by_connections_from_before_it_was_cut_off() {
    if !require_root() {
        return;
    }
    for mode in Mode::all() {
        let _turn = take_turn();
        let scene = Scene::new(mode);
        let nodes = scene.nodes(ConnectionForwarding::default());
        let (mut connections, mut idle) = (scene.connections(), scene.connections());
        ask_all(&mut connections, 1, "before");
        ask_all(&mut idle, 1, "before");
        scene.lan.pull_cable(0);
        await_active(&nodes[1], State::Active);
        assert_reset(&mut connections, "the node is dead as far as is known");
        let mut connections = again(&scene, connections);
        ask_all(&mut connections, 2, "begun elsewhere");
        scene.lan.plug_cable(0);
        await_active(&nodes[0], State::Active);
        ask_all(&mut connections, 2, &format!("where each port was used before, {mode:?}"));
        ask_all(&mut idle, 1, &format!("silent meanwhile, {mode:?}"));
    }
}

/// Packets of the connection that are far from where it has come to, as an attacker would send them: some before, some after.
fn send_out_of_place(host: &Host, connection: &Connection) {
    let (SocketAddr::V4(from), IpAddr::V4(to)) = (connection.stream.local_addr().unwrap(), connection.vip)
    else {
        return;
    };
    let segments = (0..4_u32).map(|quarter| {
        let number = (quarter << 30).to_be_bytes();
        // Length of the header, ACK, window, checksum and urgent pointer.
        let rest = [5 << 4, 0x10, 0x10, 0, 0, 0, 0, 0];
        let ports = [from.port().to_be_bytes(), 80_u16.to_be_bytes()].concat();
        let mut segment = [&ports[..], &number, &number, &rest].concat();
        let pseudo = [&from.ip().octets()[..], &to.octets(), &[0, 6, 0, 20], &segment].concat();
        let sum: u32 = pseudo.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let checksum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
        segment[16..18].copy_from_slice(&checksum.to_be_bytes());
        segment
    });
    let segments: Vec<_> = segments.collect();
    host.run(move || {
        let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::TCP)).unwrap();
        for segment in segments {
            raw.send_to(&segment, &SocketAddr::from((to, 0)).into()).unwrap();
        }
    });
}

#[test]
fn connections_go_on_whatever_comes_from_their_ports_that_does_not_fit() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new(Mode::Nftables);
    let nodes = scene.nodes(ConnectionForwarding::default());
    scene.prefer_second(&nodes, true);
    let mut connections = scene.connections();
    ask_all(&mut connections, 2, "before");
    let strays = || run(&scene.lan.hosts[1], "nft list set inet windlass strays4", "").contains("192.0.2.50");
    for connection in &connections {
        send_out_of_place(&scene.lan.hosts[CLIENT], connection);
    }
    await_some("a note of them", || strays().then_some(()));
    await_some("the end of the looks for them", || (!strays()).then_some(()));
    ask_all(&mut connections, 2, "after the strays");
}

#[test]
fn connections_of_a_node_that_is_dead_are_reset_where_the_next_knows_their_ports_by_others() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new(Mode::IptablesLegacy);
    let nodes = scene.nodes(ConnectionForwarding::default());
    scene.prefer_second(&nodes, true);
    let mut connections = scene.connections();
    ask_all(&mut connections, 2, "before");
    scene.prefer_second(&nodes, false);
    ask_all(&mut connections, 2, "after the move");
    scene.lan.pull_cable(1);
    assert_reset(&mut connections, "its node is dead");
    let mut connections = again(&scene, connections);
    ask_all(&mut connections, 1, "begun elsewhere");
    scene.lan.plug_cable(1);
    await_some("the first node's adverts", || {
        let routers = nodes[1].engine.snapshot();
        routers.iter().all(|router| router.state == State::Backup && router.active.is_some()).then_some(())
    });
    scene.lan.pull_cable(0);
    await_active(&nodes[1], State::Active);
    assert_reset(&mut connections, "its node is dead, too");
}
