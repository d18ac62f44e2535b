//! The BGP speaker with FRR as its router, and with routers that misbehave.

mod beside;
mod bfd;
mod hostile;
mod interop;
mod makers;
mod played;
mod recipe;
mod router;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use windlass_engine::bgp::session::{Config, ExpectedAs};
use windlass_engine::bgp::wire::{Attributes, Communities, Community};
use windlass_engine::bgp::{Asn, Family, HoldTime, Prefix, RouterId, State};
use windlass_engine::{Endpoint, Event, Md5Key, PeerConfig, Routes, SessionStatus, Speaker};

use crate::lab::{Lan, Node, address, await_some};
use crate::lab6::number;
use makers::{OWN, ROUTER};
use router::{Router, require_frr};

/// A router that is a passive neighbour of the speaker on host 0.
const PASSIVE: &str = "neighbor 192.0.2.1 remote-as 64512
                       neighbor 192.0.2.1 passive
                       address-family ipv6 unicast
                       neighbor 192.0.2.1 activate";

fn peer_at(address: IpAddr) -> PeerConfig {
    let session = Config {
        local_as: Asn::new(OWN).unwrap(),
        router_id: RouterId::new([192, 0, 2, 1].into()).unwrap(),
        expected_as: ExpectedAs::External,
        families: Family::ALL.into(),
        hold_time: HoldTime::new(30).unwrap(),
        keepalive: None,
        extended_next_hop: false,
    };
    PeerConfig::new(session, Endpoint::Address { address, interface: None })
}

/// The router on this host.
fn peer(host: usize) -> PeerConfig {
    peer_at(address(host).into())
}

fn routes_with(prefixes: &[&str], attributes: Attributes) -> Arc<Routes> {
    let attributes = Arc::new(attributes);
    let route = |text: &&str| (Prefix::new(text.parse::<IpNet>().unwrap()).unwrap(), Arc::clone(&attributes));
    Arc::new(prefixes.iter().map(route).collect())
}

fn routes(prefixes: &[&str]) -> Arc<Routes> {
    routes_with(prefixes, Attributes::default())
}

/// These peers, each with the same routes.
fn speaker(peers: impl IntoIterator<Item = (&'static str, PeerConfig)>, routes: &Arc<Routes>) -> Speaker {
    let peers: BTreeMap<String, PeerConfig> =
        peers.into_iter().map(|(name, peer)| (name.to_owned(), peer)).collect();
    let routes = peers.keys().map(|name| (name.clone(), Arc::clone(routes))).collect();
    Speaker { peers, routes }
}

fn session(node: &Node, peer: &str) -> Option<SessionStatus> {
    node.engine.speaker_status().iter().find(|session| session.id.peer == peer).cloned()
}

fn await_session(node: &Node, peer: &str, accept: impl Fn(&SessionStatus) -> bool) -> SessionStatus {
    await_some(&format!("status of {peer}"), || session(node, peer).filter(&accept))
}

fn await_established(node: &Node, peer: &str) -> SessionStatus {
    await_session(node, peer, |session| session.state == State::Established)
}

/// Hosts with addresses of both families: the speaker's, and one for each router.
fn lan(routers: usize) -> Lan {
    let lan = Lan::new(routers + 1);
    for (host, last) in lan.hosts.iter().zip(1..) {
        number(host, last);
    }
    lan
}

// shows: bgp B76, D2
#[test]
fn a_session_stays_established_while_another_peer_changes_and_goes() {
    if !require_frr() {
        return;
    }
    let lan = lan(2);
    let [kept, other] = [1, 2].map(|host| Router::start(&lan.hosts[host], ROUTER, PASSIVE));
    let node = lan.hosts[0].engine();
    let announced = routes(&["203.0.113.1/32"]);
    node.engine.speak(speaker([("kept", peer(1)), ("other", peer(2))], &announced));
    kept.await_routes(&["203.0.113.1/32"]);
    other.await_routes(&["203.0.113.1/32"]);
    let mut changed = peer(2);
    changed.session.hold_time = HoldTime::new(9).unwrap();
    node.engine.speak(speaker([("kept", peer(1)), ("other", changed)], &announced));
    await_session(&node, "other", |session| {
        session.negotiated.as_ref().is_some_and(|negotiated| negotiated.hold_time.seconds() == 9)
    });
    other.await_routes(&["203.0.113.1/32"]);
    node.engine.speak(speaker([("kept", peer(1))], &announced));
    other.await_routes(&[]);
    await_some("end of the session", || session(&node, "other").is_none().then_some(()));
    let neighbour = other.neighbour("192.0.2.1");
    assert_eq!(neighbour["lastNotificationReason"], "Cease/Peer De-configured", "{neighbour}");
    assert_eq!(kept.neighbour("192.0.2.1")["connectionsEstablished"], 1);
    kept.await_routes(&["203.0.113.1/32"]);
    let failed = |event: &Event| match event {
        Event::SessionChanged { error, .. } => error.clone(),
        _ => None,
    };
    assert_eq!(node.reported(failed), None, "an end that was ordered is no failure");
}

// shows: bgp B74, D6
#[test]
fn an_engine_that_shuts_down_leaves_its_router_in_order() {
    if !require_frr() {
        return;
    }
    let lan = lan(1);
    let router = Router::start(&lan.hosts[1], ROUTER, PASSIVE);
    let node = lan.hosts[0].engine();
    node.engine.speak(speaker([("router", peer(1))], &routes(&["203.0.113.1/32", "2001:db8:1::1/128"])));
    router.await_routes(&["203.0.113.1/32", "2001:db8:1::1/128"]);
    let withdrawn = |router: &Router| router.neighbour("192.0.2.1")["messageStats"]["updatesRecv"].as_u64();
    let before = withdrawn(&router).expect("a count");
    node.engine.shutdown();
    router.await_routes(&[]);
    let neighbour = router.neighbour("192.0.2.1");
    assert_eq!(neighbour["lastNotificationReason"], "Cease/Administrative Shutdown", "{neighbour}");
    // A message with what is withdrawn, for each family.
    assert_eq!(withdrawn(&router), Some(before + 2), "{neighbour}");
}

// shows: bgp B11, B12
#[test]
fn routers_with_passwords_and_with_ttl_security_are_met_and_a_wrong_password_is_not() {
    if !require_frr() {
        return;
    }
    let lan = lan(2);
    let signed = format!("{PASSIVE}\nexit-address-family\nneighbor 192.0.2.1 password right");
    let near = format!("{PASSIVE}\nexit-address-family\nneighbor 192.0.2.1 ttl-security hops 1");
    let (signed, near) =
        (Router::start(&lan.hosts[1], ROUTER, &signed), Router::start(&lan.hosts[2], ROUTER, &near));
    let node = lan.hosts[0].engine();
    let with_password = |password: &str| {
        let signed = PeerConfig { password: Some(Md5Key::new(password.as_bytes()).unwrap()), ..peer(1) };
        let near = PeerConfig { minimum_ttl: Some(255), ..peer(2) };
        speaker([("signed", signed), ("near", near)], &routes(&["203.0.113.1/32"]))
    };
    node.engine.speak(with_password("wrong"));
    near.await_routes(&["203.0.113.1/32"]);
    let refused = await_session(&node, "signed", |session| session.error.is_some());
    assert!(refused.error.unwrap().contains("no TCP connection within 5 s"));
    assert_eq!(refused.state, State::Idle);
    node.engine.speak(with_password("right"));
    signed.await_routes(&["203.0.113.1/32"]);
    assert_eq!(near.neighbour("192.0.2.1")["connectionsEstablished"], 1);
}

// shows: bgp B24
#[test]
fn a_router_gets_1000_routes_and_gets_them_again_after_its_restart() {
    if !require_frr() {
        return;
    }
    let lan = lan(1);
    let mut router = Router::start(&lan.hosts[1], ROUTER, PASSIVE);
    let node = lan.hosts[0].engine();
    let texts: Vec<String> = (0..1000_u32).map(|n| format!("198.18.{}.{}/32", n / 250, n % 250)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    node.engine.speak(speaker([("router", peer(1))], &routes(&texts)));
    let has_all = |router: &Router| (router.routes("ipv4").len() == 1000).then_some(());
    await_some("1,000 routes", || has_all(&router));
    router.sigkill();
    await_session(&node, "router", |session| session.state != State::Established && session.error.is_some());
    drop(router);
    let router = Router::start(&lan.hosts[1], ROUTER, PASSIVE);
    await_some("1,000 routes again", || has_all(&router));
    assert_eq!(await_established(&node, "router").error, None);
}

// shows: bgp B54, D3
#[test]
fn the_gateway_of_the_default_route_is_a_peer_and_so_is_the_one_that_replaces_it() {
    if !require_frr() {
        return;
    }
    let lan = lan(2);
    let [first, second] = [1, 2].map(|host| Router::start(&lan.hosts[host], ROUTER, PASSIVE));
    let node = lan.hosts[0].engine();
    let gateway = PeerConfig { endpoint: Endpoint::Gateway(Family::V4), ..peer(1) };
    node.engine.speak(speaker([("gateway", gateway)], &routes(&["203.0.113.1/32"])));
    lan.hosts[0].ip("route add default via 192.0.2.2");
    first.await_routes(&["203.0.113.1/32"]);
    lan.hosts[0].ip("route replace default via 192.0.2.3");
    second.await_routes(&["203.0.113.1/32"]);
    first.await_routes(&[]);
}

// shows: bgp D2, D3
#[test]
fn a_router_is_met_again_from_another_address_if_the_own_one_goes() {
    if !require_frr() {
        return;
    }
    let lan = lan(1);
    let any = "neighbor nodes peer-group
               neighbor nodes remote-as 64512
               bgp listen range 192.0.2.0/24 peer-group nodes";
    let router = Router::start(&lan.hosts[1], ROUTER, any);
    let node = lan.hosts[0].engine();
    // Neither side finds the connection dead while the test lasts.
    let mut patient = peer(1);
    patient.session.hold_time = HoldTime::new(180).unwrap();
    node.engine.speak(speaker([("router", patient)], &routes(&["203.0.113.1/32"])));
    router.await_routes(&["203.0.113.1/32"]);
    lan.hosts[0].ip("addr del 192.0.2.1/24 dev eth0");
    lan.hosts[0].ip("addr add 192.0.2.101/24 dev eth0");
    let own = Some("192.0.2.101".parse().unwrap());
    await_session(&node, "router", |session| session.state == State::Established && session.own == own);
    await_some("next hop", || {
        let (_, route) = router.routes("ipv4").pop()?;
        (route["nexthops"][0]["ip"] == "192.0.2.101").then_some(())
    });
}
