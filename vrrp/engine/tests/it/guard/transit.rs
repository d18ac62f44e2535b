//! Packets that are no plain request: fragments, ICMP errors, packets about to expire.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

use crate::lab::{Capture, LIMIT, VIP, address, await_some, require_root};

use super::proxy::Mode;
use super::scene::{NODE, NODE6, Refused, Scene, VIP6, pings_with, refused, run};

#[test]
fn fragments_are_put_together_first() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    Mode::Nftables.serve(scene.node());
    let _guard = scene.guard();
    for vip in [IpAddr::from(VIP), VIP6.into()] {
        for host in [scene.client(), &scene.pod] {
            assert!(pings_with(host, vip, 20, 8000), "{vip}");
        }
        let ask = |port| {
            scene.client().run(move || {
                let any: IpAddr =
                    if vip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { "::".parse().unwrap() };
                let socket = UdpSocket::bind((any, 0))?;
                socket.connect(SocketAddr::new(vip, port))?;
                socket.set_read_timeout(Some(LIMIT))?;
                socket.send(&[b'?'; 8000])?;
                socket.recv(&mut [0; 64])
            })
        };
        assert_eq!(ask(53).unwrap(), 16, "{vip}: the pod echoes so much");
        assert_eq!(ask(9).unwrap_err().kind(), ErrorKind::ConnectionRefused, "{vip}");
    }
}

fn checksum(bytes: &[u8]) -> [u8; 2] {
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    (!u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap()).to_be_bytes()
}

/// "Too big" for an answer of the VIP on this connection, as a router on the way to the client sends it.
fn too_big(client: SocketAddrV4, mtu: u16) -> Vec<u8> {
    let mut answer = vec![0x45, 0, 5, 220, 0, 1, 0x40, 0, 64, 17, 0, 0];
    answer.extend(VIP.octets());
    answer.extend(client.ip().octets());
    let header = checksum(&answer);
    answer[10..12].copy_from_slice(&header);
    answer.extend(53_u16.to_be_bytes());
    answer.extend(client.port().to_be_bytes());
    answer.extend([0; 4]);
    let mut error = vec![3, 4, 0, 0, 0, 0];
    error.extend(mtu.to_be_bytes());
    error.extend(answer);
    let sum = checksum(&error);
    error[2..4].copy_from_slice(&sum);
    error
}

/// Path MTU discovery of the backends goes on.
#[test]
fn an_icmp_error_about_a_services_connection_reaches_its_backend() {
    if !require_root() {
        return;
    }
    for mode in Mode::all() {
        let scene = Scene::new();
        mode.serve(scene.node());
        let _guard = scene.guard();
        let socket = scene.client().run(|| UdpSocket::bind((address(0), 0))).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        let served = || socket.send_to(b"?", (VIP, 53)).and_then(|_| socket.recv(&mut [0; 1]));
        served().unwrap();
        let client = SocketAddrV4::new(address(0), socket.local_addr().unwrap().port());
        scene.client().run(move || {
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap();
            socket.send_to(&too_big(client, 1300), &SocketAddrV4::new(VIP, 0).into()).unwrap();
        });
        await_some("smaller path MTU", || {
            let route = run(&scene.pod, &format!("ip route get {}", client.ip()), "");
            route.contains("mtu 1300").then_some(())
        });
        served().unwrap();
    }
}

/// An error about a connection that this node does not know, as after a move, is not answered.
#[test]
fn an_icmp_error_about_nothing_known_is_dropped() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let _guard = scene.guard();
    scene.client().run(|| {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap();
        let unknown = too_big(SocketAddrV4::new(address(0), 4), 1300);
        socket.send_to(&unknown, &SocketAddrV4::new(VIP, 0).into()).unwrap();
    });
    await_some("invalid packet", || (refused(scene.node(), Refused::Invalid) == 1).then_some(()));
    assert_eq!(refused(scene.node(), Refused::Unreachable), 0);
}

/// The source of an echo request that begins with the engine's own words, if the frame is one.
fn asks_as_the_engine(frame: &[u8]) -> Option<IpAddr> {
    let at = |range: std::ops::Range<usize>| frame.get(range).unwrap_or_default();
    match (at(12..14), at(23..24), at(20..21)) {
        ([8, 0], [1], _) if at(34..35) == [8] && at(42..50) == b"windlass" => {
            <[u8; 4]>::try_from(at(26..30)).ok().map(IpAddr::from)
        }
        ([0x86, 0xdd], _, [58]) if at(54..55) == [128] && at(62..70) == b"windlass" => {
            <[u8; 16]>::try_from(at(22..38)).ok().map(IpAddr::from)
        }
        _ => None,
    }
}

#[test]
fn a_pod_that_asks_as_the_engine_does_is_masqueraded_as_others_are() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let pods = "table inet pods {
           chain masquerading {
             type nat hook postrouting priority srcnat;
             iifname pod0 oifname eth0 masquerade
           }
         }";
    run(scene.node(), "nft -f -", pods);
    let _guard = scene.guard();
    let frames = Capture::on(scene.client());
    for (client, node) in [("192.0.2.1", IpAddr::from(NODE)), ("2001:db8::1", NODE6.into())] {
        // "windlass".
        run(&scene.pod, &format!("ping -n -c 1 -W 20 -s 8 -p 77696e646c617373 {client}"), "");
        assert_eq!(frames.await_frame("the question", asks_as_the_engine), node);
    }
}
