//! RFC 5880 §6.8.6 as one table: every state meets every packet, silence and the administrator.

use super::*;

const STATES: [State; 4] = [State::AdminDown, State::Down, State::Init, State::Up];

/// The state after a packet of a peer in this one, and the diagnostic sent from then on.
#[expect(clippy::match_same_arms, reason = "each state has its own rows")]
fn after_packet(local: State, remote: State) -> (State, u8) {
    use State::{AdminDown, Down, Init, Up};
    match (local, remote) {
        (AdminDown, AdminDown | Down | Init | Up) => (AdminDown, 7),
        (Down, AdminDown | Up) => (Down, 0),
        (Down, Down) => (Init, 0),
        (Down, Init) => (Up, 0),
        (Init, AdminDown) => (Down, 3),
        (Init, Down) => (Init, 0),
        (Init, Init | Up) => (Up, 0),
        (Up, AdminDown | Down) => (Down, 3),
        (Up, Init | Up) => (Up, 0),
    }
}

// shows: bgp B82, B83, B85
#[test]
fn every_state_meets_every_packet_as_the_table_says() {
    for local in STATES {
        for (remote, is_poll) in STATES.into_iter().flat_map(|state| [(state, false), (state, true)]) {
            let mut session = session_in(local);
            let soon = START + millis(10);
            session.handle_packet(&Packet { is_poll, ..packet(remote) }, soon).unwrap();
            let (to, diagnostic) = after_packet(local, remote);
            let name = format!("{local}, packet of {remote}, poll {is_poll}");
            assert_eq!(session.state(), to, "{name}");
            let event = session.poll_event();
            assert_eq!(
                event.map(|e| (e.from, e.to, e.remote)),
                (to != local).then_some((local, to, remote)),
                "{name}"
            );
            // A poll is answered at once, and a change is sent at once; in AdminDown all is dropped.
            let is_heard = local != State::AdminDown;
            let packets = sent(&mut session, soon);
            let finals: Vec<bool> = packets.iter().map(|packet| packet.is_final).collect();
            let answer = (is_poll && is_heard).then_some(true);
            let change = (to != local).then_some(false);
            assert_eq!(finals, answer.into_iter().chain(change).collect::<Vec<_>>(), "{name}");
            for packet in packets {
                assert_eq!((packet.state, packet.diagnostic.get()), (to, diagnostic), "{name}");
                assert!(!(packet.is_poll && packet.is_final), "{name}");
            }
        }
    }
}

// shows: bgp B84
#[test]
fn silence_takes_init_and_up_down_and_no_other_state() {
    for local in STATES {
        let mut session = session_in(local);
        let due = START + session.detection_time();
        session.handle_timeout(START + millis(899));
        assert_eq!(session.state(), local);
        session.handle_timeout(due);
        let is_down = local == State::Init || local == State::Up;
        assert_eq!(session.state(), if is_down { State::Down } else { local }, "{local}");
        let event = session.poll_event();
        assert_eq!(
            event.map(|e| e.diagnostic),
            is_down.then_some(Diagnostic::DETECTION_TIME_EXPIRED),
            "{local}"
        );
    }
}

// shows: bgp B83
#[test]
fn an_administrator_takes_every_state_down_and_says_so() {
    for local in STATES {
        let mut session = session_in(local);
        session.take_down(START);
        assert_eq!(session.state(), State::AdminDown);
        assert_eq!(session.poll_event().is_some(), local != State::AdminDown);
        // Once a second, so long as it is driven.
        let mut now = START;
        for _ in 0..3 {
            sent(&mut session, now);
            let next = session.poll_timeout().unwrap();
            assert!((750..=1000).contains(&next.since(now).as_millis()), "{local}");
            now = next;
        }
    }
}

// shows: bgp B91
#[test]
fn a_session_that_is_enabled_again_starts_in_down_and_has_forgotten_the_peer() {
    for local in STATES {
        let mut session = session_in(local);
        let _ = session.handle_packet(&packet(State::Down), START);
        let before = session.state();
        sent(&mut session, START);
        session.enable(START);
        let is_new = local == State::AdminDown;
        assert_eq!(session.state(), if is_new { State::Down } else { before }, "{local}");
        let packets = sent(&mut session, START);
        assert_eq!(packets.len(), usize::from(is_new), "{local}");
        assert!(
            packets
                .iter()
                .all(|packet| packet.your_discriminator.is_none() && packet.diagnostic == Diagnostic::NONE)
        );
    }
}

// shows: bgp B92
#[test]
fn a_peer_that_started_anew_takes_the_session_through_down() {
    let mut session = settled();
    let new = NonZeroU32::new(7).unwrap();
    let fresh = Packet { my_discriminator: new, your_discriminator: None, ..packet(State::Down) };
    for (expected, your) in [(State::Down, Some(new)), (State::Init, Some(new))] {
        session.handle_packet(&fresh, START).unwrap();
        assert_eq!(session.state(), expected);
        assert_eq!(sent(&mut session, START)[0].your_discriminator, your);
    }
}
