//! Engines that tell each other connections: what goes on when the Active dies.

use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use windlass_engine::auth::{AntiReplay, AuthMode, Authentication, KeyId, Keyring, Window};
use windlass_engine::{
    ConnectionForwarding, ConnectionReplication, Options, PeerReplication, Priority, Protocol, ProtocolPort,
    Restrictions, RouterConfig, State,
};

use crate::connections::scene::{A, B, Backend, PORT, Scene, VIPS, asked, echoes, kept, key_of, listed};
use crate::guard::scene::run;
use crate::lab::{Node, await_some, interval, require_root, router, take_turn};
use crate::lab6::router6;

mod audience;
mod crowd;
mod flood;
mod planned;
mod trouble;

/// Connections of each family.
const MANY: usize = 10;
const NODES: [usize; 2] = [A, B];

/// The virtual routers of a node: of each family one. Each of the two is the other's replica.
fn routers(scene: &Scene, host: usize) -> Vec<RouterConfig> {
    [router(host, NODES.len()), router6(&scene.lan, host, NODES.len())]
        .map(|router| RouterConfig { vip_as_source: true, replicas: router.peers.clone(), ..router })
        .into()
}

fn replicate(options: &mut Options) {
    options.guard = true;
    options.connection_replication = Some(ConnectionReplication::default());
}

fn replicate_and_forward(options: &mut Options) {
    replicate(options);
    options.connection_forwarding = Some(ConnectionForwarding::default());
}

/// Waits until the node is that in both of its virtual routers.
fn await_states(node: &Node, state: State) {
    for _ in VIPS {
        node.await_state(state);
    }
}

/// Both nodes, the first of them Active.
fn start(scene: &Scene, change: impl Fn(&mut Options)) -> Vec<Node> {
    let nodes: Vec<Node> = NODES.iter().map(|host| scene.node(*host).engine_with(&change)).collect();
    for host in NODES {
        nodes[host].engine.apply(routers(scene, host));
        await_states(&nodes[host], if host == A { State::Active } else { State::Backup });
    }
    nodes
}

/// What the node shares, by the family of the peer's address.
fn shared(node: &Node) -> [Option<PeerReplication>; 2] {
    let status = node.engine.replication_status();
    assert_eq!(status.error, None);
    [true, false].map(|v4| status.peers.iter().find(|peer| peer.peer.is_ipv4() == v4).cloned())
}

/// Whether there is a peer of each family, and this holds of both.
fn all(peers: &[Option<PeerReplication>; 2], holds: impl Fn(&PeerReplication) -> bool) -> bool {
    peers.iter().all(|peer| peer.as_ref().is_some_and(&holds))
}

/// Waits until the node knows so many connections of each family.
fn await_replicas(node: &Node, of_each: usize) {
    let mut seen = None;
    await_some("replicas", || {
        let now = shared(node);
        if seen.as_ref() != Some(&now) {
            // Shown where the wait is in vain.
            println!("wanted are {of_each} of each family: {now:?}");
            seen = Some(now.clone());
        }
        all(&now, |peer| peer.in_sync && peer.connections == of_each).then_some(())
    });
}

/// Opens connections, and waits until the second node knows them.
fn replicated(scene: &Scene, nodes: &[Node]) -> Vec<TcpStream> {
    let streams = scene.connections(MANY);
    assert_eq!(kept(&streams), 2 * MANY);
    await_replicas(&nodes[B], MANY);
    streams
}

/// Waits until new connections are this node's: an address that is handed over is announced a moment later.
fn await_arrival(scene: &Scene, node: usize) {
    let mut tracking = scene.tracking(node);
    // All are open until then: the end of one that began in the moment of the move may pass by the other node alone.
    let mut streams = Vec::new();
    for vip in VIPS {
        await_some("a new connection", || {
            let stream = scene.connect(vip);
            let key = key_of(&stream);
            streams.push(stream);
            tracking.are_open(&[key]).expect("look").contains(&true).then_some(())
        });
    }
}

fn first_node_dies(scene: &Scene, nodes: &[Node]) {
    nodes[B].forget_events();
    scene.lan.pull_cable(A);
    await_states(&nodes[B], State::Active);
}

/// It hands over, and lives.
fn drain_first_node(scene: &Scene, nodes: &[Node]) {
    let low = |router| RouterConfig { priority: Priority::new(1).unwrap(), ..router };
    nodes[B].forget_events();
    nodes[A].engine.apply(routers(scene, A).into_iter().map(low).collect());
    await_states(&nodes[B], State::Active);
}

#[test]
fn connections_go_on_when_the_active_dies_wherever_their_backend_is_that_lives() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    for backend in [Backend::OnThirdHost, Backend::OnSecondNode, Backend::OfSecondNode] {
        let scene = Scene::for_engines(backend);
        let nodes = start(&scene, replicate);
        let streams = replicated(&scene, &nodes);
        first_node_dies(&scene, &nodes);
        assert_eq!(kept(&streams), 2 * MANY, "{backend:?}");
        assert!(streams.iter().take(2).all(|stream| echoes(stream, 8 << 20)), "a fast transfer, {backend:?}");
        assert_eq!(kept(&scene.connections(1)), 2, "new ones, {backend:?}");
    }
}

/// Has the guard of a node keep out who is not let in, and what is for no port.
fn guard_ports_and_sources(node: &Node) {
    let mut restrictions = Restrictions::default();
    for vip in VIPS {
        let port = |protocol| ProtocolPort { protocol, port: PORT };
        restrictions.only_ports(vip, [port(Protocol::Tcp)]);
        let clients = ["192.0.2.3/32", "2001:db8::3/128"].map(|range| range.parse().unwrap());
        restrictions.restrict(vip, [port(Protocol::Tcp)], clients);
    }
    let wanted = Arc::new(restrictions);
    node.engine.restrict(Arc::clone(&wanted));
    await_some("restrictions", || (node.engine.guard_status().enforced == wanted).then_some(()));
}

/// Backends answer to the VIP all the same.
#[test]
fn with_ports_and_source_ranges_guarded_they_go_on_too() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    for backend in [Backend::OnThirdHost, Backend::OnSecondNode] {
        let scene = Scene::for_engines(backend);
        let nodes = start(&scene, replicate);
        nodes.iter().for_each(guard_ports_and_sources);
        let streams = replicated(&scene, &nodes);
        first_node_dies(&scene, &nodes);
        assert_eq!(kept(&streams), 2 * MANY, "{backend:?}");
    }
}

// shows: threats T-09; field-reports F-83
/// As all nodes do when the Service is deleted.
#[test]
fn what_outlived_a_node_ends_with_the_owner_of_its_address() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::for_engines(Backend::OnThirdHost);
    let nodes = start(&scene, replicate);
    let owned = |owners: &[u64]| {
        let mut restrictions = Restrictions::default();
        for vip in VIPS {
            restrictions.owned_by(vip, owners.iter().copied());
        }
        for node in &nodes {
            node.engine.restrict(Arc::new(restrictions.clone()));
        }
    };
    owned(&[1]);
    let streams = replicated(&scene, &nodes);
    first_node_dies(&scene, &nodes);
    assert_eq!(kept(&streams), 2 * MANY);
    owned(&[]);
    let ended = || run(scene.node(B), "nft list set inet windlass ended6", "").contains("2001:db8::50");
    await_some("the refusal", || ended().then_some(()));
    assert_eq!(kept(&streams), 0);
}

#[test]
fn they_go_on_through_a_drain_and_back_and_when_the_next_node_dies_too() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    // What has its backend on the second node is told by the first only: of the second it is forwarded to, or dies with it.
    for (backend, told_by_second, told_by_first) in [
        (Backend::OnThirdHost, 2 * MANY, 2 * MANY),
        (Backend::OnSecondNode, 0, MANY),
        (Backend::OfSecondNode, 0, MANY),
    ] {
        drained_taken_back_and_dead(backend, told_by_second, told_by_first);
    }
}

/// Its cable was out so long that it has begun anew with its peers.
#[test]
fn a_node_that_was_cut_off_tells_its_connections_again_once_it_is_back() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::for_engines(Backend::OnThirdHost);
    let nodes = start(&scene, replicate);
    let streams = replicated(&scene, &nodes);
    first_node_dies(&scene, &nodes);
    assert_eq!(kept(&streams), 2 * MANY);
    // A switch begins anew, say: the connections that it has taken over are nowhere else.
    nodes[B].forget_events();
    scene.lan.pull_cable(B);
    await_states(&nodes[B], State::Initialize);
    scene.lan.plug_cable(B);
    await_states(&nodes[B], State::Active);
    assert_eq!(kept(&streams), 2 * MANY, "after a moment without a carrier");
    nodes[A].forget_events();
    scene.lan.plug_cable(A);
    await_states(&nodes[A], State::Active);
    await_arrival(&scene, A);
    let more = scene.connections(MANY);
    assert_eq!((kept(&streams), kept(&more)), (2 * MANY, 2 * MANY));
    await_replicas(&nodes[B], 2 * MANY);
    first_node_dies(&scene, &nodes);
    assert_eq!((kept(&streams), kept(&more)), (2 * MANY, 2 * MANY));
}

fn drained_taken_back_and_dead(backend: Backend, told_by_second: usize, told_by_first: usize) {
    let scene = Scene::for_engines(backend);
    let nodes = start(&scene, replicate_and_forward);
    let streams = replicated(&scene, &nodes);
    drain_first_node(&scene, &nodes);
    assert_eq!(kept(&streams), 2 * MANY, "after a drain, {backend:?}");
    await_arrival(&scene, B);
    let more = scene.connections(MANY);
    assert_eq!(kept(&more), 2 * MANY);
    await_replicas(&nodes[A], told_by_second);
    // It takes them back.
    nodes[A].forget_events();
    nodes[A].engine.apply(routers(&scene, A));
    await_states(&nodes[A], State::Active);
    assert_eq!((kept(&streams), kept(&more)), (2 * MANY, 2 * MANY), "taken back, {backend:?}");
    await_arrival(&scene, A);
    assert_eq!((kept(&streams), kept(&more)), (2 * MANY, 2 * MANY), "and later, {backend:?}");
    await_replicas(&nodes[B], told_by_first);
    first_node_dies(&scene, &nodes);
    assert_eq!((kept(&streams), kept(&more)), (2 * MANY, 2 * MANY), "after its death, {backend:?}");
    // What ends, ends on every node.
    drop(more);
    let mut tracking = scene.tracking(B);
    await_some("the end", || (listed(&mut tracking).len() == 2 * MANY).then_some(()));
}

/// As when its Node is deleted, or the Announcement wants no replication any more.
#[test]
fn what_outlived_a_node_goes_on_when_there_is_nobody_left_to_tell() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::for_engines(Backend::OnThirdHost);
    let nodes = start(&scene, replicate);
    let streams = replicated(&scene, &nodes);
    first_node_dies(&scene, &nodes);
    let alone = |router| RouterConfig { replicas: [].into(), vip_as_source: false, ..router };
    nodes[B].engine.apply(routers(&scene, B).into_iter().map(alone).collect());
    await_some("no peer", || nodes[B].engine.replication_status().peers.is_empty().then_some(()));
    assert_eq!(kept(&streams), 2 * MANY);
}

#[test]
fn flows_of_udp_go_on_with_the_source_that_the_backend_knows() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::for_engines(Backend::OnThirdHost);
    let nodes = start(&scene, replicate);
    let flows = scene.flows(2);
    for flow in &flows {
        // What is lost in a takeover is said again.
        flow.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    }
    let before = await_some("lasting flows", || {
        let sources: Vec<String> = flows.iter().map(asked).collect();
        all(&shared(&nodes[B]), |peer| peer.in_sync && peer.connections == 2).then_some(sources)
    });
    first_node_dies(&scene, &nodes);
    assert_eq!(flows.iter().map(asked).collect::<Vec<_>>(), before);
}

// shows: threats T-16
/// Half of the datagrams between the nodes lost, each way, and what a stranger and a liar send besides.
#[test]
fn they_go_on_though_datagrams_are_lost_and_forged() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::for_engines(Backend::OnThirdHost);
    for host in NODES {
        let lost = "table inet loss {
               chain loss {
                 type filter hook input priority -300;
                 udp dport 10112 numgen random mod 2 == 0 drop
               }
             }";
        run(scene.node(host), "nft -f -", lost);
    }
    let nodes = start(&scene, replicate);
    let stranger = scene.client().run(|| UdpSocket::bind(("192.0.2.3", 10112)).unwrap());
    let liar = scene.node(A).run(|| UdpSocket::bind(("192.0.2.1", 10113)).unwrap());
    let streams = scene.connections(MANY);
    assert_eq!(kept(&streams), 2 * MANY);
    for number in 0..200_u16 {
        let nonsense: Vec<u8> = (0..number * 7).map(|at| (at * 31 + number).to_be_bytes()[1]).collect();
        for socket in [&stranger, &liar] {
            socket.send_to(&nonsense, "192.0.2.2:10112").unwrap();
        }
    }
    await_replicas(&nodes[B], MANY);
    first_node_dies(&scene, &nodes);
    assert_eq!(kept(&streams), 2 * MANY);
}

// shows: threats T-16
#[test]
fn who_does_not_have_the_key_is_told_nothing_and_not_believed() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::for_engines(Backend::OnThirdHost);
    let nodes = start(&scene, replicate);
    let authentication = |secret: &str| {
        let key = format!("hex:{}", secret.repeat(32)).parse().unwrap();
        let keyring = Keyring::new(KeyId::new(1).unwrap(), key);
        Some(Authentication {
            keyring,
            mode: AuthMode::Enforce,
            anti_replay: AntiReplay::Window(Window::for_interval(interval())),
        })
    };
    let apply = |secrets: [&str; 2]| {
        for host in NODES {
            let with_key = |router| RouterConfig { authentication: authentication(secrets[host]), ..router };
            nodes[host].engine.apply(routers(&scene, host).into_iter().map(with_key).collect());
        }
    };
    apply(["17", "17"]);
    let streams = scene.connections(MANY);
    assert_eq!(kept(&streams), 2 * MANY);
    await_replicas(&nodes[B], MANY);
    apply(["17", "42"]);
    await_some("refused datagrams", || all(&shared(&nodes[B]), |peer| peer.refused > 0).then_some(()));
    let refused = || all(&shared(&nodes[B]), |peer| !peer.in_sync).then_some(());
    await_some("no claim to be in sync", refused);
}

#[test]
fn without_replication_they_end() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::for_engines(Backend::OnThirdHost);
    let nodes = start(&scene, |options| options.guard = true);
    let streams = scene.connections(MANY);
    assert_eq!(kept(&streams), 2 * MANY);
    first_node_dies(&scene, &nodes);
    assert_eq!(kept(&streams), 0);
}

/// The thread sleeps until then.
#[test]
fn replication_begins_when_it_is_wanted() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::for_engines(Backend::OnThirdHost);
    let nodes: Vec<Node> = NODES.iter().map(|host| scene.node(*host).engine_with(replicate)).collect();
    let unwanted = |router| RouterConfig { replicas: [].into(), ..router };
    for host in NODES {
        nodes[host].engine.apply(routers(&scene, host).into_iter().map(unwanted).collect());
        await_states(&nodes[host], if host == A { State::Active } else { State::Backup });
    }
    assert!(NODES.iter().all(|host| nodes[*host].engine.replication_status().peers.is_empty()));
    for host in NODES {
        nodes[host].engine.apply(routers(&scene, host));
    }
    let streams = replicated(&scene, &nodes);
    first_node_dies(&scene, &nodes);
    assert_eq!(kept(&streams), 2 * MANY);
}
