use super::*;
use crate::tests::{hex, unhex};

mod packets;
mod table;
mod timers;

const START: Time = Time::from_nanos(1_000_000_000_000);
const OWN: NonZeroU32 = NonZeroU32::new(0x1122_3344).unwrap();
const PEER: NonZeroU32 = NonZeroU32::new(0xaabb_ccdd).unwrap();

fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn multiplier(number: u8) -> NonZeroU8 {
    NonZeroU8::new(number).unwrap()
}

fn config() -> Config {
    Config { transmit: millis(300), receive: millis(300), multiplier: multiplier(3) }
}

/// A packet of the peer, whose timers are as ours.
fn packet(state: State) -> Packet {
    Packet {
        diagnostic: Diagnostic::NONE,
        state,
        is_poll: false,
        is_final: false,
        multiplier: multiplier(3),
        my_discriminator: PEER,
        your_discriminator: Some(OWN),
        desired_transmit: millis(300),
        required_receive: millis(300),
    }
}

fn session() -> Session {
    Session::new(config(), OWN, Random::new(1), START)
}

/// The packets that are due.
fn sent(session: &mut Session, now: Time) -> Vec<Packet> {
    std::iter::from_fn(|| session.poll_transmit(now)).collect()
}

/// A session in this state since [`START`]; its packets and events are taken.
fn session_in(state: State) -> Session {
    let mut session = session();
    match state {
        State::AdminDown => session.take_down(START),
        State::Down => {}
        State::Init => session.handle_packet(&packet(State::Down), START).unwrap(),
        State::Up => session.handle_packet(&packet(State::Init), START).unwrap(),
    }
    sent(&mut session, START);
    session.poll_event();
    assert_eq!(session.state(), state);
    session
}

/// The same with the poll that ends the slow start answered.
fn settled() -> Session {
    let mut session = session_in(State::Up);
    session.handle_packet(&Packet { is_final: true, ..packet(State::Up) }, START).unwrap();
    session
}
