//! Intervals that both sides agree on.

use super::*;

/// The waits between packets while the peer sends each `interval`.
fn waits(session: &mut Session, peer: &Packet, interval: Duration, packets: usize) -> Vec<u128> {
    let mut waits = Vec::new();
    let mut now = START;
    let mut last = START;
    let mut received = START;
    sent(session, now);
    while waits.len() < packets {
        now = session.poll_timeout().unwrap().min(received + interval);
        assert!(now.since(last) < millis(10_000), "no packet is sent");
        if now == received + interval {
            received = now;
            session.handle_packet(peer, now).unwrap();
        }
        session.handle_timeout(now);
        if !sent(session, now).is_empty() {
            waits.push(now.since(last).as_micros());
            last = now;
        }
    }
    waits
}

// shows: bgp B85
#[test]
fn packets_go_at_three_quarters_to_all_of_the_slower_interval() {
    let rows =
        [(300, 300, 3, 300, 100), (300, 1000, 3, 1000, 100), (50, 10, 3, 50, 100), (300, 300, 1, 300, 90)];
    for (own, peer, number, interval, most) in rows {
        let mut session = settled();
        session
            .reconfigure(Config { transmit: millis(own), multiplier: multiplier(number), ..config() }, START);
        let peer = Packet { required_receive: millis(peer), is_final: true, ..packet(State::Up) };
        session.handle_packet(&peer, START).unwrap();
        assert_eq!(session.transmit_interval(), Some(millis(interval)));
        let waits = waits(&mut session, &Packet { is_final: false, ..peer }, millis(50), 500);
        let interval = u128::from(interval) * 1000;
        let (least, longest) = (waits[1..].iter().min().unwrap(), waits[1..].iter().max().unwrap());
        assert!(*least >= interval * 75 / 100 && *least < interval * 76 / 100, "{least}");
        assert!(*longest <= interval * most / 100 && *longest > interval * (most - 1) / 100, "{longest}");
    }
}

// shows: bgp B85
#[test]
fn packets_go_once_a_second_until_the_session_is_up() {
    for state in [State::Down, State::Init] {
        let mut session = session_in(state);
        let waits = waits(&mut session, &packet(State::Down), millis(5000), 1);
        assert!((750_000..=1_000_000).contains(&waits[0]), "{state}: {waits:?}");
    }
    let mut session = session_in(State::Up);
    assert_eq!(session.transmit_interval(), Some(millis(300)));
    let slow = Config { transmit: millis(2000), ..config() };
    session = Session::new(slow, OWN, Random::new(1), START);
    assert_eq!(session.transmit_interval(), Some(millis(2000)));
}

// shows: bgp B85
#[test]
fn a_peer_that_wants_no_packets_gets_none_but_answers() {
    let mut session = settled();
    let none = Packet { required_receive: Duration::ZERO, ..packet(State::Up) };
    session.handle_packet(&none, START).unwrap();
    assert_eq!(session.transmit_interval(), None);
    assert!(sent(&mut session, START + millis(800)).is_empty());
    session.handle_packet(&Packet { is_poll: true, ..none }, START).unwrap();
    assert_eq!(sent(&mut session, START).len(), 1);
    session.handle_packet(&packet(State::Up), START).unwrap();
    assert!(session.poll_timeout().unwrap() <= START + millis(300));
}

// shows: bgp B84, B88
#[test]
fn a_silent_peer_is_found_by_its_own_interval_and_multiplier() {
    let rows = [(300, 300, 3, 900), (300, 1000, 3, 3000), (1000, 300, 5, 5000), (50, 10, 1, 50)];
    for (own, peer, number, detection) in rows {
        let mut session = settled();
        session.reconfigure(Config { receive: millis(own), ..config() }, START);
        let peer = Packet {
            desired_transmit: millis(peer),
            multiplier: multiplier(number),
            is_final: true,
            ..packet(State::Up)
        };
        session.handle_packet(&peer, START).unwrap();
        assert_eq!(session.detection_time(), millis(detection));
        let due = START + millis(detection);
        session.handle_timeout(Time::from_nanos(due.nanos() - 1));
        assert_eq!(session.state(), State::Up);
        let mut late = session.clone();
        session.handle_timeout(due);
        assert_eq!(session.state(), State::Down);
        // The packets that have arrived are delivered first.
        late.handle_packet(&Packet { is_final: false, ..peer }, due).unwrap();
        late.handle_timeout(due);
        assert_eq!(late.state(), State::Up);
    }
}

// shows: bgp B84
#[test]
fn a_peer_that_stays_silent_is_forgotten() {
    let mut session = settled();
    session.handle_packet(&packet(State::Down), START).unwrap();
    assert_eq!(session.state(), State::Down);
    assert_eq!(sent(&mut session, START)[0].your_discriminator, Some(PEER));
    let due = START + session.detection_time();
    session.handle_timeout(due);
    assert_eq!(sent(&mut session, due + millis(1000))[0].your_discriminator, None);
}

// shows: bgp B86
#[test]
fn timers_that_could_make_a_packet_late_count_when_the_peer_has_answered() {
    let answer = Packet { is_final: true, ..packet(State::Up) };
    let slower = Config { transmit: millis(1000), receive: millis(100), multiplier: multiplier(3) };
    let mut session = settled();
    session.handle_packet(&Packet { desired_transmit: millis(100), ..packet(State::Up) }, START).unwrap();
    sent(&mut session, START + millis(300));
    session.reconfigure(slower, START);
    assert_eq!((session.transmit_interval(), session.detection_time()), (Some(millis(300)), millis(900)));
    let poll = sent(&mut session, START + millis(600))[0];
    assert!(poll.is_poll);
    assert_eq!((poll.desired_transmit, poll.required_receive), (millis(1000), millis(100)));
    let peer = Packet { desired_transmit: millis(100), ..answer };
    session.handle_packet(&peer, START).unwrap();
    assert_eq!((session.transmit_interval(), session.detection_time()), (Some(millis(1000)), millis(300)));
    assert!(!sent(&mut session, START + millis(2000))[0].is_poll);
    // The other way they count at once.
    let mut session = settled();
    session.reconfigure(Config { transmit: millis(100), receive: millis(1000), ..config() }, START);
    session.handle_packet(&Packet { required_receive: millis(100), ..packet(State::Up) }, START).unwrap();
    assert_eq!((session.transmit_interval(), session.detection_time()), (Some(millis(100)), millis(3000)));
}

// shows: bgp B86
#[test]
fn timers_that_change_during_a_poll_wait_for_their_own_answer() {
    let answer = Packet { is_final: true, ..packet(State::Up) };
    let mut session = settled();
    session.reconfigure(Config { transmit: millis(1000), ..config() }, START);
    session.reconfigure(Config { transmit: millis(2000), ..config() }, START);
    session.handle_packet(&answer, START).unwrap();
    assert_eq!(session.transmit_interval(), Some(millis(300)));
    assert!(sent(&mut session, START + millis(300))[0].is_poll);
    session.handle_packet(&answer, START).unwrap();
    assert_eq!(session.transmit_interval(), Some(millis(2000)));
}

// shows: bgp B86
#[test]
fn a_poll_ends_with_the_state_in_which_it_was_begun() {
    let mut session = session_in(State::Up);
    let late = START + session.detection_time();
    session.handle_timeout(late);
    let packet = sent(&mut session, late)[0];
    assert_eq!((packet.state, packet.is_poll), (State::Down, false));
}

// shows: bgp B86
#[test]
fn a_change_that_is_none_polls_nothing_and_one_while_down_counts_at_once() {
    let mut session = settled();
    session.reconfigure(config(), START);
    assert!(!sent(&mut session, START + millis(300))[0].is_poll);
    let mut session = session_in(State::Down);
    session.reconfigure(Config { transmit: millis(3000), ..config() }, START);
    assert_eq!(session.transmit_interval(), Some(millis(3000)));
}

#[test]
fn changes_that_were_not_taken_are_reported_as_one() {
    let mut session = session();
    session.handle_packet(&packet(State::Down), START).unwrap();
    session.handle_packet(&packet(State::Up), START).unwrap();
    let event = session.poll_event().unwrap();
    assert_eq!((event.from, event.to), (State::Down, State::Up));
    assert_eq!(session.poll_event(), None);
}
