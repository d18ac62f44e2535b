//! Ends of sessions: in order, and against a peer that does not listen.

use super::*;

// shows: bgp B74, B76
#[test]
fn a_session_is_left_when_the_peer_has_acknowledged_that_all_routes_are_withdrawn() {
    let mut session = established();
    session.set_routes(routes(&["203.0.113.10", "2001:db8:f::10"]));
    let mut listener = Listener::default();
    listener.receive(&transmit(&mut session, START));
    session.stop(Notification::shutdown("node drained"), START);
    session.set_routes(routes(&["203.0.113.12"]));
    listener.receive(&transmit(&mut session, START));
    assert!(listener.table.is_empty() && session.awaits_acknowledgement());
    assert_eq!((session.state(), session.is_finished()), (State::Established, false));
    session.handle_acknowledged(START);
    assert_eq!(events(&mut session)[0], Event::RoutesAcknowledged);
    let last = transmit(&mut session, START);
    assert_eq!(last, unhex("M 0022 03 0602 0c 6e6f646520647261696e6564"));
    assert_eq!((session.is_finished(), session.poll_timeout()), (true, None));
}

// shows: bgp B74
#[test]
fn a_peer_that_does_not_acknowledge_is_left_after_two_seconds() {
    let mut session = established();
    session.set_routes(routes(&["203.0.113.10"]));
    transmit(&mut session, START);
    session.stop(ErrorCode::PEER_DECONFIGURED.into(), START);
    let due = START + LEAVE_TIME;
    assert_eq!(session.poll_timeout(), Some(due));
    session.handle_timeout(due);
    assert_eq!(down(&mut session), DownReason::Sent(ErrorCode::PEER_DECONFIGURED.into()));
    // The connection takes nothing.
    assert!(!session.is_finished());
    assert_eq!(session.poll_timeout(), Some(due + CLOSE_TIME));
    session.handle_timeout(due + CLOSE_TIME);
    assert_eq!(events(&mut session), [Event::Close { reset: true }]);
    assert!(session.is_finished() && session.poll_transmit(due).is_empty());
}

// shows: bgp B74
#[test]
fn routes_are_acknowledged_when_all_are_written_and_only_once() {
    let mut session = established();
    session.set_routes(routes(&["203.0.113.10"]));
    session.handle_acknowledged(START);
    assert_eq!(events(&mut session), [], "nothing is written");
    let length = session.poll_transmit(START).len();
    session.handle_transmitted(length - 1, START);
    session.handle_acknowledged(START);
    assert_eq!(events(&mut session), [], "the last byte is not written");
    session.handle_transmitted(1, START);
    assert!(session.awaits_acknowledgement());
    session.handle_acknowledged(START);
    session.handle_acknowledged(START);
    assert_eq!(events(&mut session), [Event::RoutesAcknowledged]);
}

// shows: bgp B74
#[test]
fn a_withdrawal_that_is_written_before_the_stop_is_waited_for_as_well() {
    let mut session = established();
    session.set_routes(routes(&["203.0.113.10"]));
    transmit(&mut session, START);
    session.set_routes(BTreeMap::new());
    transmit(&mut session, START);
    session.stop(ErrorCode::SHUTDOWN.into(), START);
    assert_eq!((session.state(), session.awaits_acknowledgement()), (State::Established, true));
}

// shows: bgp B74
#[test]
fn a_session_takes_no_acknowledgement_of_the_one_before() {
    let mut session = established();
    session.set_routes(routes(&["203.0.113.10"]));
    transmit(&mut session, START);
    session.handle_closed(START);
    let now = session.poll_timeout().unwrap();
    session.handle_timeout(now);
    session.handle_connected(NextHops { ipv4: None, ipv6: None }, now);
    session.handle_bytes(&[open_bytes(&offer()), keepalive_bytes()].concat(), now);
    transmit(&mut session, now);
    assert_eq!((session.state(), session.awaits_acknowledgement()), (State::Established, false));
}

// shows: bgp B21
#[test]
fn a_notification_follows_the_rest_of_a_message_that_is_half_written() {
    let mut session = established();
    session.set_routes(routes(&["203.0.113.10"]));
    let update = session.poll_transmit(START).to_vec();
    session.handle_transmitted(10, START);
    session.handle_bfd_down(START);
    let rest = transmit(&mut session, START);
    assert_eq!(names(&[&update[..10], &rest].concat()), ["UPDATE", "NOTIFICATION 6/10"]);
    assert_eq!(events(&mut session).last(), Some(&Event::Close { reset: false }));
}

#[test]
fn a_session_that_was_stopped_starts_again() {
    let mut session = established();
    session.stop(ErrorCode::SHUTDOWN.into(), START);
    transmit(&mut session, START);
    assert!(session.is_finished());
    events(&mut session);
    session.start(START + secs(1));
    assert_eq!(events(&mut session), [Event::Dial]);
}
