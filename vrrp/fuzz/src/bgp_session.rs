//! The BGP session: settings, then commands as a careless driver gives them, and bytes of a careless or hostile peer.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use windlass_bgp::session::{Config, ExpectedAs, NextHops};
use windlass_bgp::units::Random;
use windlass_bgp::wire::{
    Attributes, Capabilities, ErrorCode, MAX_LENGTH, NextHopV6, Open, decode, keepalive, route_refresh,
};
use windlass_bgp::{Asn, Event, Family, HoldTime, Prefix, RouterId, Session, State, Time};

use crate::input::Input;

const OWN: u32 = 64512;
/// Most events that one input causes.
const EVENTS: usize = 8;

/// One input of `bgp_session`.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let Some(flags) = input.byte() else { return };
    let Some(config) = config(flags) else { panic!("settings that are refused") };
    let mut driver = Driver {
        session: Session::new(config, Random::new(flags.into())),
        now: Time::from_nanos(1),
        taken: Vec::new(),
    };
    while driver.command(&mut input).is_some() {
        driver.check();
    }
}

fn config(flags: u8) -> Option<Config> {
    let families = if flags & 1 == 0 { vec![Family::V4] } else { Family::ALL.to_vec() };
    let asn = |number| Asn::new(number).ok();
    Some(Config {
        local_as: asn(OWN)?,
        router_id: RouterId::new(Ipv4Addr::new(192, 0, 2, 1)).ok()?,
        expected_as: match flags >> 1 & 3 {
            0 => ExpectedAs::External,
            1 => ExpectedAs::Internal,
            _ => ExpectedAs::Exactly(asn(64500)?),
        },
        families: families.into_iter().collect(),
        hold_time: HoldTime::new(if flags & 8 == 0 { 9 } else { 0 }).ok()?,
        keepalive: (flags & 16 != 0).then_some(Duration::from_secs(2)),
        extended_next_hop: flags & 32 != 0,
    })
}

struct Driver {
    session: Session,
    now: Time,
    /// Bytes of a message that the connection has not taken as a whole.
    taken: Vec<u8>,
}

impl Driver {
    fn command(&mut self, input: &mut Input<'_>) -> Option<()> {
        match input.byte()? % 14 {
            0 => self.session.start(self.now),
            1 => self.session.stop(ErrorCode::SHUTDOWN.into(), self.now),
            2 => self.connect(input.byte()?),
            3 => self.session.handle_closed(self.now),
            4 => {
                let length = usize::from(input.short()?);
                let bytes = input.at_most(length);
                self.session.handle_bytes(bytes, self.now);
            }
            5 => self.greet(input.byte()?),
            6 => self.write(usize::from(input.short()?)),
            7 => self.session.handle_acknowledged(self.now),
            8 => self.session.handle_bfd_down(self.now),
            9 => self.session.set_routes(routes(input.byte()? % 32)),
            10 => self.now = self.session.poll_timeout().unwrap_or(self.now).max(self.now),
            11 => self.now = self.now + Duration::from_millis(u64::from(input.short()?) * 10),
            12 => self.hear(keepalive),
            _ => {
                let family = if input.byte()? & 1 == 0 { Family::V4 } else { Family::V6 };
                self.hear(|out| route_refresh(out, family));
            }
        }
        self.session.handle_timeout(self.now);
        Some(())
    }

    fn connect(&mut self, flags: u8) {
        let ipv6 = NextHopV6(Ipv6Addr::from([0x20; 16]), (flags & 4 != 0).then_some(Ipv6Addr::LOCALHOST));
        let next_hops = NextHops {
            ipv4: (flags & 1 != 0).then_some(Ipv4Addr::new(192, 0, 2, 1)),
            ipv6: (flags & 2 != 0).then_some(ipv6),
        };
        self.session.handle_connected(next_hops, self.now);
    }

    /// OPEN of a peer that may fit.
    fn greet(&mut self, flags: u8) {
        let number = if flags & 1 == 0 { 64500 } else { OWN };
        let hold = if flags & 2 == 0 { 90 } else { 3 };
        let router_id = RouterId::new(Ipv4Addr::new(192, 0, 2, 2));
        let (Ok(asn), Ok(hold_time), Ok(router_id)) = (Asn::new(number), HoldTime::new(hold), router_id)
        else {
            panic!("numbers that are refused")
        };
        let capabilities = Capabilities {
            families: Family::ALL.into_iter().filter(|family| flags & 4 << family.afi() == 0).collect(),
            route_refresh: flags & 32 == 0,
            extended_next_hop: flags & 64 != 0,
            four_octet_as: (flags & 128 == 0).then_some(number),
        };
        self.hear(|out| Open { asn, hold_time, router_id, capabilities }.encode(out));
    }

    fn hear(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        encode(&mut bytes);
        self.session.handle_bytes(&bytes, self.now);
    }

    /// The connection takes so many bytes; all that is sent makes sense.
    fn write(&mut self, room: usize) {
        let pending = self.session.poll_transmit(self.now);
        let count = pending.len().min(room);
        self.taken.extend(&pending[..count]);
        self.session.handle_transmitted(count, self.now);
        while let Some((_, length)) = decode(&self.taken).expect("a message that is right") {
            self.taken.drain(..length);
        }
    }

    fn check(&mut self) {
        let events: Vec<Event> = std::iter::from_fn(|| self.session.poll_event()).collect();
        assert!(events.len() <= EVENTS, "{events:?}");
        if events.iter().any(|event| matches!(event, Event::Close { .. } | Event::Dial)) {
            self.taken.clear();
        }
        assert!(self.session.poll_timeout().is_none_or(|due| due > self.now), "{:?}", self.session);
        assert!(self.session.poll_transmit(self.now).len() <= 2 * MAX_LENGTH);
        match self.session.state() {
            State::Idle | State::Connect => {
                assert_eq!(self.session.sent(), 0);
                assert!(self.session.negotiated().is_none());
            }
            State::OpenSent => assert!(self.session.negotiated().is_none()),
            State::OpenConfirm | State::Established => assert!(self.session.negotiated().is_some()),
        }
    }
}

fn routes(count: u8) -> BTreeMap<Prefix, Arc<Attributes>> {
    let attributes = Arc::new(Attributes::default());
    let address = |number: u8| -> IpAddr {
        if number & 1 == 0 {
            Ipv4Addr::new(203, 0, 113, number).into()
        } else {
            Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, number.into()).into()
        }
    };
    (0..count)
        .filter_map(|number| Some((Prefix::try_from(address(number)).ok()?, Arc::clone(&attributes))))
        .collect()
}
