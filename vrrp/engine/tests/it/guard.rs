//! What the guard does to packets, and that it stays.

mod ended;
mod keep;
mod ports;
pub(crate) mod proxy;
pub(crate) mod scene;
mod sources;
mod transit;

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use windlass_dataplane::guard::Guarded;
use windlass_engine::Restrictions;

use crate::lab::{Host, LIMIT, VIP, await_some, require_root};
use proxy::Mode;
use scene::{
    NODE, NODE6, POD, POD_PORT, POD6, Refused, Scene, VIP6, ask_udp, both_held, connect, connect_within,
    echoes, listen, pings, refused,
};

/// The VIPs, and the node's own address of the same family.
const BOTH: [(IpAddr, IpAddr); 2] =
    [(IpAddr::V4(VIP), IpAddr::V4(NODE)), (IpAddr::V6(VIP6), IpAddr::V6(NODE6))];

fn refusal<T: std::fmt::Debug>(result: std::io::Result<T>) -> ErrorKind {
    result.expect_err("refused").kind()
}

#[test]
fn an_echo_request_to_a_vip_is_answered() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    for (vip, _) in BOTH {
        assert!(!pings(scene.client(), vip, 1), "without a guard nobody answers for {vip}");
    }
    // As Backup too: a packet that still comes here after a failover is answered.
    let backup = Guarded { held: [].into(), ..both_held() };
    let mut guard = scene.install();
    for guarded in [backup, both_held()] {
        guard.update(&guarded).unwrap();
        for (vip, _) in BOTH {
            assert!(pings(scene.client(), vip, 20), "{vip} with {guarded:?}");
            assert!(pings(&scene.pod, vip, 20), "{vip} from a pod with {guarded:?}");
        }
    }
    for (vip, _) in BOTH {
        assert!(pings(scene.node(), vip, 20), "{vip} from the Active itself");
    }
}

#[test]
fn a_vip_whose_packets_are_routed_here_is_guarded_without_a_virtual_router() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let server = scene.node().engine_with(|options| options.guard = true);
    let mut restrictions = Restrictions::default();
    for (vip, _) in BOTH {
        restrictions.guard_routed(vip);
    }
    server.engine.restrict(Arc::new(restrictions));
    for (vip, _) in BOTH {
        await_some("answer to ping", || pings(scene.client(), vip, 1).then_some(()));
        assert_eq!(refusal(connect(scene.client(), vip, 9)), ErrorKind::ConnectionRefused, "{vip}");
    }
    server.engine.restrict(Arc::default());
    for (vip, _) in BOTH {
        await_some("end of the guard", || (!pings(scene.client(), vip, 1)).then_some(()));
    }
}

/// What is refused is not remembered (kubernetes #136213: a flow that began while nothing served it was never served).
#[test]
fn a_udp_flow_that_was_refused_is_served_when_a_service_takes_it() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let _guard = scene.guard();
    let flows = [IpAddr::from(VIP), VIP6.into()].map(|vip| {
        let socket = scene.client().run(move || {
            let any: IpAddr = if vip.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
            let socket = UdpSocket::bind((any, 0))?;
            socket.connect((vip, 53))?;
            socket.set_read_timeout(Some(LIMIT))?;
            std::io::Result::Ok(socket)
        });
        (vip, socket.unwrap())
    });
    let ask = |socket: &UdpSocket| socket.send(b"?").and_then(|_| socket.recv(&mut [0; 1]));
    for (vip, socket) in &flows {
        assert_eq!(refusal(ask(socket)), ErrorKind::ConnectionRefused, "{vip}");
    }
    Mode::Nftables.serve(scene.node());
    for (vip, socket) in &flows {
        assert_eq!(ask(socket).unwrap(), 1, "{vip}");
    }
}

#[test]
fn a_vip_that_is_the_first_address_of_the_interface_answers_echo_requests() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let node = scene.node();
    for line in
        ["addr flush dev eth0", "addr add 192.0.2.50/24 dev eth0", "addr add 2001:db8::50/64 dev eth0 nodad"]
    {
        node.ip(line);
    }
    let _guard = scene.guard();
    let _server = listen(node, 22);
    for (vip, _) in BOTH {
        assert!(pings(scene.client(), vip, 20), "{vip}");
        assert_eq!(refusal(connect(scene.client(), vip, 22)), ErrorKind::ConnectionRefused, "{vip}");
    }
}

// shows: rfc9568 T24
#[test]
fn a_port_that_no_service_has_is_refused_at_the_first_packet() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let _guard = scene.guard();
    for (vip, _) in BOTH {
        let before = [refused(scene.node(), Refused::Reset), refused(scene.node(), Refused::Unreachable)];
        for host in [scene.client(), &scene.pod] {
            // UDP first: the kernel's redirect for the TCP packet would use up its limit of ICMP for this host and second.
            assert_eq!(refusal(ask_udp(host, vip, 9)), ErrorKind::ConnectionRefused, "UDP to {vip}");
            assert_eq!(refusal(connect(host, vip, 9)), ErrorKind::ConnectionRefused, "TCP to {vip}");
        }
        let after = [refused(scene.node(), Refused::Reset), refused(scene.node(), Refused::Unreachable)];
        assert_eq!(after, before.map(|count| count + 2), "{vip}");
        // The node's own: its datagrams end in the system call.
        assert_eq!(refusal(connect(scene.node(), vip, 9)), ErrorKind::ConnectionRefused, "TCP to {vip}");
        assert_eq!(refusal(ask_udp(scene.node(), vip, 9)), ErrorKind::PermissionDenied, "UDP to {vip}");
    }
}

#[test]
fn services_go_on_beside_the_guard_in_every_mode_of_kube_proxy() {
    if !require_root() {
        return;
    }
    for mode in Mode::all() {
        let scene = Scene::new();
        mode.serve(scene.node());
        let rules = mode.rules(scene.node());
        let vips = BOTH.map(|(vip, _)| vip);
        let older = vips.map(|vip| connect(scene.client(), vip, 80).unwrap());
        assert!(older.iter().all(echoes));

        let mut guard = scene.guard();
        let younger = vips.map(|vip| connect(scene.client(), vip, 80).unwrap());
        assert!(older.iter().chain(&younger).all(echoes), "{mode:?}");
        for vip in vips {
            assert!(echoes(&connect(scene.node(), vip, 80).unwrap()), "{mode:?} from the node to {vip}");
            assert_eq!(ask_udp(scene.client(), vip, 53).unwrap(), 1, "{mode:?} {vip}");
            assert_eq!(
                refusal(connect(scene.client(), vip, 9)),
                ErrorKind::ConnectionRefused,
                "{mode:?} {vip}"
            );
            assert!(pings(scene.client(), vip, 20), "{mode:?} {vip}");
            // What kube-proxy drops on purpose is not refused: the client finds the next Active when it retries.
            let limit = Duration::from_millis(300);
            let dropped = refusal(connect_within(scene.client(), vip, 81, limit));
            assert_eq!(dropped, ErrorKind::TimedOut, "{mode:?} {vip}");
        }
        guard.update(&Guarded::default()).unwrap();
        assert!(older.iter().chain(&younger).all(echoes), "{mode:?}");
        guard.update(&both_held()).unwrap();
        assert!(older.iter().chain(&younger).all(echoes), "{mode:?}");
        assert_eq!(mode.rules(scene.node()), rules, "another's rules are untouched");
        guard.remove().unwrap();
        assert!(older.iter().chain(&younger).all(echoes), "{mode:?}");
        assert_eq!(mode.rules(scene.node()), rules, "another's rules are untouched");
    }
}

#[test]
fn a_packet_that_is_out_of_place_in_its_connection_is_not_answered_with_a_reset() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    Mode::Nftables.serve(scene.node());
    let _guard = scene.guard();
    let connection = connect(scene.client(), VIP, 80).unwrap();
    let port = connection.local_addr().unwrap().port();
    // Of this connection, but with a wrong checksum: connection tracking calls it invalid and translates nothing.
    let mut segment = [0; 20];
    segment[..2].copy_from_slice(&port.to_be_bytes());
    segment[2..4].copy_from_slice(&80_u16.to_be_bytes());
    segment[12] = 5 << 4;
    segment[13] = 0x10;
    segment[16..18].copy_from_slice(&[0xde, 0xad]);
    scene.client().run(move || {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::TCP)).unwrap();
        socket.send_to(&segment, &SocketAddrV4::new(VIP, 0).into()).unwrap();
    });
    await_some("invalid packet", || (refused(scene.node(), Refused::Invalid) == 1).then_some(()));
    assert_eq!(refused(scene.node(), Refused::Reset), 0);
    assert!(echoes(&connection));
}

// shows: field-reports F-59
#[test]
fn a_server_of_the_host_is_not_reachable_on_a_vip() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let (client, node) = (scene.client(), scene.node());
    let _server = listen(node, 22);
    let guard = scene.guard();
    let check = |hosts: &[&Host], bound: &str| {
        for (vip, own) in BOTH {
            for host in hosts {
                assert_eq!(refusal(connect(host, vip, 22)), ErrorKind::ConnectionRefused, "{vip}, {bound}");
                connect(host, own, 22).unwrap();
            }
        }
    };
    check(&[client, node, &scene.pod], "on no interface");
    node.ip("addr add 192.0.2.50/32 dev eth0");
    node.ip("addr add 2001:db8::50/128 dev eth0 nodad");
    // The node connects from the VIP to itself: the reset is for the VIP too.
    check(&[client, node, &scene.pod], "on the interface");
    guard.remove().unwrap();
    for (vip, _) in BOTH {
        connect(client, vip, 22).unwrap();
    }
}

#[test]
fn a_connection_to_a_host_server_ends_when_its_address_becomes_a_guarded_vip() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    scene.node().ip("addr add 192.0.2.50/32 dev eth0");
    let _server = listen(scene.node(), 22);
    let connection = connect(scene.client(), VIP, 22).unwrap();
    let _guard = scene.guard();
    assert!(!echoes(&connection));
    assert!(refused(scene.node(), Refused::Reset) > 0);
}

#[test]
fn what_is_not_for_a_vip_is_not_touched() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    scene.client().ip("route add 198.51.100.0/24 via 192.0.2.2");
    scene.client().ip("route add 2001:db8:1::/64 via 2001:db8::2");
    let _server = listen(scene.node(), 22);
    let guard = scene.guard();
    for (own, pod) in [(IpAddr::V4(NODE), IpAddr::V4(POD)), (NODE6.into(), POD6.into())] {
        assert!(pings(scene.client(), own, 20) && pings(scene.client(), pod, 20));
        connect(scene.client(), own, 22).unwrap();
        assert!(echoes(&connect(scene.client(), pod, POD_PORT).unwrap()), "forwarded to {pod}");
        assert_eq!(refusal(connect(scene.client(), own, 9)), ErrorKind::ConnectionRefused);
        assert_eq!(refusal(ask_udp(scene.client(), own, 9)), ErrorKind::ConnectionRefused);
    }
    assert_eq!(
        refused(scene.node(), Refused::Reset) + refused(scene.node(), Refused::Unreachable),
        0,
        "by the guard"
    );
    drop(guard);
}

// shows: rfc9568 T17
/// A bound VIP's neighbour is looked up by unicast now and then: that must not be refused.
#[test]
fn neighbour_discovery_of_a_vip_on_the_interface_is_answered() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let (client, node) = (scene.client(), scene.node());
    node.ip("addr add 2001:db8::50/128 dev eth0 nodad");
    let _guard = scene.guard();
    // From stale to reachable: only an answer to a unicast solicitation brings it there.
    client.ip(&format!("neigh change {VIP6} dev eth0 nud stale"));
    connect(client, VIP6, 9).unwrap_err();
    client.ip(&format!("neigh change {VIP6} dev eth0 nud probe"));
    await_some("reachable neighbour", || {
        let found = scene::run(client, &format!("ip -6 neigh show {VIP6} dev eth0"), "");
        found.contains("REACHABLE").then_some(())
    });
}
