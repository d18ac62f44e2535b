//! Backends beyond a tunnel, as flannel lays it: whether what they answer to a VIP arrives, and what becomes of connections.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use windlass_engine::{ConnectionReplication, Engine, Heard, HostRoute, Options, RouterConfig, State};

use crate::connections::scene::{BACKEND_PORT, PORT, asked, flow, kept, kube_proxy, serve, set};
use crate::guard::scene::{connect, run};
use crate::lab::{Host, Lan, Node, VIP, address, await_some, require_root, router};
use crate::lab6::number;

const A: usize = 0;
const B: usize = 1;
const CLIENT: usize = 2;
/// The node of the backend, without an engine.
const C: usize = 3;
const NODES: [usize; 3] = [A, B, C];
/// Connections.
const MANY: usize = 10;

struct Overlay {
    lan: Lan,
    pod: Host,
}

/// The address of the node's tunnel device, from the range of its pods.
fn tunnel_end(node: usize) -> [IpAddr; 2] {
    let number = u8::try_from(node).unwrap();
    [
        Ipv4Addr::new(10, 244, number, 0).into(),
        Ipv6Addr::new(0x2001, 0xdb8, 0x244, number.into(), 0, 0, 0, 1).into(),
    ]
}

fn pod() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(10, 244, 3, 2).into(), BACKEND_PORT)
}

impl Overlay {
    /// The reverse-path filters of the nodes, of the backend's and of the others.
    fn new(there: &'static str, here: &'static str) -> Self {
        let overlay = Self { lan: Lan::new(4), pod: Host::new() };
        for (n, host) in overlay.lan.hosts.iter().enumerate() {
            number(host, u16::try_from(n + 1).unwrap());
            host.ip("link set lo up");
            set(host, "ipv4/conf/all/accept_redirects", "0");
        }
        for node in NODES {
            overlay.make_tunnel(node);
            let host = overlay.node(node);
            for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                set(host, setting, "1");
            }
            set(host, "ipv4/conf/all/rp_filter", "0");
            for setting in ["ipv4/conf/eth0/rp_filter", "ipv4/conf/vx0/rp_filter"] {
                set(host, setting, if node == C { there } else { here });
            }
            run(host, "nft -f -", &flannel(node));
        }
        overlay.make_pod();
        for node in [A, B] {
            run(overlay.node(node), "nft -f -", &kube_proxy("ip", VIP.into(), pod()));
        }
        overlay
    }

    fn make_tunnel(&self, node: usize) {
        let host = self.node(node);
        let mac = |node: usize| format!("02:00:00:00:00:0{node}");
        host.ip(&format!(
            "link add vx0 type vxlan id 1 local {} dev eth0 dstport 8472 nolearning",
            address(node)
        ));
        host.ip(&format!("link set vx0 address {}", mac(node)));
        let [end, end6] = tunnel_end(node);
        host.ip(&format!("addr add {end}/32 dev vx0"));
        host.ip(&format!("addr add {end6}/128 dev vx0 nodad"));
        host.ip("link set vx0 up");
        for other in NODES.into_iter().filter(|other| *other != node) {
            let [end, end6] = tunnel_end(other);
            for end in [end, end6] {
                host.ip(&format!("neigh add {end} lladdr {} dev vx0 nud permanent", mac(other)));
            }
            let entry = format!("bridge fdb add {} dev vx0 dst {}", mac(other), address(other));
            run(host, &entry, "");
            host.ip(&format!("route add 10.244.{other}.0/24 via {end} dev vx0 onlink"));
            host.ip(&format!("route add 2001:db8:244:{other}::/64 via {end6} dev vx0 onlink"));
        }
    }

    fn make_pod(&self) {
        let (node, pod) = (self.node(C), &self.pod);
        node.ip(&format!("link add pod0 type veth peer name eth0 netns {}", pod.tid()));
        node.ip("link set pod0 up");
        node.ip("addr add 10.244.3.1/24 dev pod0");
        pod.ip("link set eth0 up");
        pod.ip("addr add 10.244.3.2/24 dev eth0");
        pod.ip("route add default via 10.244.3.1");
        serve(pod);
    }

    fn node(&self, node: usize) -> &Host {
        &self.lan.hosts[node]
    }

    /// What the first node hears of the backend's.
    fn heard(&self) -> [Heard; 2] {
        let own: [IpAddr; 2] = [address(A).into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()];
        let mut of_families = own.into_iter().zip(tunnel_end(C)).map(|(own, host)| {
            let hosts = BTreeSet::from([host]);
            let heard = self
                .node(A)
                .run(move || Engine::ask_way_back(own, "eth0", &hosts, Duration::from_secs(1)).expect("ask"));
            heard[&host]
        });
        [of_families.next().unwrap(), of_families.next().unwrap()]
    }

    /// Both nodes, the first of them Active.
    fn start(&self, astray: &[&str]) -> Vec<Node> {
        let replicate = |options: &mut Options| {
            options.guard = true;
            options.connection_replication = Some(ConnectionReplication::default());
        };
        let nodes = [A, B].map(|node| self.node(node).engine_with(replicate));
        for (n, node) in nodes.iter().enumerate() {
            node.engine.apply(vec![Self::router(n, astray)]);
            node.await_state(if n == A { State::Active } else { State::Backup });
        }
        nodes.into()
    }

    /// That of one of the two nodes.
    fn router(node: usize, astray: &[&str]) -> RouterConfig {
        let router = router(node, 2);
        let astray = astray.iter().map(|range| range.parse().unwrap()).collect();
        RouterConfig { vip_as_source: true, replicas: router.peers.clone(), astray, ..router }
    }

    fn connections(&self) -> Vec<TcpStream> {
        (0..MANY).map(|_| connect(&self.lan.hosts[CLIENT], VIP, PORT).expect("connect")).collect()
    }
}

/// As flannel makes them for `--ip-masq`.
fn flannel(node: usize) -> String {
    let (pods, here) = ("10.244.0.0/16", format!("10.244.{node}.0/24"));
    let (pods6, here6) = ("2001:db8:244::/48", format!("2001:db8:244:{node}::/64"));
    let of_family = |family: &str, pods: &str, here: &str| {
        format!(
            "table {family} flannel {{
               chain postrtg {{
                 type nat hook postrouting priority srcnat;
                 meta mark & 0x4000 != 0 return
                 {family} saddr {here} {family} daddr {pods} return
                 {family} saddr {pods} {family} daddr {here} return
                 {family} saddr != {here} {family} daddr {here} return
                 {family} saddr {pods} masquerade fully-random
                 {family} saddr != {pods} {family} daddr {pods} masquerade fully-random
               }}
             }}\n"
        )
    };
    of_family("ip", pods, &here) + &of_family("ip6", pods6, &here6)
}

#[test]
fn a_filter_at_either_end_keeps_answers_from_arriving_outside_of_a_tunnel_and_that_is_found_by_asking() {
    if !require_root() {
        return;
    }
    let (arrives, lost) =
        (Heard { at_all: true, by_interface: true }, Heard { at_all: true, by_interface: false });
    let rows = [
        ("0", "0", arrives),
        ("2", "2", arrives),
        ("2", "0", arrives),
        ("1", "2", lost),
        ("2", "1", lost),
        ("1", "1", lost),
    ];
    for (there, here, expected) in rows {
        let overlay = Overlay::new(there, here);
        let unguarded = overlay.heard();
        assert_eq!(unguarded, [lost; 2], "masqueraded, so that it comes back by the tunnel");
        let node = overlay.node(A).engine_with(|options| options.guard = true);
        node.engine.apply(vec![router(A, 2)]);
        node.await_state(State::Active);
        // The guard is made a moment later.
        await_some("what is heard", || (overlay.heard() == [expected, arrives]).then_some(()));
        overlay.lan.pull_cable(C);
        assert_eq!(overlay.heard(), [Heard::default(); 2], "who is dead says nothing");
    }
}

#[test]
fn connections_go_on_across_a_tunnel_when_the_active_dies() {
    if !require_root() {
        return;
    }
    let overlay = Overlay::new("2", "2");
    let nodes = overlay.start(&[]);
    let streams = overlay.connections();
    assert_eq!(kept(&streams), MANY);
    let source = asked(&flow(&overlay.lan.hosts[CLIENT], VIP.into()));
    assert!(source.contains(&VIP.to_string()), "the backend answers to {source}");
    await_some("replicas", || {
        let status = nodes[B].engine.replication_status();
        status.peers.iter().any(|peer| peer.in_sync && peer.connections >= MANY).then_some(())
    });
    nodes[B].forget_events();
    overlay.lan.pull_cable(A);
    nodes[B].await_state(State::Active);
    assert_eq!(kept(&streams), MANY);
    assert_eq!(kept(&overlay.connections()), MANY, "new ones");
}

/// As without replication: the backend takes the node for its client.
#[test]
fn backends_whose_answers_would_go_astray_answer_to_the_node() {
    if !require_root() {
        return;
    }
    let overlay = Overlay::new("1", "1");
    let nodes = overlay.start(&[]);
    let is_in = |set: &str, what: &str| {
        run(overlay.node(A), &format!("nft list set inet windlass {set}"), "").contains(what).then_some(())
    };
    await_some("the VIP as the source", || is_in("movable4", &VIP.to_string()));
    let flow_of = || flow(&overlay.lan.hosts[CLIENT], VIP.into());
    let lost = flow_of();
    lost.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    lost.send(b"?").unwrap();
    assert!(lost.recv(&mut [0; 64]).is_err(), "its answer is dropped, as nobody has found out");
    nodes[A].engine.apply(vec![Overlay::router(A, &["10.244.2.0/24", "10.244.3.0/24"])]);
    await_some("what is taken out", || is_in("astray4", "10.244.2.0/23"));
    assert_eq!(kept(&overlay.connections()), MANY);
    let source = asked(&flow_of());
    let [end, _] = tunnel_end(A);
    assert!(source.contains(&format!("{end}]")) || source.starts_with(&end.to_string()), "{source}");
}

#[test]
fn the_ways_to_other_hosts_are_read_with_who_takes_packets_on() {
    if !require_root() {
        return;
    }
    let overlay = Overlay::new("0", "0");
    let node = overlay.node(A);
    // As Calico lays IP in IP: by way of the node's address on the LAN.
    node.ip("route add 10.245.0.0/26 via 192.0.2.4 dev vx0 onlink");
    let routes = node.run(|| Engine::routes().expect("read routes"));
    let route = |destination: &str, interface, gateway: Option<&str>, is_direct| {
        let gateway = gateway.map(|gateway| gateway.parse().unwrap());
        HostRoute::new(destination.parse().unwrap(), interface, gateway, is_direct)
    };
    for expected in [
        route("192.0.2.0/24", "eth0", None, true),
        route("10.244.3.0/24", "vx0", Some("10.244.3.0"), true),
        route("2001:db8:244:3::/64", "vx0", Some("2001:db8:244:3::1"), true),
        route("10.245.0.0/26", "vx0", Some("192.0.2.4"), false),
    ] {
        assert!(routes.contains(&expected), "{expected:?} in {routes:?}");
    }
    assert!(!routes.iter().any(|route| route.destination.network() == IpAddr::from(address(A))));
}
