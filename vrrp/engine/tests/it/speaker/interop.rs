//! The same cases with a router of each maker: one LAN and one process of the router for all of them.

use std::collections::BTreeSet;
use std::time::Duration;

use nix::sys::signal::Signal;
use windlass_engine::bgp::bfd::State as BfdState;
use windlass_engine::bgp::wire::{ExtendedCommunity, LargeCommunity};
use windlass_engine::{BfdConfig, BfdPath, BfdSession};

use super::bfd::timers;
use super::makers::{
    BFD_TIMERS, BRIEF, Bird, EXTERNAL, ExaBgp, FAR, GoBgp, GoBgp4, INTERNAL, Kind, LINK_LOCAL, Maker, NEAR,
    Neighbour, OLD, OpenBgpd, PASSWORD, REFUSED, REFUSING, SIGNED, SIX,
};
use super::router::require;
use super::*;
use crate::interop::site::sysctl;

/// Number of prefixes in the case of many.
const MANY: u32 = 10_000;

/// A router, and a speaker with a session for each of its neighbours.
struct Scene<M: Maker> {
    router: M,
    /// None once it has left.
    node: Option<Node>,
    speaker: Speaker,
    _lan: Lan,
}

impl<M: Maker> Drop for Scene<M> {
    fn drop(&mut self) {
        if let Some(node) = self.node.as_ref().filter(|_| std::thread::panicking()) {
            eprintln!("{:#?}\n{:#?}", node.engine.speaker_status(), node.engine.bfd_status());
            for prefix in self.expected().iter().take(20) {
                eprintln!("{}", self.router.route(prefix));
            }
        }
    }
}

/// Settings of the speaker for a session.
fn settings(neighbour: &Neighbour) -> PeerConfig {
    let interface = neighbour.is_link_local().then(|| "eth0".to_owned());
    let endpoint = Endpoint::Address { address: neighbour.router.parse().unwrap(), interface };
    let mut peer = PeerConfig { endpoint, source: neighbour.own.parse().ok(), ..peer(1) };
    let own_as = if neighbour.own == REFUSED.own { OWN } else { neighbour.asn };
    peer.session.local_as = Asn::new(own_as).unwrap();
    if neighbour.is_internal() {
        peer.session.expected_as = ExpectedAs::Internal;
    }
    if neighbour.own == REFUSING.own {
        peer.session.expected_as = ExpectedAs::Exactly(Asn::new(ROUTER + 1).unwrap());
    }
    match neighbour.kind {
        Kind::Plain => {}
        Kind::Password => peer.password = Md5Key::new(PASSWORD.as_bytes()).ok(),
        Kind::TtlSecurity => peer.minimum_ttl = Some(255),
        Kind::Multihop | Kind::TwoOctets => peer.session.families = [Family::V4].into(),
        Kind::ExtendedNextHop => peer.session.extended_next_hop = true,
    }
    peer
}

/// BFD of the speaker with this neighbour, in milliseconds.
fn bfd_settings(neighbour: &Neighbour, transmit: u64, receive: u64) -> BfdConfig {
    let path = match neighbour.kind {
        // BIRD sends 64, and the router between takes one.
        Kind::Multihop => BfdPath::Multihop { minimum_ttl: 63 },
        _ => BfdPath::SingleHop,
    };
    BfdConfig::new(timers(transmit, receive, 10), path).unwrap()
}

/// The routes of a session: a prefix of each family that names it.
fn prefixes(number: usize, neighbour: &Neighbour) -> Vec<String> {
    let number = number + 1;
    let mut prefixes = vec![format!("203.0.113.{number}/32"), format!("2001:db8:{number:x}::1/128")];
    prefixes.truncate(match neighbour.kind {
        Kind::Multihop | Kind::TwoOctets => 1,
        Kind::Plain | Kind::Password | Kind::TtlSecurity | Kind::ExtendedNextHop => 2,
    });
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
    scene.a_large_as_passes_a_router_that_reads_two_octets();
    scene.a_refresh_is_answered();
    scene.wrong_as_is_refused();
    scene.degraded_routes_are_marked_longer_and_less_preferred();
    scene.changes_and_withdrawals_arrive();
    scene.many_routes_arrive();
    scene.bfd_is_up_and_its_timers_change();
    scene.bfd_that_is_turned_off_ends_the_session();
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
            self.await_printed(&self.first_prefix(neighbour), parts);
        }
    }

    /// Waits until the router prints all these parts about a route.
    fn await_printed(&self, prefix: &str, parts: &[&str]) {
        await_some(&format!("{parts:?} of {prefix}"), || {
            let dense: String = self.router.route(prefix).split_whitespace().collect();
            parts.iter().all(|part| dense.contains(part)).then_some(())
        });
    }

    fn ipv4_routes_have_an_ipv6_next_hop_if_the_maker_takes_it(&self) {
        let negotiated = session(self.node(), SIX.own).and_then(|session| session.negotiated).unwrap();
        assert_eq!(negotiated.extended_next_hop, M::EXTENDED_NEXT_HOP);
        let prefix = self.first_prefix(&SIX);
        let route = self.router.route(&prefix);
        let next_hop = if M::EXTENDED_NEXT_HOP { SIX.own } else { EXTERNAL.own };
        assert!(prefix.contains('.') && route.contains(next_hop), "{route}");
    }

    fn a_large_as_passes_a_router_that_reads_two_octets(&self) {
        if M::CANNOT.contains(&OLD.own) {
            return;
        }
        let negotiated = session(self.node(), OLD.own).and_then(|session| session.negotiated).unwrap();
        assert!(!negotiated.four_octet);
        self.await_printed(&self.first_prefix(&OLD), &[M::TWO_OCTETS]);
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

    fn degraded_routes_are_marked_longer_and_less_preferred(&mut self) {
        for (neighbour, parts) in [EXTERNAL, INTERNAL].iter().zip(M::DEGRADED) {
            let prefix = self.first_prefix(neighbour);
            let degraded = routes_with(&[&prefix], attributes().degraded());
            self.speaker.routes.insert(neighbour.own.to_owned(), degraded);
            self.node().engine.speak(self.speaker.clone());
            self.await_printed(&prefix, parts);
        }
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

    fn bfd(&self, own: &str) -> Option<BfdSession> {
        let status = self.node().engine.bfd_status();
        status.sessions.iter().find(|(id, _)| id.peer == own).map(|(_, bfd)| *bfd)
    }

    /// Gives BFD these intervals, in milliseconds, and waits until both sides have agreed on them.
    fn set_bfd(&mut self, transmit: u64, receive: u64) {
        let (router_transmit, router_receive, multiplier) = BFD_TIMERS;
        let agreed = [transmit.max(router_receive), u64::from(multiplier) * receive.max(router_transmit)];
        let [interval, detection_time] = agreed.map(Duration::from_millis);
        for neighbour in M::neighbours().filter(|neighbour| M::BFD.contains(&neighbour.own)) {
            let peer = self.speaker.peers.get_mut(neighbour.own).unwrap();
            peer.bfd = Some(bfd_settings(&neighbour, transmit, receive));
        }
        self.node().engine.speak(self.speaker.clone());
        for own in M::BFD {
            await_some(&format!("BFD with {own}"), || {
                self.bfd(own).filter(|bfd| {
                    (bfd.state, bfd.flaps) == (BfdState::Up, 0)
                        && (bfd.transmit_interval, bfd.detection_time) == (Some(interval), detection_time)
                })
            });
        }
    }

    fn bfd_is_up_and_its_timers_change(&mut self) {
        self.set_bfd(500, 200);
        self.set_bfd(800, 350);
    }

    /// These makers take AdminDown for a fault, against RFC 5882 §3.2.
    fn bfd_that_is_turned_off_ends_the_session(&mut self) {
        if M::BFD.is_empty() {
            return;
        }
        self.speaker.peers.get_mut(LINK_LOCAL.own).unwrap().bfd = None;
        self.node().engine.speak(self.speaker.clone());
        self.await_error(&LINK_LOCAL, "received: cease");
    }

    fn a_frozen_router_expires(&self) {
        self.router.daemon().signal(Signal::SIGSTOP);
        if M::BFD.contains(&SIGNED.own) {
            self.await_error(&SIGNED, "sent: cease: BFD down (6/10)");
        }
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

// shows: bgp B11, B12, B25, B44, B45, B46, B52, B53, B54, B57, B58, B74, D1, D4, D6; interop I-20 to I-33
#[test]
fn frr_has_the_sessions_and_the_routes_of_the_speaker() {
    all_cases::<Router>();
}

// shows: bgp B11, B12, B25, B44, B45, B46, B52, B53, B54, B57, B58, B74, B84, B86, B87, B90, B91, D1, D4, D6; interop I-20 to I-34
#[test]
fn bird_has_the_sessions_and_the_routes_of_the_speaker() {
    all_cases::<Bird>();
}

// shows: bgp B11, B12, B25, B44, B45, B46, B52, B53, B54, B57, B58, B74, D1, D4, D6; interop I-20 to I-33
#[test]
fn openbgpd_has_the_sessions_and_the_routes_of_the_speaker() {
    all_cases::<OpenBgpd>();
}

// shows: bgp B11, B12, B25, B44, B45, B46, B52, B53, B54, B57, B58, B74, D1, D4, D6; interop I-20 to I-33
#[test]
fn exabgp_has_the_sessions_and_the_routes_of_the_speaker() {
    all_cases::<ExaBgp>();
}

// shows: bgp B11, B12, B25, B44, B46, B52, B53, B54, B57, B58, B74, D1, D4, D6; interop I-20 to I-31, I-33
#[test]
fn gobgp_3_has_the_sessions_and_the_routes_of_the_speaker() {
    all_cases::<GoBgp>();
}

// shows: bgp B11, B12, B25, B44, B46, B52, B53, B54, B57, B58, B74, B84, B86, B87, B90, B91, D1, D4, D6; interop I-20 to I-31, I-33, I-34
#[test]
fn gobgp_4_has_the_sessions_and_the_routes_of_the_speaker() {
    all_cases::<GoBgp4>();
}
