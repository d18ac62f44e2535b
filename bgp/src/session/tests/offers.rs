//! Sessions that both sides agree on by their OPENs.

use super::*;
use crate::wire::{Communities, Community};

/// A session that has received this offer, and the answer.
fn answered(config: Config, open: &Open) -> (Session, Vec<String>) {
    let mut session = session_in(State::OpenSent, config);
    session.handle_bytes(&open_bytes(open), START);
    let words = outputs(&mut session, START);
    (session, words)
}

fn with(change: impl FnOnce(&mut Open)) -> Open {
    let mut open = offer();
    change(&mut open);
    open
}

fn of_as(number: u32) -> Open {
    with(|open| {
        open.asn = Asn::new(number).unwrap();
        open.capabilities.four_octet_as = Some(number);
    })
}

// shows: bgp B34
#[test]
fn the_peer_must_have_the_as_that_is_expected_of_it() {
    let exactly = |number| ExpectedAs::Exactly(Asn::new(number).unwrap());
    let rows = [
        (exactly(PEER), PEER, true),
        (exactly(PEER), OWN, false),
        (ExpectedAs::External, PEER, true),
        (ExpectedAs::External, OWN, false),
        (ExpectedAs::Internal, OWN, true),
        (ExpectedAs::Internal, PEER, false),
    ];
    for (expected_as, number, is_accepted) in rows {
        let (session, words) = answered(Config { expected_as, ..config() }, &of_as(number));
        let expected: &[&str] =
            if is_accepted { &["KEEPALIVE"] } else { &["NOTIFICATION 2/2", "down", "close"] };
        assert_eq!(words, expected, "{expected_as:?}: {number}");
        assert_eq!(session.negotiated().map(|n| n.peer_as.get()), is_accepted.then_some(number));
    }
}

// shows: bgp B30
#[test]
fn an_internal_peer_with_our_identifier_is_refused_and_an_external_one_is_not() {
    let same = |number| Open { router_id: RouterId::new(NODE).unwrap(), ..of_as(number) };
    let internal = Config { expected_as: ExpectedAs::Internal, ..config() };
    assert_eq!(answered(internal, &same(OWN)).1, ["NOTIFICATION 2/3", "down", "close"]);
    assert_eq!(answered(config(), &same(PEER)).1, ["KEEPALIVE"]);
}

// shows: bgp B23, B37
#[test]
fn the_smaller_hold_time_counts_and_keepalives_take_a_third_of_it() {
    let rows = [
        (30, 90, None, 30, Some(10)),
        (90, 30, None, 30, Some(10)),
        (3, 90, None, 3, Some(1)),
        (4, 90, None, 4, Some(1)),
        (30, 90, Some(5), 30, Some(5)),
        (30, 90, Some(20), 30, Some(10)),
        (30, 90, Some(0), 30, Some(1)),
        (0, 90, None, 0, None),
        (90, 0, Some(5), 0, None),
    ];
    for (own, peer, keepalive, hold, interval) in rows {
        let hold_time = HoldTime::new(own).unwrap();
        let config = Config { hold_time, keepalive: keepalive.map(secs), ..config() };
        let peer = with(|open| open.hold_time = HoldTime::new(peer).unwrap());
        let (session, _) = answered(config, &peer);
        let negotiated = session.negotiated().unwrap();
        assert_eq!(negotiated.hold_time.seconds(), hold, "{own}, {peer:?}");
        assert_eq!(negotiated.keepalive.map(|interval| interval.as_secs()), interval, "{own}, {peer:?}");
    }
}

// shows: bgp B35
#[test]
fn a_family_is_used_if_both_sides_offer_it() {
    let (v4, v6): (BTreeSet<Family>, BTreeSet<Family>) = ([Family::V4].into(), [Family::V6].into());
    let of = |families: &BTreeSet<Family>| with(|open| open.capabilities.families = families.clone());
    let (session, _) = answered(config(), &of(&v6));
    assert_eq!(session.negotiated().unwrap().families, v6);
    let (session, _) = answered(config(), &with(|open| open.capabilities = Capabilities::none()));
    assert_eq!(session.negotiated().unwrap().families, v4);
    // None is left.
    let mut session = session_in(State::OpenSent, Config { families: v6, ..config() });
    session.handle_bytes(&open_bytes(&of(&v4)), START);
    let data = unhex("010400020001");
    let refusal = Notification { error: ErrorCode::UNSUPPORTED_CAPABILITY, data };
    assert_eq!(down(&mut session), DownReason::Sent(refusal));
}

/// The offers of attempts that the peer answers with this error, after an offer of its own or not.
fn offers(config: Config, error: ErrorCode, attempts: usize) -> Vec<Capabilities> {
    let mut session = Session::new(config, Random::new(1));
    session.start(START);
    let mut now = START;
    let attempt = |number| {
        session.handle_connected(next_hops(), now);
        let sent = transmit(&mut session, now);
        let Ok(Some((Message::Open(open), _))) = decode(&sent) else { panic!("an OPEN") };
        if number % 2 == 0 {
            session.handle_bytes(&open_bytes(&offer()), now);
        }
        session.handle_bytes(&encoded(|out| Notification::from(error).encode(out)), now);
        now = session.poll_timeout().unwrap();
        session.handle_timeout(now);
        open.capabilities
    };
    (0..attempts).map(attempt).collect()
}

// shows: bgp B36
#[test]
fn an_old_peer_is_offered_less_and_less() {
    let full = Config { extended_next_hop: true, families: [Family::V4].into(), ..config() };
    for error in [ErrorCode::UNSUPPORTED_CAPABILITY, ErrorCode::UNSUPPORTED_PARAMETER] {
        let [first, second, third, fourth] = &offers(full.clone(), error, 4)[..] else { panic!() };
        assert!(first.extended_next_hop && first.route_refresh);
        assert_eq!(*second, Capabilities { extended_next_hop: false, ..first.clone() });
        assert_eq!((third, fourth), (&Capabilities::none(), &Capabilities::none()));
    }
    // IPv6 and large AS numbers cannot do without.
    let both = Config { families: Family::ALL.into(), ..full.clone() };
    let large = Config { local_as: Asn::new(4_200_000_001).unwrap(), ..full.clone() };
    for config in [both, large] {
        let offers = offers(config, ErrorCode::UNSUPPORTED_CAPABILITY, 4);
        assert_eq!(offers[1], offers[3]);
    }
    // Other refusals change nothing.
    let offers = offers(full, ErrorCode::CONNECTION_REJECTED, 3);
    assert_eq!(offers[0], offers[2]);
}

/// The only route of this prefix that a peer with this offer sees.
fn seen(config: Config, open: &Open, next_hops: NextHops, vip: &str) -> Option<crate::tests::Route> {
    let mut session = session_in(State::Connect, config);
    session.set_routes(routes(&[vip]));
    session.handle_connected(next_hops, START);
    session.handle_bytes(&[open_bytes(open), keepalive_bytes()].concat(), START);
    let mut listener = Listener::default();
    listener.receive(&transmit(&mut session, START));
    listener.table.get(&prefix(vip)).cloned()
}

// shows: bgp B45, B51, B52
#[test]
fn the_form_of_a_route_follows_from_both_offers_and_the_local_address() {
    let (vip, vip_v6) = ("203.0.113.10", "2001:db8:f::10");
    let extended = Config { extended_next_hop: true, ..config() };
    let takes_extended = with(|open| open.capabilities.extended_next_hop = true);
    let next_hop = |config: &Config, open: &Open, next_hops, vip| {
        seen(config.clone(), open, next_hops, vip).map(|route| route.next_hop.len())
    };
    let v6_only = NextHops { ipv4: None, ..next_hops() };
    let v4_only = NextHops { ipv6: None, ..next_hops() };
    assert_eq!(next_hop(&config(), &offer(), next_hops(), vip), Some(4));
    assert_eq!(next_hop(&extended, &offer(), next_hops(), vip), Some(4), "the peer does not take it");
    assert_eq!(next_hop(&extended, &takes_extended, next_hops(), vip), Some(16));
    assert_eq!(next_hop(&extended, &takes_extended, v4_only, vip), Some(4));
    assert_eq!(next_hop(&extended, &offer(), v6_only, vip), None);
    assert_eq!(next_hop(&config(), &offer(), v4_only, vip_v6), None);
    assert_eq!(next_hop(&config(), &offer(), v6_only, vip_v6), Some(16));
    let two_octet = with(|open| open.capabilities.four_octet_as = None);
    assert_eq!(seen(config(), &two_octet, next_hops(), vip).unwrap().value(2).unwrap().len(), 4);
    let internal = Config { expected_as: ExpectedAs::Internal, ..config() };
    assert!(seen(internal, &of_as(OWN), next_hops(), vip).unwrap().value(5).is_some());
}

// shows: bgp B40
#[test]
fn routes_that_were_set_before_the_session_are_sent_when_it_is_established() {
    let mut session = session_in(State::OpenConfirm, config());
    let communities = Communities::new([Community::NO_EXPORT]).unwrap();
    let attributes = Arc::new(Attributes { communities, ..Attributes::default() });
    session.set_routes([(prefix("203.0.113.10"), attributes)].into());
    assert_eq!(transmit(&mut session, START), []);
    session.handle_bytes(&keepalive_bytes(), START);
    let mut listener = Listener::default();
    listener.receive(&transmit(&mut session, START));
    assert_eq!((listener.table.len(), session.sent()), (1, 1));
}
