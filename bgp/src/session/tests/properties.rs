//! Properties of all histories.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Input {
    Start,
    Stop,
    Connected,
    Closed,
    Bytes(Vec<u8>),
    Transmitted(usize),
    Acknowledged,
    BfdDown,
    Routes(u8),
    Timeout,
    Later(u16),
}

fn inputs() -> impl Strategy<Value = Vec<Input>> {
    let good = prop_oneof![
        Just(open_bytes(&offer())),
        Just(keepalive_bytes()),
        Just(keepalive_bytes()),
        Just(update_bytes()),
        Just(refresh_bytes(Family::V4)),
        Just(refresh_bytes(Family::V6)),
        vec(any::<u8>(), 0..40),
    ];
    let input = prop_oneof![
        2 => Just(Input::Start),
        1 => Just(Input::Stop),
        4 => Just(Input::Connected),
        1 => Just(Input::Closed),
        12 => good.prop_map(Input::Bytes),
        8 => prop_oneof![0..64_usize, Just(5000)].prop_map(Input::Transmitted),
        4 => Just(Input::Acknowledged),
        1 => Just(Input::BfdDown),
        4 => (0..20_u8).prop_map(Input::Routes),
        4 => Just(Input::Timeout),
        2 => (0..60_000_u16).prop_map(Input::Later),
    ];
    vec(input, 0..80)
}

proptest! {
    // shows: bgp B20, B26, B60
    /// In any order, also an impossible one.
    #[test]
    fn any_inputs_leave_a_session_bounded_and_due_in_the_future(inputs in inputs(), is_up in any::<bool>()) {
        let mut session = session_in(if is_up { State::Established } else { State::Idle }, config());
        let mut now = START;
        let mut sent: Vec<u8> = Vec::new();
        for input in inputs {
            match input {
                Input::Start => session.start(now),
                Input::Stop => session.stop(ErrorCode::SHUTDOWN.into(), now),
                Input::Connected => session.handle_connected(next_hops(), now),
                Input::Closed => session.handle_closed(now),
                Input::Bytes(bytes) => session.handle_bytes(&bytes, now),
                Input::Transmitted(limit) => {
                    let pending = session.poll_transmit(now);
                    let count = pending.len().min(limit);
                    sent.extend(&pending[..count]);
                    session.handle_transmitted(count, now);
                }
                Input::Acknowledged => session.handle_acknowledged(now),
                Input::BfdDown => session.handle_bfd_down(now),
                Input::Routes(count) => {
                    let vips: Vec<String> = (0..count).map(|n| format!("203.0.113.{n}")).collect();
                    session.set_routes(routes(&vips.iter().map(String::as_str).collect::<Vec<_>>()));
                }
                Input::Timeout => now = session.poll_timeout().unwrap_or(now).max(now),
                Input::Later(millis) => now = now + Duration::from_millis(millis.into()),
            }
            session.handle_timeout(now);
            for event in events(&mut session) {
                match event {
                    // The connection is over: it must make sense so far.
                    Event::Close { .. } | Event::Dial => {
                        Listener::default().receive(&sent);
                        sent.clear();
                    }
                    Event::Established(_) | Event::Down(_) | Event::RoutesAcknowledged => {}
                }
            }
            prop_assert!(session.poll_timeout().is_none_or(|due| due > now), "{:?}", session);
            prop_assert!(session.poll_transmit(now).len() <= 2 * MAX_LENGTH);
            prop_assert!(session.inbox.len() < MAX_LENGTH);
            if session.state() == State::Idle || session.state() == State::Connect {
                prop_assert_eq!(session.sent(), 0);
                prop_assert!(session.negotiated().is_none());
            }
        }
    }
}
