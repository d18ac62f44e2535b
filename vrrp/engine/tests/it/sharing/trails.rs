//! Connections and flows of lots that move: the node that has them is asked.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{self, TryRecvError};
use std::thread;

use windlass_engine::{ConnectionForwarding, LOTS, MarkMask, SharedBy, Shares};

use crate::guard::proxy::Mode;
use crate::guard::scene::run;
use crate::lab::{await_some, require_root, take_all_turns, take_turn};

use super::packets::{await_error, send_error};
use super::scene::{NODES, Scene, TcpClient, VIPS, answer_of, ask, shares_after};

/// Index of no server.
const NONE: u8 = 255;
const JOINED: u8 = 3;
const TCP: usize = 100;
const UDP: usize = 50;

/// The servers of each lot, the present one first.
struct History(Vec<Vec<u8>>);

impl History {
    fn new() -> Self {
        Self((0..NODES).cycle().take(LOTS).map(|node| vec![u8::try_from(node).unwrap()]).collect())
    }

    /// Moves lots: those of nodes that leave to others in turn, and each eighth to each node that joins.
    fn moved(&mut self, leave: &[u8], join: &[u8], stay: &[u8]) {
        let mut heirs = stay.iter().cycle();
        for (lot, servers) in self.0.iter_mut().enumerate() {
            let joins = join.iter().find(|node| lot % 8 == usize::from(**node)).copied();
            let server = joins.or_else(|| leave.contains(&servers[0]).then(|| *heirs.next().unwrap()));
            if let Some(server) = server {
                servers.retain(|former| *former != server);
                servers.insert(0, server);
            }
        }
    }

    /// The servers at this place of each lot.
    fn at(&self, place: usize) -> [u8; LOTS] {
        let servers = self.0.iter().map(|servers| servers.get(place).copied().unwrap_or(NONE));
        servers.collect::<Vec<_>>().try_into().unwrap()
    }
}

/// Shares with all lots at one node, after these ones.
fn all_at(server: u8, former: &[u8], by: SharedBy) -> Shares {
    let former: Vec<_> = former.iter().map(|node| [*node; LOTS]).collect();
    shares_after(NODES, [server; LOTS], &former, by)
}

/// Connections and flows that live, each with its first answer.
struct Clients {
    tcp: Vec<TcpClient>,
    udp: Vec<(UdpSocket, String)>,
}

impl Clients {
    /// Opens these numbers of connections and flows to each VIP.
    fn new(scene: &Scene, tcp: usize, udp: usize) -> Self {
        let tcp = VIPS.iter().flat_map(|vip| (0..tcp).map(|_| scene.connect(*vip).unwrap()));
        let flow = |(vip, n)| {
            let socket = scene.socket_to(n % NODES, vip);
            let answer = ask(&socket, 1).unwrap();
            (socket, answer)
        };
        let flows = VIPS.iter().flat_map(|vip| (0..udp).map(move |n| (*vip, n)));
        Self { tcp: tcp.collect(), udp: flows.map(flow).collect() }
    }

    /// Asks all again; the ones that another node answers or none are lost. How many are left.
    fn ask(&mut self) -> [usize; 2] {
        self.tcp.retain_mut(|client| client.ask().is_ok_and(|answer| answer == client.answer));
        self.udp.retain(|(socket, first)| ask(socket, 1).is_ok_and(|answer| answer == *first));
        [self.tcp.len(), self.udp.len()]
    }
}

/// Changes nodes and directors; how many connections and flows are left after each step.
fn kept(with_former: bool) -> Vec<[usize; 2]> {
    let scene = Scene::with(4, Mode::Nftables, Some(ConnectionForwarding::default()));
    let mut history = History::new();
    let mut clients = Clients::new(&scene, TCP, UDP);
    let mut step = |leave: &[u8], join: &[u8], stay: &[u8], director, first: usize| {
        history.moved(leave, join, stay);
        let former: Vec<_> = (1..4).map(|place| history.at(place)).collect();
        let former = if with_former { former } else { Vec::new() };
        let shares = Arc::new(shares_after(4, history.at(0), &former, SharedBy::Connection));
        if let Some(director) = director {
            scene.make_director(director);
        }
        // One node after the other, while clients send.
        let ((telling, told), asking) = (mpsc::channel::<()>(), &mut clients);
        thread::scope(|scope| {
            scope.spawn(move || {
                while told.try_recv() == Err(TryRecvError::Empty) {
                    asking.ask();
                }
            });
            for n in 0..4 {
                scene.nodes[(first + n) % 4].engine.share(Arc::clone(&shares));
            }
            (0..4).for_each(|n| scene.await_shares(n, &shares));
            drop(telling);
        });
        clients.ask()
    };
    vec![
        step(&[], &[JOINED], &[], None, 0),
        step(&[1], &[], &[0, 2, JOINED], None, 1),
        step(&[], &[], &[], Some(2), 2),
        step(&[], &[1], &[], None, 3),
        step(&[0, 2], &[], &[1, JOINED], None, 2),
        step(&[], &[0, 2], &[], Some(1), 1),
    ]
}

#[test]
fn connections_and_flows_keep_their_server_when_nodes_join_and_leave_and_the_director_changes() {
    if !require_root() {
        return;
    }
    let _turn = take_all_turns();
    let with = kept(true);
    eprintln!("kept with former servers, TCP and UDP after each step: {with:?}");
    assert_eq!(with, [[2 * TCP, 2 * UDP]; 6]);
    let without = kept(false);
    eprintln!("kept without: {without:?}");
    assert!(without[5] < [2 * TCP, 2 * UDP], "nothing has moved");
}

/// By the hash, about half of the lots ask that server first.
#[test]
fn a_former_server_without_endpoints_passes_on_the_connections_of_others() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    for mode in Mode::all() {
        let scene = Scene::with(NODES, mode, Some(ConnectionForwarding::default()));
        let all = |server, former: &[u8]| all_at(server, former, SharedBy::Connection);
        scene.share_all(&all(2, &[]));
        let mut clients = Clients::new(&scene, TCP / 5, UDP / 5);
        scene.share_all(&all(1, &[2]));
        mode.serve_nothing(&scene.lan.hosts[1]);
        scene.share_all(&all(0, &[1, 2]));
        for client in &mut clients.tcp {
            assert_eq!(client.ask().unwrap(), client.answer, "{mode:?}");
        }
        for (socket, first) in &clients.udp {
            assert_eq!(ask(socket, 1).unwrap(), *first, "{mode:?}");
        }
        let new = Clients::new(&scene, TCP / 5, UDP / 5);
        let answers =
            new.tcp.iter().map(|client| &client.answer).chain(new.udp.iter().map(|(_, answer)| answer));
        for answer in answers {
            assert!(answer.starts_with("0 "), "{mode:?}: {answer}");
        }
    }
}

/// The director asks each server again and again, so that the kernel does not find out by itself.
#[test]
fn connections_that_the_director_passes_on_are_reset_when_their_node_dies() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::with(NODES, Mode::Nftables, Some(ConnectionForwarding::default()));
    scene.share_all(&all_at(1, &[], SharedBy::Connection));
    let mut clients = Clients::new(&scene, TCP / 5, 0);
    let mut even = [0; LOTS];
    (0..LOTS).for_each(|lot| even[lot] = u8::try_from(lot % NODES).unwrap());
    scene.share_all(&shares_after(NODES, even, &[[1; LOTS]], SharedBy::Connection));
    for client in &mut clients.tcp {
        assert_eq!(client.ask().unwrap(), client.answer);
    }
    // The first node directs. It forgets a node to which it has passed nothing.
    clients.tcp.retain(|client| client.expected() == 0);
    let director = &scene.nodes[0].engine;
    await_some("the packets' count", || (director.forwarding_status().packets > 0).then_some(()));
    scene.lan.pull_cable(1);
    for client in &mut clients.tcp {
        let error = client.ask().map_err(|error| error.kind());
        assert!(
            matches!(error, Err(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)),
            "{}: {error:?}",
            client.own
        );
    }
}

/// The former servers still know the closed connections from the same ports.
#[test]
fn connections_from_reused_ports_keep_their_server_when_their_lots_move() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::with(NODES, Mode::Nftables, Some(ConnectionForwarding::default()));
    let all = |server, former: &[u8]| all_at(server, former, SharedBy::Connection);
    scene.share_all(&all(2, &[]));
    let any = |vip: &IpAddr| match vip {
        IpAddr::V4(_) => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
        IpAddr::V6(_) => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
    };
    let clients =
        VIPS.iter().flat_map(|vip| (0..TCP / 5).map(|_| scene.connect_from(any(vip), *vip).unwrap()));
    let clients: Vec<_> = clients.collect();
    let ends: Vec<_> = clients.iter().map(|client| client.own).collect();
    let close = |client: TcpClient| client.close().expect("its server closes it, too");
    let (before, after): (Vec<_>, Vec<_>) = clients.into_iter().partition(|client| client.own.port() % 4 < 2);
    before.into_iter().for_each(close);
    scene.share_all(&all(1, &[2]));
    after.into_iter().for_each(close);
    let again = ends.into_iter().map(|own| {
        let vip = VIPS.into_iter().find(|vip| vip.is_ipv4() == own.is_ipv4()).unwrap();
        await_some("a connection from the same port", || scene.connect_from(own, vip).ok())
    });
    let mut again: Vec<_> = again.collect();
    for shares in [all(0, &[1, 2]), all(2, &[0, 1])] {
        scene.share_all(&shares);
        for client in &mut again {
            assert_eq!(client.ask().unwrap(), client.answer);
        }
    }
}

#[test]
fn a_client_whose_connections_are_shared_by_its_address_keeps_them_when_its_lot_moves() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::with(NODES, Mode::Nftables, Some(ConnectionForwarding::default()));
    let all = |server, former: &[u8]| all_at(server, former, SharedBy::Client);
    scene.share_all(&all(2, &[]));
    let mut clients: Vec<_> = VIPS.iter().map(|vip| scene.connect(*vip).unwrap()).collect();
    scene.share_all(&all(1, &[2]));
    for client in &mut clients {
        assert_eq!(client.ask().unwrap(), answer_of(2, client.own));
    }
    for vip in VIPS {
        let new = scene.connect(vip).unwrap();
        assert_eq!(new.answer, answer_of(1, new.own));
    }
}

#[test]
fn an_icmp_error_follows_the_connection_that_it_is_about_to_a_former_server() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::with(NODES, Mode::Nftables, Some(ConnectionForwarding::default()));
    for by in [SharedBy::Connection, SharedBy::Client] {
        for vip in VIPS {
            scene.share_all(&shares_after(NODES, [2; LOTS], &[], by));
            let client = scene.connect(vip).unwrap();
            scene.share_all(&shares_after(NODES, [1; LOTS], &[[2; LOTS]], by));
            await_error(&scene.pods[2], || send_error(&scene, vip, client.own));
        }
    }
}

#[test]
fn of_more_former_servers_than_marks_the_status_names_those_that_are_not_asked() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let marks = MarkMask::new(0x10).unwrap();
    let scene =
        Scene::with(NODES, Mode::Nftables, Some(ConnectionForwarding { marks, ..Default::default() }));
    scene.share_all(&shares_after(NODES, [2; LOTS], &[], SharedBy::Connection));
    let mut at_third = scene.connect(VIPS[0]).unwrap();
    scene.share_all(&shares_after(NODES, [1; LOTS], &[[2; LOTS], [0; LOTS]], SharedBy::Connection));
    let status = scene.nodes[1].engine.sharing_status();
    assert_eq!(status.without_mark.len(), 2, "one of each family: {status:?}");
    let shown = run(&scene.lan.hosts[1], "nft list table inet windlass", "");
    assert!(shown.contains("goto pass4") && shown.contains("goto pass-errors6"), "{shown}");
    // A node asks those that it has a mark for, and resets what they do not know.
    let kept = at_third.ask().is_ok();
    assert_eq!(kept, !status.without_mark.contains(&crate::lab::source(2)));
    scene.share_all(&shares_after(NODES, [1; LOTS], &[], SharedBy::Connection));
    assert_eq!(scene.nodes[1].engine.sharing_status().without_mark, [].into());
    for map in ["next4", "next6", "sticky4", "sticky6"] {
        let shown = run(&scene.lan.hosts[1], &format!("nft list map inet windlass {map}"), "");
        assert!(!shown.contains("elements"), "{shown}");
    }
}
