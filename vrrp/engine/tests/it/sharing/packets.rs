//! Packets that are not directed, or not by their own ends.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{MsgFlags, sendto};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use windlass_dataplane::sharing::Sharing;
use windlass_engine::SharedBy;

use crate::guard::scene::try_run;
use crate::lab::{Capture, Host, LIMIT, mac, require_root, take_turn};

use super::scene::{Scene, VIPS, answer_of, ask, directed, shares};

#[test]
fn a_packet_from_a_peer_is_not_directed_again_though_the_tables_contradict_each_other() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new();
    scene.share(0, &shares(|_| 1, SharedBy::Connection));
    scene.share(1, &shares(|_| 0, SharedBy::Connection));
    for vip in VIPS {
        let client = scene.connect(vip).unwrap();
        assert_eq!(client.answer, answer_of(1, client.own));
    }
    for (host, sends) in scene.lan.hosts.iter().zip([true, false]) {
        assert_eq!(directed(host) > 0, sends);
        let counted = host.run(|| Sharing::directed_packets("windlass-sharing").unwrap());
        assert_eq!(counted, directed(host), "as `nft` shows it");
    }
}

#[test]
fn a_packet_without_a_hop_left_ends_at_the_node_that_has_the_address() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new();
    let director = mac(&scene.lan.hosts[0]);
    for vip in VIPS {
        let socket = scene.socket_to(1, vip);
        let capture = Capture::on(scene.client());
        let limited = SockRef::from(&socket);
        if vip.is_ipv4() { limited.set_ttl_v4(1) } else { limited.set_unicast_hops_v6(1) }.unwrap();
        socket.send(b"?").unwrap();
        // Time exceeded.
        let sender = capture.await_frame("an ICMP error", |frame| match frame.get(12..14)? {
            [0x08, 0x00] => (frame.get(23)? == &1 && frame.get(34)? == &11).then(|| frame[6..12].to_vec()),
            [0x86, 0xdd] => (frame.get(20)? == &58 && frame.get(54)? == &3).then(|| frame[6..12].to_vec()),
            _ => None,
        });
        assert_eq!(sender, director, "{vip}");
    }
}

#[test]
fn fragments_are_served_by_the_node_that_has_the_address() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new();
    for vip in VIPS {
        let socket = scene.socket_to(1, vip);
        let own = socket.local_addr().unwrap();
        assert_eq!(ask(&socket, 4000).unwrap(), answer_of(0, own));
    }
}

/// A host beyond the client host, to which packets of at most 1,300 bytes pass. It has addresses of the LAN, for which the client host answers.
fn beyond(router: &Host) -> Host {
    let beyond = Host::new();
    router.ip(&format!("link add beyond0 mtu 1300 type veth peer name eth0 mtu 1500 netns {}", beyond.tid()));
    beyond.ip("link set eth0 up");
    router.ip("link set beyond0 up");
    for setting in [
        "ipv4/ip_forward",
        "ipv4/conf/eth0/proxy_arp",
        "ipv6/conf/all/forwarding",
        "ipv6/conf/eth0/proxy_ndp",
    ] {
        router.run(move || std::fs::write(format!("/proc/sys/net/{setting}"), "1").unwrap());
    }
    router.ip("addr add 203.0.113.1/24 dev beyond0");
    router.ip("-6 addr add fe80::1/64 dev beyond0 nodad");
    router.ip("route add 192.0.2.77/32 dev beyond0");
    router.ip("-6 route add 2001:db8::77/128 dev beyond0");
    router.ip("-6 neigh add proxy 2001:db8::77 dev eth0");
    beyond.ip("addr add 203.0.113.2/24 dev eth0");
    beyond.ip("addr add 192.0.2.77/32 dev eth0");
    beyond.ip("-6 addr add 2001:db8::77/128 dev eth0 nodad");
    // It sends no longer packets itself, and says that it takes some.
    beyond.ip("route add default via 203.0.113.1 src 192.0.2.77 mtu 1300 advmss 1460");
    beyond.ip("-6 route add default via fe80::1 dev eth0 mtu 1300 advmss 1440");
    beyond
}

#[test]
fn servers_learn_the_mtu_of_the_path_from_errors_that_the_director_receives() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new();
    let beyond = beyond(scene.client());
    for (vip, client) in VIPS.into_iter().zip(["192.0.2.77", "2001:db8::77"]) {
        for (node, pod) in scene.pods.iter().enumerate() {
            let mut client_of_node = Scene::connect_at(&beyond, node, vip, LIMIT).unwrap();
            assert_eq!(client_of_node.answer, answer_of(node, client_of_node.own));
            // Some 60,000 bytes, in full packets.
            for answer in client_of_node.ask_often(3000).unwrap() {
                assert_eq!(answer, client_of_node.answer);
            }
            let route = try_run(pod, &format!("ip route get {client}"), "").unwrap();
            assert!(route.contains("mtu 1300"), "{route}");
        }
    }
}

/// Payloads of a datagram that must not be directed, and of one that must.
const PAYLOADS: [&[u8; 9]; 2] = [b"another's", b"directed!"];

/// Sends a datagram of a lot of the second node by `first`, then another as usual: the director sends on only the second.
fn only_the_second_is_directed(scene: &Scene, vip: IpAddr, first: impl FnOnce(&UdpSocket)) {
    let director = mac(&scene.lan.hosts[0]);
    let socket = scene.socket_to(1, vip);
    let capture = Capture::on(&scene.lan.hosts[1]);
    first(&socket);
    socket.send(PAYLOADS[1]).unwrap();
    let found = capture.await_frame("a directed frame", |frame| {
        let text = PAYLOADS.into_iter().find(|text| frame.ends_with(*text))?;
        (frame[6..12] == director).then_some(text)
    });
    assert_eq!(found, PAYLOADS[1], "{vip}");
}

/// Sends the client's packets for the VIP to this link-layer address.
fn send_to(client: &Host, vip: IpAddr, mac: &[u8]) {
    let mac = mac.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":");
    client.ip(&format!("neigh replace {vip} lladdr {mac} dev eth0 nud permanent"));
}

#[test]
fn another_hosts_frame_that_a_promiscuous_node_receives_is_not_directed() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new();
    let (client, director) = (scene.client(), &scene.lan.hosts[0]);
    director.ip("link set eth0 promisc on");
    for vip in VIPS {
        only_the_second_is_directed(&scene, vip, |socket| {
            send_to(client, vip, &[2, 0, 0, 0, 0, 0x99]);
            socket.send(PAYLOADS[0]).unwrap();
            send_to(client, vip, &mac(director));
        });
    }
}

/// A frame with the tag of VLAN 5 that has the first payload.
fn tagged(from: SocketAddr, to: SocketAddr, [source, destination]: [&[u8]; 2]) -> Vec<u8> {
    let length = u16::try_from(8 + PAYLOADS[0].len()).unwrap();
    let udp = [from.port(), to.port(), length, 0].map(u16::to_be_bytes).concat();
    let (kind, ip) = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let [high, low] = (20 + length).to_be_bytes();
            let start = [0x45, 0, high, low, 0, 0, 0, 0, 64, 17, 0, 0];
            ([0x08, 0x00], with_checksum([start.as_slice(), &from.octets(), &to.octets()].concat(), 10))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let [high, low] = length.to_be_bytes();
            let start = [0x60, 0, 0, 0, high, low, 17, 64];
            ([0x86, 0xdd], [start.as_slice(), &from.octets(), &to.octets()].concat())
        }
        _ => panic!("{from} and {to}"),
    };
    [destination, source, &[0x81, 0, 0, 5], &kind, &ip, &udp, PAYLOADS[0]].concat()
}

#[test]
fn a_frame_of_a_vlan_is_not_directed_by_the_interface_that_the_vlan_is_on() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new();
    let macs = [scene.client(), &scene.lan.hosts[0]].map(mac);
    for vip in VIPS {
        only_the_second_is_directed(&scene, vip, |socket| {
            let (from, to) = (socket.local_addr().unwrap(), socket.peer_addr().unwrap());
            let frame = tagged(from, to, [&macs[0], &macs[1]]);
            scene.client().run(move || {
                let mut interfaces = getifaddrs().unwrap().filter(|one| one.interface_name == "eth0");
                let eth0 = interfaces.find_map(|one| one.address?.as_link_addr().copied()).unwrap();
                let socket = Socket::new(Domain::PACKET, Type::RAW, None).expect("packet socket");
                sendto(socket.as_raw_fd(), &frame, &eth0, MsgFlags::empty()).expect("send");
            });
        });
    }
}

/// An ICMP error about a packet of the VIP's port 80 to the client: too long for the way.
fn too_long(vip: IpAddr, client: SocketAddr) -> Vec<u8> {
    let ends = [80_u16.to_be_bytes(), client.port().to_be_bytes()].concat();
    let tcp = [ends.as_slice(), &[0; 4]].concat();
    match (vip, client.ip()) {
        (IpAddr::V4(vip), IpAddr::V4(client)) => {
            let ip = [0x45, 0, 5, 0xdc, 0, 0, 0x40, 0, 63, 6, 0, 0].into_iter();
            let ip: Vec<u8> = ip.chain(vip.octets()).chain(client.octets()).collect();
            let mut error = vec![3, 4, 0, 0, 0, 0, 5, 0x14];
            error.extend(with_checksum(ip, 10));
            error.extend(tcp);
            with_checksum(error, 2)
        }
        (IpAddr::V6(vip), IpAddr::V6(client)) => {
            let ip = [0x60, 0, 0, 0, 5, 0xb4, 6, 63].into_iter();
            // The kernel computes the checksum.
            let mut error = vec![2, 0, 0, 0, 0, 0, 5, 0x14];
            error.extend(ip.chain(vip.octets()).chain(client.octets()));
            error.extend(tcp);
            error
        }
        _ => panic!("{vip} and {client}"),
    }
}

/// Writes the Internet checksum of all at this place, which is zero.
fn with_checksum(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    let words = bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    bytes[at..at + 2].copy_from_slice(&(!u16::try_from(sum).unwrap()).to_be_bytes());
    bytes
}

/// Sends an ICMP error of the client about its connection to the VIP.
pub(super) fn send_error(scene: &Scene, vip: IpAddr, client: SocketAddr) {
    let error = too_long(vip, client);
    scene.client().run(move || {
        let (domain, protocol) =
            if vip.is_ipv4() { (Domain::IPV4, Protocol::ICMPV4) } else { (Domain::IPV6, Protocol::ICMPV6) };
        let socket = Socket::new(domain, Type::RAW, Some(protocol)).expect("raw socket");
        socket.send_to(&error, &SocketAddr::new(vip, 0).into()).expect("send");
    });
}

/// Waits until the pod receives the error.
pub(super) fn await_error(pod: &Host, send: impl FnOnce()) {
    let capture = Capture::on(pod);
    send();
    capture.await_frame("the error", |frame| match frame.get(12..14)? {
        [0x08, 0x00] => (frame.get(23)? == &1 && frame.get(34..36)? == [3, 4]).then_some(()),
        [0x86, 0xdd] => (frame.get(20)? == &58 && frame.get(54)? == &2).then_some(()),
        _ => None,
    });
}

#[test]
fn an_icmp_error_reaches_the_backend_of_the_packet_that_it_is_about() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new();
    for by in [SharedBy::Connection, SharedBy::Client] {
        for vip in VIPS {
            // The whole table leads to this node, so that both ways to share have one answer.
            scene.share_all(&shares(|_| 2, by));
            let client = scene.connect(vip).unwrap();
            assert_eq!(client.answer, answer_of(2, client.own));
            await_error(&scene.pods[2], || send_error(&scene, vip, client.own));
        }
    }
}
