use super::*;

const DIRECTOR: Mac = [2, 0, 0, 0, 0, 1];
const SERVER: Mac = [2, 0, 0, 0, 0, 2];

/// Addresses of director and server, and the shared one.
fn addresses(family: Family) -> [IpAddr; 3] {
    match family {
        Family::V4 => ["192.0.2.1", "192.0.2.2", "192.0.2.50"],
        Family::V6 => ["fe80::1", "fe80::2", "2001:db8::50"],
    }
    .map(|address| address.parse().unwrap())
}

fn question(family: Family) -> Message {
    let [source, destination, shared] = addresses(family);
    Message { to: SERVER, from: DIRECTOR, source, destination, is_answer: false, nonce: 0x0102_0304, shared }
}

/// The server's interface.
fn link() -> SharingLink {
    let [v4, v6] = [Family::V4, Family::V6].map(addresses);
    SharingLink { index: 2, own: [v4[1], v6[1]].into(), peers: [(v4[0], DIRECTOR), (v6[0], DIRECTOR)].into() }
}

#[test]
fn a_frame_is_read_as_it_was_written_and_has_the_length_and_the_checksums_of_its_family() {
    for (family, length) in [Family::V4, Family::V6].into_iter().zip(FRAMES) {
        let [own, foreign] = question(family).questions();
        let answer = Message { is_answer: true, ..own };
        for message in [own, foreign, answer] {
            let frame = message.write().unwrap();
            assert_eq!(u32::try_from(frame.len()).unwrap(), length);
            assert_eq!(Message::read(family, &frame), Some(message));
            let udp = &frame[frame.len() - usize::from(UDP_LENGTH)..];
            assert_eq!(pseudo_header_checksum(message.source, message.destination, UDP, udp), 0);
            if family == Family::V4 {
                assert_eq!(internet_checksum(&frame[14..34]), 0);
            }
        }
    }
    let mixed = Message { source: addresses(Family::V6)[0], ..question(Family::V4) };
    assert_eq!(mixed.write(), None);
}

#[test]
fn a_frame_that_is_short_passed_a_router_or_has_other_contents_is_not_read() {
    for family in [Family::V4, Family::V6] {
        let frame = question(family).write().unwrap();
        for length in 0..frame.len() {
            assert_eq!(Message::read(family, &frame[..length]), None, "{length}");
        }
        let data = frame.len() - 32;
        let hops = if family == Family::V4 { 22 } else { 21 };
        for (at, value) in [(hops, 254), (data, b'X'), (data + 4, 2)] {
            let mut other = frame.clone();
            other[at] = value;
            assert_eq!(Message::read(family, &other), None, "{at}");
        }
    }
}

#[test]
fn a_server_answers_from_its_own_address_or_from_the_shared_one_to_the_address_of_the_node_that_asks() {
    for family in [Family::V4, Family::V6] {
        let [director, server, shared] = addresses(family);
        let questions = question(family).questions();
        assert_eq!(questions.map(|question| question.source), [director, stranger(family)]);
        for (question, source) in questions.into_iter().zip([server, shared]) {
            let expected = Message {
                to: DIRECTOR,
                from: SERVER,
                source,
                destination: director,
                is_answer: true,
                ..question
            };
            assert_eq!(question.answer(&link(), |one| *one == shared), Some(expected));
        }
    }
}

#[test]
fn a_question_of_an_unknown_node_to_another_address_or_about_one_that_is_not_shared_is_not_answered() {
    let question = question(Family::V4);
    let is_shared = |one: &IpAddr| *one == question.shared;
    for (what, other) in [
        ("unknown node", Message { from: [2, 0, 0, 0, 0, 9], ..question }),
        ("another address", Message { destination: addresses(Family::V4)[0], ..question }),
        ("not shared", Message { shared: addresses(Family::V4)[1], ..question }),
        ("an answer", Message { is_answer: true, ..question }),
    ] {
        assert_eq!(other.answer(&link(), is_shared), None, "{what}");
    }
}
