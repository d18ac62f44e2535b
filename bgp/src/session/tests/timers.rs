//! Times: hold, keepalive, send hold, retry, refresh.

use super::*;

// shows: bgp B25
#[test]
fn a_silent_peer_is_left_after_the_negotiated_hold_time() {
    let mut session = established();
    let mut now = START + secs(20);
    session.handle_bytes(&update_bytes(), now);
    for (seconds, is_up) in [(29, true), (30, false)] {
        let at = now + secs(seconds);
        session.handle_timeout(at);
        assert_eq!(session.state() == State::Established, is_up, "{seconds} s after the UPDATE");
    }
    assert_eq!(down(&mut session), DownReason::Sent(ErrorCode::HOLD_TIMER_EXPIRED.into()));
    // A late driver delivers what has arrived first.
    let mut session = established();
    now = START + secs(100);
    session.handle_bytes(&keepalive_bytes(), now);
    session.handle_timeout(now);
    assert_eq!(session.state(), State::Established);
}

// shows: bgp B6, B25, B60
#[test]
fn a_peer_that_sends_a_byte_a_second_is_left_after_the_hold_time() {
    let longest = |kind| [&[0xff; 16][..], &[0x10, 0, kind], &[0; MAX_LENGTH - 19]].concat();
    let rows = [
        (State::OpenSent, longest(1), 240),
        (State::OpenConfirm, keepalive_bytes(), 9),
        (State::Established, keepalive_bytes(), 9),
        (State::Established, longest(2), 9),
    ];
    for (state, message, limit) in rows {
        let mut session = session_in(state, Config { hold_time: HoldTime::new(9).unwrap(), ..config() });
        for (second, byte) in (1..=limit).zip(&message) {
            let now = START + secs(second);
            session.handle_bytes(&[*byte], now);
            session.handle_timeout(now);
            transmit(&mut session, now);
            assert_eq!(session.state() == state, second < limit, "{state:?} after {second} s");
        }
        assert_eq!(down(&mut session), DownReason::Sent(ErrorCode::HOLD_TIMER_EXPIRED.into()));
        assert_eq!(session.inbox.capacity(), MAX_LENGTH);
    }
}

// shows: bgp B22, B23
#[test]
fn keepalives_are_sent_at_three_quarters_to_all_of_their_interval() {
    let mut session = established();
    let mut last = START;
    let mut waits = BTreeSet::new();
    for _ in 0..100 {
        let now = session.poll_timeout().unwrap();
        session.handle_timeout(now);
        assert_eq!(names(&transmit(&mut session, now)), ["KEEPALIVE"]);
        session.handle_bytes(&keepalive_bytes(), now);
        waits.insert(now.since(last));
        last = now;
    }
    assert!(waits.len() > 90 && waits.iter().all(|wait| (7500..=10_000).contains(&wait.as_millis())));
}

// shows: bgp B23
#[test]
fn without_hold_time_there_are_no_keepalives_and_no_timers() {
    let mut session =
        session_in(State::Established, Config { hold_time: HoldTime::new(0).unwrap(), ..config() });
    assert_eq!(session.poll_timeout(), None);
    session.handle_timeout(START + secs(1_000_000));
    assert_eq!(session.state(), State::Established);
}

/// Keeps the peer alive for so many seconds.
fn keep_alive_for(session: &mut Session, now: Time, seconds: u64) -> Time {
    for second in 1..=seconds {
        session.handle_bytes(&keepalive_bytes(), now + secs(second));
        session.handle_timeout(now + secs(second));
    }
    now + secs(seconds)
}

// shows: bgp B26
#[test]
fn a_peer_that_takes_no_byte_is_left_and_memory_stays_bounded() {
    let mut session = established();
    session.set_routes(routes(&["203.0.113.10"]));
    assert!(!session.poll_transmit(START).is_empty());
    let now = keep_alive_for(&mut session, START, 479);
    assert_eq!(session.state(), State::Established);
    assert_eq!(names(session.poll_transmit(now)), ["UPDATE"], "no KEEPALIVE behind it");
    // One byte is enough to go on.
    session.handle_transmitted(1, now);
    let now = keep_alive_for(&mut session, now, 479);
    assert_eq!(session.state(), State::Established);
    keep_alive_for(&mut session, now, 1);
    assert_eq!(down(&mut session), DownReason::Sent(ErrorCode::SEND_HOLD_TIMER_EXPIRED.into()));
    // Two hold times are longer.
    let slow = Config { hold_time: HoldTime::new(90).unwrap(), ..config() };
    let mut open = offer();
    open.hold_time = HoldTime::new(300).unwrap();
    let mut session = session_in(State::OpenSent, Config { hold_time: HoldTime::new(300).unwrap(), ..slow });
    session.handle_bytes(&[open_bytes(&open), keepalive_bytes()].concat(), START);
    session.poll_transmit(START);
    let now = keep_alive_for(&mut session, START, 599);
    assert_eq!(session.state(), State::Established);
    keep_alive_for(&mut session, now, 1);
    assert_eq!(session.state(), State::Idle);
}

/// The whole seconds, rounded up, for which the session waits after each of these attempts.
fn waits(mut attempt: impl FnMut(&mut Session, Time) -> Time, attempts: usize) -> Vec<u64> {
    let mut session = Session::new(config(), Random::new(1));
    session.start(START);
    let mut now = START;
    let mut wait = |_| {
        events(&mut session);
        let failed_at = attempt(&mut session, now);
        transmit(&mut session, failed_at);
        now = session.poll_timeout().unwrap();
        session.handle_timeout(now);
        assert_eq!(session.state(), State::Connect);
        now.since(failed_at).as_millis().div_ceil(1000).try_into().unwrap()
    };
    (0..attempts).map(&mut wait).collect()
}

/// The waits before jitter that these are.
fn unjittered(waits: &[u64], of: &[u64]) {
    assert_eq!(waits.len(), of.len());
    for (wait, whole) in waits.iter().zip(of) {
        assert!(wait * 4 >= whole * 3 && wait <= whole, "{waits:?} of {of:?}");
    }
}

fn connect(session: &mut Session, now: Time) {
    session.handle_connected(next_hops(), now);
    session.handle_bytes(&[open_bytes(&offer()), keepalive_bytes()].concat(), now);
    assert_eq!(session.state(), State::Established);
}

// shows: bgp B22, B24
#[test]
fn attempts_are_rarer_the_more_have_failed() {
    let unreachable = |session: &mut Session, now| {
        session.handle_closed(now);
        now
    };
    unjittered(&waits(unreachable, 7), &[1, 2, 4, 8, 16, 30, 30]);
    let refusal = |session: &mut Session, now| {
        session.handle_connected(next_hops(), now);
        session.handle_bytes(
            &encoded(|out| Notification::from(ErrorCode::CONNECTION_REJECTED).encode(out)),
            now,
        );
        now
    };
    unjittered(&waits(refusal, 6), &[5, 10, 20, 40, 80, 120]);
    // A router that takes connections and drops them at once.
    let hang_up = |session: &mut Session, now| {
        session.handle_connected(next_hops(), now);
        session.handle_closed(now);
        now
    };
    unjittered(&waits(hang_up, 3), &[5, 10, 20]);
}

// shows: bgp B24
#[test]
fn a_short_session_counts_as_refused_and_a_long_one_clears_the_record() {
    let lasting = |seconds: u64| {
        move |session: &mut Session, now| {
            connect(session, now);
            session.handle_closed(now + secs(seconds));
            now + secs(seconds)
        }
    };
    unjittered(&waits(lasting(29), 3), &[5, 10, 20]);
    unjittered(&waits(lasting(30), 3), &[1, 1, 1]);
    let mut attempts = [29, 29, 120, 29].into_iter();
    unjittered(&waits(|session, now| lasting(attempts.next().unwrap())(session, now), 4), &[5, 10, 1, 5]);
}

// shows: bgp B57
#[test]
fn routes_are_sent_again_at_most_once_in_ten_seconds_for_each_family() {
    let mut session = established();
    session.set_routes(routes(&["203.0.113.10", "2001:db8:f::10"]));
    transmit(&mut session, START);
    let mut sent = |bytes: &[u8], seconds| {
        let now = START + secs(seconds);
        session.handle_bytes(bytes, now);
        session.handle_timeout(now);
        let sent = names(&transmit(&mut session, now));
        sent.iter().filter(|name| *name == "UPDATE").count()
    };
    let (v4, v6) = (refresh_bytes(Family::V4), refresh_bytes(Family::V6));
    assert_eq!(sent(&v4, 1), 1);
    assert_eq!(sent(&[v4.clone(), v4.clone()].concat(), 2), 0);
    assert_eq!(sent(&v6, 2), 1, "each family by itself");
    assert_eq!((sent(&[], 10), sent(&[], 11), sent(&[], 12)), (0, 1, 0));
    assert_eq!(sent(&refresh_bytes(Family::V4), 12), 0);
    assert_eq!(sent(&[], 21), 1);
}

// shows: bgp B57
#[test]
fn a_refresh_that_waits_goes_with_its_session() {
    let mut session = established();
    session.handle_bytes(&refresh_bytes(Family::V4).repeat(2), START);
    session.handle_closed(START);
    assert!(session.poll_timeout().unwrap().since(START) < secs(6), "the next attempt");
    let now = session.poll_timeout().unwrap();
    session.handle_timeout(now);
    assert_eq!(session.poll_timeout(), Some(now + secs(5)), "the end of the attempt");
    session.handle_connected(next_hops(), now);
    assert_eq!(session.poll_timeout(), Some(now + OPEN_HOLD_TIME));
}

// shows: bgp B7
#[test]
fn a_refresh_of_a_family_that_is_not_used_is_counted_and_ignored() {
    let mut session = session_in(State::Established, Config { families: [Family::V4].into(), ..config() });
    session.handle_bytes(&[unhex("M 0017 05 00190046"), refresh_bytes(Family::V6)].concat(), START);
    assert_eq!((session.counts().ignored_refreshes, session.state()), (2, State::Established));
}
