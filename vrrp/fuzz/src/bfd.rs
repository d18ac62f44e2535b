//! BFD: packets, and a session that receives them.

use std::num::NonZeroU32;
use std::time::Duration;

use windlass_bgp::Time;
use windlass_bgp::bfd::{Config, Diagnostic, LENGTH, Packet, Session, State};
use windlass_bgp::units::Random;

use crate::input::Input;

const OWN: NonZeroU32 = NonZeroU32::new(7).unwrap();
/// Most packets that are due at one time: an answer to a poll, and a change.
const PACKETS: usize = 2;

/// One input of `bfd`: timers, then commands.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let Some(config) = config(&mut input) else { return };
    let now = Time::from_nanos(1);
    let mut driver = Driver {
        session: Session::new(config, OWN, Random::new(1), now),
        now,
        received: now,
        detection: Duration::ZERO,
        state: State::Down,
    };
    while driver.command(&mut input).is_some() {}
}

fn config(input: &mut Input<'_>) -> Option<Config> {
    let [transmit, receive, multiplier] = input.bytes()?;
    let interval = |byte: u8| Duration::from_millis(10) * u32::from(byte.max(1));
    Some(Config {
        transmit: interval(transmit),
        receive: interval(receive),
        multiplier: multiplier.max(1).try_into().ok()?,
    })
}

struct Driver {
    session: Session,
    now: Time,
    /// Time of the last packet accepted, and the detection time since.
    received: Time,
    detection: Duration,
    /// The state by the events.
    state: State,
}

impl Driver {
    fn command(&mut self, input: &mut Input<'_>) -> Option<()> {
        match input.byte()? % 6 {
            0 => {
                let length = usize::from(input.byte()?);
                self.receive(input.at_most(length));
            }
            // A peer that knows the session.
            1 => self.receive(&answer(input)?),
            2 => self.now = self.session.poll_timeout().unwrap_or(self.now).max(self.now),
            3 => self.now = self.now + Duration::from_millis(input.short()?.into()),
            4 => {
                let config = config(input)?;
                self.session.reconfigure(config, self.now);
            }
            _ if self.state == State::AdminDown => self.session.enable(self.now),
            _ => self.session.take_down(self.now),
        }
        self.take_event(false);
        self.session.handle_timeout(self.now);
        self.take_event(true);
        self.carry_out();
        Some(())
    }

    fn receive(&mut self, bytes: &[u8]) {
        let decoded = Packet::decode(bytes);
        assert_eq!(decoded.is_ok(), is_right(bytes), "{decoded:?}");
        let Ok(packet) = decoded else { return };
        let encoded = packet.encode();
        assert_eq!(Packet::decode(&encoded), Ok(packet));
        // All but the length, the bits that mean nothing here, and echo.
        assert_eq!((encoded[0], encoded[1], encoded[2]), (bytes[0], bytes[1] & 0xf0, bytes[2]));
        assert_eq!(encoded[4..20], bytes[4..20]);
        let before = (self.session.state(), self.session.poll_timeout());
        if self.session.handle_packet(&packet, self.now).is_ok() {
            assert!(packet.your_discriminator.is_none_or(|your| your == OWN));
            if self.session.state() != State::AdminDown {
                (self.received, self.detection) = (self.now, self.session.detection_time());
            }
        } else {
            assert_eq!((self.session.state(), self.session.poll_timeout()), before);
        }
    }

    /// Legal changes alone, and none for silence before the detection time.
    fn take_event(&mut self, is_timeout: bool) {
        let Some(event) = self.session.poll_event() else { return };
        assert_eq!(event.from, self.state, "{event:?}");
        match (event.from, event.to) {
            (State::Down, State::Init | State::Up) | (State::Init, State::Up) => assert!(!is_timeout),
            (State::Init | State::Up, State::Down) => {
                let is_silence = event.diagnostic == Diagnostic::DETECTION_TIME_EXPIRED;
                assert_eq!(is_silence, is_timeout, "{event:?}");
                assert!(!is_silence || self.now.since(self.received) >= self.detection, "{event:?}");
            }
            (_, State::AdminDown) | (State::AdminDown, State::Down) => assert!(!is_timeout),
            _ => panic!("{event:?}"),
        }
        self.state = event.to;
    }

    fn carry_out(&mut self) {
        assert_eq!(self.state, self.session.state());
        let packets: Vec<Packet> =
            std::iter::from_fn(|| self.session.poll_transmit(self.now)).take(9).collect();
        assert!(packets.len() <= PACKETS, "{packets:?}");
        for packet in packets {
            assert!(!(packet.is_poll && packet.is_final));
            assert_eq!((packet.my_discriminator, packet.state), (OWN, self.state));
            assert!(packet.state == State::Up || packet.desired_transmit >= Duration::from_secs(1));
        }
        assert!(self.session.poll_timeout().is_none_or(|due| due > self.now), "{:?}", self.session);
        if let State::Init | State::Up = self.state {
            assert!(self.now.since(self.received) < self.detection, "{:?}", self.session);
        }
    }
}

/// A packet with what a peer may choose.
fn answer(input: &mut Input<'_>) -> Option<[u8; LENGTH]> {
    let [state, multiplier, transmit, receive] = input.bytes()?;
    let mut packet = [0; LENGTH];
    packet[..8].copy_from_slice(&[0x20, state & 0xf0, multiplier.max(1), 24, 0, 0, 0, 9]);
    packet[8..12].copy_from_slice(&OWN.get().to_be_bytes());
    packet[12..16].copy_from_slice(&(u32::from(transmit) * 10_000).to_be_bytes());
    packet[16..20].copy_from_slice(&(u32::from(receive) * 10_000).to_be_bytes());
    Some(packet)
}

/// A second reading of RFC 5880 §6.8.6.
fn is_right(bytes: &[u8]) -> bool {
    let [head, flags, multiplier, length, rest @ ..] = bytes else { return false };
    let (Some(my), Some(your)) = (rest.get(..4), rest.get(4..8)) else { return false };
    let is_authenticated = flags & 4 != 0;
    head >> 5 == 1
        && usize::from(*length) >= LENGTH
        && usize::from(*length) <= bytes.len()
        && *multiplier != 0
        && flags & 1 == 0
        && my != [0; 4]
        && (your != [0; 4] || flags >> 6 < 2)
        && !is_authenticated
}
