//! Bytes in pieces, and what a peer may send.

use super::*;

// shows: bgp B6
#[test]
fn messages_are_the_same_in_whatever_pieces_they_arrive() {
    let stream =
        [open_bytes(&offer()), keepalive_bytes(), update_bytes(), refresh_bytes(Family::V4)].concat();
    for size in 1..=stream.len() {
        let mut session = session_in(State::OpenSent, config());
        for piece in stream.chunks(size) {
            session.handle_bytes(piece, START);
        }
        assert_eq!((session.state(), session.counts().announced), (State::Established, 2), "{size}");
        assert!(session.inbox.is_empty());
    }
}

// shows: bgp B4, B55, B56
#[test]
fn a_full_table_is_counted_and_takes_no_memory() {
    let mut session = established();
    // 1,018 prefixes in a message of 4,095 bytes.
    let prefixes = "18cb0071".repeat(1018);
    let update = unhex(&format!("M 0fff 02 0000 0000 {prefixes}"));
    session.handle_bytes(&update.repeat(100), START);
    assert_eq!((session.counts().announced, session.counts().malformed), (101_800, 0));
    assert_eq!((session.inbox.capacity(), session.poll_transmit(START).len()), (MAX_LENGTH, 0));
}

// shows: bgp B55
#[test]
fn a_broken_route_is_counted_and_not_answered() {
    let mut session = established();
    session.handle_bytes(&unhex("M 001b 02 0000 0000 20cb0071"), START);
    assert_eq!((session.counts().malformed, session.state()), (1, State::Established));
    session.handle_bytes(&unhex("M 0017 02 0001 0000"), START);
    assert_eq!(down(&mut session), DownReason::Sent(ErrorCode::MALFORMED_ATTRIBUTES.into()));
}

// shows: bgp B5
#[test]
fn nothing_is_read_behind_a_notification() {
    let mut session = established();
    let notification = encoded(|out| Notification::shutdown("bye").encode(out));
    session.handle_bytes(&[notification, update_bytes()].concat(), START);
    assert_eq!(down(&mut session).to_string(), "received: cease: administrative shutdown (6/2): bye");
    session.handle_bytes(&update_bytes(), START);
    assert_eq!(session.counts(), Counts::default());
}

// shows: bgp B6
#[test]
fn the_beginning_of_a_message_goes_with_its_connection() {
    let mut session = established();
    session.handle_bytes(&update_bytes()[..25], START);
    session.handle_closed(START);
    let now = session.poll_timeout().unwrap();
    session.handle_timeout(now);
    session.handle_connected(next_hops(), now);
    session.handle_bytes(&open_bytes(&offer()), now);
    assert_eq!(session.state(), State::OpenConfirm);
}

// shows: bgp B27
#[test]
fn a_refusal_because_of_another_session_is_reported_by_name() {
    let mut session = session_in(State::OpenSent, config());
    let notification = Notification::from(ErrorCode::CONNECTION_COLLISION);
    session.handle_bytes(&encoded(|out| notification.encode(out)), START);
    assert_eq!(down(&mut session), DownReason::Received(notification));
}
