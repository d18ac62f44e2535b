//! Connections that are older than a change of who may use a VIP: they do not outlive it.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use windlass_dataplane::guard::Guarded;
use windlass_engine::{Protocol, ProtocolPort, Restrictions};

use crate::lab::{LIMIT, VIP, await_some, require_root};

use super::proxy::Mode;
use super::scene::{POD, POD6, Scene, VIP6, both_held, connect, echoes, listen, run};

/// A port of the VIPs at which the test is the server.
const TALK: ProtocolPort = ProtocolPort { protocol: Protocol::Tcp, port: 82 };
const TALK_POD: u16 = 8282;
const WEB: ProtocolPort = ProtocolPort { protocol: Protocol::Tcp, port: 80 };
const DNS: ProtocolPort = ProtocolPort { protocol: Protocol::Udp, port: 53 };
const SHORT: Duration = Duration::from_millis(200);

fn vips() -> [IpAddr; 2] {
    [VIP.into(), VIP6.into()]
}

/// Both VIPs with these restrictions of each.
fn guarded(change: impl Fn(&mut Restrictions, IpAddr)) -> Guarded {
    let mut restrictions = Restrictions::default();
    for vip in vips() {
        change(&mut restrictions, vip);
    }
    Guarded { restrictions: Arc::new(restrictions), ..both_held() }
}

fn open(restrictions: &mut Restrictions, vip: IpAddr) {
    restrictions.only_ports(vip, [TALK, WEB, DNS]);
}

fn without_the_ports(restrictions: &mut Restrictions, vip: IpAddr) {
    restrictions.only_ports(vip, [WEB]);
}

fn not_for_the_client(restrictions: &mut Restrictions, vip: IpAddr) {
    open(restrictions, vip);
    restrictions.restrict(
        vip,
        [TALK, DNS],
        ["203.0.113.0/24", "2001:db8:ffff::/48"].map(|net| net.parse().unwrap()),
    );
}

fn released(restrictions: &mut Restrictions, vip: IpAddr) {
    restrictions.end_connections(vip);
}

type Change = fn(&mut Restrictions, IpAddr);
const CHANGES: [(&str, Change); 3] =
    [("ports", without_the_ports), ("sources", not_for_the_client), ("owners", released)];

/// Has kube-proxy give port 82 of the VIPs to the pod.
fn serve_talk(scene: &Scene) {
    for (family, vip, pod) in [
        ("ip", IpAddr::from(VIP), format!("{POD}:{TALK_POD}")),
        ("ip6", VIP6.into(), format!("[{POD6}]:{TALK_POD}")),
    ] {
        let rule =
            format!("add rule {family} kube-proxy services {family} daddr {vip} tcp dport 82 dnat to {pod}");
        run(scene.node(), "nft -f -", &format!("{rule}\n"));
    }
}

/// A connection, at the client and at the pod.
fn talk(scene: &Scene, pod: &TcpListener, vip: IpAddr) -> [TcpStream; 2] {
    let client = connect(scene.client(), vip, TALK.port).unwrap();
    let server = pod.accept().unwrap().0;
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
    }
    [client, server]
}

/// What the end of a connection gets for what it says.
fn answer(mut stream: &TcpStream) -> ErrorKind {
    match stream.write_all(b"!").and_then(|()| stream.read_exact(&mut [0])) {
        Ok(()) => panic!("an answer"),
        Err(error) => error.kind(),
    }
}

// shows: threats T-09; field-reports F-83
#[test]
fn each_end_of_a_connection_is_reset_when_its_port_source_or_owner_goes() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    Mode::Nftables.serve(scene.node());
    serve_talk(&scene);
    let pod = listen(&scene.pod, TALK_POD);
    let mut guard = scene.guard();
    for (what, change) in CHANGES {
        guard.update(&guarded(open)).unwrap();
        let connections = vips().map(|vip| [talk(&scene, &pod, vip), talk(&scene, &pod, vip)]);
        guard.update(&guarded(change)).unwrap();
        for [[client, _], [_, server]] in &connections {
            assert_eq!(answer(client), ErrorKind::ConnectionReset, "{what}: the client");
            assert_eq!(answer(server), ErrorKind::ConnectionReset, "{what}: the pod");
        }
    }
}

// shows: field-reports F-83
#[test]
fn a_flow_of_udp_ends_with_its_port_source_or_owner() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    Mode::Nftables.serve(scene.node());
    let mut guard = scene.guard();
    let flows = vips().map(|vip| {
        scene.client().run(move || {
            let socket = UdpSocket::bind(SocketAddr::new(
                if vip.is_ipv4() { [0; 4].into() } else { [0; 16].into() },
                0,
            ))
            .unwrap();
            socket.connect((vip, 53)).unwrap();
            socket
        })
    });
    let ask = |flow: &UdpSocket, limit| {
        flow.set_read_timeout(Some(limit)).unwrap();
        flow.send(b"?").and_then(|_| flow.recv(&mut [0; 1])).is_ok()
    };
    for (what, change) in CHANGES {
        guard.update(&guarded(open)).unwrap();
        for flow in &flows {
            await_some("an answer", || ask(flow, LIMIT).then_some(()));
        }
        guard.update(&guarded(change)).unwrap();
        for flow in &flows {
            assert!(!ask(flow, SHORT), "{what}");
        }
    }
}

/// Gives port 80 of the VIPs to these addresses of the pod: another owner's pods, which know none of the first one's connections.
fn serve_another(scene: &Scene) {
    for (host, line) in [
        (&scene.pod, "addr add 198.51.100.3/24 dev eth0"),
        (&scene.pod, "addr add 2001:db8:1::3/64 dev eth0 nodad"),
    ] {
        host.ip(line);
    }
    for (family, vip, pod) in
        [("ip", IpAddr::from(VIP), "198.51.100.3:8080"), ("ip6", VIP6.into(), "[2001:db8:1::3]:8080")]
    {
        let rules = format!(
            "flush chain {family} kube-proxy services
             add rule {family} kube-proxy services {family} daddr {vip} tcp dport 80 dnat to {pod}\n"
        );
        run(scene.node(), "nft -f -", &rules);
    }
}

fn owned_by(owner: &[u64]) -> Arc<Restrictions> {
    let owns = |restrictions: &mut Restrictions, vip| {
        restrictions.only_ports(vip, [WEB]);
        restrictions.owned_by(vip, owner.iter().copied());
    };
    guarded(owns).restrictions
}

/// The entries of connections to the VIPs.
fn known(scene: &Scene) -> usize {
    let list = |family, vip| run(scene.node(), &format!("conntrack -L -f {family} -p tcp -d {vip}"), "");
    (list("ipv4", VIP.to_string()) + &list("ipv6", VIP6.to_string())).lines().count()
}

// shows: threats T-09; field-reports F-83
#[test]
fn a_connection_does_not_reach_the_former_owners_pods_by_the_next_owners_address() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    Mode::Nftables.serve(scene.node());
    let node = scene.node().engine_with(|options| options.guard = true);
    node.engine.restrict(owned_by(&[1]));
    let old = vips().map(|vip| connect(scene.client(), vip, 80).unwrap());
    serve_another(&scene);
    assert!(old.iter().all(echoes), "kube-proxy alone lets them go on");
    node.engine.restrict(owned_by(&[2]));
    await_some("no entry", || (known(&scene) == 0).then_some(()));
    for stream in &old {
        assert_eq!(answer(stream), ErrorKind::ConnectionReset, "by the next owner's pod");
    }
    let new = vips().map(|vip| connect(scene.client(), vip, 80).unwrap());
    node.engine.restrict(owned_by(&[2, 3]));
    assert!(new.iter().all(echoes));
}

/// The address has no virtual router any more: the guard refuses what is left of its connections all the same.
#[test]
fn connections_to_an_address_that_nobody_owns_are_reset_and_forgotten() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    Mode::Nftables.serve(scene.node());
    let node = scene.node().engine_with(|options| {
        options.guard = true;
        options.ending_notice = Duration::from_secs(1);
    });
    node.engine.restrict(owned_by(&[1]));
    let [spoken, silent] = [(); 2].map(|()| vips().map(|vip| connect(scene.client(), vip, 80).unwrap()));
    node.engine.restrict(owned_by(&[]));
    await_some("that in force", || {
        (node.engine.guard_status().enforced.of(VIP.into()).is_none()).then_some(())
    });
    let ended = || run(scene.node(), "nft list set inet windlass ended4", "").contains("192.0.2.50");
    await_some("the refusal", || ended().then_some(()));
    for stream in &spoken {
        assert_eq!(answer(stream), ErrorKind::ConnectionReset);
    }
    await_some("no entry", || (known(&scene) == 0).then_some(()));
    await_some("an end of the refusal", || (!ended()).then_some(()));
    assert!(
        silent.iter().all(|stream| stream.take_error().unwrap().is_none()),
        "who says nothing is told nothing"
    );
}
