//! BFD with FRR's bfdd, and with a peer that this crate plays.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use windlass_engine::bgp::bfd::{self, Diagnostic};
use windlass_engine::{BfdConfig, BfdPath, BfdSession};

use super::played::{BfdPeer, Witness, listen};
use super::*;
use crate::flood::Flood;
use crate::flooder::Flooder;
use crate::lab::{require_root, router as virtual_router, take_all_turns};

/// Neighbour lines with BFD by the profile `test`.
const NEIGHBOUR: &str = "neighbor 192.0.2.1 remote-as 64512
                         neighbor 192.0.2.1 passive
                         neighbor 192.0.2.1 bfd profile test";

/// Profile `test` with these intervals in milliseconds.
fn profile(transmit: u32, receive: u32, multiplier: u32) -> String {
    format!(
        "profile test
         transmit-interval {transmit}
         receive-interval {receive}
         detect-multiplier {multiplier}"
    )
}

pub(super) fn timers(transmit: u64, receive: u64, multiplier: u8) -> bfd::Config {
    let [transmit, receive] = [transmit, receive].map(Duration::from_millis);
    bfd::Config { transmit, receive, multiplier: multiplier.try_into().unwrap() }
}

pub(super) fn with_bfd(peer: PeerConfig, timers: bfd::Config, path: BfdPath) -> PeerConfig {
    PeerConfig { bfd: Some(BfdConfig::new(timers, path).unwrap()), ..peer }
}

/// The router on host 1 with BFD by these timers.
fn near(timers: bfd::Config) -> [(&'static str, PeerConfig); 1] {
    [("router", with_bfd(peer(1), timers, BfdPath::SingleHop))]
}

fn detection(node: &Node) -> Option<BfdSession> {
    node.engine.bfd_status().sessions.values().next().copied()
}

fn await_bfd(node: &Node, what: &str, accept: impl Fn(&BfdSession) -> bool) -> BfdSession {
    await_some(what, || detection(node).filter(&accept))
}

/// FRR on host 1, and a speaker that has it as its peer, with BFD of 300 ms.
fn met(lan: &Lan) -> (Router, Node) {
    let router = Router::with_bfd(&lan.hosts[1], ROUTER, NEIGHBOUR, &profile(300, 300, 3));
    let node = lan.hosts[0].engine();
    node.engine.speak(speaker(near(timers(300, 300, 3)), &routes(&["203.0.113.1/32"])));
    (router, node)
}

/// Waits until BFD is Up here with the final intervals.
fn await_up(node: &Node, detection_time: u64) -> BfdSession {
    let detection_time = Duration::from_millis(detection_time);
    await_bfd(node, "BFD", |bfd| bfd.state == bfd::State::Up && bfd.detection_time == detection_time)
}

fn await_change(node: &Node, to: bfd::State) -> bfd::Event {
    node.await_event(&format!("BFD {to}"), |event| match event {
        Event::BfdChanged { change, .. } if change.to == to => Some(*change),
        _ => None,
    })
}

fn await_router(router: &Router, what: &str, accept: impl Fn(&Value) -> bool) -> Value {
    await_some(what, || Some(router.bfd_session()).filter(&accept))
}

// shows: bgp B84, B85, B86, B91
#[test]
fn a_router_and_the_speaker_agree_on_timers_which_change_without_a_new_session() {
    if !require_frr() {
        return;
    }
    let lan = lan(1);
    let router = Router::with_bfd(&lan.hosts[1], ROUTER, NEIGHBOUR, &profile(150, 400, 4));
    let node = lan.hosts[0].engine();
    let announced = routes(&["203.0.113.1/32"]);
    node.engine.speak(speaker(near(timers(300, 100, 5)), &announced));
    // Four times the larger of 100 and 150 ms.
    let up = await_up(&node, 600);
    assert_eq!(up.transmit_interval, Some(Duration::from_millis(400)));
    assert_eq!((up.remote_state, up.flaps), (bfd::State::Up, 0));
    await_router(&router, "router's view", |bfd| {
        bfd["status"] == "up"
            && bfd["remote-transmit-interval"] == 300
            && bfd["remote-receive-interval"] == 100
            && bfd["remote-detect-multiplier"] == 5
    });
    node.engine.speak(speaker(near(timers(500, 200, 3)), &announced));
    await_up(&node, 800);
    let slower = Some(Duration::from_millis(500));
    await_bfd(&node, "the slower interval", |bfd| bfd.transmit_interval == slower);
    await_router(&router, "router's view", |bfd| {
        bfd["status"] == "up" && bfd["remote-transmit-interval"] == 500
    });
    assert_eq!(detection(&node).unwrap().flaps, 0);
    assert_eq!(router.neighbour("192.0.2.1")["connectionsEstablished"], 1);
}

// shows: bgp B84, B88, B90, D9
#[test]
fn a_pulled_cable_ends_the_bgp_session_by_bfd_and_both_return_with_the_cable() {
    if !require_frr() {
        return;
    }
    let lan = lan(1);
    let (router, node) = met(&lan);
    router.await_routes(&["203.0.113.1/32"]);
    await_up(&node, 900);
    await_router(&router, "router's view", |bfd| bfd["status"] == "up");
    lan.pull_cable(1);
    let down = await_change(&node, bfd::State::Down);
    assert_eq!(down.diagnostic, Diagnostic::DETECTION_TIME_EXPIRED);
    let ended = await_session(&node, "router", |session| session.error.is_some());
    assert!(ended.error.unwrap().contains("BFD"), "Cease 6/10");
    lan.plug_cable(1);
    await_up(&node, 900);
    router.await_routes(&["203.0.113.1/32"]);
}

// shows: bgp B92
#[test]
fn a_router_that_restarts_gets_a_new_session() {
    if !require_frr() {
        return;
    }
    let lan = lan(1);
    let start = || Router::with_bfd(&lan.hosts[1], ROUTER, NEIGHBOUR, &profile(300, 300, 3));
    let mut router = start();
    let node = lan.hosts[0].engine();
    node.engine.speak(speaker(near(timers(300, 300, 3)), &routes(&["203.0.113.1/32"])));
    await_up(&node, 900);
    router.sigkill();
    drop(router);
    // By the end of BGP, or by a last packet of bfdd.
    node.await_event("end of BFD", |event| match event {
        Event::BfdChanged { change, .. } => (change.from == bfd::State::Up).then_some(()),
        _ => None,
    });
    let router = start();
    router.await_routes(&["203.0.113.1/32"]);
    await_up(&node, 900);
    await_router(&router, "router's view", |bfd| bfd["status"] == "up");
}

// shows: bgp B91
#[test]
fn a_bgp_daemon_that_restarts_beside_its_bfd_daemon_gets_one_session() {
    if !require_frr() {
        return;
    }
    let lan = lan(1);
    // A busy machine takes neither side for dead.
    let mut router = Router::with_bfd(&lan.hosts[1], ROUTER, NEIGHBOUR, &profile(300, 300, 20));
    let node = lan.hosts[0].engine();
    node.engine.speak(speaker(near(timers(300, 300, 20)), &routes(&["203.0.113.1/32"])));
    await_up(&node, 6000);
    await_router(&router, "router's view", |bfd| bfd["status"] == "up");
    router.restart_bgpd(&lan.hosts[1]);
    router.await_routes(&["203.0.113.1/32"]);
    await_up(&node, 6000);
    await_router(&router, "router's view", |bfd| bfd["status"] == "up");
    let neighbour = router.neighbour("192.0.2.1");
    assert_eq!(neighbour["connectionsEstablished"], 1, "{neighbour}");
    assert_eq!(session(&node, "router").unwrap().error, None);
}

// shows: bgp B87
#[test]
fn a_router_beyond_others_is_met_by_multihop_bfd() {
    if !require_frr() {
        return;
    }
    let lan = lan(1);
    let neighbour =
        format!("neighbor 192.0.2.1 remote-as 64512\nneighbor 192.0.2.1 ebgp-multihop 8\n{NEIGHBOUR}");
    let router = Router::with_bfd(&lan.hosts[1], ROUTER, &neighbour, &profile(300, 300, 3));
    let node = lan.hosts[0].engine();
    let peer = with_bfd(peer(1), timers(300, 300, 3), BfdPath::Multihop { minimum_ttl: 250 });
    node.engine.speak(speaker([("router", peer)], &routes(&["203.0.113.1/32"])));
    await_up(&node, 900);
    await_router(&router, "router's view", |bfd| bfd["status"] == "up" && bfd["multihop"] == true);
}

// shows: bgp B87, B54
#[test]
fn a_router_is_met_by_bfd_at_its_link_local_address() {
    if !require_frr() {
        return;
    }
    let lan = lan(1).with_link_local();
    let neighbours = "neighbor fe80::1 remote-as 64512
                      neighbor fe80::1 interface eth0
                      neighbor fe80::1 passive
                      neighbor fe80::1 bfd profile test
                      address-family ipv6 unicast
                      neighbor fe80::1 activate";
    let router = Router::with_bfd(&lan.hosts[1], ROUTER, neighbours, &profile(300, 300, 3));
    let node = lan.hosts[0].engine();
    let endpoint =
        Endpoint::Address { address: "fe80::2".parse().unwrap(), interface: Some("eth0".to_owned()) };
    let peer = PeerConfig { endpoint, source: Some("fe80::1".parse().unwrap()), ..peer(1) };
    let peer = with_bfd(peer, timers(300, 300, 3), BfdPath::SingleHop);
    node.engine.speak(speaker([("router", peer)], &routes(&["2001:db8:1::1/128"])));
    await_up(&node, 900);
    await_router(&router, "router's view", |bfd| bfd["status"] == "up");
    router.await_routes(&["2001:db8:1::1/128"]);
}

// shows: bgp B90
#[test]
fn an_administrator_of_the_router_takes_bfd_down_and_the_speaker_keeps_the_session() {
    if !require_frr() {
        return;
    }
    let lan = lan(1);
    let (router, node) = met(&lan);
    await_up(&node, 900);
    router.configure_bfd(&["profile test", "shutdown"]);
    let down = await_change(&node, bfd::State::Down);
    assert_eq!(down.remote, bfd::State::AdminDown);
    router.configure_bfd(&["profile test", "no shutdown"]);
    await_up(&node, 900);
    assert_eq!(router.neighbour("192.0.2.1")["connectionsEstablished"], 1);
    assert_eq!(session(&node, "router").unwrap().error, None);
}

/// Keeps each processor busy until it is dropped.
struct Busy(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Busy {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let count = 2 * std::thread::available_parallelism().map_or(1, usize::from);
        let spin = |_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || while !stop.load(Ordering::Relaxed) {})
        };
        let threads = (0..count).map(spin).collect();
        Self(stop, threads)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        for thread in self.1.drain(..) {
            let _ = thread.join();
        }
    }
}

/// An Established session with a router on host 1 that the test plays, and BFD that is Up on both sides.
fn played(lan: &Lan, timers: bfd::Config) -> (Node, Witness, BfdPeer) {
    let listener = listen(&lan.hosts[1]);
    let router = BfdPeer::start(&lan.hosts[1], address(1), address(0), timers);
    let node = lan.hosts[0].engine();
    node.engine.speak(speaker(near(timers), &routes(&["203.0.113.1/32"])));
    let witness = Witness::meet(listener);
    await_change(&node, bfd::State::Up);
    (node, witness, router)
}

// shows: bgp B90
#[test]
fn a_peer_that_its_administrator_took_down_keeps_its_bgp_session() {
    if !require_root() {
        return;
    }
    let lan = lan(1);
    let (node, _witness, router) = played(&lan, timers(300, 300, 3));
    router.take_down();
    assert_eq!(await_change(&node, bfd::State::Down).remote, bfd::State::AdminDown);
    node.forget_events();
    node.engine.speak(speaker(near(timers(300, 300, 3)), &routes(&["203.0.113.2/32"])));
    node.await_event("acknowledgement", |event| {
        matches!(event, Event::RoutesAcknowledged { .. }).then_some(())
    });
    assert_eq!(session(&node, "router").unwrap().error, None);
}

// shows: bgp B91
#[test]
fn bfd_is_down_by_an_administrator_while_bgp_connects_again() {
    if !require_root() {
        return;
    }
    let lan = lan(1);
    let (node, Witness(listener, stream), router) = played(&lan, timers(300, 300, 3));
    drop(stream);
    let down = await_some("Down at the peer", || {
        router.changes().into_iter().find(|change| change.from == bfd::State::Up)
    });
    assert_eq!((down.to, down.remote), (bfd::State::Down, bfd::State::AdminDown));
    await_bfd(&node, "AdminDown", |bfd| (bfd.state, bfd.flaps) == (bfd::State::AdminDown, 0));
    let _witness = Witness::meet(listener);
    await_up(&node, 900);
    assert_eq!(await_established(&node, "router").error, None);
}

// shows: bgp B83, B90, D9
#[test]
fn a_path_that_loses_all_packets_to_the_router_and_none_from_it_ends_the_bgp_session_by_bfd() {
    if !require_root() {
        return;
    }
    let lan = lan(1);
    let (node, _witness, _router) = played(&lan, timers(300, 300, 3));
    // No host has this MAC address.
    lan.hosts[0].ip("neigh replace 192.0.2.2 lladdr 02:00:00:00:00:99 dev eth0 nud permanent");
    let down = await_change(&node, bfd::State::Down);
    assert_eq!((down.diagnostic, down.remote), (Diagnostic::NEIGHBOR_DOWN, bfd::State::Down));
    let ended = await_session(&node, "router", |session| session.error.is_some());
    assert_eq!(ended.error.unwrap(), "sent: cease: BFD down (6/10)");
}

// shows: bgp B91, D10
#[test]
fn bfd_that_is_not_wanted_any_more_is_taken_down_as_by_an_administrator_and_bgp_stays() {
    if !require_root() {
        return;
    }
    let lan = lan(1);
    let (node, _witness, router) = played(&lan, timers(300, 300, 3));
    node.engine.speak(speaker([("router", peer(1))], &routes(&["203.0.113.1/32"])));
    let down = await_some("Down at the peer", || {
        router.changes().into_iter().find(|change| change.to == bfd::State::Down)
    });
    assert_eq!(down.remote, bfd::State::AdminDown);
    assert_eq!(detection(&node), None);
    assert_eq!(await_established(&node, "router").error, None);
}

// shows: bgp B84, B88
#[test]
fn a_silent_peer_is_found_by_its_own_interval_and_multiplier() {
    if !require_root() {
        return;
    }
    let _turn = take_all_turns();
    let lan = lan(1);
    let (node, _witness, router) = played(&lan, timers(50, 50, 3));
    await_up(&node, 150);
    let silent_for = router.silence();
    let down = await_change(&node, bfd::State::Down);
    println!("50 ms x 3: found dead {:?} after the peer's last packet", silent_for());
    assert_eq!(down.diagnostic, Diagnostic::DETECTION_TIME_EXPIRED);
    assert_eq!(detection(&node).unwrap().flaps, 1);
}

// shows: bgp B89
#[test]
fn a_busy_machine_costs_no_session_of_50_ms() {
    if !require_root() {
        return;
    }
    let _turn = take_all_turns();
    let lan = lan(1);
    let (node, mut witness, router) = played(&lan, timers(50, 50, 3));
    await_up(&node, 150);
    let seconds = std::env::var("WINDLASS_BUSY_SECONDS").ok().and_then(|text| text.parse().ok());
    let enough = router.received() + 20 * seconds.unwrap_or(2);
    let busy = Busy::start();
    let mut last = router.received();
    while last < enough {
        last = await_some("packets", || Some(router.received()).filter(|received| *received > last));
        witness.keep_alive();
    }
    drop(busy);
    let changes = router.changes();
    assert!(changes.iter().all(|change| change.from != bfd::State::Up), "{changes:?}");
    assert_eq!(detection(&node).unwrap().flaps, 0);
}

/// A packet with this discriminator of the receiver, in this state (3 is Up).
fn forged(your_discriminator: u32, state: u8) -> Vec<u8> {
    let mut packet = vec![0x20, state << 6, 3, 24, 0, 0, 0, 9];
    packet.extend(your_discriminator.to_be_bytes());
    packet.extend([50_000_u32, 50_000, 0].map(u32::to_be_bytes).concat());
    packet
}

// shows: bgp B80, B81, D8
#[test]
fn a_flood_of_bfd_packets_costs_neither_an_election_nor_a_bgp_session() {
    if !require_frr() {
        return;
    }
    let _turn = take_all_turns();
    let lan = lan(2);
    // FRR's bfdd has no real-time scheduling, and the flood takes both processors: it gets three seconds.
    let router = Router::with_bfd(&lan.hosts[1], ROUTER, NEIGHBOUR, &profile(300, 300, 10));
    let (node, backup) = (lan.hosts[0].engine(), lan.hosts[2].engine());
    for (node, host) in [(&node, 0), (&backup, 2)] {
        let peers = [address(0).into(), address(2).into()];
        let peers = peers.into_iter().filter(|peer| *peer != IpAddr::from(address(host))).collect();
        node.engine.apply(vec![windlass_engine::RouterConfig { peers, ..virtual_router(host, 3) }]);
    }
    node.await_state(windlass_engine::State::Active);
    let neighbour = || router.neighbour("192.0.2.1");
    // FRR 8.4 may end a session that begins at the moment in which its start timer expires.
    await_some("FRR's start timer", || (neighbour()["bgpState"] == "Active").then_some(()));
    node.engine.speak(speaker(near(timers(300, 300, 10)), &routes(&["203.0.113.1/32"])));
    await_up(&node, 3000);
    let [own, peer, stranger] = [0, 1, 2].map(address);
    let floods = [
        (stranger, 255, forged(0, 1)),
        (peer, 254, forged(0, 1)),
        (peer, 255, forged(0xdead_beef, 3)),
        (peer, 255, vec![0x5a; 60]),
        // The kernel's filter passes it.
        (peer, 255, forged(0, 3)),
    ];
    let mut dropped = 0;
    for (source, hops, packet) in floods {
        let flood = Flood::from(&lan.hosts[2], move || Flooder::udp(source, own, hops, 3784, &packet));
        flood.await_sent(20_000);
        drop(flood);
        let all = || node.engine.bfd_status().dropped.values().sum::<u64>();
        dropped = await_some("dropped packets", || Some(all()).filter(|all| *all > dropped));
    }
    let status = node.engine.bfd_status();
    println!("dropped: {:?}", status.dropped);
    assert!(status.dropped["no_session"] > 0 && status.dropped["filtered"] > 0, "{status:?}");
    assert_eq!(detection(&node).unwrap().flaps, 0);
    assert_eq!(neighbour()["connectionsEstablished"], 1);
    let became_active = [&node, &backup].map(|node| node.status().counters.became_active);
    assert_eq!(became_active, [1, 0]);
}
