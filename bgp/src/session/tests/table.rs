//! RFC 4271 §8.2.2 for active open as one table, walked over all states and events.

use super::*;

/// Situations of the table: the states, and conditions within them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Situation {
    /// Idle, not started.
    Stopped,
    /// Idle, an attempt was refused at [`START`].
    Waiting,
    /// Idle, a NOTIFICATION is written that the connection does not take.
    Closing,
    Connect,
    OpenSent,
    OpenConfirm,
    Established,
    /// Established with a route, stopped; its withdrawal is written and not acknowledged.
    Leaving,
}

const SITUATIONS: [Situation; 8] = [
    Situation::Stopped,
    Situation::Waiting,
    Situation::Closing,
    Situation::Connect,
    Situation::OpenSent,
    Situation::OpenConfirm,
    Situation::Established,
    Situation::Leaving,
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Input {
    Start,
    Stop,
    /// The next timer.
    Timer,
    TimerEarly,
    /// No byte was taken for 480 s; the hold timer does not run.
    SendHold,
    Connected,
    Closed,
    OpenGood,
    OpenBad,
    Keepalive,
    Update,
    Refresh,
    BadHeader,
    Notification,
    BfdDown,
    Acknowledged,
}

const INPUTS: [Input; 16] = [
    Input::Start,
    Input::Stop,
    Input::Timer,
    Input::TimerEarly,
    Input::SendHold,
    Input::Connected,
    Input::Closed,
    Input::OpenGood,
    Input::OpenBad,
    Input::Keepalive,
    Input::Update,
    Input::Refresh,
    Input::BadHeader,
    Input::Notification,
    Input::BfdDown,
    Input::Acknowledged,
];

/// The timer after an input.
#[derive(Clone, Copy, Debug)]
enum Timer {
    Off,
    /// As before.
    Kept,
    /// So many seconds after the input.
    In(u64),
    /// 75 to 100 % of so many seconds after the input.
    About(u64),
    /// At most 5 s after [`START`], when BFD ended the connection.
    Retry,
}

/// Messages and actions, the next state, and the timer.
type Outcome = (&'static [&'static str], State, Timer);

const NOTHING: &[&str] = &[];
/// After a refusal.
const REFUSED: Timer = Timer::About(5);

fn situation(situation: Situation, config: &Config) -> Session {
    let in_state = |state| session_in(state, config.clone());
    match situation {
        Situation::Stopped => in_state(State::Idle),
        Situation::Waiting => {
            let mut session = in_state(State::Connect);
            session.handle_closed(START);
            events(&mut session);
            session
        }
        Situation::Closing => {
            let mut session = in_state(State::OpenSent);
            session.handle_bfd_down(START);
            assert!(!session.poll_transmit(START).is_empty());
            events(&mut session);
            session
        }
        Situation::Connect => in_state(State::Connect),
        Situation::OpenSent => in_state(State::OpenSent),
        Situation::OpenConfirm => in_state(State::OpenConfirm),
        Situation::Established => in_state(State::Established),
        Situation::Leaving => {
            let mut session = in_state(State::Established);
            session.set_routes(routes(&["203.0.113.10"]));
            transmit(&mut session, START);
            session.stop(ErrorCode::SHUTDOWN.into(), START);
            assert_eq!(names(&transmit(&mut session, START)), ["UPDATE"]);
            session
        }
    }
}

/// Feeds `input` to `session` and returns when it happened.
fn feed(session: &mut Session, input: Input) -> Time {
    let soon = START + Duration::from_millis(500);
    let mut receive = |bytes: Vec<u8>| session.handle_bytes(&bytes, soon);
    match input {
        Input::Start => session.start(soon),
        Input::Stop => session.stop(ErrorCode::SHUTDOWN.into(), soon),
        Input::Timer => {
            let due = session.poll_timeout().unwrap_or(soon);
            session.handle_timeout(due);
            return due;
        }
        Input::TimerEarly => session.handle_timeout(soon),
        Input::SendHold => {
            session.set_routes(routes(&["203.0.113.11"]));
            session.poll_transmit(START);
            let late = START + SEND_HOLD_TIME;
            session.handle_timeout(late);
            return late;
        }
        Input::Connected => session.handle_connected(next_hops(), soon),
        Input::Closed => session.handle_closed(soon),
        Input::OpenGood => receive(open_bytes(&offer())),
        Input::OpenBad => receive(open_bytes(&Open {
            asn: Asn::new(OWN).unwrap(),
            capabilities: Capabilities::none(),
            ..offer()
        })),
        Input::Keepalive => receive(keepalive_bytes()),
        Input::Update => receive(update_bytes()),
        Input::Refresh => receive(refresh_bytes(Family::V4)),
        Input::BadHeader => receive(unhex("M 0013 09")),
        Input::Notification => receive(encoded(|out| Notification::shutdown("bye").encode(out))),
        Input::BfdDown => session.handle_bfd_down(soon),
        Input::Acknowledged => session.handle_acknowledged(soon),
    }
    soon
}

#[expect(clippy::match_same_arms, reason = "each situation has its own rows")]
fn outcome(situation: Situation, input: Input) -> Outcome {
    use Input as E;
    use State::{Connect, Established, Idle, OpenConfirm, OpenSent};
    use Timer::{About, In, Kept, Off, Retry};
    match (situation, input) {
        (Situation::Stopped, E::Start) => (&["dial"], Connect, In(5)),
        (Situation::Stopped, E::Connected) => (&["reset"], Idle, Off),
        (Situation::Stopped, _) => (NOTHING, Idle, Off),

        (Situation::Waiting, E::Stop) => (NOTHING, Idle, Off),
        (Situation::Waiting, E::Timer | E::SendHold) => (&["dial"], Connect, In(5)),
        (Situation::Waiting, E::Connected) => (&["reset"], Idle, Kept),
        (Situation::Waiting, _) => (NOTHING, Idle, Kept),

        // The rest of the connection goes, then the next attempt follows.
        (Situation::Closing, E::Stop) => (&["NOTIFICATION 6/10", "close"], Idle, Off),
        (Situation::Closing, E::Timer) => (&["reset"], Idle, Retry),
        (Situation::Closing, E::SendHold) => (&["reset", "dial"], Connect, In(5)),
        (Situation::Closing, E::Connected) => (&["reset"], Idle, Retry),
        (Situation::Closing, E::Closed) => (NOTHING, Idle, Retry),
        (Situation::Closing, _) => (&["NOTIFICATION 6/10", "close"], Idle, Retry),

        (Situation::Connect, E::Stop) => (&["reset", "down"], Idle, Off),
        (Situation::Connect, E::Timer | E::SendHold) => (&["reset", "down"], Idle, About(1)),
        (Situation::Connect, E::Connected) => (&["OPEN"], OpenSent, In(240)),
        (Situation::Connect, E::Closed) => (&["down"], Idle, About(1)),
        (Situation::Connect, _) => (NOTHING, Connect, Kept),

        (Situation::OpenSent, E::Stop) => (&["NOTIFICATION 6/2", "down", "close"], Idle, Off),
        (Situation::OpenSent, E::Timer | E::SendHold) => {
            (&["NOTIFICATION 4/0", "down", "close"], Idle, REFUSED)
        }
        (Situation::OpenSent, E::Closed) => (&["down"], Idle, REFUSED),
        (Situation::OpenSent, E::OpenGood) => (&["KEEPALIVE"], OpenConfirm, About(10)),
        (Situation::OpenSent, E::OpenBad) => (&["NOTIFICATION 2/2", "down", "close"], Idle, REFUSED),
        (Situation::OpenSent, E::Keepalive | E::Update | E::Refresh) => {
            (&["NOTIFICATION 5/1", "down", "close"], Idle, REFUSED)
        }
        (Situation::OpenSent, E::Start | E::TimerEarly | E::Connected | E::Acknowledged) => {
            (NOTHING, OpenSent, Kept)
        }

        (Situation::OpenConfirm, E::Stop) => (&["NOTIFICATION 6/2", "down", "close"], Idle, Off),
        (Situation::OpenConfirm, E::Timer) => (&["KEEPALIVE"], OpenConfirm, About(10)),
        // All that it sends is taken.
        (Situation::OpenConfirm, E::SendHold) => (NOTHING, OpenConfirm, Off),
        (Situation::OpenConfirm, E::Closed) => (&["down"], Idle, REFUSED),
        (Situation::OpenConfirm, E::Keepalive) => (&["UPDATE", "UPDATE", "up"], Established, Kept),
        (Situation::OpenConfirm, E::OpenGood | E::OpenBad | E::Update | E::Refresh) => {
            (&["NOTIFICATION 5/2", "down", "close"], Idle, REFUSED)
        }
        (Situation::OpenConfirm, E::Start | E::TimerEarly | E::Connected | E::Acknowledged) => {
            (NOTHING, OpenConfirm, Kept)
        }

        (Situation::Established, E::Stop) => (&["NOTIFICATION 6/2", "down", "close"], Idle, Off),
        (Situation::Established, E::Timer) => (&["KEEPALIVE"], Established, About(10)),
        // The UPDATE of the route goes first: the connection has its beginning.
        (Situation::Established, E::SendHold) => {
            (&["UPDATE", "NOTIFICATION 8/0", "down", "close"], Idle, About(1))
        }
        (Situation::Established, E::Closed) => (&["down"], Idle, REFUSED),
        (Situation::Established, E::OpenGood | E::OpenBad) => {
            (&["NOTIFICATION 5/3", "down", "close"], Idle, REFUSED)
        }
        (
            Situation::Established,
            E::Start | E::TimerEarly | E::Connected | E::Keepalive | E::Update | E::Refresh | E::Acknowledged,
        ) => (NOTHING, Established, Kept),

        (Situation::Leaving, E::Start) => (NOTHING, Established, Kept),
        (
            Situation::Leaving,
            E::Stop | E::TimerEarly | E::Connected | E::Keepalive | E::Update | E::Refresh,
        ) => (NOTHING, Established, Kept),
        (Situation::Leaving, E::Timer | E::SendHold) => (&["NOTIFICATION 6/2", "down", "close"], Idle, Off),
        (Situation::Leaving, E::Acknowledged) => {
            (&["NOTIFICATION 6/2", "acknowledged", "down", "close"], Idle, Off)
        }
        (Situation::Leaving, E::Closed) => (&["down"], Idle, Off),
        (Situation::Leaving, E::OpenGood | E::OpenBad) => (&["NOTIFICATION 5/3", "down", "close"], Idle, Off),
        (Situation::Leaving, E::Notification) => (&["close", "down"], Idle, Off),
        (Situation::Leaving, E::BfdDown) => (&["NOTIFICATION 6/10", "down", "close"], Idle, Off),
        (Situation::Leaving, E::BadHeader) => (&["NOTIFICATION 1/3", "down", "close"], Idle, Off),

        // In every state with a connection:
        (_, E::BadHeader) => (&["NOTIFICATION 1/3", "down", "close"], Idle, REFUSED),
        (_, E::Notification) => (&["close", "down"], Idle, REFUSED),
        (_, E::BfdDown) => (&["NOTIFICATION 6/10", "down", "close"], Idle, REFUSED),
    }
}

// shows: bgp B20, B21, B90
#[test]
fn every_state_meets_every_event_as_the_table_says() {
    for from in SITUATIONS {
        for input in INPUTS {
            let hold_time = HoldTime::new(if input == Input::SendHold { 0 } else { 30 }).unwrap();
            let mut session = situation(from, &Config { hold_time, ..config() });
            let before = session.poll_timeout();
            let at = feed(&mut session, input);
            let done = outputs(&mut session, at);
            let (expected, state, timer) = outcome(from, input);
            let name = format!("{from:?}, {input:?}");
            assert_eq!(done, expected, "{name}");
            assert_eq!(session.state(), state, "{name}");
            let due = session.poll_timeout();
            match timer {
                Timer::Off => assert_eq!(due, None, "{name}"),
                Timer::Kept => assert_eq!(due, before, "{name}"),
                Timer::In(seconds) => assert_eq!(due, Some(at + secs(seconds)), "{name}"),
                Timer::Retry => assert!(due.unwrap().since(START) <= secs(5), "{name}"),
                Timer::About(seconds) => {
                    let wait = due.unwrap().since(at);
                    assert!(wait >= secs(seconds) * 3 / 4 && wait <= secs(seconds), "{name}: {wait:?}");
                }
            }
        }
    }
}
