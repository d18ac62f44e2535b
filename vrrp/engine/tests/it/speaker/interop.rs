//! The same cases with a router of each maker: one LAN and one process of the router for all of them.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use windlass_engine::bgp::wire::{ExtendedCommunity, LargeCommunity};

use super::makers::{
    BRIEF, Bird, EXTERNAL, ExaBgp, FAR, GoBgp, GoBgp4, INTERNAL, Kind, Maker, NEAR, Neighbour, OpenBgpd,
    PASSWORD, REFUSED, REFUSING, SIX,
};
use super::router::require;
use super::*;
use crate::interop::site::sysctl;

/// Number of prefixes in the case of many.
const MANY: u32 = 10_000;

/// A router, and a speaker with a session for each of its neighbours.
struct Scene<M> {
    router: M,
    /// None once it has left.
    node: Option<Node>,
    speaker: Speaker,
    _lan: Lan,
}

impl<M> Drop for Scene<M> {
    fn drop(&mut self) {
        if let Some(node) = self.node.as_ref().filter(|_| std::thread::panicking()) {
            eprintln!("{:#?}", node.engine.speaker_status());
        }
    }
}

/// Settings of the speaker for a session.
fn settings(neighbour: &Neighbour) -> PeerConfig {
    let interface = neighbour.is_link_local().then(|| "eth0".to_owned());
    let endpoint = Endpoint::Address { address: neighbour.router.parse().unwrap(), interface };
    let mut peer = PeerConfig { endpoint, source: neighbour.own.parse().ok(), ..peer(1) };
    if neighbour.is_internal() {
        peer.session.local_as = Asn::new(ROUTER).unwrap();
        peer.session.expected_as = ExpectedAs::Internal;
    }
    if neighbour.own == REFUSING.own {
        peer.session.expected_as = ExpectedAs::Exactly(Asn::new(ROUTER + 1).unwrap());
    }
    match neighbour.kind {
        Kind::Plain => {}
        Kind::Password => peer.password = Md5Key::new(PASSWORD.as_bytes()).ok(),
        Kind::TtlSecurity => peer.minimum_ttl = Some(255),
        Kind::Multihop => peer.session.families = [Family::V4].into(),
        Kind::ExtendedNextHop => peer.session.extended_next_hop = true,
    }
    peer
}

/// The routes of a session: a prefix of each family that names it.
fn prefixes(number: usize, neighbour: &Neighbour) -> Vec<String> {
    let number = number + 1;
    let mut prefixes = vec![format!("203.0.113.{number}/32"), format!("2001:db8:{number:x}::1/128")];
    prefixes.truncate(if neighbour.kind == Kind::Multihop { 1 } else { 2 });
    prefixes
}

fn attributes() -> Attributes {
    let soo = ExtendedCommunity::site_of_origin(OWN, 8).unwrap();
    let target = ExtendedCommunity::route_target(OWN, 7).unwrap();
    Attributes {
        prepend: 1,
        local_preference: 150,
        med: Some(50),
        communities: Communities::new([Community::new(64512, 100), Community::NO_EXPORT]).unwrap(),
        large: Communities::new([LargeCommunity([64512, 1, 2])]).unwrap(),
        extended: Communities::new([target, soo]).unwrap(),
    }
}

fn routes_of(prefixes: &[String]) -> Arc<Routes> {
    let prefixes: Vec<&str> = prefixes.iter().map(String::as_str).collect();
    routes_with(&prefixes, attributes())
}

/// Runs the cases with a router of this maker.
fn all_cases<M: Maker>() {
    if !require(M::PROGRAM) {
        return;
    }
    let mut scene = Scene::<M>::start();
    scene.routes_arrive_as_sent();
    scene.ipv4_routes_have_an_ipv6_next_hop_if_the_maker_takes_it();
    scene.a_refresh_is_answered();
    scene.wrong_as_is_refused();
    scene.changes_and_withdrawals_arrive();
    scene.many_routes_arrive();
    scene.a_frozen_router_expires();
    scene.a_shutdown_is_reported_with_its_text();
    scene.the_speaker_leaves_in_order();
}

impl<M: Maker> Scene<M> {
    fn start() -> Self {
        let lan = lan(2).with_link_local();
        let [speaker, router, between] = &lan.hosts[..] else { unreachable!("three hosts") };
        speaker.ip("link set lo up");
        router.ip("link set lo up");
        for own in M::neighbours().filter(|neighbour| !neighbour.is_ipv6()).skip(1) {
            let device = if own.kind == Kind::Multihop { "lo" } else { "eth0" };
            speaker.ip(&format!("addr add {}/32 dev {device}", own.own));
        }
        router.ip(&format!("addr add {}/32 dev lo", FAR.router));
        speaker.ip(&format!("route add {} via {}", FAR.router, address(2)));
        router.ip(&format!("route add {} via {}", FAR.own, address(2)));
        between.ip(&format!("route add {} via {}", FAR.router, address(1)));
        between.ip(&format!("route add {} via {}", FAR.own, address(0)));
        sysctl(between, "net/ipv4/ip_forward", "1");
        let node = speaker.engine();
        let router = M::start(router);
        let mut speaker = Speaker::default();
        for (number, neighbour) in M::neighbours().enumerate() {
            let name = neighbour.own.to_owned();
            speaker.routes.insert(name.clone(), routes_of(&prefixes(number, &neighbour)));
            speaker.peers.insert(name, settings(&neighbour));
        }
        node.engine.speak(speaker.clone());
        Self { router, node: Some(node), speaker, _lan: lan }
    }

    /// Prefixes that the router is to have: of all neighbours but those that refuse each other.
    fn expected(&self) -> BTreeSet<String> {
        let of_sessions = |(own, _): &(&String, _)| ![REFUSED.own, REFUSING.own].contains(&own.as_str());
        let routes = self.speaker.routes.iter().filter(of_sessions).flat_map(|(_, routes)| routes.keys());
        routes.map(ToString::to_string).collect()
    }

    fn await_routes(&self, what: &str) {
        let expected = self.expected();
        let mut found = BTreeSet::new();
        let is_as_expected = || {
            found = self.router.prefixes();
            (found == expected).then_some(())
        };
        await_some(what, is_as_expected);
    }

    fn node(&self) -> &Node {
        self.node.as_ref().expect("the speaker")
    }

    fn first_prefix(&self, neighbour: &Neighbour) -> String {
        self.speaker.routes[neighbour.own].keys().next().unwrap().to_string()
    }

    fn routes_arrive_as_sent(&self) {
        let sessions =
            M::neighbours().filter(|neighbour| ![REFUSED.own, REFUSING.own].contains(&neighbour.own));
        sessions.for_each(|neighbour| self.await_acknowledged(&neighbour));
        self.await_routes("routes of all sessions");
        for (neighbour, parts) in [EXTERNAL, INTERNAL].iter().zip(M::PRINTED) {
            let route = self.router.route(&self.first_prefix(neighbour));
            let dense: String = route.split_whitespace().collect();
            for part in parts {
                assert!(dense.contains(part), "{part} is missing in {route}");
            }
        }
    }

    fn ipv4_routes_have_an_ipv6_next_hop_if_the_maker_takes_it(&self) {
        let negotiated = session(self.node(), SIX.own).and_then(|session| session.negotiated).unwrap();
        assert_eq!(negotiated.extended_next_hop, M::EXTENDED_NEXT_HOP);
        let prefix = self.first_prefix(&SIX);
        let route = self.router.route(&prefix);
        let next_hop = if M::EXTENDED_NEXT_HOP { SIX.own } else { EXTERNAL.own };
        assert!(prefix.contains('.') && route.contains(next_hop), "{route}");
    }

    fn a_refresh_is_answered(&self) {
        self.node().forget_events();
        if !self.router.refresh(EXTERNAL.own) {
            return;
        }
        // Routes that are sent again are acknowledged again.
        self.node().await_event("acknowledgement after a refresh", |event| match event {
            Event::RoutesAcknowledged { session } => (session.peer == EXTERNAL.own).then_some(()),
            _ => None,
        });
    }

    /// Waits for an error of a session with these words.
    fn await_error(&self, neighbour: &Neighbour, words: &str) {
        await_session(self.node(), neighbour.own, |session| {
            session.error.as_ref().is_some_and(|error| error.contains(words))
        });
    }

    fn wrong_as_is_refused(&self) {
        self.await_error(&REFUSED, "received: OPEN: bad peer AS (2/2)");
        self.await_error(&REFUSING, "sent: OPEN: bad peer AS (2/2)");
    }

    fn speak(&mut self, neighbour: &Neighbour, prefixes: &[String]) {
        self.speaker.routes.insert(neighbour.own.to_owned(), routes_of(prefixes));
        self.node().engine.speak(self.speaker.clone());
        self.await_acknowledged(neighbour);
    }

    /// Waits until the router's TCP has the routes of a session: its table is asked when that may have changed.
    fn await_acknowledged(&self, neighbour: &Neighbour) {
        let count = self.speaker.routes[neighbour.own].len();
        await_session(self.node(), neighbour.own, |session| session.is_acknowledged && session.sent == count);
    }

    fn changes_and_withdrawals_arrive(&mut self) {
        self.speak(&EXTERNAL, &["203.0.113.201/32".to_owned(), "2001:db8:201::1/128".to_owned()]);
        self.await_routes("changed routes");
        self.speak(&INTERNAL, &[]);
        self.await_routes("withdrawal");
    }

    fn many_routes_arrive(&mut self) {
        let all: Vec<String> = (0..MANY).map(|n| format!("198.18.{}.{}/32", n / 250, n % 250)).collect();
        self.speak(&EXTERNAL, &all);
        self.await_routes("10,000 routes");
        self.speak(&EXTERNAL, &[]);
        self.await_routes("withdrawal of 10,000 routes");
    }

    fn a_frozen_router_expires(&self) {
        self.router.daemon().signal(Signal::SIGSTOP);
        self.await_error(&BRIEF, "sent: hold timer expired");
        self.router.daemon().signal(Signal::SIGCONT);
        assert_eq!(session(self.node(), EXTERNAL.own).unwrap().error, None);
    }

    fn a_shutdown_is_reported_with_its_text(&self) {
        let has_text = self.router.shut_down(NEAR.own, "maintenance");
        let text = if has_text { ": maintenance" } else { "" };
        self.await_error(&NEAR, &format!("received: cease: administrative shutdown (6/2){text}"));
    }

    fn the_speaker_leaves_in_order(&mut self) {
        self.node = None;
        self.speaker.routes.clear();
        self.await_routes("withdrawal of all");
        let is_reported = || self.router.ending(EXTERNAL.own).contains(M::LEFT).then_some(());
        await_some("report of the speaker's shutdown", is_reported);
    }
}

// shows: bgp B11, B12, B25, B44, B46, B52, B53, B54, B57, B58, B74, D1, D4, D6; interop I-20 to I-31
#[test]
fn frr_has_the_sessions_and_the_routes_of_the_speaker() {
    all_cases::<Router>();
}

// shows: bgp B11, B12, B25, B44, B46, B52, B53, B54, B57, B58, B74, D1, D4, D6; interop I-20 to I-31
#[test]
fn bird_has_the_sessions_and_the_routes_of_the_speaker() {
    all_cases::<Bird>();
}

// shows: bgp B11, B12, B25, B44, B46, B52, B53, B54, B57, B58, B74, D1, D4, D6; interop I-20 to I-31
#[test]
fn openbgpd_has_the_sessions_and_the_routes_of_the_speaker() {
    all_cases::<OpenBgpd>();
}

// shows: bgp B11, B12, B25, B44, B46, B52, B53, B54, B57, B58, B74, D1, D4, D6; interop I-20 to I-31
#[test]
fn exabgp_has_the_sessions_and_the_routes_of_the_speaker() {
    all_cases::<ExaBgp>();
}

// shows: bgp B11, B12, B25, B44, B46, B52, B53, B54, B57, B58, B74, D1, D4, D6; interop I-20 to I-31
#[test]
fn gobgp_3_has_the_sessions_and_the_routes_of_the_speaker() {
    all_cases::<GoBgp>();
}

// shows: bgp B11, B12, B25, B44, B46, B52, B53, B54, B57, B58, B74, D1, D4, D6; interop I-20 to I-31
#[test]
fn gobgp_4_has_the_sessions_and_the_routes_of_the_speaker() {
    all_cases::<GoBgp4>();
}
