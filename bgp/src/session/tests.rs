use std::collections::BTreeSet;

use super::ending::{CLOSE_TIME, LEAVE_TIME};
use super::*;
use crate::tests::{Listener, NODE, NODE_V6, prefix, unhex};
use crate::units::{Asn, Family, HoldTime, RouterId};
use crate::wire::{Capabilities, Message, NextHopV6, Open, decode, route_refresh};

mod bytes;
mod leaving;
mod offers;
mod properties;
mod table;
mod timers;

const START: Time = Time::from_nanos(1_000_000_000_000);
const PEER: u32 = 64500;
const OWN: u32 = 64512;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn config() -> Config {
    Config {
        local_as: Asn::new(OWN).unwrap(),
        router_id: RouterId::new(NODE).unwrap(),
        expected_as: ExpectedAs::External,
        families: Family::ALL.into(),
        hold_time: HoldTime::new(30).unwrap(),
        keepalive: None,
        extended_next_hop: false,
    }
}

fn next_hops() -> NextHops {
    NextHops { ipv4: Some(NODE), ipv6: Some(NextHopV6(NODE_V6.parse().unwrap(), None)) }
}

/// OPEN of the router: 90 s, both families.
fn offer() -> Open {
    Open {
        asn: Asn::new(PEER).unwrap(),
        hold_time: HoldTime::new(90).unwrap(),
        router_id: RouterId::new([192, 0, 2, 1].into()).unwrap(),
        capabilities: Capabilities {
            families: Family::ALL.into(),
            route_refresh: true,
            extended_next_hop: false,
            four_octet_as: Some(PEER),
        },
    }
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

fn open_bytes(open: &Open) -> Vec<u8> {
    encoded(|out| open.encode(out))
}

fn keepalive_bytes() -> Vec<u8> {
    encoded(keepalive)
}

fn refresh_bytes(family: Family) -> Vec<u8> {
    encoded(|out| route_refresh(out, family))
}

/// An UPDATE of the router that announces two prefixes.
fn update_bytes() -> Vec<u8> {
    unhex("M 001f 02 0000 0000 18c00002 18cb0071")
}

fn routes(prefixes: &[&str]) -> BTreeMap<Prefix, Arc<Attributes>> {
    prefixes.iter().map(|text| (prefix(text), Arc::new(Attributes::default()))).collect()
}

/// Names of the messages at the front of `bytes`.
fn names(mut bytes: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    while !bytes.is_empty() {
        let (message, length) = decode(bytes).unwrap().unwrap();
        names.push(match message {
            Message::Open(_) => "OPEN".to_owned(),
            Message::Update(_) => "UPDATE".to_owned(),
            Message::Notification(n) => format!("NOTIFICATION {}/{}", n.error.0, n.error.1),
            Message::Keepalive => "KEEPALIVE".to_owned(),
            Message::RouteRefresh(_) => "ROUTE-REFRESH".to_owned(),
        });
        bytes = &bytes[length..];
    }
    names
}

/// Takes all that the session wants to send, and returns the bytes.
fn transmit(session: &mut Session, now: Time) -> Vec<u8> {
    let mut sent = Vec::new();
    loop {
        let bytes = session.poll_transmit(now).to_vec();
        if bytes.is_empty() {
            return sent;
        }
        session.handle_transmitted(bytes.len(), now);
        sent.extend(bytes);
    }
}

fn events(session: &mut Session) -> Vec<Event> {
    std::iter::from_fn(|| session.poll_event()).collect()
}

/// Messages and actions of the session, in words; the connection takes everything.
fn outputs(session: &mut Session, now: Time) -> Vec<String> {
    let mut words = names(&transmit(session, now));
    words.extend(events(session).into_iter().map(|event| match event {
        Event::Dial => "dial".to_owned(),
        Event::Close { reset: false } => "close".to_owned(),
        Event::Close { reset: true } => "reset".to_owned(),
        Event::Established(_) => "up".to_owned(),
        Event::Down(_) => "down".to_owned(),
        Event::RoutesAcknowledged => "acknowledged".to_owned(),
    }));
    words
}

/// A session in this state since [`START`], without routes; all that it sent is acknowledged.
fn session_in(state: State, config: Config) -> Session {
    let mut session = Session::new(config, Random::new(1));
    for step in [State::Connect, State::OpenSent, State::OpenConfirm, State::Established] {
        if session.state() == state {
            break;
        }
        match step {
            State::Connect => session.start(START),
            State::OpenSent => session.handle_connected(next_hops(), START),
            State::OpenConfirm => session.handle_bytes(&open_bytes(&offer()), START),
            State::Established => session.handle_bytes(&keepalive_bytes(), START),
            State::Idle => unreachable!(),
        }
        transmit(&mut session, START);
    }
    session.handle_acknowledged(START);
    events(&mut session);
    assert_eq!(session.state(), state);
    session
}

fn established() -> Session {
    session_in(State::Established, config())
}

/// The reason of the only Down.
fn down(session: &mut Session) -> DownReason {
    let reasons: Vec<DownReason> = events(session)
        .into_iter()
        .filter_map(|event| match event {
            Event::Down(reason) => Some(reason),
            _ => None,
        })
        .collect();
    let [reason] = &reasons[..] else { panic!("{reasons:?}") };
    reason.clone()
}
