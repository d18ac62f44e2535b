//! A speaker and a router on a path with faults, in virtual time: nothing waits, nothing is random but by seed.
//!
//! The speaker dials, the router takes each connection with a session of its own. TCP delivers in order, late after a cut, and takes no more
//! than a window; BFD packets are lost. After every step the invariants are looked at:
//!
//! | | always |
//! |---|---|
//! | sense | each message is legal, and no route is withdrawn that was not announced ([`Listener`]) |
//! | bounded | the session keeps no more than two messages for a connection that takes nothing |
//! | silence | a speaker that runs is not Established after a silent hold time, nor BFD Up after a silent detection time |
//! | patience | and neither ends for silence before |
//! | cause | no session ends without a fault |
//! | calm | in the end the session is Established and the router has the desired routes |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::bfd;
use crate::session::{Config, DownReason, Event, ExpectedAs, NextHops, Session, State};
use crate::tests::{Listener, NODE, NODE_V6};
use crate::units::{Asn, Family, HoldTime, Prefix, Random, RouterId, Time};
use crate::wire::{Attributes, ErrorCode, MAX_LENGTH, NextHopV6, Notification, route_refresh};

mod histories;
mod link;
mod scenarios;

use link::{Datagram, Link, Segment, Side};

const HOLD: Duration = Duration::from_secs(9);
/// 300 ms × 3 on both sides.
const DETECTION: Duration = Duration::from_millis(900);

/// Type of the message.
const ROUTE_REFRESH: u8 = 5;

type Routes = BTreeMap<Prefix, Arc<Attributes>>;

fn config(local_as: u32, router_id: [u8; 4]) -> Config {
    Config {
        local_as: Asn::new(local_as).unwrap(),
        router_id: RouterId::new(router_id.into()).unwrap(),
        expected_as: ExpectedAs::External,
        families: Family::ALL.into(),
        hold_time: HoldTime::new(9).unwrap(),
        keepalive: None,
        extended_next_hop: false,
    }
}

fn next_hops() -> NextHops {
    NextHops { ipv4: Some(NODE), ipv6: Some(NextHopV6(NODE_V6.parse().unwrap(), None)) }
}

fn new_bfd(number: u32, random: &mut Random, now: Time) -> bfd::Session {
    let interval = Duration::from_millis(300);
    let config = bfd::Config { transmit: interval, receive: interval, multiplier: 3.try_into().unwrap() };
    bfd::Session::new(config, number.try_into().unwrap(), Random::new(random.roll()), now)
}

/// The router's end of a connection.
#[derive(Debug)]
struct Accepted {
    connection: u32,
    session: Session,
    /// Bytes of a message that is not whole.
    partial: Vec<u8>,
    listener: Listener,
}

#[derive(Debug)]
struct World {
    now: Time,
    random: Random,
    link: Link,
    speaker: Session,
    speaker_bfd: bfd::Session,
    /// The speaker does not run until then.
    frozen_until: Time,
    desired: Routes,
    dialled: u32,
    /// The speaker's connection.
    connection: Option<u32>,
    router: Option<Accepted>,
    /// `None` while the router is crashed.
    router_bfd: Option<bfd::Session>,
    /// Times at which the speaker last received bytes, and a BFD packet.
    received: Time,
    received_bfd: Time,
    last_fault: Time,
    downs: Vec<(Time, DownReason)>,
    bfd_events: Vec<(Time, bfd::Event)>,
    acknowledged: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let now = Time::from_nanos(1_000_000_000_000);
        let mut random = Random::new(seed);
        let speaker = Session::new(config(64512, NODE.octets()), Random::new(random.roll()));
        let mut speaker_bfd = new_bfd(1, &mut random, now);
        speaker_bfd.take_down(now);
        let router_bfd = Some(new_bfd(2, &mut random, now));
        let mut world = Self {
            now,
            random,
            link: Link::new(),
            speaker,
            speaker_bfd,
            frozen_until: now,
            desired: Routes::new(),
            dialled: 0,
            connection: None,
            router: None,
            router_bfd,
            received: now,
            received_bfd: now,
            last_fault: now,
            downs: Vec::new(),
            bfd_events: Vec::new(),
            acknowledged: 0,
        };
        world.speaker.start(now);
        world.settle();
        world
    }

    /// A fault begins or ends.
    fn disturb(&mut self) {
        self.last_fault = self.now.max(self.frozen_until);
    }

    fn set_routes(&mut self, desired: Routes) {
        self.desired = desired.clone();
        self.speaker.set_routes(desired);
        self.settle();
    }

    fn stop(&mut self) {
        self.disturb();
        self.speaker.stop(Notification::shutdown("test"), self.now);
        self.settle();
    }

    fn start(&mut self) {
        self.speaker.start(self.now);
        self.speaker.set_routes(self.desired.clone());
        self.settle();
    }

    /// The router's host loses its power: no FIN.
    fn crash_router(&mut self) {
        self.disturb();
        (self.router, self.router_bfd) = (None, None);
    }

    fn restart_router(&mut self) {
        self.disturb();
        self.router_bfd.get_or_insert_with(|| new_bfd(self.dialled + 2, &mut self.random, self.now));
        self.settle();
    }

    /// The router asks for all routes of a family.
    fn refresh(&mut self, family: Family) {
        if let Some(router) =
            self.router.as_mut().filter(|router| router.session.state() == State::Established)
        {
            let mut bytes = Vec::new();
            route_refresh(&mut bytes, family);
            self.link.send(Side::Speaker, Segment::Bytes(bytes), router.connection, self.now);
        }
    }

    /// The router's table.
    fn table(&self) -> Vec<Prefix> {
        let router = self.router.as_ref().filter(|router| router.session.state() == State::Established);
        router.map(|router| router.listener.table.keys().copied().collect()).unwrap_or_default()
    }

    fn is_calm(&self) -> bool {
        let has_all = self.table().iter().eq(self.desired.keys());
        self.speaker.state() == State::Established && self.speaker_bfd.state() == bfd::State::Up && has_all
    }

    fn is_frozen(&self) -> bool {
        self.now < self.frozen_until
    }

    /// Moves time on by `duration`.
    fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        let mut steps = 0;
        while let Some(next) = self.next_time().filter(|next| *next <= end) {
            steps = if next > self.now { 0 } else { steps + 1 };
            assert!(steps < 10_000, "time does not move on: {self:#?}");
            self.now = self.now.max(next);
            self.step();
        }
        self.now = end;
    }

    fn next_time(&self) -> Option<Time> {
        let speaker = [self.speaker.poll_timeout(), self.speaker_bfd.poll_timeout()];
        let speaker = speaker.into_iter().flatten().chain(self.link.next(Side::Speaker));
        let speaker = speaker.map(|time| time.max(self.frozen_until));
        let router = self.router.as_ref().and_then(|router| router.session.poll_timeout());
        let bfd = self.router_bfd.as_ref().and_then(bfd::Session::poll_timeout);
        speaker.chain(router).chain(bfd).chain(self.link.next(Side::Router)).min()
    }

    /// Delivers what has arrived, then looks at the timers.
    fn step(&mut self) {
        if !self.is_frozen() {
            while let Some(Datagram { arrival, packet }) = self.link.take_datagram(Side::Speaker, self.now) {
                if self.speaker_bfd.handle_packet(&packet, arrival).is_ok() {
                    self.received_bfd = arrival;
                }
                self.settle();
            }
            while let Some((segment, connection)) = self.link.take_segment(Side::Speaker, self.now) {
                self.speaker_receives(segment, connection);
                self.settle();
            }
            self.speaker_bfd.handle_timeout(self.now);
            self.speaker.handle_timeout(self.now);
        }
        while let Some(Datagram { arrival, packet }) = self.link.take_datagram(Side::Router, self.now) {
            if let Some(bfd) = &mut self.router_bfd {
                let _ = bfd.handle_packet(&packet, arrival);
            }
        }
        while let Some((segment, connection)) = self.link.take_segment(Side::Router, self.now) {
            self.router_receives(segment, connection);
            self.settle();
        }
        if let Some(bfd) = &mut self.router_bfd {
            bfd.handle_timeout(self.now);
        }
        if let Some(router) = &mut self.router {
            router.session.handle_timeout(self.now);
        }
        self.settle();
        self.check();
    }

    fn speaker_receives(&mut self, segment: Segment, connection: u32) {
        if self.connection != Some(connection) {
            return;
        }
        match segment {
            Segment::Connect => {
                self.received = self.now;
                self.speaker.handle_connected(next_hops(), self.now);
            }
            Segment::Bytes(bytes) => {
                // KEEPALIVE and UPDATE alone restart the hold timer.
                if bytes.get(18) != Some(&ROUTE_REFRESH) {
                    self.received = self.now;
                }
                self.speaker.handle_bytes(&bytes, self.now);
            }
            Segment::Close => {
                self.connection = None;
                self.speaker.handle_closed(self.now);
            }
        }
    }

    fn router_receives(&mut self, segment: Segment, connection: u32) {
        if self.router_bfd.is_none() {
            return;
        }
        let current = self.router.as_mut().filter(|router| router.connection == connection);
        match (segment, current) {
            (Segment::Connect, _) => {
                let mut session =
                    Session::new(config(64500, [192, 0, 2, 1]), Random::new(self.random.roll()));
                session.start(self.now);
                session.handle_connected(next_hops(), self.now);
                let listener = Listener::default();
                self.router = Some(Accepted { connection, session, partial: Vec::new(), listener });
                self.link.send(Side::Speaker, Segment::Connect, connection, self.now);
            }
            (Segment::Bytes(bytes), Some(router)) => {
                router.session.handle_bytes(&bytes, self.now);
                router.partial.extend(bytes);
                let taken = router.listener.receive(&router.partial);
                router.partial.drain(..taken);
            }
            // The router knows nothing of it, or closes as well.
            (Segment::Bytes(_), None) => self.link.send(Side::Speaker, Segment::Close, connection, self.now),
            (Segment::Close, Some(_)) => self.router = None,
            (Segment::Close, None) => {}
        }
    }

    /// Carries out what both sides want.
    fn settle(&mut self) {
        if !self.is_frozen() {
            self.settle_speaker();
        }
        while let Some(packet) = self.router_bfd.as_mut().and_then(|bfd| bfd.poll_transmit(self.now)) {
            self.link.send_packet(Side::Speaker, packet, self.now, &mut self.random);
        }
        let Some(router) = &mut self.router else { return };
        let connection = router.connection;
        self.link.transmit(&mut router.session, Side::Speaker, connection, self.now);
        let mut is_over = false;
        while let Some(event) = router.session.poll_event() {
            match event {
                Event::Close { .. } => {
                    self.link.send(Side::Speaker, Segment::Close, connection, self.now);
                    is_over = true;
                }
                Event::Dial | Event::Established(_) | Event::Down(_) | Event::RoutesAcknowledged => {}
            }
        }
        if is_over {
            self.router = None;
        }
    }

    fn settle_speaker(&mut self) {
        while let Some(packet) = self.speaker_bfd.poll_transmit(self.now) {
            self.link.send_packet(Side::Router, packet, self.now, &mut self.random);
        }
        if let Some(event) = self.speaker_bfd.poll_event() {
            self.bfd_events.push((self.now, event));
            let is_lost = event.from == bfd::State::Up && event.to == bfd::State::Down;
            if is_lost && event.remote != bfd::State::AdminDown {
                self.speaker.handle_bfd_down(self.now);
            }
        }
        if let Some(connection) = self.connection {
            self.link.transmit(&mut self.speaker, Side::Router, connection, self.now);
            if self.speaker.awaits_acknowledgement() && self.link.is_acknowledged(Side::Router) {
                self.speaker.handle_acknowledged(self.now);
                self.link.transmit(&mut self.speaker, Side::Router, connection, self.now);
            }
        }
        while let Some(event) = self.speaker.poll_event() {
            match event {
                Event::Dial => {
                    self.dialled += 1;
                    self.connection = Some(self.dialled);
                    self.link.reconnect();
                    self.link.send(Side::Router, Segment::Connect, self.dialled, self.now);
                }
                Event::Close { .. } => {
                    if let Some(connection) = self.connection.take() {
                        self.link.send(Side::Router, Segment::Close, connection, self.now);
                    }
                }
                Event::Down(reason) => {
                    self.speaker_bfd.take_down(self.now);
                    self.went_down(reason);
                }
                Event::RoutesAcknowledged => self.acknowledged += 1,
                Event::Established(_) => self.speaker_bfd.enable(self.now),
            }
        }
    }

    /// Patience and cause.
    fn went_down(&mut self, reason: DownReason) {
        let expired = DownReason::Sent(ErrorCode::HOLD_TIMER_EXPIRED.into());
        let silent = self.now.since(self.received);
        assert!(reason != expired || silent >= HOLD, "the hold time was over after {silent:?}");
        let since = self.now.since(self.last_fault);
        assert!(since < HOLD * 4, "{reason} {since:?} after the last fault: {self:#?}");
        self.downs.push((self.now, reason));
    }

    /// Bounded and silence.
    fn check(&mut self) {
        assert!(self.speaker.poll_transmit(self.now).len() <= 2 * MAX_LENGTH);
        if self.is_frozen() {
            return;
        }
        let (silent, silent_bfd) = (self.now.since(self.received), self.now.since(self.received_bfd));
        let is_up = self.speaker.state() == State::Established;
        assert!(!is_up || silent < HOLD, "Established after {silent:?} of silence");
        let is_up = self.speaker_bfd.state() == bfd::State::Up;
        // The peer's slow packets count until its first fast one.
        let limit = self.speaker_bfd.detection_time();
        assert!(!is_up || silent_bfd < limit, "BFD is Up after {silent_bfd:?} of silence");
        if let Some((at, event)) = self.bfd_events.last().filter(|(at, _)| *at == self.now) {
            let expired =
                event.to == bfd::State::Down && event.diagnostic == bfd::Diagnostic::DETECTION_TIME_EXPIRED;
            assert!(!expired || at.since(self.received_bfd) >= DETECTION, "BFD lost patience: {event:?}");
        }
    }
}
