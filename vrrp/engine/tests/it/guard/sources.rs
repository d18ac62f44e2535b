//! Who may send to which ports.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use socket2::{Domain, Protocol as Kind, Socket, Type};
use windlass_dataplane::guard::{Checked, Guarded};
use windlass_engine::{Options, Protocol, ProtocolPort, Restrictions};

use crate::lab::{Host, LIMIT, Lan, VIP, await_some, require_root, router};

use super::proxy::Mode;
use super::scene::{Scene, TABLE, VIP6, both_held, echoes, pings, run};

const WEB: ProtocolPort = ProtocolPort { protocol: Protocol::Tcp, port: 80 };
const DNS: ProtocolPort = ProtocolPort { protocol: Protocol::Udp, port: 53 };
const TUNNEL: ProtocolPort = ProtocolPort { protocol: Protocol::Sctp, port: 80 };
/// The client's address, and a second one that it has here.
const CLIENTS: [&str; 2] = ["192.0.2.1/32", "2001:db8::1/128"];
const OTHERS: [&str; 2] = ["192.0.2.77/32", "2001:db8::77/128"];
const NODES: [&str; 2] = ["192.0.2.2/32", "2001:db8::2/128"];
const NOBODY: [&str; 0] = [];
/// Long enough for an answer, where there is one.
const SHORT: Duration = Duration::from_millis(500);

fn vips() -> [IpAddr; 2] {
    [VIP.into(), VIP6.into()]
}

/// A node with a kube-proxy, and a client with two addresses. All neighbours are known: no first packet waits for them.
fn serve(mode: Mode) -> Scene {
    let scene = Scene::new();
    mode.serve(scene.node());
    scene.client().ip("addr add 192.0.2.77/24 dev eth0");
    scene.client().ip("addr add 2001:db8::77/64 dev eth0 nodad");
    for vip in vips() {
        for (host, source) in senders(&scene) {
            await_some("answer", || is_open(host, source, vip).then_some(()));
        }
    }
    scene
}

/// Who sends: the client from each of its addresses, the node.
fn senders(scene: &Scene) -> [(&Host, [&'static str; 2]); 3] {
    [(scene.client(), CLIENTS), (scene.client(), OTHERS), (scene.node(), NODES)]
}

/// Where to send from to reach this address.
fn source(ranges: [&str; 2], vip: IpAddr) -> SocketAddr {
    let range: IpNet = ranges[usize::from(vip.is_ipv6())].parse().unwrap();
    SocketAddr::new(range.addr(), 0)
}

/// Both VIPs, guarded, with these ports open to these ranges only.
fn only(ports: &[(ProtocolPort, &[&str])]) -> Guarded {
    let mut restrictions = Restrictions::default();
    for vip in vips() {
        for (port, ranges) in ports {
            restrictions.restrict(vip, [*port], ranges.iter().map(|range| range.parse::<IpNet>().unwrap()));
        }
    }
    Guarded { restrictions: Arc::new(restrictions), ..both_held() }
}

fn open(host: &Host, from: [&str; 2], vip: IpAddr) -> io::Result<TcpStream> {
    let from = source(from, vip);
    host.run(move || {
        let socket = Socket::new(Domain::for_address(from), Type::STREAM, None)?;
        socket.bind(&from.into())?;
        socket.connect_timeout(&SocketAddr::new(vip, 80).into(), SHORT)?;
        socket.set_read_timeout(Some(LIMIT))?;
        Ok(TcpStream::from(socket))
    })
}

fn is_open(host: &Host, from: [&str; 2], vip: IpAddr) -> bool {
    match open(host, from, vip) {
        Ok(stream) => echoes(&stream),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::TimedOut, "dropped, not refused: {error}");
            false
        }
    }
}

fn answers_udp(host: &Host, from: [&str; 2], vip: IpAddr) -> bool {
    let from = source(from, vip);
    host.run(move || {
        let socket = UdpSocket::bind(from).unwrap();
        socket.connect(SocketAddr::new(vip, 53)).unwrap();
        socket.set_read_timeout(Some(SHORT)).unwrap();
        // On output a datagram that is dropped ends in the system call.
        socket.send(b"?").is_ok() && socket.recv(&mut [0; 1]).is_ok()
    })
}

#[test]
fn only_the_ranges_are_let_in_over_tcp_and_udp_from_everywhere_in_every_mode_of_kube_proxy() {
    if !require_root() {
        return;
    }
    for mode in Mode::all() {
        let scene = serve(mode);
        let mut guard = scene.guard();
        // Which of the senders is let in.
        let table: [(&[&str], [bool; 3]); 5] = [
            (&CLIENTS, [true, false, false]),
            (&OTHERS, [false, true, false]),
            (&NODES, [false, false, true]),
            (&["192.0.2.0/30", "2001:db8::/126"], [true, false, true]),
            (&NOBODY, [false, false, false]),
        ];
        for (ranges, expected) in table {
            guard.update(&only(&[(WEB, ranges), (DNS, ranges)])).unwrap();
            for vip in vips() {
                let found = senders(&scene).map(|(host, from)| is_open(host, from, vip));
                assert_eq!(found, expected, "{mode:?} {vip} TCP with {ranges:?}");
                let found = senders(&scene).map(|(host, from)| answers_udp(host, from, vip));
                assert_eq!(found, expected, "{mode:?} {vip} UDP with {ranges:?}");
                assert!(pings(scene.client(), vip, 20), "{mode:?} {vip}: ping is for all");
            }
            assert_eq!(guard.full_check().unwrap(), Checked::Intact);
        }
        guard.update(&both_held()).unwrap();
        for vip in vips() {
            assert!(
                senders(&scene).iter().all(|(host, from)| is_open(host, *from, vip)),
                "{mode:?} {vip} is open"
            );
        }
    }
}

#[test]
fn a_port_without_restrictions_is_open_beside_one_that_has_them() {
    if !require_root() {
        return;
    }
    let scene = serve(Mode::Nftables);
    let mut guard = scene.guard();
    let client = scene.client();
    // Another protocol's port of the same number is another port.
    let udp80 = ProtocolPort { protocol: Protocol::Udp, port: 80 };
    guard.update(&only(&[(DNS, &NOBODY), (udp80, &NOBODY)])).unwrap();
    for vip in vips() {
        assert!(is_open(client, CLIENTS, vip) && !answers_udp(client, CLIENTS, vip), "{vip}");
    }
    guard.update(&only(&[(WEB, &OTHERS), (DNS, &CLIENTS)])).unwrap();
    for vip in vips() {
        assert!(!is_open(client, CLIENTS, vip) && answers_udp(client, CLIENTS, vip), "{vip}");
        assert!(is_open(client, OTHERS, vip) && !answers_udp(client, OTHERS, vip), "{vip}");
    }
}

#[test]
fn a_family_that_no_range_is_of_is_closed() {
    if !require_root() {
        return;
    }
    let scene = serve(Mode::Nftables);
    let mut guard = scene.guard();
    guard.update(&only(&[(WEB, &["192.0.2.0/24"])])).unwrap();
    assert!(is_open(scene.client(), CLIENTS, VIP.into()));
    assert!(!is_open(scene.client(), CLIENTS, VIP6.into()));
}

#[test]
fn a_connection_whose_source_stays_allowed_survives_every_edit_and_one_taken_off_the_list_is_cut() {
    if !require_root() {
        return;
    }
    let scene = serve(Mode::Nftables);
    let mut guard = scene.guard();
    let connections = vips().map(|vip| open(scene.client(), CLIENTS, vip).unwrap());
    let edits: [&[(ProtocolPort, &[&str])]; 5] = [
        &[(WEB, &CLIENTS)],
        &[(WEB, &["192.0.2.0/24", "2001:db8::/64"])],
        &[(WEB, &["192.0.2.0/24", "2001:db8::/64", "10.0.0.0/8"]), (DNS, &NOBODY)],
        &[(WEB, &["0.0.0.0/0", "::/0"])],
        &[],
    ];
    for round in 0..20 {
        for edit in edits {
            guard.update(&only(edit)).unwrap();
            assert!(connections.iter().all(echoes), "round {round}, {edit:?}");
        }
    }
    guard.update(&only(&[(WEB, &OTHERS)])).unwrap();
    for connection in &connections {
        connection.set_read_timeout(Some(SHORT)).unwrap();
        assert!(!echoes(connection), "who is taken off the list is kept out at once");
    }
    guard.update(&only(&[(WEB, &CLIENTS)])).unwrap();
    for vip in vips() {
        assert!(is_open(scene.client(), CLIENTS, vip));
    }
}

/// No pod speaks SCTP here: whether the first packet of a connection is dropped is counted.
#[test]
fn sctp_is_restricted_like_the_others() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let mut guard = scene.guard();
    let dropped = |what: &str| {
        let chain = run(scene.node(), &format!("nft list chain inet {TABLE} judge4"), "");
        let line = chain
            .lines()
            .find(|line| line.contains("@sources4") && line.contains("drop"))
            .expect(what)
            .to_owned();
        let (_, counted) = line.split_once("packets ").expect("a counter");
        counted.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let send = || {
        scene.client().run(|| {
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Kind::from(132))).unwrap();
            // Source port 9, destination port 80; the rest does not matter here.
            socket
                .send_to(&[0, 9, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0], &SocketAddr::new(VIP.into(), 0).into())
                .unwrap();
        });
    };
    guard.update(&only(&[(TUNNEL, &OTHERS)])).unwrap();
    send();
    await_some("dropped SCTP packet", || (dropped("rule") == 1).then_some(()));
    guard.update(&only(&[(TUNNEL, &CLIENTS)])).unwrap();
    send();
    // By the time that a ping is answered it has come.
    assert!(pings(scene.client(), VIP, 20));
    assert_eq!(dropped("rule"), 1);
}

#[test]
fn what_is_done_to_the_lists_is_noticed_and_undone() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let node = scene.node();
    let mut guard = scene.guard();
    guard.update(&only(&[(WEB, &["10.0.0.0/8", "2001:db8:5::/48"]), (DNS, &NOBODY)])).unwrap();
    assert_eq!(guard.full_check().unwrap(), Checked::Intact);
    let list = || {
        let names = ["restricted4", "restricted6", "sources4", "sources6"];
        names.map(|name| run(node, &format!("nft --json list set inet {TABLE} {name}"), "")).concat()
    };
    let intact = list();
    for text in [
        // Of what sources are looked up in, each part takes whole words: address, protocol, port, first and last source.
        r#""range": ["0xc000023206000000005000000a000000", "0xc000023206000000005000000affffff"]"#,
        "20010db8000000000000000000000050060000000050000020010db8000500000000000000000000",
        "20010db8000000000000000000000050060000000050000020010db80005ffffffffffffffffffff",
        r#"{"concat": ["192.0.2.50", "udp", 53]}"#,
    ] {
        assert!(intact.contains(text), "{text} in {intact}");
    }
    for damage in [
        "flush set inet windlass restricted4",
        "delete element inet windlass restricted6 { 2001:db8::50 . udp . 53 }",
        "add element inet windlass sources4 { 0xc00002320600000000500000c0000200-0xc00002320600000000500000c00002ff }",
        "delete element inet windlass sources4 { 0xc000023206000000005000000a000000-0xc000023206000000005000000affffff }",
        "flush set inet windlass sources6",
        "flush ruleset",
    ] {
        run(node, "nft -f -", damage);
        assert!(matches!(guard.full_check().unwrap(), Checked::Restored { .. }), "{damage}");
        assert_eq!(list(), intact, "{damage}");
    }
}

/// Addresses so many, each with so many ports that are open to so many ranges of its own.
fn wide(addresses: u32, ports: u16, ranges: u32) -> Restrictions {
    let mut all = Restrictions::default();
    for n in 0..addresses {
        let vip = Ipv4Addr::from(0xc612_0000 + n).into();
        let range =
            |at: u32| IpNet::new(Ipv4Addr::from(0x0a00_0000 + n * 0x1_0000 + 2 * at).into(), 32).unwrap();
        let ports = (1..=ports).map(|port| ProtocolPort { protocol: Protocol::Tcp, port });
        all.restrict(vip, ports, (0..ranges).map(range));
    }
    all
}

/// What restrictions take, the most that the controller of Kubernetes accepts among them: told, and that they are right.
#[test]
fn many_restrictions_are_changed_one_by_one() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let mut guard = scene.install();
    let table =
        [("10,000 ports with a range each", (5_000, 2, 1)), ("131,072 ranges at 128 ports", (8, 16, 1024))];
    for (what, (addresses, ports, ranges)) in table {
        let mut restrictions = wide(addresses, ports, ranges);
        let first = restrictions.clone();
        restrictions.restrict("198.51.100.1".parse().unwrap(), [WEB], ["192.0.2.0/24".parse().unwrap()]);
        for (step, restrictions) in
            [("all", first), ("one more", restrictions), ("none", Restrictions::default())]
        {
            let wanted = Guarded { restrictions: Arc::new(restrictions), ..Guarded::default() };
            let [start, before] = [std::time::Instant::now(), std::time::Instant::now()];
            let kernel = kernel_time();
            guard.update(&wanted).unwrap();
            let took = start.elapsed();
            let kernel = kernel_time() - kernel;
            assert_eq!(guard.full_check().unwrap(), Checked::Intact, "{what}, {step}");
            println!(
                "{what}, {step}: {took:?}, of which the kernel {kernel} ms; with a look at it {:?}",
                before.elapsed()
            );
        }
    }
}

/// Milliseconds, in steps of ten, that this thread has spent in the kernel.
fn kernel_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').nth(12).unwrap().parse::<u64>().unwrap() * 10
}

#[test]
fn the_engine_says_which_restrictions_are_in_force() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1);
    let host = &lan.hosts[0];
    let wanted = only(&[(WEB, &CLIENTS)]).restrictions;
    let node = host.engine_with(|options| options.guard = true);
    node.engine.restrict(Arc::clone(&wanted));
    await_some("restrictions", || (node.engine.guard_status().enforced == wanted).then_some(()));
    assert_eq!(node.engine.guard_status().error, None);
    node.engine.apply(vec![router(0, 1)]);
    host.run(|| std::process::Command::new("nft").args(["flush", "ruleset"]).status().expect("run `nft`"));
    await_some("the table again", || {
        let shown = host.run(|| {
            std::process::Command::new("nft")
                .args(["list", "set", "inet", "windlass", "restricted4"])
                .output()
                .expect("run `nft`")
        });
        String::from_utf8_lossy(&shown.stdout).contains("192.0.2.50 . tcp . 80").then_some(())
    });
    node.engine.shutdown();

    let node = host.engine_with(|options: &mut Options| options.guard = false);
    node.engine.restrict(wanted);
    await_some("a reason", || node.engine.guard_status().error.clone());
    assert!(node.engine.guard_status().enforced.is_empty());
}
