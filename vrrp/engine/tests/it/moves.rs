//! Established connections when a VIP moves: they are forwarded to the node that handed it over.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use windlass_engine::{ConnectionForwarding, Priority, RouterConfig, State};

use crate::guard::proxy::Mode;
use crate::guard::scene::{connect, listen, run};
use crate::lab::{Capture, Host, LIMIT, Lan, Node, VIP, await_some, mac, require_root, router, take_turn};
use crate::lab6::{VIP6, number, router6};
use crate::other_marks;

mod busy;
mod dead;
mod ended;
mod former_active;
mod limits;
mod ports;

const CLIENT: usize = 2;
const BACKEND: usize = 3;
const VIPS: [IpAddr; 2] = [IpAddr::V4(VIP), IpAddr::V6(VIP6)];
/// Connections of each family that are kept.
const CONNECTIONS: usize = 10;

/// Two nodes, a client, and a backend that both nodes translate to, with source addresses of their own.
struct Scene {
    lan: Lan,
}

impl Scene {
    fn new(mode: Mode) -> Self {
        let lan = Lan::new(4);
        for (n, host) in lan.hosts.iter().enumerate() {
            number(host, u16::try_from(n + 1).unwrap());
        }
        for node in &lan.hosts[..CLIENT] {
            for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                node.run(move || std::fs::write(format!("/proc/sys/net/{setting}"), "1").unwrap());
            }
            proxy(mode, node);
        }
        let listener = listen(&lan.hosts[BACKEND], 8080);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || serve(stream));
            }
        });
        Self { lan }
    }

    fn node(&self, n: usize, settings: impl Into<Option<ConnectionForwarding>>) -> Node {
        let node = self.lan.hosts[n].engine_with(|options| {
            options.guard = true;
            options.connection_forwarding = settings.into();
        });
        node.engine.apply(self.routers(n, |_| ()));
        node
    }

    /// Both nodes, the first of which is Active for both families.
    fn nodes(&self, settings: impl Into<Option<ConnectionForwarding>>) -> [Node; 2] {
        let settings = settings.into();
        let first = self.node(0, settings);
        await_active(&first, State::Active);
        let second = self.node(1, settings);
        await_some("the first node's adverts", || {
            let heard = second.engine.snapshot().iter().all(|router| router.counters.adverts_received > 1);
            heard.then_some(())
        });
        [first, second]
    }

    fn routers(&self, n: usize, change: impl Fn(&mut RouterConfig)) -> Vec<RouterConfig> {
        let mut routers = vec![router(n, 2), router6(&self.lan, n, 2)];
        for router in &mut routers {
            // As by default in Windlass.
            router.unicast_fallback = true;
            change(router);
        }
        routers
    }

    /// Makes the second node the preferred one, or no longer.
    fn prefer_second(&self, nodes: &[Node; 2], preferred: bool) {
        let priority = Priority::new(if preferred { 254 } else { 180 }).unwrap();
        nodes[1].engine.apply(self.routers(1, |router| router.priority = priority));
        let (active, backup) = if preferred { (1, 0) } else { (0, 1) };
        await_active(&nodes[active], State::Active);
        await_active(&nodes[backup], State::Backup);
    }

    fn connect(&self, vip: IpAddr) -> Connection {
        let stream = await_some("a connection", || connect(&self.lan.hosts[CLIENT], vip, 80).ok());
        Connection { stream, vip }
    }

    /// New connections are this node's.
    fn await_arrival(&self, node: u8) {
        for vip in VIPS {
            await_some("a new connection of the new Active", || {
                (self.connect(vip).ask().ok() == Some(node + 1)).then_some(())
            });
        }
    }

    fn connections(&self) -> Vec<Connection> {
        VIPS.iter().flat_map(|vip| (0..CONNECTIONS).map(|_| self.connect(*vip))).collect()
    }
}

/// Both routers of the node are in this state.
fn await_active(node: &Node, wanted: State) {
    await_some(&format!("{wanted} of both routers"), || {
        let routers = node.engine.snapshot();
        let held = routers
            .iter()
            .all(|router| router.state == wanted && (wanted != State::Active || !router.claimed.is_empty()));
        (routers.len() == 2 && held).then_some(())
    });
}

/// kube-proxy's rules for one Service of both families, with masquerading.
fn proxy(mode: Mode, node: &Host) {
    let families =
        [("ip", "iptables", VIPS[0], "192.0.2.4:8080"), ("ip6", "ip6tables", VIPS[1], "[2001:db8::4]:8080")];
    for (family, program, vip, backend) in families {
        let program = match mode {
            Mode::Nftables => {
                let script = format!(
                    "table {family} kube-proxy {{
                       chain nat-prerouting {{
                         type nat hook prerouting priority dstnat;
                         {family} daddr {vip} tcp dport 80 meta mark set meta mark | 0x4000 dnat to {backend}
                       }}
                       chain nat-postrouting {{
                         type nat hook postrouting priority srcnat;
                         meta mark & 0x4000 != 0 meta mark set meta mark ^ 0x4000 masquerade fully-random
                       }}
                     }}"
                );
                run(node, "nft -f -", &script);
                continue;
            }
            Mode::Iptables => format!("{program}-nft"),
            Mode::IptablesLegacy => format!("{program}-legacy"),
        };
        let taken = format!("-t nat -A PREROUTING -d {vip} -p tcp --dport 80");
        for rule in [
            format!("{taken} -j MARK --or-mark 0x4000"),
            format!("{taken} -j DNAT --to-destination {backend}"),
            "-t nat -A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE --random-fully".to_owned(),
            "-A FORWARD -m conntrack --ctstate INVALID -j DROP".to_owned(),
        ] {
            run(node, &format!("{program} {rule}"), "");
        }
    }
}

/// Answers each byte with the last one of the address that the connection comes from: the number of the node. Closes the connection
/// at the byte `!`.
fn serve(mut stream: TcpStream) {
    let from = match stream.peer_addr().unwrap().ip().to_canonical() {
        IpAddr::V4(from) => from.octets()[3],
        IpAddr::V6(from) => from.octets()[15],
    };
    let mut asked = [0];
    while stream.read_exact(&mut asked).is_ok() && asked != *b"!" && stream.write_all(&[from]).is_ok() {}
}

/// A connection to port 80 from this address and port.
fn connect_from(host: &Host, from: SocketAddr, vip: IpAddr) -> io::Result<TcpStream> {
    host.run(move || {
        let socket = Socket::new(Domain::for_address(from), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&from.into())?;
        socket.connect_timeout(&SocketAddr::new(vip, 80).into(), LIMIT)?;
        Ok(socket.into())
    })
}

struct Connection {
    stream: TcpStream,
    vip: IpAddr,
}

impl Connection {
    /// Asks which node the backend sees.
    fn ask(&mut self) -> io::Result<u8> {
        let mut node = [0];
        self.stream.set_read_timeout(Some(LIMIT))?;
        self.stream.write_all(b"?").and_then(|()| self.stream.read_exact(&mut node))?;
        Ok(node[0])
    }

    /// Asks again and again, each time after a pause; how often, or what broke it.
    fn ask_until(mut self, ended: &AtomicBool, pause: Duration) -> Result<u32, String> {
        let mut asked = 0;
        while !ended.load(Ordering::Relaxed) {
            self.ask().map_err(|error| format!("{} after {asked} answers: {error}", self.vip))?;
            asked += 1;
            std::thread::sleep(pause);
        }
        Ok(asked)
    }
}

fn ask_all(connections: &mut [Connection], node: u8, when: &str) {
    for connection in connections {
        let vip = connection.vip;
        assert_eq!(
            connection.ask().map_err(|error| error.to_string()),
            Ok(node),
            "{when}: a connection to {vip}"
        );
    }
}

#[test]
fn connections_go_on_when_the_active_resigns_and_new_ones_are_the_new_actives() {
    if !require_root() {
        return;
    }
    for mode in Mode::all() {
        let _turn = take_turn();
        let scene = Scene::new(mode);
        other_marks::add(&scene.lan.hosts[1]);
        let [first, second] = scene.nodes(ConnectionForwarding::default());
        let mut connections = scene.connections();
        ask_all(&mut connections, 1, "before");
        let redirects = Capture::on(&scene.lan.hosts[CLIENT]);
        first.engine.shutdown();
        await_active(&second, State::Active);
        ask_all(&mut connections, 1, &format!("after the move, {mode:?}"));
        let mut new = scene.connections();
        ask_all(&mut new, 2, &format!("begun after the move, {mode:?}"));
        ask_all(&mut connections, 1, &format!("once more, {mode:?}"));
        let status = await_some("packets counted", || {
            Some(second.engine.forwarding_status()).filter(|status| status.packets >= 20)
        });
        assert_eq!((status.addresses, status.error.as_deref()), (2, None));
        let marked = || {
            let list = |family| run(&scene.lan.hosts[1], &format!("conntrack -L -f {family} -m 16/0xf0"), "");
            list("ipv4") + &list("ipv6")
        };
        assert_eq!(marked().lines().count(), 2 * CONNECTIONS);
        other_marks::assert_kept(&scene.lan.hosts[1]);
        drop(connections);
        redirects.await_frame("an end of one of the connections", |frame| {
            assert!(!is_redirect(frame), "the client is told of another way to the VIP: {frame:x?}");
            is_fin_from_vip(frame).then_some(())
        });
        second.engine.shutdown();
        assert_eq!(marked(), "", "connections that were forwarded are forgotten");
        for family in ["-4", "-6"] {
            let rules = run(&scene.lan.hosts[1], &format!("ip {family} rule list"), "");
            assert!(!rules.contains("fwmark"), "{rules}");
        }
    }
}

/// ICMP redirect, of either version, about a VIP. (About the backend, which is on the client's LAN here, there are others.)
fn is_redirect(frame: &[u8]) -> bool {
    let at = |range: std::ops::Range<usize>| frame.get(range).unwrap_or_default();
    let v4 = at(12..14) == [0x08, 0x00] && at(23..24) == [1] && at(34..35) == [5];
    let v6 = at(12..14) == [0x86, 0xdd] && at(20..21) == [58] && at(54..55) == [137];
    v4 && at(58..62) == VIP.octets() || v6 && at(78..94) == VIP6.octets()
}

/// The last packet that a server of the VIP sends on a connection.
fn is_fin_from_vip(frame: &[u8]) -> bool {
    let at = |range: std::ops::Range<usize>| frame.get(range).unwrap_or_default();
    at(12..14) == [0x08, 0x00]
        && at(26..30) == VIP.octets()
        && at(23..24) == [6]
        && frame.get(47).is_some_and(|flags| flags & 1 != 0)
}

// shows: field-reports F-12, F-75; placement P-02
#[test]
fn connections_go_on_when_a_preferred_node_preempts_and_when_the_vip_comes_back() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new(Mode::Nftables);
    let nodes = scene.nodes(ConnectionForwarding::default());
    let mut of_first = scene.connections();
    ask_all(&mut of_first, 1, "before");
    scene.prefer_second(&nodes, true);
    ask_all(&mut of_first, 1, "after the move");
    // The VIP is announced when its connections find their way: until then the other node serves it, new ones as well.
    scene.await_arrival(1);
    let mut of_second = scene.connections();
    ask_all(&mut of_second, 2, "begun after the move");
    scene.prefer_second(&nodes, false);
    for round in ["back", "again"] {
        ask_all(&mut of_first, 1, round);
        ask_all(&mut of_second, 2, round);
    }
    scene.await_arrival(0);
    let mut new = scene.connections();
    ask_all(&mut new, 1, "begun after the way back");
}

/// Which hears each announcement only after some time: what it sends meanwhile reaches the node that was Active before.
#[test]
fn connections_go_on_though_the_client_hears_of_the_new_active_late() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new(Mode::Nftables);
    let nodes = scene.nodes(ConnectionForwarding::default());
    let (mut busy, mut idle) = (scene.connections(), scene.connections());
    ask_all(&mut busy, 1, "before");
    ask_all(&mut idle, 1, "before");
    scene.prefer_second(&nodes, true);
    ask_all(&mut busy, 1, "after the move");
    let client = &scene.lan.hosts[CLIENT];
    let second: Vec<String> = mac(&scene.lan.hosts[1]).iter().map(|byte| format!("{byte:02x}")).collect();
    for vip in VIPS {
        client.ip(&format!("neigh replace {vip} lladdr {} dev eth0 nud permanent", second.join(":")));
    }
    scene.prefer_second(&nodes, false);
    ask_all(&mut busy, 1, "sent to the node that handed them back");
    for connection in &mut idle {
        connection.stream.write_all(b"?").unwrap();
    }
    for vip in VIPS {
        client.ip(&format!("neigh del {vip} dev eth0"));
    }
    for connection in &mut idle {
        let mut node = [0];
        connection.stream.set_read_timeout(Some(LIMIT)).unwrap();
        connection.stream.read_exact(&mut node).expect("what was dropped is sent again, to the new Active");
        assert_eq!(node, [1]);
    }
}

/// As if its process were killed or frozen: it is not heard any more, nor does it hear, and it says nothing about the VIPs.
fn silence(host: &Host) {
    let rules = "table inet silence {
                   chain in { type filter hook input priority filter; meta l4proto 112 drop; }
                   chain out { type filter hook output priority filter; meta l4proto 112 drop; }
                 }
                 table arp silence {
                   chain out { type filter hook output priority filter; arp saddr ip 192.0.2.50 drop; }
                 }";
    run(host, "nft -f -", rules);
}

#[test]
fn connections_go_on_when_a_node_falls_silent_whose_kernel_lives() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new(Mode::Nftables);
    let [_first, second] = scene.nodes(ConnectionForwarding::default());
    let mut connections = scene.connections();
    silence(&scene.lan.hosts[0]);
    await_active(&second, State::Active);
    ask_all(&mut connections, 1, "after the silence");
    ask_all(&mut scene.connections(), 2, "begun after it");
}

fn assert_reset(connections: &mut [Connection], when: &str) {
    for connection in connections {
        let vip = connection.vip;
        let broken = connection.ask().map_err(|error| error.kind());
        assert_eq!(broken, Err(ErrorKind::ConnectionReset), "{when}: a connection to {vip}");
    }
}
